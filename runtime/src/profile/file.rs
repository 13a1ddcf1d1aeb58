//! The profile file.
//!
//! ```text
//! bytes 0 .. 7    "SYSPROF" and a zero byte
//! bytes 8 .. 11   format version
//! then sections:  kind (4 bytes), CRC-32 of the stored bytes, length unpacked (8), length stored (8), the bytes: a block of LZ4
//!                 if they are fewer than unpacked
//! the last one:   kind "end.", no bytes
//! ```
//!
//! Numbers are little-endian. Sections of unknown kind are passed over, so that a newer minor addition does not hide the
//! rest. `meta` is JSON: what ran on what. `text` is the source, `code` the program without its constants, `run ` what the run
//! counted ([`super::counters`]), `devi` what was recorded of each device or core, in order ([`super::columns`]). A file has
//! what cannot be derived, and nothing else: rows, reports and the places of buffers are joined when it is read, so that writing
//! one costs a run next to nothing.

use super::columns::{Reader, Writer};
use super::{Detail, Issues, Level, Profile, Recorded, Run, Samples, Spans, Trace, Transfer, UnitSamples, counters};
use crate::report::pod::WholeReport;
use crate::report::{HostReport, Ran, Setup};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, Write};
use systole_isa::container::{ContainerError, code_parts};
use systole_isa::{ChipConfig, Program, read_program};
use systole_simulator::{LinkReport, PodRun};

/// First bytes of a profile.
pub const MAGIC: [u8; 8] = *b"SYSPROF\0";
/// Version of the format that this library writes and reads.
pub const VERSION: u32 = 3;

const SECTION: usize = 24;
/// Bytes from which on sections are packed: that takes longer than writing a few bytes more.
const PACKED: usize = 1 << 20;
/// Largest source text that is kept, in bytes.
const MAX_SOURCE: usize = 16 << 20;
/// Most bytes of all sections, unpacked.
const MAX_UNPACKED: u64 = 2 << 30;
/// Most bytes in memory of a byte of columns: a number of one byte becomes one of eight, and is held twice while read.
const GROWTH: u64 = 12;
/// LZ4 makes at most so many bytes of one.
const MAX_RATIO: u64 = 256;

/// Why a file is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error(
        "this is not a profile (it does not start with the mark of one); `systole run --profile FILE` writes profiles"
    )]
    Foreign,
    #[error("the profile is cut short after {have} bytes")]
    Truncated { have: usize },
    #[error("the profile has format version {version}, this program reads {VERSION}: {advice}")]
    Version { version: u32, advice: &'static str },
    #[error("the profile was written by a program of another version ({0}): record it again")]
    Other(String),
    #[error("the profile is damaged: {0}")]
    Damaged(String),
    #[error("{0}")]
    Memory(String),
}

/// Whether bytes start like a profile (which may yet be damaged).
pub fn is_profile(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Writes a section of a file behind others: its kind, a checksum, and its bytes, packed if they are many.
///
/// # Errors
/// Of `out`.
pub fn section(kind: &[u8; 4], raw: &[u8], out: &mut impl Write) -> io::Result<()> {
    let packed = (raw.len() >= PACKED).then(|| lz4_flex::block::compress(raw)).filter(|p| p.len() < raw.len());
    put_section(kind, raw.len(), &[packed.as_deref().unwrap_or(raw)], out)
}

/// A section of so many bytes unpacked, of what is stored of it in parts.
fn put_section(kind: &[u8; 4], unpacked: usize, parts: &[&[u8]], out: &mut impl Write) -> io::Result<()> {
    let mut crc = crc32fast::Hasher::new();
    parts.iter().for_each(|part| crc.update(part));
    let stored: usize = parts.iter().map(|part| part.len()).sum();
    out.write_all(kind)?;
    out.write_all(&crc.finalize().to_le_bytes())?;
    out.write_all(&(unpacked as u64).to_le_bytes())?;
    out.write_all(&(stored as u64).to_le_bytes())?;
    parts.iter().try_for_each(|part| out.write_all(part))
}

/// A number of cycles, as files have it.
fn short(v: u64) -> u64 {
    v.min(u64::from(u32::MAX))
}

fn put_spans(s: &Spans, w: &mut Writer) {
    w.differences(s.start.iter().copied());
    w.plain(s.len.iter().map(|v| *v as u64));
    w.differences(s.id.iter().map(|v| *v as u64));
}

fn get_spans(r: &mut Reader<'_>) -> Result<Spans, FileError> {
    let s = Spans { start: r.differences()?, len: r.plain32()?, id: r.differences32()? };
    if s.start.len() != s.len.len() || s.start.len() != s.id.len() {
        return Err(FileError::Damaged("the columns of a lane differ in length".into()));
    }
    let long = s.start.last().is_some_and(|l| *l > u64::MAX / 4);
    if long || s.start.windows(2).any(|w| w[0] > w[1]) {
        return Err(FileError::Damaged("the spans of a lane are not in order".into()));
    }
    Ok(s)
}

fn put_recorded(r: &Recorded) -> Vec<u8> {
    let Recorded { trace: t, detail } = r;
    let mut w = Writer(Vec::with_capacity(t.transfers.len() * 12 + t.samples.units.busy.len() * 4 + (1 << 14)));
    w.plain([detail.op_window, detail.kernel_window, detail.transfer_stride, detail.bundle_stride].into_iter());
    for spans in [&t.ops, &t.kernels, &t.runs, &t.waits] {
        put_spans(spans, &mut w);
    }
    let columns: [fn(&Transfer) -> u64; 7] = [
        |t| t.issued,
        |t| short(t.start.saturating_sub(t.issued)),
        |t| short(t.end.saturating_sub(t.start)),
        |t| t.desc.into(),
        |t| t.op.into(),
        |t| t.read.into(),
        |t| t.write.into(),
    ];
    for column in columns {
        w.differences(t.transfers.iter().map(column));
    }
    let s = &t.samples;
    w.number(s.units.count as u64);
    for column in [&s.cycle, &s.bundles, &s.hbm_read, &s.hbm_write] {
        w.differences(column.iter().copied());
    }
    // Column by column, each grows slowly.
    for column in [&s.units.busy, &s.units.stalled, &s.units.useful] {
        for u in 0..s.units.count {
            w.differences((u..column.len()).step_by(s.units.count).map(|i| column[i]));
        }
    }
    w.0
}

fn get_recorded(bytes: &[u8]) -> Result<Recorded, FileError> {
    let mut r = Reader(bytes);
    let [op_window, kernel_window, transfer_stride, bundle_stride] = r.plain()?[..] else {
        return Err(FileError::Damaged("how much was recorded is not told".into()));
    };
    let detail = Detail { op_window, kernel_window, transfer_stride, bundle_stride };
    let (ops, kernels, runs, waits) = (get_spans(&mut r)?, get_spans(&mut r)?, get_spans(&mut r)?, get_spans(&mut r)?);
    let issued = r.differences()?;
    if issued.windows(2).any(|w| w[0] > w[1]) || issued.last().is_some_and(|l| *l > u64::MAX / 4) {
        return Err(FileError::Damaged("transfers are not in order".into()));
    }
    let n = issued.len();
    let mut column = || {
        let c = r.differences32()?;
        if c.len() == n { Ok(c) } else { Err(FileError::Damaged("the columns of transfers differ in length".into())) }
    };
    let [wait, len, desc, op, read, write] = [column()?, column()?, column()?, column()?, column()?, column()?];
    let transfer = |(i, issued): (usize, u64)| {
        let start = issued + u64::from(wait[i]);
        let end = start + u64::from(len[i]);
        Transfer { issued, start, end, desc: desc[i], op: op[i], read: read[i], write: write[i] }
    };
    let transfers = issued.into_iter().enumerate().map(transfer).collect();
    let samples = get_samples(&mut r)?;
    if !r.0.is_empty() {
        return Err(FileError::Damaged("bytes behind the last column".into()));
    }
    let trace = Trace { ops, kernels, transfers, runs, waits, samples, issues: Issues::default() };
    Ok(Recorded { trace, detail })
}

fn get_samples(r: &mut Reader<'_>) -> Result<Samples, FileError> {
    let count = r.number()? as usize;
    let (cycle, bundles, hbm_read, hbm_write) =
        (r.differences()?, r.differences()?, r.differences()?, r.differences()?);
    let n = cycle.len();
    let wrong = || FileError::Damaged("the columns of counters differ in length".into());
    if count > 1024 || [bundles.len(), hbm_read.len(), hbm_write.len()] != [n; 3] {
        return Err(wrong());
    }
    let mut columns = || {
        let mut out = vec![0; n * count];
        for u in 0..count {
            let column = r.differences()?;
            if column.len() != n {
                return Err(wrong());
            }
            column.into_iter().enumerate().for_each(|(i, v)| out[i * count + u] = v);
        }
        Ok(out)
    };
    let units = UnitSamples { count, busy: columns()?, stalled: columns()?, useful: columns()? };
    Ok(Samples { cycle, bundles, hbm_read, hbm_write, units })
}

/// The file of [`write`] in memory.
pub fn bytes(what: &Run<'_>, recorded: &[Recorded]) -> Vec<u8> {
    let mut file = Vec::new();
    write(what, recorded, &mut file).expect("memory takes all, and plain data always have a text");
    file
}

/// Writes the file of a run and what was recorded of it.
///
/// # Errors
/// Of `out`.
pub fn write(what: &Run<'_>, recorded: &[Recorded], out: &mut impl Write) -> io::Result<()> {
    let Run { ran: Ran { setup, chip, program, source, host, whole }, run, level } = what;
    let source = if source.len() <= MAX_SOURCE { source } else { "" };
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let (level, setup, host, whole) = (*level, Cow::Borrowed(setup), Cow::Borrowed(host), Cow::Borrowed(&whole[..]));
    let head = Head { level, setup, chip: Cow::Borrowed(chip), host, whole };
    section(b"meta", &serde_json::to_vec(&head)?, out)?;
    section(b"text", source.as_bytes(), out)?;
    // Packing code would take longer than all the rest.
    let (before, code, behind) = code_parts(program);
    put_section(b"code", before.len() + code.len() + behind.len(), &[&before, code, &behind], out)?;
    let mut w = Writer(Vec::with_capacity(program.bundles as usize * 3 * run.devices.len().min(4) + (1 << 15)));
    counters::put(run, &mut w);
    section(b"run ", &w.0, out)?;
    // Of devices that others stand for nothing was recorded.
    for r in recorded.iter().take(lanes(run)) {
        section(b"devi", &put_recorded(r), out)?;
    }
    section(b"end.", &[], out)
}

/// That what the sections unpack to can be held.
fn check_size(mut rest: &[u8]) -> Result<(), FileError> {
    let mut total = 0u64;
    while let Some((head, body)) = rest.split_first_chunk::<SECTION>() {
        let number = |at: usize| head[at..at + 8].iter().rev().fold(0u64, |n, b| n << 8 | *b as u64);
        total = total.saturating_add(number(8));
        let stored = usize::try_from(number(16)).unwrap_or(usize::MAX);
        rest = body.get(stored..).unwrap_or_default();
    }
    if total > MAX_UNPACKED {
        return Err(FileError::Damaged(format!("its sections would have {total} bytes")));
    }
    crate::memory::require(total.saturating_mul(GROWTH), "the profile, unpacked,")
        .map_err(|e| FileError::Memory(e.to_string()))
}

/// A section of a file: its kind and bytes, unpacked; and what follows.
fn take(rest: &[u8], whole: usize) -> Result<([u8; 4], Vec<u8>, &[u8]), FileError> {
    let Some((head, body)) = rest.split_first_chunk::<SECTION>() else {
        return Err(FileError::Truncated { have: whole });
    };
    let number = |at: usize| head[at..at + 8].iter().rev().fold(0u64, |n, b| n << 8 | *b as u64);
    let kind = [head[0], head[1], head[2], head[3]];
    let name = String::from_utf8_lossy(&kind).escape_debug().to_string();
    let stated = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
    let (unpacked, stored) = (number(8), number(16));
    if stored > body.len() as u64 {
        return Err(FileError::Truncated { have: whole });
    }
    let (packed, rest) = body.split_at(stored as usize);
    let found = crc32fast::hash(packed);
    if found != stated {
        return Err(FileError::Damaged(format!("the checksum of section `{name}` is {found:08x}, not {stated:08x}")));
    }
    if unpacked > MAX_UNPACKED || unpacked > stored.saturating_mul(MAX_RATIO) {
        return Err(FileError::Damaged(format!("section `{name}` would have {unpacked} bytes")));
    }
    if stored == unpacked {
        return Ok((kind, packed.to_vec(), rest));
    }
    let raw = lz4_flex::block::decompress(packed, unpacked as usize)
        .map_err(|e| FileError::Damaged(format!("section `{name}`: {e}")))?;
    if raw.len() as u64 != unpacked {
        return Err(FileError::Damaged(format!("section `{name}` has {} bytes, not {unpacked}", raw.len())));
    }
    Ok((kind, raw, rest))
}

/// The profile of a file.
///
/// # Errors
/// If the bytes are no profile, cut, damaged, or of another version.
pub fn read(file: &[u8]) -> Result<Profile, FileError> {
    if !is_profile(file) {
        let beginning = !file.is_empty() && MAGIC.starts_with(file);
        return Err(if beginning { FileError::Truncated { have: file.len() } } else { FileError::Foreign });
    }
    let Some((version, mut rest)) = file[MAGIC.len()..].split_first_chunk::<4>() else {
        return Err(FileError::Truncated { have: file.len() });
    };
    match u32::from_le_bytes(*version) {
        VERSION => {}
        version if version > VERSION => {
            return Err(FileError::Version { version, advice: "use a newer systole" });
        }
        version => return Err(FileError::Version { version, advice: "record it again" }),
    }
    check_size(rest)?;
    let (mut head, mut program, mut run): (Option<Head<'_>>, Option<Program>, Option<PodRun>) = (None, None, None);
    let (mut recorded, mut source, mut code) = (Vec::new(), String::new(), Vec::new());
    loop {
        let (kind, raw, next) = take(rest, file.len())?;
        rest = next;
        match &kind {
            b"meta" => head = Some(get_head(&raw)?),
            b"text" => source = String::from_utf8_lossy(&raw).into_owned(),
            b"code" => {
                program = Some(read_program(&raw).map_err(of_program)?);
                code = raw;
            }
            b"run " => {
                let mut columns = Reader(&raw);
                run = Some(counters::get(&mut columns)?);
                if !columns.0.is_empty() {
                    return Err(FileError::Damaged("bytes behind the last counter".into()));
                }
            }
            b"devi" => recorded.push(get_recorded(&raw)?),
            b"end." => break,
            _ => {}
        }
    }
    if !rest.is_empty() {
        return Err(FileError::Damaged(format!("{} bytes follow its end", rest.len())));
    }
    let none = |section| move || FileError::Damaged(format!("it has no section `{section}`"));
    let head = head.ok_or_else(none("meta"))?;
    let (program, run) = (program.ok_or_else(none("code"))?, run.ok_or_else(none("run "))?);
    let Head { level, setup, chip, host, whole } = head;
    let (setup, host, whole) = (setup.into_owned(), host.into_owned(), whole.into_owned());
    check(&chip, &program, &run, &recorded)?;
    let ran = Ran { setup, chip: &chip, program: &program, source: &source, host, whole };
    Ok(Profile::new(&Run { ran: &ran, run: &run, level }, recorded, code))
}

/// Why the program of a profile is not read.
fn of_program(e: ContainerError) -> FileError {
    match e {
        ContainerError::Newer { .. } | ContainerError::Older { .. } => FileError::Other(e.to_string()),
        ContainerError::Foreign
        | ContainerError::Truncated { .. }
        | ContainerError::Trailing { .. }
        | ContainerError::Checksum { .. }
        | ContainerError::Payload { .. } => FileError::Damaged(format!("section `code`: {e}")),
    }
}

/// What is written as text: who ran what.
#[derive(Serialize, Deserialize)]
struct Head<'a> {
    level: Level,
    setup: Cow<'a, Setup>,
    chip: Cow<'a, ChipConfig>,
    host: Cow<'a, HostReport>,
    whole: Cow<'a, [WholeReport]>,
}

/// The section `meta`. A chip of a program that knew fewer parameters gets those of the preset of its name.
fn get_head(raw: &[u8]) -> Result<Head<'static>, FileError> {
    if let Ok(head) = serde_json::from_slice(raw) {
        return Ok(head);
    }
    let damaged = |e: serde_json::Error| FileError::Damaged(format!("section `meta`: {e}"));
    let mut value: Value = serde_json::from_slice(raw).map_err(damaged)?;
    let Some(chip) = value.get_mut("chip").filter(|c| c.is_object()) else {
        return Err(FileError::Damaged("section `meta` describes no chip".into()));
    };
    let name = chip.get("name").and_then(Value::as_str).unwrap_or("");
    let preset = ChipConfig::from_preset(name).or_else(|_| ChipConfig::from_preset("tpu-v5e"));
    if let Some(known) = preset.ok().and_then(|c| serde_json::to_value(c).ok()) {
        fill(chip, &known);
    }
    serde_json::from_value(value).map_err(|e| FileError::Other(e.to_string()))
}

/// Gives an object the fields that it lacks, and a table of pairs (name, value) its rows.
fn fill(value: &mut Value, from: &Value) {
    match (value, from) {
        (Value::Object(own), Value::Object(all)) => {
            for (key, known) in all {
                fill(own.entry(key).or_insert_with(|| known.clone()), known);
            }
        }
        (Value::Array(own), Value::Array(all)) if all.iter().all(|row| row[0].is_string()) => {
            let row = |known: &Value| own.iter().find(|r| r[0] == known[0]).unwrap_or(known).clone();
            *own = all.iter().map(row).collect();
        }
        _ => {}
    }
}

/// Simulated devices, or cores of these where each has several.
fn lanes(run: &PodRun) -> usize {
    run.devices.iter().map(|d| d.cores.len().max(1)).sum()
}

/// That the parts of a file belong together.
fn check(chip: &ChipConfig, program: &Program, run: &PodRun, recorded: &[Recorded]) -> Result<(), FileError> {
    let wrong = |what: &str| Err(FileError::Damaged(what.into()));
    program.check_tables(chip).map_err(|e| FileError::Damaged(format!("section `code`: {e}")))?;
    if !chip.clock_hz.is_finite() || chip.clock_hz <= 0.0 {
        return wrong("the chip's clock is none");
    }
    let (bundles, ops) = (program.bundles as usize, program.debug.ops.len());
    let devices = u64::from(program.pod.devices());
    if recorded.is_empty()
        || recorded.len() != lanes(run)
        || run.devices.len() as u64 * u64::from(run.stands_for) > devices
    {
        return wrong("the number of devices differs");
    }
    let known = |op: Option<u32>| op.is_none_or(|op| (op as usize) < ops);
    for r in run.devices.iter().flat_map(|d| std::iter::once(d).chain(&d.cores)) {
        if [r.executions.len(), r.waits.len()].iter().any(|n| *n != 0 && *n != bundles) {
            return wrong("the counters are of other bundles");
        }
        if !r.ops.iter().all(|o| known(o.op)) || !run.traffic.iter().all(|t| known(Some(t.op))) {
            return wrong("an operation does not exist");
        }
    }
    let chips = program.pod.topology.as_ref().map_or(1, |t| t.chips());
    let there = |l: &LinkReport| l.from.max(l.to) < chips;
    if !run.links.iter().all(there) {
        return wrong("a link's chip does not exist");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_take_what_they_lack_from_the_preset() {
        let mut old =
            serde_json::json!({ "name": "x", "timing": [["eup", { "latency": 3 }], ["gone", { "latency": 7 }]] });
        let known = serde_json::json!({
            "name": "y", "lanes": 8, "timing": [["valu", { "latency": 1 }], ["eup", { "latency": 2 }]],
        });
        fill(&mut old, &known);
        let want = serde_json::json!({
            "name": "x", "lanes": 8, "timing": [["valu", { "latency": 1 }], ["eup", { "latency": 3 }]],
        });
        assert_eq!(old, want);
    }
}
