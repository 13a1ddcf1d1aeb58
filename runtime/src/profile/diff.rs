//! Two profiles of the same program compared, operation by operation.

use super::{DeviceMeta, OpRow, Profile, memory};
use crate::report::text::{metric, time};
use crate::report::{SCHEMA, Setup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use systole_isa::chip::Override;
use systole_simulator::CAUSE_TABLE;

/// An operation in both profiles, or in one.
#[derive(Clone, Debug)]
pub struct Change {
    pub name: String,
    pub before: Option<OpRow>,
    pub after: Option<OpRow>,
    /// What changed, in words.
    pub what: String,
}

impl Change {
    pub fn cycles(&self) -> (u64, u64) {
        let of = |o: &Option<OpRow>| o.as_ref().map_or(0, |o| o.cycles);
        (of(&self.before), of(&self.after))
    }

    /// Seconds before and after, each at its chip's clock.
    pub fn seconds(&self, a: &Profile, b: &Profile) -> (f64, f64) {
        let (x, y) = self.cycles();
        (a.seconds(x), b.seconds(y))
    }

    /// By how many seconds it is slower.
    pub fn delta(&self, a: &Profile, b: &Profile) -> f64 {
        let (x, y) = self.seconds(a, b);
        y - x
    }

    /// Whether its time, or anything else of it, is another one.
    pub fn differs(&self, a: &Profile, b: &Profile) -> bool {
        self.delta(a, b) != 0.0 || !self.what.is_empty()
    }
}

/// What changed of an operation: the causes of stalls, bytes and work that differ by most.
fn words(a: &OpRow, b: &OpRow) -> String {
    let least = (a.cycles.max(b.cycles) / 50).max(1) as i128;
    let mut parts: Vec<(i128, String)> = Vec::new();
    for (i, cause) in CAUSE_TABLE.iter().enumerate().skip(1) {
        let by = b.stall[i] as i128 - a.stall[i] as i128;
        if by.abs() >= least {
            parts.push((by.abs(), format!("{by:+} cycles waiting for {}", cause.1)));
        }
    }
    let issue = |o: &OpRow| o.cycles.saturating_sub(o.stalled()) as i128;
    let by = issue(b) - issue(a);
    if by.abs() >= least {
        parts.push((by.abs(), format!("{by:+} bundles issued")));
    }
    parts.sort_by_key(|p| std::cmp::Reverse(p.0));
    let mut out: Vec<String> = parts.into_iter().take(3).map(|p| p.1).collect();
    if a.bytes() != b.bytes() {
        out.push(format!("{}B -> {}B of HBM", metric(a.bytes() as f64), metric(b.bytes() as f64)));
    }
    if a.times != b.times {
        out.push(format!("executed {} -> {} times", a.times, b.times));
    }
    if a.bound != b.bound {
        out.push(format!("bound by {} -> {}", a.bound, b.bound));
    }
    out.join(", ")
}

/// The changes of a device, largest first. Operations match by name.
pub fn changes(a: &Profile, b: &Profile, da: &DeviceMeta, db: &DeviceMeta) -> Vec<Change> {
    let rows: HashMap<&str, &OpRow> = db.ops.iter().map(|o| (b.row_name(o), o)).collect();
    let known: HashMap<&str, &OpRow> = da.ops.iter().map(|o| (a.row_name(o), o)).collect();
    let mut out: Vec<Change> = Vec::new();
    for o in &da.ops {
        let name = a.row_name(o);
        let after = rows.get(name).copied();
        let what = after.map_or("gone".to_string(), |n| words(o, n));
        out.push(Change { name: name.to_string(), before: Some(o.clone()), after: after.cloned(), what });
    }
    for o in db.ops.iter().filter(|o| !known.contains_key(b.row_name(o))) {
        out.push(Change { name: b.row_name(o).to_string(), before: None, after: Some(o.clone()), what: "new".into() });
    }
    let by = |c: &Change| c.delta(a, b).abs();
    out.sort_by(|x, y| by(y).total_cmp(&by(x)).then_with(|| x.name.cmp(&y.name)));
    out
}

/// Which of two times is better, and by how much: `1.250 times faster`, `the same time`.
pub fn verdict(before: f64, after: f64) -> String {
    match (before > 0.0 && after > 0.0, after < before) {
        (false, _) => "nothing to compare".to_string(),
        (true, _) if (after - before).abs() <= 1e-9 * before => "the same time".to_string(),
        (true, true) => format!("{:.3} times faster", before / after),
        (true, false) => format!("{:.3} times slower", after / before),
    }
}

/// The change of a run's time in a line: time is what is compared, cycles (of which another clock makes more or fewer)
/// stand beside it.
pub fn change(a: &Profile, b: &Profile) -> String {
    let (x, y) = (a.seconds(a.meta.cycles), b.seconds(b.meta.cycles));
    let percent = if x > 0.0 { format!(" ({:+.1} %)", 100.0 * (y / x - 1.0)) } else { String::new() };
    let cycles = format!("{} -> {} cycles", a.meta.cycles, b.meta.cycles);
    format!("{} -> {}{percent}, {}; {cycles}", time(x), time(y), verdict(x, y))
}

/// What of the chips and flags differs between two runs, a line each.
fn settings(a: &Profile, b: &Profile) -> Vec<String> {
    let changed = b.meta.chip.differences(&a.meta.chip).into_iter();
    let mut out: Vec<String> = changed.map(|o| format!("{}: {} -> {}", o.key, o.was, o.value)).collect();
    if a.meta.chip.name != b.meta.chip.name {
        out.insert(0, format!("chip: {} -> {}", a.meta.chip.name, b.meta.chip.name));
    }
    if a.setup().flags != b.setup().flags {
        out.push(format!("flags: {} -> {}", a.setup().flags.join(" "), b.setup().flags.join(" ")));
    }
    out
}

/// The comparison as a page. `top`: operations shown.
pub fn page(a: &Profile, b: &Profile, top: usize) -> String {
    let run = |what: &str, p: &Profile| {
        let cycles = p.meta.cycles;
        format!("{what} {}: {}, {cycles} cycles\n", p.setup().title(), time(p.seconds(cycles)))
    };
    let mut text = run("before:", a) + &run("after: ", b) + &change(a, b) + "\n";
    let settings = settings(a, b);
    if !settings.is_empty() {
        text += &format!("changed: {}\n", settings.join(", "));
    }
    let (from, to) = (&a.meta.report.bound, &b.meta.report.bound);
    if from != to {
        text += &format!("bound by {from} -> {to}\n");
    }
    for m in memory::of_arrays(a) {
        let peak = |p: &Profile| memory::peak(&memory::occupancy(p, m)).bytes;
        let (x, y) = (peak(a), peak(b));
        if x != y {
            text += &format!("{} at its peak: {x} -> {y} bytes\n", m.name());
        }
    }
    for (da, db) in a.meta.devices.iter().zip(&b.meta.devices) {
        text += &operations(a, b, (da, db), top);
    }
    text
}

/// A device's operations, compared in time.
fn operations(a: &Profile, b: &Profile, (da, db): (&DeviceMeta, &DeviceMeta), top: usize) -> String {
    let all = changes(a, b, da, db);
    let changed: Vec<&Change> = all.iter().filter(|c| c.seconds(a, b) != (0.0, 0.0) && c.differs(a, b)).collect();
    let mut text = format!("\n{:<30} {:>12} {:>12} {:>12}  what changed\n", "operation", "before", "after", "change");
    for c in changed.iter().take(top) {
        let (x, y) = c.seconds(a, b);
        let name: String = c.name.chars().take(30).collect();
        let sign = if y >= x { "+" } else { "-" };
        let by = format!("{sign}{}", time((y - x).abs()));
        text += format!("{name:<30} {:>12} {:>12} {by:>12}  {}", time(x), time(y), c.what).trim_end();
        text.push('\n');
    }
    text + &format!("{} of {} operations changed\n", changed.len(), all.len())
}

/// An operation in a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpChange {
    /// Its name; operations are matched by it.
    pub name: String,
    /// Cycles and seconds before; 0 where there was none of the name.
    pub before: u64,
    /// See `before`.
    pub before_s: f64,
    /// The same after.
    pub after: u64,
    /// See `after`.
    pub after_s: f64,
    /// What changed, in words.
    pub what: String,
}

/// One of the two runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// What ran on what.
    pub setup: Setup,
    /// Cycles.
    pub cycles: u64,
    /// Seconds: what is compared.
    pub time_s: f64,
    /// What bounds it.
    pub bound: String,
}

/// A device's operations in a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceChange {
    /// Largest change first.
    pub ops: Vec<OpChange>,
}

/// A comparison as data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of this form, that of reports.
    pub schema: u32,
    /// The first run.
    pub before: Side,
    /// The second.
    pub after: Side,
    /// Parameters of the chip that differ; `was` is the first run's value.
    pub chip_changes: Vec<Override>,
    /// Time before over time after.
    pub speedup: f64,
    /// By device.
    pub devices: Vec<DeviceChange>,
}

/// The comparison as data.
pub fn data(a: &Profile, b: &Profile) -> Comparison {
    let side = |p: &Profile| Side {
        setup: p.setup().clone(),
        cycles: p.meta.cycles,
        time_s: p.seconds(p.meta.cycles),
        bound: p.meta.report.bound.clone(),
    };
    let op = |c: Change| {
        let ((before, after), (before_s, after_s)) = (c.cycles(), c.seconds(a, b));
        OpChange { name: c.name, before, before_s, after, after_s, what: c.what }
    };
    let devices = a.meta.devices.iter().zip(&b.meta.devices);
    let (before, after) = (side(a), side(b));
    Comparison {
        schema: SCHEMA,
        chip_changes: b.meta.chip.differences(&a.meta.chip),
        speedup: if after.time_s > 0.0 { before.time_s / after.time_s } else { 0.0 },
        before,
        after,
        devices: devices
            .map(|(da, db)| DeviceChange { ops: changes(a, b, da, db).into_iter().map(op).collect() })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_in_words() {
        assert_eq!(verdict(2.0, 1.0), "2.000 times faster");
        assert_eq!(verdict(1.0, 2.5), "2.500 times slower");
        assert_eq!(verdict(1.0, 1.0), "the same time");
        assert_eq!(verdict(0.0, 1.0), "nothing to compare");
    }
}
