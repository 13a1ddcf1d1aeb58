//! Operations by where they come from: the scopes of the user's program as a tree, and its lines.

use super::{DeviceMeta, OpRow, Profile};
use crate::report::ScopeReport;
use std::collections::BTreeMap;

/// A name for operations whose module says nothing.
pub const UNKNOWN: &str = "(unknown)";
/// A name for code of no operation.
pub const NONE: &str = "(none)";

fn add(into: &mut ScopeReport, o: &OpRow) {
    into.cycles += o.cycles;
    into.flops += o.flops;
    into.bytes += o.bytes();
    into.ops += 1;
}

/// The scopes of a device's operations: each behind the one around it, longest first among those of one scope. The outermost
/// sum to the device's cycles.
pub fn tree(p: &Profile, d: &DeviceMeta) -> Vec<ScopeReport> {
    let mut all: BTreeMap<Vec<String>, ScopeReport> = BTreeMap::new();
    for o in d.ops.iter().filter(|o| o.cycles > 0) {
        let scopes = match p.row_op(o) {
            Some(info) => info.origin.as_ref().map_or(Vec::new(), |origin| origin.scopes()),
            None => vec![NONE],
        };
        let scopes = if scopes.is_empty() { vec![UNKNOWN] } else { scopes };
        for depth in 1..=scopes.len() {
            let path: Vec<String> = scopes[..depth].iter().map(|s| (*s).to_string()).collect();
            let scope = all.entry(path.clone()).or_insert_with(|| ScopeReport { path, ..ScopeReport::default() });
            add(scope, o);
        }
    }
    // A scope's place: the cycles of every scope on the way to it, so that children follow their parent.
    let key = |s: &ScopeReport| -> Vec<(std::cmp::Reverse<u64>, String)> {
        let on_way = (1..=s.path.len()).filter_map(|n| all.get(&s.path[..n]));
        on_way.map(|a| (std::cmp::Reverse(a.cycles), a.path.last().cloned().unwrap_or_default())).collect()
    };
    let mut out: Vec<ScopeReport> = all.values().cloned().collect();
    out.sort_by_cached_key(key);
    out
}

/// The lines of the user's program with the cycles of their operations, longest first; they sum to the device's cycles. The path
/// is `file`, `line`, or one word for what has none.
pub fn lines(p: &Profile, d: &DeviceMeta) -> Vec<ScopeReport> {
    let mut all: BTreeMap<Vec<String>, ScopeReport> = BTreeMap::new();
    for o in d.ops.iter().filter(|o| o.cycles > 0) {
        let info = p.row_op(o);
        let path = match info.and_then(|i| i.origin.as_ref()).filter(|o| !o.file.is_empty()) {
            Some(origin) => vec![origin.file.clone(), origin.line.to_string()],
            None => vec![if info.is_some() { UNKNOWN } else { NONE }.to_string()],
        };
        add(all.entry(path.clone()).or_insert_with(|| ScopeReport { path, ..ScopeReport::default() }), o);
    }
    let mut out: Vec<ScopeReport> = all.into_values().collect();
    out.sort_by(|a, b| (b.cycles, &a.path).cmp(&(a.cycles, &b.path)));
    out
}
