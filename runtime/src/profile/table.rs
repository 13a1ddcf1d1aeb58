//! A profile as tables of text for pipes, and the same as data.

use super::memory::{self, Level as Step};
use super::{Category, DeviceMeta, Memory, OpRow, Profile, scope};
use crate::cost::{energy_page, joules};
use crate::report::rows::{op_report, unit_report};
use crate::report::text::{devices, metric, peak, time, whose};
use crate::report::{CategoryReport, DeviceReport, MemoryReport, Report, ScopeReport, text};
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
    memory::of_arrays(p).into_iter().map(of).collect()
}

/// What ran and its totals.
pub fn head(p: &Profile) -> String {
    let (m, r) = (&p.meta, &p.meta.report);
    let mut text = format!("{}: {} cycles, {}\n", r.setup.title(), m.cycles, time(p.seconds(m.cycles)));
    text += &format!("  {}flop{}, {}\n", metric(r.flops), whose(r), peak(r));
    text += &format!("  bound by {}: {}; {}\n", r.bound, r.bound_words, text::path(r));
    text + &format!("  {}\n", r.setup.line())
}

fn title(p: &Profile, i: usize, d: &DeviceMeta) -> String {
    match p.meta.devices.len() {
        0 | 1 => String::new(),
        _ => format!("\ndevice {i} (chip {} core {}): {} cycles\n", d.counts.chip, d.counts.core, d.counts.cycles),
    }
}

/// The page: totals, operations, categories, units, stalls, memories, links. `top`: operations shown.
pub fn page(p: &Profile, top: usize) -> String {
    let mut text = head(p);
    for (i, d) in p.meta.devices.iter().enumerate() {
        text += &title(p, i, d);
        text += &operations(p, d, top);
        text += &groups(p, d);
        text += &units(d);
        text += &stalls(d);
    }
    text += &memories(p);
    text += &links(p);
    text + &energy_page(&p.meta.report.energy, &p.meta.report.area, devices(&p.meta.report))
}

/// What operations are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Scopes of the user's program, as a tree.
    Scope,
    /// Lines of the user's program.
    Line,
    /// Kinds of work.
    Category,
}

/// Totals, and the operations in groups. `top`: groups shown.
pub fn page_by(p: &Profile, by: By, top: usize) -> String {
    let mut text = head(p);
    for (i, d) in p.meta.devices.iter().enumerate() {
        text += &title(p, i, d);
        text += &match by {
            By::Category => groups(p, d),
            By::Scope => scopes("scope", &scope::tree(p, d), d, top),
            By::Line => scopes("line", &scope::lines(p, d), d, top),
        };
    }
    text
}

/// Groups as lines; scopes are indented by their depth.
fn scopes(what: &str, all: &[ScopeReport], d: &DeviceMeta, top: usize) -> String {
    let header = ["ops", "cycles", "share", "flop", "bytes"];
    let [ops, cycles, share, flop, bytes] = header;
    let mut text = format!("\n{cycles:>13} {share:>7} {ops:>6} {flop:>9} {bytes:>9}  {what}\n");
    for s in all.iter().take(top) {
        let name = match what {
            "line" => s.path.join(":"),
            _ => format!("{}{}", "  ".repeat(s.path.len() - 1), s.path.last().map_or("", |n| n)),
        };
        text += &format!(
            "{:>13} {:>5.1} % {:>6} {:>9} {:>9}  {name}\n",
            s.cycles,
            percent(s.cycles as f64, d.counts.cycles as f64),
            s.ops,
            metric(s.flops),
            metric(s.bytes as f64)
        );
    }
    if all.iter().all(|s| [scope::UNKNOWN, scope::NONE].contains(&s.path[0].as_str())) {
        text += &format!("no operation has a {what}: the module says nothing of where it comes from (metadata, loc)\n");
    }
    if all.len() > top {
        text += &format!("{} more: --top N shows them\n", all.len() - top);
    }
    text
}

fn operations(p: &Profile, d: &DeviceMeta, top: usize) -> String {
    let rows = by_cycles(d);
    let mut text = format!(
        "\n{:<30} {:<18} {:>6} {:>13} {:>7} {:>9} {:>9} {:>9} {:>7}  bound\n",
        "operation", "opcode", "times", "cycles", "share", "flop", "bytes", "energy", "stalled"
    );
    let total = d.counts.cycles as f64;
    for o in rows.iter().take(top) {
        let opcode = p.row_op(o).map_or("", |i| i.opcode.as_str());
        text += &format!(
            "{:<30} {:<18} {:>6} {:>13} {:>5.1} % {:>9} {:>9} {:>9} {:>5.1} %  {}{}\n",
            cut(p.row_name(o), 30),
            cut(opcode, 18),
            o.times,
            o.cycles,
            percent(o.cycles as f64, total),
            metric(o.flops),
            metric(o.bytes() as f64),
            joules(o.joules),
            percent(o.stalled() as f64, o.cycles as f64),
            o.bound,
            text::more(&op_report(o, p.row_op(o).cloned()))
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
        text += &format!(
            "{:<24} {n:>6} {cycles:>13} {:>5.1} %\n",
            c.name(),
            percent(cycles as f64, d.counts.cycles as f64)
        );
    }
    text
}

fn units(d: &DeviceMeta) -> String {
    let mut text = format!("\n{:<8} {:>8} {:>8} {:>8} {:>8}\n", "unit", "useful", "busy", "stalled", "idle");
    let share = |v: f64| format!("{:.1} %", percent(v, d.counts.cycles as f64));
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
            text += &format!(" {:>7.1} %", percent(u.stall[i] as f64, d.counts.cycles as f64));
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

impl Profile {
    /// The report of the run with everything that the profile knows besides spans.
    pub fn report(&self) -> Report {
        let devices: Vec<DeviceReport> = self.meta.devices.iter().map(|d| device(self, d)).collect();
        let memory = |(m, peak, size): (Memory, Step, u64)| MemoryReport {
            memory: m.name().to_string(),
            peak_bytes: peak.bytes,
            cycle: peak.cycle,
            bytes: size,
        };
        Report {
            level: Some(self.meta.level.name().to_string()),
            topology: self.meta.topology.clone(),
            devices,
            memories: peaks(self).into_iter().map(memory).collect(),
            ..self.meta.report.clone()
        }
    }
}

fn device(p: &Profile, d: &DeviceMeta) -> DeviceReport {
    let category = |(c, cycles, n): (Category, u64, usize)| CategoryReport {
        category: c.name().to_string(),
        cycles,
        ops: n as u64,
    };
    DeviceReport {
        counts: d.counts,
        ops: by_cycles(d).into_iter().map(|o| op_report(o, p.row_op(o).cloned())).collect(),
        categories: categories(p, d).into_iter().map(category).collect(),
        scopes: scope::tree(p, d),
        units: d.units.iter().map(|u| unit_report(d.counts.chip, d.counts.core, u)).collect(),
    }
}
