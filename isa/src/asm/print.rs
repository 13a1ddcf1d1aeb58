//! Prints programs as assembly.

use super::lex::quote;
use super::operand;
use crate::chip::params::{self, Value};
use crate::chip::{ChipConfig, Quantity};
use crate::dma::Space;
use crate::inst::{Bundle, Bundles, Inst};
use crate::layout::Layout;
use crate::program::{DebugRange, HostArray, PodShape, Program};
use crate::table::Kind;
use crate::validate::ProgramError;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Bytes of a constant on a line.
const LINE_BYTES: usize = 32;

/// Appends formatted text to a string, which cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!($out, $($arg)*).expect("a String takes all text") };
}

/// The program as assembly text that [`super::assemble`] turns into the same program again.
///
/// # Errors
/// If the program does not run on the chip (see [`Program::decode`]).
pub fn disassemble(program: &Program, chip: &ChipConfig) -> Result<String, ProgramError> {
    let bundles = program.decode(chip)?;
    let mut out = String::new();
    header(program, chip, &mut out);
    for c in &program.constants {
        put!(out, "\n.const at {}\n", c.address);
        bytes(&c.bytes, &mut out);
    }
    if !program.descs.is_empty() {
        out.push('\n');
    }
    for (i, d) in program.descs.iter().enumerate() {
        let space = |s| format!("{s:?}").to_lowercase();
        put!(out, ".desc d{i} = {} -> {} chunk {}", space(d.src), space(d.dst), d.chunk);
        for (i, x) in d.dims.iter().enumerate() {
            put!(out, "{} {}:{}:{}", if i == 0 { " dims" } else { "," }, x.count, x.src_stride, x.dst_stride);
        }
        out.push('\n');
    }
    for message in &program.traps {
        put!(out, ".trap {}\n", quote(message));
    }
    for call in &program.host_calls {
        put!(out, ".host {} {} {}\n", call.kind.name(), quote(&call.target), quote(&call.config));
        for (directive, arrays) in [("hostarg", &call.operands), ("hostresult", &call.results)] {
            arrays.iter().for_each(|a| host_array(directive, a, &mut out));
        }
    }
    debug(program, &mut out);
    out.push('\n');
    code(program, &bundles, &mut out);
    Ok(out)
}

fn header(program: &Program, chip: &ChipConfig, out: &mut String) {
    put!(out, ".program {}\n", quote(&program.name));
    put!(out, ".chip {}{}\n", quote(&program.chip), chip_sets(&program.chip, chip));
    put!(
        out,
        ".hbm {}\n.vmem {}\n.smem {}\n",
        program.memory.hbm_bytes,
        program.memory.vmem_bytes,
        program.memory.smem_words
    );
    pod(program, out);
    for (directive, arrays) in [("param", &program.params), ("result", &program.results)] {
        arrays.iter().for_each(|a| host_array(directive, a, out));
    }
}

fn host_array(directive: &str, array: &HostArray, out: &mut String) {
    put!(out, ".{directive} {} {}", quote(&array.name), shape(&array.layout));
    if let Some(dims) = &array.host_dims {
        let dims: Vec<String> = dims.iter().map(u64::to_string).collect();
        put!(out, " as [{}]", dims.join(","));
    }
    put!(out, " at {}\n", array.address);
}

/// The devices that run the program, and who exchanges with whom.
fn pod(program: &Program, out: &mut String) {
    let p = &program.pod;
    if *p == PodShape::default() {
        return;
    }
    let topology = p.topology.as_ref().map_or(String::new(), |t| format!(" topology {}", quote(&t.to_string())));
    put!(out, ".pod {} {}{topology}", p.replicas, p.partitions);
    for (i, by) in p.alike.iter().enumerate() {
        put!(out, "{}{by}", if i == 0 { " alike " } else { ":" });
    }
    let order = p.topology.as_ref().map_or(&[][..], |t| &t.order);
    for (i, place) in order.iter().enumerate() {
        put!(out, "{}{place}", if i == 0 { " order " } else { ":" });
    }
    out.push('\n');
    for (name, algorithm) in &p.algorithms {
        put!(out, ".algorithm {} {}\n", quote(name), quote(algorithm));
    }
    for (name, ops) in &p.behind {
        for op in ops {
            put!(out, ".behind {} {}\n", quote(name), quote(op));
        }
    }
    for (name, groups) in &p.partners {
        put!(out, ".partners {}", quote(name));
        for (i, g) in groups.iter().enumerate() {
            let members: Vec<String> = g.iter().map(u32::to_string).collect();
            put!(out, "{} {}", if i == 0 { "" } else { "," }, members.join(":"));
        }
        out.push('\n');
    }
}

/// What tells the chip from a preset, as far as code depends on it: ` KEY=VALUE` for each difference.
fn chip_sets(name: &str, chip: &ChipConfig) -> String {
    let mut out = String::new();
    let base = ChipConfig::from_preset(name).or_else(|_| {
        put!(out, " base={}", super::DEFAULT_CHIP);
        ChipConfig::from_preset(super::DEFAULT_CHIP)
    });
    let base = base.expect("the default chip is a preset");
    for p in params::all().filter(|p| p.binds_code) {
        let value = (p.get)(chip);
        if value != (p.get)(&base) {
            match value {
                Value::Number(n) => put!(out, " {}={n}", p.key),
                Value::Text(t) => put!(out, " {}={}", p.key, quote(&t)),
            }
        }
    }
    for &(t, _) in params::OPERAND_TYPES {
        let rate = |c: &ChipConfig| c.mxu.types.iter().find(|m| m.operand == t).map(|m| m.rows_per_cycle);
        match (rate(chip), rate(&base)) {
            (Some(rate), None) => put!(out, " mxu.types.{t}.rows_per_cycle={}", Quantity::Rate.print(rate)),
            (None, Some(_)) => put!(out, " mxu.types.{t}.rows_per_cycle=0"),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
    out
}

fn shape(layout: &Layout) -> String {
    let list = |items: Vec<String>| items.join(",");
    let dims = list(layout.dims.iter().map(u64::to_string).collect());
    let order = list(layout.minor_to_major.iter().map(u8::to_string).collect());
    format!("{}[{dims}]{{{order}}}", layout.dtype)
}

/// Lines of hexadecimal, with runs of zeros told by their length.
fn bytes(mut rest: &[u8], out: &mut String) {
    while !rest.is_empty() {
        let zeros = rest.iter().take_while(|b| **b == 0).count();
        if zeros > LINE_BYTES {
            put!(out, "  .zeros {zeros}\n");
            rest = &rest[zeros..];
            continue;
        }
        let (line, tail) = rest.split_at(rest.len().min(LINE_BYTES));
        out.push_str("  .hex ");
        for b in line {
            put!(out, "{b:02x}");
        }
        out.push('\n');
        rest = tail;
    }
}

fn debug(program: &Program, out: &mut String) {
    let d = &program.debug;
    if !d.source.is_empty() {
        put!(out, ".source {}\n", quote(&d.source));
    }
    for op in &d.ops {
        let (name, opcode) = (quote(&op.name), quote(&op.opcode));
        let peak = op.peak.map_or(String::new(), |t| format!(" peak {t}"));
        put!(out, ".op {name} {opcode} line {} flops {:?}{peak} bytes {:?}", op.line, op.flops, op.bytes);
        if op.padding > 0.0 {
            put!(out, " padding {:?}", op.padding);
        }
        put!(out, "\n");
        for m in &op.members {
            put!(out, ".member {} {} line {}\n", quote(&m.name), quote(&m.opcode), m.line);
        }
    }
    for k in &d.kernels {
        put!(out, ".kernel {} at {} bundles {}\n", quote(&k.name), k.start, k.bundles);
    }
    for b in &d.buffers {
        let space = match b.space {
            Space::Hbm => "hbm",
            Space::Vmem => "vmem",
            Space::Smem => "smem",
        };
        put!(out, ".buffer {} {space} at {} bytes {}", quote(&b.name), b.address, b.bytes);
        for (word, op) in [("from", b.first), ("to", b.last)] {
            if op != DebugRange::NONE {
                put!(out, " {word} {op}");
            }
        }
        out.push('\n');
    }
    for p in &d.places {
        put!(out, ".place {} line {}", quote(&p.file), p.line);
        for (word, text) in [("in", &p.function), ("name", &p.name)] {
            if !text.is_empty() {
                put!(out, " {word} {}", quote(text));
            }
        }
        out.push('\n');
    }
}

fn code(program: &Program, bundles: &Bundles, out: &mut String) {
    let targets: BTreeSet<i32> =
        (bundles.insts().iter()).flat_map(|i| i.iter().filter(|(k, _)| *k == Kind::Target).map(|(_, v)| v)).collect();
    let mut ranges = program.debug.ranges.iter().peekable();
    let mut loc = |bundle: usize, out: &mut String| {
        if let Some(r) = ranges.next_if(|r| r.start as usize == bundle) {
            match r.op {
                DebugRange::NONE => out.push_str("  .loc none\n"),
                DebugRange::CALLER => out.push_str("  .loc caller\n"),
                op => put!(out, "  .loc {op}  // {}\n", program.debug.ops[op as usize].name.escape_debug()),
            }
        }
    };
    let mut lines = program.debug.lines.iter().peekable();
    let mut from = |bundle: usize, out: &mut String| {
        if let Some(l) = lines.next_if(|l| l.start as usize == bundle) {
            match program.debug.places.get(l.place as usize) {
                Some(p) => put!(out, "  .from {}  // {}:{}\n", l.place, p.file.escape_debug(), p.line),
                None => out.push_str("  .from none\n"),
            }
        }
    };
    for (i, b) in bundles.iter().enumerate() {
        loc(i, out);
        from(i, out);
        if targets.contains(&(i as i32)) {
            put!(out, "L{i}:\n");
        }
        out.push_str("    ");
        bundle(b, out);
        put!(out, "  // {i}\n");
    }
    loc(bundles.len(), out);
    from(bundles.len(), out);
}

fn bundle(b: &[Inst], out: &mut String) {
    if b.is_empty() {
        out.push_str("nop");
    }
    for (i, inst) in b.iter().enumerate() {
        if i > 0 {
            out.push_str(" | ");
        }
        instruction(inst, out);
    }
}

fn instruction(inst: &Inst, out: &mut String) {
    out.push_str(inst.op.info().mnemonic);
    for (i, (kind, value)) in inst.iter().enumerate() {
        out.push_str(if i == 0 { " " } else { ", " });
        operand::print(kind, value, out);
    }
}

impl std::fmt::Display for Inst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        instruction(self, &mut text);
        f.write_str(&text)
    }
}

impl std::fmt::Display for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        bundle(&self.insts, &mut text);
        f.write_str(&text)
    }
}
