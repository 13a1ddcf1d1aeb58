//! Regions that kernels name (`jax.named_scope`, `tpu.trace_start`) as spans: from the bundles that ran and the lines that
//! they come from, so of runs that were recorded with bundles.
//!
//! The scheduler puts instructions of different regions side by side, so regions overlap and each has a lane. A region goes on
//! through bundles of no line, waits, and up to [`BETWEEN`] bundles of others. It ends where there are more, where the main
//! program goes on, and where a branch goes back to its first bundle or before it.

use super::code::Code;
use super::{Spans, Trace};
use crate::report::kernels::scopes;
use systole_isa::program::{DebugInfo, DebugKernel, DebugLine};

/// Bundles of other lines that the scheduler may put between those of a region.
const BETWEEN: u64 = 64;
/// Most regions: those that the program names first.
const MOST: usize = 32;

/// A region of a device: its names, outermost first, and when it ran.
#[derive(Clone, Debug, Default)]
pub struct Region {
    pub path: Vec<String>,
    pub spans: Spans,
}

/// A span that has begun.
struct Open {
    start: u64,
    end: u64,
    first: u32,
    /// Bundles of other lines since its last one.
    others: u64,
}

struct Walk<'a> {
    out: Vec<Region>,
    open: Vec<Option<Open>>,
    /// From which bundle on code is in which regions, by number; `None`: it has no line.
    lines: Vec<(u32, Option<Vec<usize>>)>,
    kernels: &'a [DebugKernel],
    bundle: u32,
}

/// The regions of a trace, those around others first.
pub fn regions(code: &Code, trace: &Trace) -> Vec<Region> {
    let mut walk = Walk::new(code.debug());
    if walk.out.is_empty() {
        return walk.out;
    }
    for run in trace.runs.iter() {
        walk.run(run.id, run.start, run.end - run.start);
    }
    walk.close(|_| true);
    walk.out
}

impl<'a> Walk<'a> {
    fn new(debug: &'a DebugInfo) -> Walk<'a> {
        let mut out: Vec<Region> = Vec::new();
        let mut number = |path: &[&str]| {
            let at = out.iter().position(|r| r.path == path).unwrap_or(out.len());
            if at == out.len() {
                let path = path.iter().map(ToString::to_string).collect();
                out.push(Region { path, spans: Spans::default() });
            }
            at
        };
        let mut line = |l: &DebugLine| {
            let place = debug.places.get(l.place as usize)?;
            let path = scopes(&place.name);
            Some((1..=path.len()).map(|n| number(&path[..n])).filter(|n| *n < MOST).collect())
        };
        let lines = debug.lines.iter().map(|l| (l.start, line(l))).collect();
        out.truncate(MOST);
        let open = out.iter().map(|_| None).collect();
        Walk { out, open, lines, kernels: &debug.kernels, bundle: 0 }
    }

    /// Bundles from `first` on, one a cycle.
    fn run(&mut self, first: u32, start: u64, cycles: u64) {
        if first <= self.bundle {
            self.close(|o| first <= o.first);
        }
        let last = first.saturating_add(cycles.min(u64::from(u32::MAX)) as u32);
        let mut at = first;
        while at < last {
            let i = self.lines.partition_point(|l| l.0 <= at);
            let end = self.lines.get(i).map_or(last, |l| l.0.min(last));
            let now = start + u64::from(at - first);
            let main = || self.kernels.first().is_some_and(|k| at >= k.start && at < k.start + k.bundles);
            match i.checked_sub(1).and_then(|i| self.lines[i].1.clone()) {
                Some(inside) => self.enter(&inside, at, now, now + u64::from(end - at)),
                // The main program is the first of the kernels.
                None if main() => self.close(|_| true),
                None => {}
            }
            at = end;
        }
        self.bundle = last.saturating_sub(1);
    }

    /// Bundles from `first` on that are in some regions.
    fn enter(&mut self, inside: &[usize], first: u32, start: u64, end: u64) {
        for (i, open) in self.open.iter_mut().enumerate() {
            match open {
                Some(o) if inside.contains(&i) => (o.end, o.others) = (end, 0),
                Some(o) => o.others += end - start,
                None if inside.contains(&i) => *open = Some(Open { start, end, first, others: 0 }),
                None => {}
            }
        }
        self.close(|o| o.others > BETWEEN);
    }

    /// Ends the spans that are over.
    fn close(&mut self, over: impl Fn(&Open) -> bool) {
        for (i, open) in self.open.iter_mut().enumerate() {
            if let Some(o) = open.take_if(|o| over(o)) {
                self.out[i].spans.push(i as u32, o.start, o.end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spans of bundles `(first, start, cycles)`, by region: start and end.
    fn spans(runs: &[(u32, u64, u64)]) -> Vec<(String, Vec<(u64, u64)>)> {
        let place = |name: &str| systole_isa::program::DebugPlace { name: name.into(), ..Default::default() };
        let kernel = |start, bundles| DebugKernel { start, bundles, ..DebugKernel::default() };
        let debug = DebugInfo {
            kernels: vec![kernel(0, 10), kernel(10, 290)],
            places: vec![place("a"), place("a/b/relayout of [8] to [1]"), place("window of operand 0"), place("")],
            lines: [(0, u32::MAX), (10, 2), (20, 0), (30, 1), (40, u32::MAX), (50, 0), (60, 3), (160, 0), (170, 3)]
                .map(|(start, place)| DebugLine { start, place })
                .to_vec(),
            ..DebugInfo::default()
        };
        let mut walk = Walk::new(&debug);
        runs.iter().for_each(|r| walk.run(r.0, r.1, r.2));
        walk.close(|_| true);
        let times = |r: &Region| r.spans.iter().map(|s| (s.start, s.end)).collect();
        walk.out.iter().map(|r| (r.path.join("/"), times(r))).collect()
    }

    #[test]
    fn regions_go_on_where_nothing_or_little_else_is_between() {
        let all = spans(&[(0, 0, 65)]);
        assert_eq!(all, [("a".into(), vec![(20, 60)]), ("a/b".into(), vec![(30, 40)])]);
        // A wait belongs to what it is in; a hundred bundles of another line do not.
        assert_eq!(spans(&[(20, 0, 15), (35, 100, 10)])[0].1, [(0, 105)]);
        assert_eq!(spans(&[(50, 0, 120)])[0].1, [(0, 10), (110, 120)]);
        assert_eq!(spans(&[(50, 0, 20), (160, 20, 10)])[0].1, [(0, 30)]);
    }

    #[test]
    fn regions_begin_again_in_every_round() {
        assert_eq!(spans(&[(10, 0, 15), (10, 15, 15)])[0].1, [(10, 15), (25, 30)]);
        // Back within the region: a loop in it. Back to its first bundle: the region anew.
        assert_eq!(spans(&[(20, 0, 8), (22, 8, 6)])[0].1, [(0, 14)]);
        assert_eq!(spans(&[(20, 0, 8), (20, 8, 6)])[0].1, [(0, 8), (8, 14)]);
        assert_eq!(spans(&[(20, 0, 8), (3, 8, 2), (20, 10, 2)])[0].1, [(0, 8), (10, 12)]);
    }
}
