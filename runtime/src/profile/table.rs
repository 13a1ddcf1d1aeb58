//! A profile as tables of text for pipes, and the same as data.

use super::memory::{self, Level as Step};
use super::{Category, DeviceMeta, Memory, OpRow, Profile};
use crate::report::text::{metric, time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use systole_simulator::CAUSE_TABLE;

/// Operations that a table shows unless more are asked for.
pub const TOP: usize = 25;

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// Cycles and entries by category of a device, longest first.
pub fn categories(p: &Profile, d: &DeviceMeta) -> Vec<(Category, u64, usize)> {
    let mut sums: BTreeMap<Category, (u64, usize)> = BTreeMap::new();
    for o in &d.ops {
        let s = sums.entry(p.row_category(o)).or_default();
        s.0 += o.cycles;
        s.1 += 1;
    }
    let mut all: Vec<(Category, u64, usize)> = sums.into_iter().map(|(c, s)| (c, s.0, s.1)).collect();
    all.sort_by_key(|c| (std::cmp::Reverse(c.1), c.0));
    all
}

/// Rows of a device, longest first.
pub fn by_cycles(d: &DeviceMeta) -> Vec<&OpRow> {
    let mut rows: Vec<&OpRow> = d.ops.iter().filter(|o| o.cycles > 0).collect();
    rows.sort_by_key(|o| (std::cmp::Reverse(o.cycles), o.start, o.op));
    rows
}

/// Text in a column that cuts it.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_string();
    }
    text.chars().take(width.saturating_sub(1)).chain(['~']).collect()
}

/// Peaks of the memories: name, bytes, cycle, size.
pub fn peaks(p: &Profile) -> Vec<(Memory, Step, u64)> {
    let of = |m| (m, memory::peak(&memory::occupancy(p, m)), memory::size(p, m));
    [Memory::Vmem, Memory::Hbm].into_iter().map(of).collect()
}

/// The page: totals, operations, categories, units, stalls, memories, links. `top`: operations shown.
pub fn page(p: &Profile, top: usize) -> String {
    let m = &p.meta;
    let mut text =
        format!("{} on {}: {} cycles, {} ({})\n", m.program, m.chip.name, m.cycles, time(p.seconds(m.cycles)), m.mode);
    text += &format!(
        "  {}flop, {:.1} % of peak; bound by {}: {}\n",
        metric(m.flops),
        m.peak_share * 100.0,
        m.bound,
        m.bound_words
    );
    for (i, d) in m.devices.iter().enumerate() {
        if m.devices.len() > 1 {
            text += &format!("\ndevice {i} (chip {} core {}): {} cycles\n", d.chip, d.core, d.cycles);
        }
        text += &operations(p, d, top);
        text += &groups(p, d);
        text += &units(d);
        text += &stalls(d);
    }
    text += &memories(p);
    text + &links(p)
}

fn operations(p: &Profile, d: &DeviceMeta, top: usize) -> String {
    let rows = by_cycles(d);
    let mut text = format!(
        "\n{:<30} {:<18} {:>6} {:>13} {:>7} {:>9} {:>9} {:>7}  bound\n",
        "operation", "opcode", "times", "cycles", "share", "flop", "bytes", "stalled"
    );
    let total = d.cycles as f64;
    for o in rows.iter().take(top) {
        let opcode = p.row_op(o).map_or("", |i| i.opcode.as_str());
        text += &format!(
            "{:<30} {:<18} {:>6} {:>13} {:>5.1} % {:>9} {:>9} {:>5.1} %  {}\n",
            cut(p.row_name(o), 30),
            cut(opcode, 18),
            o.entries,
            o.cycles,
            percent(o.cycles as f64, total),
            metric(o.flops),
            metric(o.bytes() as f64),
            percent(o.stalled() as f64, o.cycles as f64),
            o.bound
        );
    }
    if rows.len() > top {
        let rest: u64 = rows[top..].iter().map(|o| o.cycles).sum();
        let name = format!("{} more", rows.len() - top);
        text += &format!("{name:<56} {rest:>13} {:>5.1} %\n", percent(rest as f64, total));
    }
    let sum: u64 = d.ops.iter().map(|o| o.cycles).sum();
    text + &format!("{:<56} {sum:>13}\n", "sum")
}

fn groups(p: &Profile, d: &DeviceMeta) -> String {
    let mut text = format!("\n{:<24} {:>6} {:>13} {:>7}\n", "category", "ops", "cycles", "share");
    for (c, cycles, n) in categories(p, d) {
        text += &format!("{:<24} {n:>6} {cycles:>13} {:>5.1} %\n", c.name(), percent(cycles as f64, d.cycles as f64));
    }
    text
}

fn units(d: &DeviceMeta) -> String {
    let mut text = format!("\n{:<8} {:>8} {:>8} {:>8} {:>8}\n", "unit", "useful", "busy", "stalled", "idle");
    let share = |v: f64| format!("{:.1} %", percent(v, d.cycles as f64));
    for u in &d.units {
        let columns = [share(u.useful), share(u.busy as f64), share(u.stalled() as f64), share(u.idle as f64)];
        text += &format!("{:<8} {:>8} {:>8} {:>8} {:>8}\n", u.unit, columns[0], columns[1], columns[2], columns[3]);
    }
    text
}

/// Stalls of every unit by cause: one row a cause that occurs.
fn stalls(d: &DeviceMeta) -> String {
    let mut text = format!("\n{:<10}", "stalled by");
    d.units.iter().for_each(|u| text += &format!(" {:>9}", u.unit));
    text.push('\n');
    for (i, cause) in CAUSE_TABLE.iter().enumerate().skip(1) {
        if d.units.iter().all(|u| u.stall[i] == 0) {
            continue;
        }
        text += &format!("{:<10}", cause.1);
        for u in &d.units {
            text += &format!(" {:>7.1} %", percent(u.stall[i] as f64, d.cycles as f64));
        }
        text.push('\n');
    }
    text
}

fn memories(p: &Profile) -> String {
    let mut text = format!("\n{:<8} {:>14} {:>14} {:>7}  at cycle\n", "memory", "peak bytes", "size", "share");
    for (m, peak, size) in peaks(p) {
        let share = percent(peak.bytes as f64, size as f64);
        text += &format!("{:<8} {:>14} {size:>14} {share:>5.1} %  {}\n", m.name(), peak.bytes, peak.cycle);
    }
    text
}

fn links(p: &Profile) -> String {
    if p.meta.links.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:<12} {:>4} {:>14} {:>13} {:>7}\n", "link", "axis", "bytes", "busy cycles", "busy");
    let mut sorted: Vec<_> = p.meta.links.iter().collect();
    sorted.sort_by_key(|l| (std::cmp::Reverse(l.busy), l.from_chip, l.to_chip));
    for l in sorted {
        let name = format!("{} -> {}", l.from_chip, l.to_chip);
        let share = percent(l.busy as f64, p.meta.cycles as f64);
        text += &format!("{name:<12} {:>4} {:>14} {:>13} {share:>5.1} %\n", l.axis, l.bytes, l.busy);
    }
    text
}

/// The same as data: the report with what it lacks.
pub fn data(p: &Profile) -> Value {
    let devices: Vec<Value> = p.meta.devices.iter().map(|d| device(p, d)).collect();
    let memories: Vec<Value> = peaks(p)
        .into_iter()
        .map(
            |(m, peak, size)| json!({"memory": m.name(), "peak_bytes": peak.bytes, "cycle": peak.cycle, "bytes": size}),
        )
        .collect();
    json!({
        "program": p.meta.program, "module": p.meta.module, "chip": p.meta.chip.name, "mode": p.meta.mode,
        "clock_hz": p.meta.chip.clock_hz, "level": p.meta.level.name(), "topology": p.meta.topology,
        "cycles": p.meta.cycles, "time_s": p.seconds(p.meta.cycles), "flops": p.meta.flops,
        "peak_share": p.meta.peak_share, "bound": p.meta.bound, "devices": devices, "memories": memories,
        "links": p.meta.links,
    })
}

fn causes(stall: &[u64]) -> Value {
    let named = CAUSE_TABLE.iter().zip(stall).skip(1).map(|(c, n)| (c.1.to_string(), json!(n)));
    Value::Object(named.collect())
}

fn device(p: &Profile, d: &DeviceMeta) -> Value {
    let ops: Vec<Value> = by_cycles(d)
        .into_iter()
        .map(|o| {
            let info = p.row_op(o);
            json!({
                "name": p.row_name(o), "opcode": info.map_or("", |i| i.opcode.as_str()),
                "category": p.row_category(o).name(), "line": info.map_or(0, |i| i.line), "start": o.start,
                "cycles": o.cycles, "entries": o.entries, "flops": o.flops, "hbm_read": o.hbm_read,
                "hbm_write": o.hbm_write, "mxu_rows": o.mxu_rows, "stall": causes(&o.stall), "bound": o.bound,
            })
        })
        .collect();
    let units: Vec<Value> = d
        .units
        .iter()
        .map(|u| {
            let stall = causes(&u.stall);
            json!({"unit": u.unit, "useful": u.useful, "busy": u.busy, "stall": stall, "idle": u.idle})
        })
        .collect();
    let groups: Vec<Value> = categories(p, d)
        .into_iter()
        .map(|(c, cycles, n)| json!({"category": c.name(), "cycles": cycles, "ops": n}))
        .collect();
    json!({
        "chip": d.chip, "core": d.core, "cycles": d.cycles, "hbm_read": d.hbm_read, "hbm_write": d.hbm_write,
        "transfers": d.transfers, "bundles": d.bundles, "ops": ops, "categories": groups, "units": units,
    })
}
