//! What a run did, without prices: what is stored of a design to be priced again.

use crate::executions::Executions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::AddAssign;
use systole_isa::chip::Cost;
use systole_isa::program::DebugRange;
use systole_isa::{ChipConfig, MxuFormat, Program};
use systole_simulator::stats::{Activities, Activity, OpProfile};
use systole_simulator::{PodRun, RunResult, Traffic};

/// Classes of matrix operands with a price each.
pub(super) const CLASSES: usize = 3;

/// The class of a format: pieces of f32 are bf16.
fn class(f: MxuFormat) -> usize {
    match f {
        MxuFormat::Bf16 | MxuFormat::High | MxuFormat::Mid | MxuFormat::Low | MxuFormat::HighFinite => 0,
        MxuFormat::S8 | MxuFormat::U8 => 1,
        MxuFormat::F8 => 2,
    }
}

/// What a run, or an operation of it, did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Counts that follow from instructions.
    pub activity: Activities,
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Multiply-adds of matrix units that the program needs (every pass of several), and those on padding or idle cells
    /// that rows passed; by class: bf16, 8-bit integers, 8-bit floats.
    pub useful: [f64; CLASSES],
    pub padding: [f64; CLASSES],
    /// Lane operations of `activity` on lanes and rows that hold no element of the program.
    #[serde(default)]
    pub empty: Activities,
    /// Bytes times the links that they crossed.
    pub link_bytes: u64,
}

impl AddAssign<&Work> for Work {
    fn add_assign(&mut self, o: &Work) {
        self.activity += &o.activity;
        self.traffic += o.traffic;
        self.useful.iter_mut().zip(o.useful).for_each(|(a, b)| *a += b);
        self.padding.iter_mut().zip(o.padding).for_each(|(a, b)| *a += b);
        self.empty += &o.empty;
        self.link_bytes += o.link_bytes;
    }
}

/// Bytes times the links that they crossed, of every operation of a pod: those of one device, on average.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links(BTreeMap<u32, f64>);

impl Links {
    /// Of a run.
    pub fn of(run: &PodRun) -> Links {
        let devices = run.devices.len().max(1) as f64;
        let mut all = BTreeMap::new();
        run.traffic.iter().for_each(|t| *all.entry(t.op).or_insert(0.0) += t.link_bytes as f64 / devices);
        Links(all)
    }

    /// Of an operation.
    pub fn bytes(&self, op: Option<u32>) -> f64 {
        self.0.get(&op.unwrap_or(DebugRange::NONE)).copied().unwrap_or(0.0)
    }
}

/// How an activity is priced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Price {
    /// An operation on a vector lane.
    Lane(Cost),
    /// What fetches and issues: each at its price.
    Issue(Cost),
    /// Bytes: how often each is read from vector memory, written to it, and read or written in scalar memory.
    Bytes { read: u64, written: u64, smem: u64 },
    /// Elements shifted into matrix units, of so many bits.
    Weights(f64),
    /// Rows through matrix units: by the multiply-adds of their cells, useful ones and others.
    Rows,
    /// Bytes over the link to the host.
    Host,
    /// In the price of what goes with it, which comes behind.
    Within(&'static str),
}

/// How an activity is priced: one without an answer does not compile.
pub(super) fn price(a: Activity) -> Price {
    let bytes = |read, written, smem| Price::Bytes { read, written, smem };
    match a {
        Activity::Bundles => Price::Issue(Cost::Issue),
        Activity::Scalar => Price::Issue(Cost::Scalar),
        Activity::Descriptors => Price::Issue(Cost::Descriptor),
        Activity::Valu => Price::Lane(Cost::Valu),
        Activity::ValuMul => Price::Lane(Cost::ValuMul),
        Activity::ValuDiv => Price::Lane(Cost::ValuDiv),
        Activity::ValuConvert => Price::Lane(Cost::ValuConvert),
        Activity::ValuIntDiv => Price::Lane(Cost::ValuIntDiv),
        Activity::ValuF64 => Price::Lane(Cost::ValuF64),
        Activity::ValuF64Div => Price::Lane(Cost::ValuF64Div),
        Activity::Eup => Price::Lane(Cost::Eup),
        Activity::Xlu | Activity::XluReduce => Price::Lane(Cost::Xlu),
        Activity::SmemRead | Activity::SmemWrite => bytes(0, 0, 1),
        Activity::VmemRead => bytes(1, 0, 0),
        Activity::VmemWrite => bytes(0, 1, 0),
        Activity::HbmToVmem => bytes(0, 1, 0),
        Activity::VmemToHbm => bytes(1, 0, 0),
        Activity::VmemToVmem => bytes(1, 1, 0),
        Activity::HbmToSmem | Activity::SmemToHbm => bytes(0, 0, 1),
        Activity::VmemToSmem => bytes(1, 0, 1),
        Activity::SmemToVmem => bytes(0, 1, 1),
        Activity::SmemToSmem => bytes(0, 0, 2),
        Activity::SentVmem => bytes(1, 0, 0),
        Activity::SentSmem => bytes(0, 0, 1),
        Activity::ArrivedVmem => bytes(0, 1, 0),
        Activity::WeightsBf16 => Price::Weights(16.0),
        Activity::WeightsInt | Activity::WeightsF8 => Price::Weights(8.0),
        Activity::RowsBf16 | Activity::RowsHigh | Activity::RowsMid | Activity::RowsLow => Price::Rows,
        Activity::RowsHighFinite | Activity::RowsS8 | Activity::RowsU8 | Activity::RowsF8 => Price::Rows,
        Activity::MxuResults => Price::Within("the multiply-adds that make them"),
        Activity::HbmToHbm | Activity::SentHbm => Price::Within("the bursts of HBM"),
        Activity::Host => Price::Host,
    }
}

/// Passes of f32 products of a precision, from the pieces that it streams.
fn passes(a: &Activities) -> f64 {
    if a[Activity::RowsLow] > 0 {
        6.0
    } else if a[Activity::RowsMid] > 0 {
        3.0
    } else {
        1.0
    }
}

impl Work {
    /// What an operation did that was executed so many times.
    pub fn of_op(chip: &ChipConfig, program: &Program, o: &OpProfile, times: u64) -> Work {
        let cells = f64::from(chip.mxu.rows) * f64::from(chip.mxu.cols);
        let mut all = [0.0; CLASSES];
        for &f in &MxuFormat::ALL {
            all[class(f)] += o.activity[Activity::rows(f)] as f64 * cells;
        }
        let total: f64 = all.iter().sum();
        let debug = o.op.and_then(|i| program.debug.ops.get(i as usize));
        let flops = debug.map_or(0.0, |d| d.flops);
        let share = debug.map_or(0.0, |d| d.padding);
        let mut empty = Activities::default();
        if share != 0.0 {
            for &kind in Activity::ALL.iter().filter(|&&a| o.activity[a] > 0 && matches!(price(a), Price::Lane(_))) {
                empty[kind] = (o.activity[kind] as f64 * share).round() as u64;
            }
        }
        let needed = (flops / 2.0 * times as f64 * passes(&o.activity)).min(total);
        let useful = all.map(|c| if total > 0.0 { needed * c / total } else { 0.0 });
        let mut padding = all;
        padding.iter_mut().zip(useful).for_each(|(p, u)| *p -= u);
        Work { activity: o.activity, traffic: o.traffic, useful, padding, empty, link_bytes: 0 }
    }

    /// What a device did.
    pub fn of_run(chip: &ChipConfig, program: &Program, r: &RunResult) -> Work {
        let mut all = Work::default();
        let executions = Executions::new(program);
        r.ops.iter().for_each(|o| all += &Work::of_op(chip, program, o, executions.of(r, o)));
        all
    }

    /// What all devices of a pod did, and their links.
    pub fn of_pod(chip: &ChipConfig, program: &Program, run: &PodRun) -> Work {
        let mut all = Work::default();
        run.devices.iter().for_each(|d| all += &Work::of_run(chip, program, d));
        all.link_bytes = run.traffic.iter().map(|t| t.link_bytes).sum();
        all.times(u64::from(run.stands_for))
    }

    /// So many times the work.
    pub fn times(&self, n: u64) -> Work {
        let mut out = self.clone();
        for &a in Activity::ALL {
            out.activity[a] *= n;
            out.empty[a] *= n;
        }
        out.traffic = out.traffic * n;
        out.link_bytes *= n;
        out.useful.iter_mut().chain(&mut out.padding).for_each(|x| *x *= n as f64);
        out
    }
}
