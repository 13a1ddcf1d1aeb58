//! Counters: causes of stalls, units, and the profile by operation.
//!
//! For every unit `busy + stalls + idle` is the run's total of cycles, exactly. A unit is busy in a cycle in which an
//! instruction of its slot issues or its pipeline is taken (matrix units: rows stream through the array; DMA: a
//! transfer is in progress). A cycle in which no bundle issues is a stall, with its cause, for the units that the
//! waiting bundle has instructions for and for the matrix units that the program uses; otherwise the unit is idle.

mod activity;
mod collect;
mod gather;
mod traffic;
mod waits;

pub(crate) use activity::Static;
pub use activity::{ACTIVITIES, Activities, Activity};
pub(crate) use collect::{Ahead, Collector, Parts, SLOTS, Tally, Totals};
pub(crate) use gather::Gather;
use std::sync::Arc;
pub use traffic::Traffic;

/// Why a bundle could not issue. The number is the code in packed ready times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[rustfmt::skip]
pub enum Cause { None, Register, Mxu, Dma, Hbm, Slot, Fetch, Sync, Host, Link, Latency, Cmem }

/// Number of causes, [`Cause::None`] included.
pub const CAUSES: usize = 12;

/// Every cause with its name in reports and its meaning.
pub const CAUSE_TABLE: [(Cause, &str, &str); CAUSES] = [
    (Cause::None, "none", "no stall"),
    (Cause::Register, "register", "a source or destination register was not ready"),
    (Cause::Mxu, "mxu", "a matrix unit's result was not ready, or its queue was full"),
    (Cause::Dma, "dma", "a wait for a copy limited by its engine: bytes or chunks in a cycle, descriptors"),
    (Cause::Hbm, "hbm", "a wait for a copy limited by HBM bandwidth"),
    (Cause::Slot, "slot", "a unit or memory port was taken by an earlier instruction"),
    (Cause::Fetch, "fetch", "a taken branch, or code not yet in instruction memory"),
    (Cause::Sync, "sync", "the cost of a semaphore operation, or a barrier"),
    (Cause::Host, "host", "the host"),
    (Cause::Link, "link", "the interconnect, or another device that had not sent yet"),
    (
        Cause::Latency,
        "latency",
        "a wait for a copy limited by the memory's latency, and by the way to its first request",
    ),
    (Cause::Cmem, "cmem", "a wait for a copy limited by CMEM bandwidth"),
];

impl Cause {
    /// The cause's name in reports.
    pub fn name(self) -> &'static str {
        CAUSE_TABLE[self as usize].1
    }

    pub(crate) fn from_code(code: u64) -> Cause {
        CAUSE_TABLE.get(code as usize).map_or(Cause::None, |c| c.0)
    }
}

/// The units that have counters besides one `mxuN` for each matrix unit: name, unit of work, doc. In report order.
pub const UNIT_TABLE: [(&str, &str, &str); 8] = [
    ("scalar", "instructions", "scalar ALUs and branches"),
    ("valu", "instructions", "vector ALUs"),
    ("vload", "registers", "vector loads"),
    ("vstore", "registers", "vector stores"),
    ("eup", "instructions", "transcendental unit"),
    ("xlu", "instructions", "cross-lane unit"),
    ("dma", "bytes", "DMA engines: busy while a transfer is in progress"),
    ("issue", "bundles", "the issue stage: busy in cycles in which a bundle issues"),
];

/// Cycles of one unit.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct UnitCounters {
    /// Its core, among those of the device.
    pub core: u32,
    pub unit: String,
    /// Work over capacity, in cycles; at most `busy`. For matrix units the rows streamed (padding included).
    pub useful: f64,
    pub busy: u64,
    /// Stalled cycles, indexed by [`Cause`].
    pub stall: [u64; CAUSES],
    pub idle: u64,
}

/// Cycles of one unit so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitSample {
    pub busy: u64,
    /// Of all causes.
    pub stalled: u64,
    /// [`UnitCounters::useful`], in whole cycles.
    pub useful: u64,
}

impl UnitCounters {
    /// Sum of all stalls.
    pub fn stalled(&self) -> u64 {
        self.stall.iter().sum()
    }
}

/// Cycles of one operation, exclusive of others.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct OpProfile {
    /// Index into the program's debug ops; `None` for code of none of them (launch included).
    pub op: Option<u32>,
    /// Cycle in which its code first issued.
    pub start: u64,
    pub cycles: u64,
    /// How often control entered its code.
    pub entries: u64,
    /// Of DMAs that its code started.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Rows streamed by matrix units for its code.
    pub mxu_rows: u64,
    /// Stalled cycles while its code waited, indexed by [`Cause`].
    pub stall: [u64; CAUSES],
    /// Of its waits for messages ([`Cause::Link`]): cycles before they were on their way.
    pub peers: u64,
    /// What its code made the machine do.
    pub activity: Activities,
}

impl OpProfile {
    /// Adds the work that another core did for the operation; its times stay as they are.
    fn join(&mut self, other: &OpProfile) {
        let OpProfile { op: _, start: _, cycles: _, entries: _, traffic, mxu_rows, stall: _, peers: _, activity } =
            other;
        self.traffic += *traffic;
        self.mxu_rows += mxu_rows;
        self.activity += activity;
    }
}

/// What of copies the run's end depends on: cycles on the longest way to it. What is left of the run's cycles is the
/// core's own. A parameter that is twice as good takes at most half of its part away.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Path {
    /// HBM at its bandwidth.
    pub bandwidth: f64,
    /// Latency of HBM and CMEM, and the way from a copy's start to its first request.
    pub latency: f64,
    /// Copy engines.
    pub engine: f64,
    /// CMEM at its bandwidth.
    pub cmem: f64,
}

impl Path {
    /// From sums in 1/256 cycles.
    fn of(sums: [i64; 4]) -> Path {
        let [bandwidth, latency, engine, cmem] = sums.map(|s| s.max(0) as f64 / 256.0);
        Path { bandwidth, latency, engine, cmem }
    }

    /// Cycles of copies.
    pub fn copies(&self) -> f64 {
        self.bandwidth + self.latency + self.engine + self.cmem
    }
}

/// Cycles in which instructions took all slots of a kind (those that run for several cycles count as all of them): the slots of
/// a kind bound code that takes all of them in nearly every cycle, more of them would not shorten code that does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct SlotCycles {
    /// The first units of [`UNIT_TABLE`].
    pub units: [f64; 6],
    /// What matrix units are given, and what is taken from them.
    pub push: f64,
    pub pop: f64,
}

impl SlotCycles {
    /// The larger of each.
    fn max(self, other: SlotCycles) -> SlotCycles {
        let units = std::array::from_fn(|u| self.units[u].max(other.units[u]));
        SlotCycles { units, push: self.push.max(other.push), pop: self.pop.max(other.pop) }
    }
}

/// What a run counted.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct RunResult {
    /// Total cycles (0 in numeric-only mode).
    pub cycles: u64,
    /// Bundles issued.
    pub bundles: u64,
    /// In the order of [`UNIT_TABLE`], then the matrix units.
    pub units: Vec<UnitCounters>,
    /// Slots that were full (of several cores: of the fullest). Zero where a run is not over.
    pub slots: SlotCycles,
    /// Operations that ran, by first start.
    pub ops: Vec<OpProfile>,
    /// Of all DMAs.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// HBM busy cycles (bytes over bandwidth).
    pub hbm_cycles: f64,
    /// What of copies its end depends on (of several cores: of the first, with which all meet).
    pub path: Path,
    pub dma_transfers: u64,
    /// Times each bundle issued: devices that ran the same code equally often share the list.
    #[serde(serialize_with = "shared_list")]
    pub executions: Arc<Vec<u64>>,
    /// Cycles each bundle waited, all causes.
    pub waits: Vec<u64>,
    /// Cycles that loop skipping did not have to simulate.
    pub skipped_cycles: u64,
    /// Where several cores of a device ran the program: what each counted.
    pub cores: Vec<RunResult>,
}

fn shared_list<S: serde::Serializer>(list: &Arc<Vec<u64>>, to: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&**list, to)
}

impl RunResult {
    /// What all operations made the machine do.
    pub fn activity(&self) -> Activities {
        let mut all = Activities::default();
        self.ops.iter().for_each(|o| all += &o.activity);
        all
    }

    /// What the cores of a device counted over the same cycles, as one: operations have the times of the first core and
    /// the work of all.
    pub fn joined(cores: Vec<RunResult>) -> RunResult {
        let mut all = RunResult::default();
        let each = cores.clone();
        for (core, mut r) in cores.into_iter().enumerate() {
            r.units.iter_mut().for_each(|u| u.core = core as u32);
            if core == 0 {
                all = r;
                continue;
            }
            // What a run counts says here what it is of several cores together.
            let RunResult {
                cycles,
                bundles,
                mut units,
                slots,
                ops,
                traffic,
                hbm_cycles,
                path: _,
                dma_transfers,
                executions,
                waits,
                skipped_cycles,
                cores: _,
            } = r;
            all.cycles = all.cycles.max(cycles);
            all.bundles += bundles;
            all.units.append(&mut units);
            all.slots = all.slots.max(slots);
            all.traffic += traffic;
            all.hbm_cycles += hbm_cycles;
            all.dma_transfers += dma_transfers;
            all.skipped_cycles += skipped_cycles;
            Arc::make_mut(&mut all.executions).iter_mut().zip(executions.iter()).for_each(|(a, n)| *a += n);
            all.waits.iter_mut().zip(waits).for_each(|(a, n)| *a += n);
            for o in ops {
                match all.ops.iter_mut().find(|a| a.op == o.op) {
                    Some(a) => a.join(&o),
                    None => all.ops.push(OpProfile { cycles: 0, stall: [0; CAUSES], peers: 0, ..o }),
                }
            }
        }
        all.cores = each;
        all
    }
}
