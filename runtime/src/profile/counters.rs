//! What a run counted, as columns of numbers: everything that [`super::Profile::new`] joins with the program when a file is read.
//!
//! Lists by cause and by kind of activity are as long as those of the program that wrote them: what a reader knows beyond them is zero.

use super::FileError;
use super::columns::{Reader, Writer};
use crate::{PodRun, RunResult};
use std::sync::Arc;
use systole_simulator::stats::{Activities, Activity};
use systole_simulator::{CAUSES, LinkFault, LinkReport, OpProfile, OpTraffic, Path, SlotCycles, Traffic, UnitCounters};

/// A number that may be none: zero is none.
fn optional(v: Option<u32>) -> u64 {
    v.map_or(0, |v| u64::from(v) + 1)
}

/// Columns of a run: how often each bundle issued is written once for all devices that share the list.
pub fn put(run: &PodRun, w: &mut Writer) {
    let PodRun { devices, links, traffic, faults, stands_for } = run;
    w.number((*stands_for).into());
    let mut lists = Vec::new();
    put_results(devices, &mut lists, w);
    w.number(links.len() as u64);
    for LinkReport { from, to, axis, bytes, messages, busy, waiting, spans } in links {
        w.plain([u64::from(*from), u64::from(*to), optional(*axis), *bytes, *messages].into_iter());
        w.floats(&[*busy, *waiting]);
        w.differences(spans.iter().map(|s| s.0));
        w.plain(spans.iter().map(|s| s.1 - s.0));
        w.differences(spans.iter().map(|s| s.2.into()));
    }
    w.number(traffic.len() as u64);
    for OpTraffic { op, bytes, link_bytes, messages, start, end } in traffic {
        w.plain([u64::from(*op), *bytes, *link_bytes, *messages, *start, *end].into_iter());
    }
    w.number(faults.len() as u64);
    for (LinkFault { chips, factor, from }, messages) in faults {
        w.plain([u64::from(chips.0), u64::from(chips.1), *from, *messages].into_iter());
        w.floats(&[*factor]);
    }
}

fn put_results<'a>(results: &'a [RunResult], lists: &mut Vec<&'a Arc<Vec<u64>>>, w: &mut Writer) {
    w.number(results.len() as u64);
    for r in results {
        let RunResult {
            cycles,
            bundles,
            units,
            slots,
            ops,
            traffic,
            hbm_cycles,
            path: Path { bandwidth, latency, engine, cmem },
            dma_transfers,
            executions,
            waits,
            skipped_cycles,
            cores,
        } = r;
        let [a, b, c, d] = moved(traffic);
        w.plain([*cycles, *bundles, *dma_transfers, *skipped_cycles, a, b, c, d].into_iter());
        w.floats(&[*hbm_cycles, *bandwidth, *latency, *engine, *cmem, slots.push, slots.pop]);
        w.floats(&slots.units);
        put_units(units, w);
        put_ops(ops, w);
        let known = lists.iter().position(|l| Arc::ptr_eq(l, executions));
        w.number(known.unwrap_or(lists.len()) as u64);
        if known.is_none() {
            lists.push(executions);
            w.plain(executions.iter().copied());
        }
        w.plain(waits.iter().copied());
        put_results(cores, lists, w);
    }
}

fn moved(t: &Traffic) -> [u64; 4] {
    [t.hbm_read, t.hbm_write, t.cmem_read, t.cmem_write]
}

fn put_units(units: &[UnitCounters], w: &mut Writer) {
    w.number(units.len() as u64);
    for UnitCounters { core, unit, useful, busy, stall, idle } in units {
        w.text(unit);
        w.plain([u64::from(*core), *busy, *idle].into_iter());
        w.plain(stall.iter().copied());
        w.floats(&[*useful]);
    }
}

fn put_ops(ops: &[OpProfile], w: &mut Writer) {
    w.number(ops.len() as u64);
    for OpProfile { op, start, cycles, entries, traffic, mxu_rows, stall, peers, activity } in ops {
        let [a, b, c, d] = moved(traffic);
        w.plain([optional(*op), *start, *cycles, *entries, *mxu_rows, *peers, a, b, c, d].into_iter());
        w.plain(stall.iter().copied());
        w.plain(Activity::ALL.iter().map(|a| activity[*a]));
    }
}

/// Reads columns of a run, all of whose counters together are below 2^62, those of devices that others stand for too (so that no
/// sum of some of them overflows), and all of whose fractions are finite.
struct Counted<'r, 'b> {
    columns: &'r mut Reader<'b>,
    left: u64,
    lists: Vec<Arc<Vec<u64>>>,
}

/// The run of [`put`].
///
/// # Errors
/// If the columns are cut or say what no run counts.
pub fn get(columns: &mut Reader<'_>) -> Result<PodRun, FileError> {
    let stands_for = narrow(columns.number()?)?;
    let left = (1 << 62) / u64::from(stands_for.max(1));
    let mut c = Counted { columns, left, lists: Vec::new() };
    let devices = c.results(true)?;
    let links = c.each(Counted::link)?;
    let traffic = c.each(|c| {
        let [op, bytes, link_bytes, messages, start, end] = c.numbers()?;
        Ok(OpTraffic { op: narrow(op)?, bytes, link_bytes, messages, start, end })
    })?;
    let faults = c.each(|c| {
        let [one, other, from, messages] = c.numbers()?;
        let [factor] = c.fractions()?;
        Ok((LinkFault { chips: (narrow(one)?, narrow(other)?), factor, from }, messages))
    })?;
    Ok(PodRun { devices, links, traffic, faults, stands_for })
}

fn damaged<T>(what: &str) -> Result<T, FileError> {
    Err(FileError::Damaged(what.into()))
}

fn narrow(v: u64) -> Result<u32, FileError> {
    u32::try_from(v).or_else(|_| damaged("a number of a run does not fit its column"))
}

fn some(v: u64) -> Result<Option<u32>, FileError> {
    v.checked_sub(1).map(narrow).transpose()
}

fn traffic([hbm_read, hbm_write, cmem_read, cmem_write]: [u64; 4]) -> Traffic {
    Traffic { hbm_read, hbm_write, cmem_read, cmem_write }
}

impl Counted<'_, '_> {
    /// A list of what `one` reads.
    fn each<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T, FileError>) -> Result<Vec<T>, FileError> {
        // An item takes a byte at least.
        let n = self.columns.count()?;
        let mut out = Vec::new();
        for _ in 0..n {
            out.push(one(self)?);
        }
        Ok(out)
    }

    /// A column of counters.
    fn counters(&mut self) -> Result<Vec<u64>, FileError> {
        let column = self.columns.plain()?;
        for v in &column {
            self.left = self.left.checked_sub(*v).map_or_else(|| damaged("a run's counters are too large"), Ok)?;
        }
        Ok(column)
    }

    /// A column of so many counters at most; those that it lacks are zero.
    fn up_to<const N: usize>(&mut self) -> Result<[u64; N], FileError> {
        let (list, mut all) = (self.counters()?, [0; N]);
        match all.get_mut(..list.len()) {
            Some(known) => known.copy_from_slice(&list),
            None => return damaged("a run counts what this program does not know"),
        }
        Ok(all)
    }

    /// A column of so many numbers.
    fn numbers<const N: usize>(&mut self) -> Result<[u64; N], FileError> {
        self.counters()?.try_into().or_else(|_| damaged("a row of a run has another length"))
    }

    fn fractions<const N: usize>(&mut self) -> Result<[f64; N], FileError> {
        let all: [f64; N] =
            self.columns.floats()?.try_into().or_else(|_| damaged("a row of a run has another length"))?;
        // Cycles, or shares.
        if all.iter().all(|v| (0.0..=4e18).contains(v)) { Ok(all) } else { damaged("a number of a run is not finite") }
    }

    fn results(&mut self, devices: bool) -> Result<Vec<RunResult>, FileError> {
        self.each(|c| {
            let [cycles, bundles, dma_transfers, skipped_cycles, a, b, d, e] = c.numbers()?;
            let [hbm_cycles, bandwidth, latency, engine, cmem, push, pop] = c.fractions()?;
            let slots = SlotCycles { units: c.fractions()?, push, pop };
            let (units, ops) = (c.each(Counted::unit)?, c.each(Counted::op)?);
            let list = c.columns.number()? as usize;
            if list == c.lists.len() {
                let list = c.counters()?;
                c.lists.push(Arc::new(list));
            }
            let executions =
                c.lists.get(list).map_or_else(|| damaged("a list of bundles is not there"), |l| Ok(l.clone()))?;
            let waits = c.counters()?;
            let cores = c.results(false)?;
            if !devices && !cores.is_empty() {
                return damaged("a core has cores");
            }
            let path = Path { bandwidth, latency, engine, cmem };
            Ok(RunResult {
                cycles,
                bundles,
                units,
                slots,
                ops,
                traffic: traffic([a, b, d, e]),
                hbm_cycles,
                path,
                dma_transfers,
                executions,
                waits,
                skipped_cycles,
                cores,
            })
        })
    }

    fn unit(&mut self) -> Result<UnitCounters, FileError> {
        let unit = self.columns.text()?;
        let [core, busy, idle] = self.numbers()?;
        let stall = self.up_to()?;
        let [useful] = self.fractions()?;
        Ok(UnitCounters { core: narrow(core)?, unit, useful, busy, stall, idle })
    }

    fn op(&mut self) -> Result<OpProfile, FileError> {
        let [op, start, cycles, entries, mxu_rows, peers, a, b, c, d] = self.numbers()?;
        let stall: [u64; CAUSES] = self.up_to()?;
        let kinds: [u64; Activity::ALL.len()] = self.up_to()?;
        let mut activity = Activities::default();
        Activity::ALL.iter().zip(kinds).for_each(|(a, n)| activity[*a] = n);
        Ok(OpProfile {
            op: some(op)?,
            start,
            cycles,
            entries,
            traffic: traffic([a, b, c, d]),
            mxu_rows,
            stall,
            peers,
            activity,
        })
    }

    fn link(&mut self) -> Result<LinkReport, FileError> {
        let [from, to, axis, bytes, messages] = self.numbers()?;
        let [busy, waiting] = self.fractions()?;
        let (starts, lengths, ops) =
            (self.columns.differences()?, self.columns.plain()?, self.columns.differences32()?);
        if starts.len() != lengths.len() || starts.len() != ops.len() {
            return damaged("the columns of a link differ in length");
        }
        let mut spans = Vec::with_capacity(starts.len());
        let mut before = 0;
        for ((start, length), op) in starts.into_iter().zip(lengths).zip(ops) {
            let end = start.checked_add(length).filter(|end| *end < 1 << 62 && start >= before);
            let Some(end) = end else { return damaged("the spans of a link are not in order") };
            spans.push((start, end, op));
            before = start;
        }
        Ok(LinkReport {
            from: narrow(from)?,
            to: narrow(to)?,
            axis: some(axis)?,
            bytes,
            messages,
            busy,
            waiting,
            spans,
        })
    }
}
