//! The profile file.
//!
//! ```text
//! bytes 0 .. 7    "SYSPROF" and a zero byte
//! bytes 8 .. 11   format version
//! then sections:  kind (4 bytes), CRC-32 of the stored bytes, length unpacked (8), length stored (8), the bytes (LZ4)
//! the last one:   kind "end.", no bytes
//! ```
//!
//! Numbers are little-endian. Sections of unknown kind are passed over, so that a newer minor addition does not hide the
//! rest. `meta` is JSON; the others are columns (see [`super::columns`]), a section for each device or link, in order.

use super::columns::{Reader, Writer};
use super::{Issues, Meta, Profile, Samples, Spans, Trace, Transfer, UnitSamples};
use serde_json::Value;
use systole_isa::ChipConfig;

/// First bytes of a profile.
pub const MAGIC: [u8; 8] = *b"SYSPROF\0";
/// Version of the format that this library writes and reads.
pub const VERSION: u32 = 2;

const SECTION: usize = 24;
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

/// Writes a section of a file behind others: its kind, a checksum, and its bytes, packed.
pub fn section(kind: &[u8; 4], raw: &[u8], out: &mut Vec<u8>) {
    put_section(kind, raw.len(), out, |out| out.extend_from_slice(&lz4_flex::block::compress(raw)));
}

/// [`section`] of bytes that take longer to pack than they are worth: as a block of LZ4 that has them as they are.
fn section_as_is(kind: &[u8; 4], raw: &[u8], out: &mut Vec<u8>) {
    put_section(kind, raw.len(), out, |out| {
        // A sequence of literals alone: their number from 15 on in bytes of at most 255, of which the last is less.
        match raw.len().checked_sub(15) {
            None => out.push((raw.len() as u8) << 4),
            Some(more) => {
                out.push(15 << 4);
                out.resize(out.len() + more / 255, 255);
                out.push((more % 255) as u8);
            }
        }
        out.extend_from_slice(raw);
    });
}

/// A section of so many bytes, which `pack` appends as they are stored.
fn put_section(kind: &[u8; 4], unpacked: usize, out: &mut Vec<u8>, pack: impl FnOnce(&mut Vec<u8>)) {
    let head = out.len();
    out.extend_from_slice(kind);
    out.resize(head + SECTION, 0);
    pack(out);
    let (head, packed) = out[head..].split_at_mut(SECTION);
    head[4..8].copy_from_slice(&crc32fast::hash(packed).to_le_bytes());
    head[8..16].copy_from_slice(&(unpacked as u64).to_le_bytes());
    head[16..24].copy_from_slice(&(packed.len() as u64).to_le_bytes());
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

fn put_trace(t: &Trace) -> Vec<u8> {
    let mut w = Writer::default();
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
    w.plain(t.issues.executions.iter().copied());
    w.plain(t.issues.waited.iter().copied());
    w.0
}

fn get_trace(bytes: &[u8]) -> Result<Trace, FileError> {
    let mut r = Reader(bytes);
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
    let issues = Issues { executions: r.plain()?, waited: r.plain()? };
    if !r.0.is_empty() {
        return Err(FileError::Damaged("bytes behind the last column".into()));
    }
    Ok(Trace { ops, kernels, transfers, runs, waits, samples, issues })
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

/// The file of a profile.
pub fn write(p: &Profile) -> Vec<u8> {
    // What is packed takes about a quarter of what it takes in memory.
    let columns: usize = p.traces.iter().map(|t| t.transfers.len() * 8 + t.samples.units.busy.len() * 4).sum();
    let mut out = Vec::with_capacity(p.code.len() + p.code.len() / 255 + p.source.len() / 4 + columns / 4 + (1 << 17));
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    // Plain data: it always has a text.
    let meta = serde_json::to_vec(&p.meta).unwrap_or_default();
    section(b"meta", &meta, &mut out);
    section(b"text", p.source.as_bytes(), &mut out);
    section_as_is(b"code", &p.code, &mut out);
    for t in &p.traces {
        section(b"devi", &put_trace(t), &mut out);
    }
    for l in &p.links {
        let mut w = Writer::default();
        put_spans(l, &mut w);
        section(b"link", &w.0, &mut out);
    }
    section(b"end.", &[], &mut out);
    out
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
    let mut meta: Option<Meta> = None;
    let (mut traces, mut links, mut source, mut code) = (Vec::new(), Vec::new(), String::new(), Vec::new());
    loop {
        let (kind, raw, next) = take(rest, file.len())?;
        rest = next;
        match &kind {
            b"meta" => {
                meta = Some(get_meta(&raw)?);
            }
            b"text" => source = String::from_utf8_lossy(&raw).into_owned(),
            b"code" => code = raw,
            b"devi" => traces.push(get_trace(&raw)?),
            b"link" => links.push(get_spans(&mut Reader(&raw))?),
            b"end." => break,
            _ => {}
        }
    }
    if !rest.is_empty() {
        return Err(FileError::Damaged(format!("{} bytes follow its end", rest.len())));
    }
    let meta = meta.ok_or_else(|| FileError::Damaged("it has no section `meta`".into()))?;
    check(&meta, &traces, &links)?;
    Ok(Profile { meta, traces, links, source, code })
}

/// The section `meta`. A chip of a program that knew fewer parameters gets those of the preset of its name.
fn get_meta(raw: &[u8]) -> Result<Meta, FileError> {
    if let Ok(meta) = serde_json::from_slice(raw) {
        return Ok(meta);
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
    // As text again: reading it from the value would be a second reader of all that a report has.
    let text = serde_json::to_vec(&value).map_err(damaged)?;
    serde_json::from_slice(&text).map_err(|e| FileError::Other(e.to_string()))
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

/// What users of a profile rely on.
fn check(meta: &Meta, traces: &[Trace], links: &[Spans]) -> Result<(), FileError> {
    let wrong = |what: &str| Err(FileError::Damaged(what.into()));
    if meta.devices.is_empty() || meta.devices.len() != traces.len() || meta.links.len() != links.len() {
        return wrong("the number of devices or links differs");
    }
    for (d, t) in meta.devices.iter().zip(traces) {
        if !t.samples.is_empty() && t.samples.units.count != d.units.len() {
            return wrong("the counters are of other units");
        }
        if d.ops.iter().any(|o| o.op.is_some_and(|i| i as usize >= meta.ops.len())) {
            return wrong("an operation does not exist");
        }
    }
    let r = &meta.report;
    let numbers = [r.flops, r.peak_share, r.time_s, meta.chip.clock_hz];
    if numbers.iter().any(|n| !n.is_finite()) || meta.chip.clock_hz <= 0.0 {
        return wrong("a number is not finite");
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
