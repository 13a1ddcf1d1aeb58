//! Two profiles of the same program compared, operation by operation.

use super::{DeviceMeta, Memory, OpRow, Profile, memory};
use crate::report::text::metric;
use serde_json::{Value, json};
use std::collections::HashMap;
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

    pub fn delta(&self) -> i128 {
        let (a, b) = self.cycles();
        b as i128 - a as i128
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
    if a.entries != b.entries {
        out.push(format!("entered {} -> {} times", a.entries, b.entries));
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
    out.sort_by(|x, y| (y.delta().abs(), &x.name).cmp(&(x.delta().abs(), &y.name)));
    out
}

/// The comparison as a page. `top`: operations shown.
pub fn page(a: &Profile, b: &Profile, top: usize) -> String {
    let (x, y) = (a.meta.cycles, b.meta.cycles);
    let ratio = x as f64 / y.max(1) as f64;
    let mut text = format!("before: {} on {}, {x} cycles\n", a.meta.program, a.meta.chip.name);
    text += &format!("after:  {} on {}, {y} cycles\n", b.meta.program, b.meta.chip.name);
    let word = if y <= x { "faster" } else { "slower" };
    let factor = if y <= x { ratio } else { 1.0 / ratio };
    text += &format!("{:+} cycles: {factor:.3} times {word}\n", y as i128 - x as i128);
    if a.meta.bound != b.meta.bound {
        text += &format!("bound by {} -> {}\n", a.meta.bound, b.meta.bound);
    }
    for m in [Memory::Vmem, Memory::Hbm] {
        let peak = |p: &Profile| memory::peak(&memory::occupancy(p, m)).bytes;
        let (x, y) = (peak(a), peak(b));
        if x != y {
            text += &format!("{} at its peak: {x} -> {y} bytes\n", m.name());
        }
    }
    for (da, db) in a.meta.devices.iter().zip(&b.meta.devices) {
        let all = changes(a, b, da, db);
        let changed: Vec<&Change> = all.iter().filter(|c| c.delta() != 0 || !c.what.is_empty()).collect();
        text += &format!("\n{:<30} {:>13} {:>13} {:>13}  what changed\n", "operation", "before", "after", "change");
        for c in changed.iter().take(top) {
            let (x, y) = c.cycles();
            let name: String = c.name.chars().take(30).collect();
            text += format!("{name:<30} {x:>13} {y:>13} {:>+13}  {}", c.delta(), c.what).trim_end();
            text.push('\n');
        }
        text += &format!("{} of {} operations changed\n", changed.len(), all.len());
    }
    text
}

/// The comparison as data.
pub fn data(a: &Profile, b: &Profile) -> Value {
    let devices: Vec<Value> = a
        .meta
        .devices
        .iter()
        .zip(&b.meta.devices)
        .map(|(da, db)| {
            let ops = changes(a, b, da, db)
                .into_iter()
                .map(|c| json!({"name": c.name, "before": c.cycles().0, "after": c.cycles().1, "what": c.what}));
            json!({"ops": ops.collect::<Vec<_>>()})
        })
        .collect();
    json!({"before": {"cycles": a.meta.cycles, "bound": a.meta.bound},
           "after": {"cycles": b.meta.cycles, "bound": b.meta.bound}, "devices": devices})
}
