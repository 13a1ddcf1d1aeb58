//! Linear code of one kernel between scheduling and register allocation: bundles over virtual registers.

use super::body::Names;
use crate::kernel::regs::Reg;
use smallvec::SmallVec;
use systole_isa::{Inst, Op};

/// A bundle over virtual registers. Branch targets are label numbers, call targets kernel numbers.
#[derive(Clone, Debug, Default)]
pub struct VBundle {
    pub insts: SmallVec<[Inst; 6]>,
    /// Registers read after the bundle: arguments of its call.
    pub after: SmallVec<[Reg; 2]>,
    /// The [`Region`] that the bundle belongs to.
    pub region: u32,
    /// The debug op, if it is not the kernel's.
    pub debug: Option<u32>,
    /// The line that most of its instructions come from, as [`VInst::place`](crate::kernel::VInst::place).
    pub place: u16,
}

/// A piece of a kernel that was scheduled as one, for retries and listings.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    pub kind: RegionKind,
    /// Loops around it.
    pub depth: u32,
    /// Conditions around it.
    pub conditions: u32,
    /// Its stable number within the kernel.
    pub id: u32,
}

/// How a region was scheduled.
#[derive(Clone, Debug, PartialEq)]
pub enum RegionKind {
    /// List scheduling.
    Block,
    /// Software pipelining.
    Pipelined(PipelineReport),
}

/// Facts about a pipelined loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineReport {
    /// Trips of the loop as written, copies of the body per pipelined iteration, and initiation interval of those.
    pub trips: u32,
    pub unroll: u32,
    pub ii: u32,
    /// Iterations under way at once, pipelined iterations in a round of the loop, and rounds (0: no loop is left).
    pub stages: u32,
    pub copies: u32,
    pub rounds: u32,
    pub least: Least,
}

/// The least interval of a loop's iterations, by slots and by dependence cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    pub slots: u32,
    pub recurrence: u32,
}

/// Where branches lead: the bundle of each label.
#[derive(Clone, Debug, Default)]
pub struct Labels(Vec<u32>);

impl Labels {
    /// Of a label that is not placed yet.
    const NOWHERE: u32 = u32::MAX;

    /// The bundle that a branch with this operand goes to.
    pub fn target(&self, operand: i32) -> usize {
        self.0[operand as usize] as usize
    }

    /// The bundles that branches may go to.
    pub fn targets(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|&l| l as usize)
    }
}

/// A kernel's linear code.
#[derive(Clone, Debug)]
pub struct Code {
    pub bundles: Vec<VBundle>,
    pub labels: Labels,
    pub regions: Vec<Region>,
    pub names: Names,
    /// Registers with a given physical number: parameters and call arguments.
    pub fixed: Vec<(Reg, u32)>,
    /// Debug op of the bundles appended from now on.
    pub debug: Option<u32>,
    /// Conditions around what is appended from now on.
    pub conditions: u32,
}

impl Region {
    /// An estimate of how often it runs: eight times for every loop around it, every other time in a condition.
    pub fn times(&self) -> f64 {
        8f64.powi(self.depth.min(6) as i32) * 0.5f64.powi(self.conditions.min(12) as i32)
    }
}

impl Code {
    pub fn new(names: Names) -> Code {
        Code {
            bundles: Vec::new(),
            labels: Labels::default(),
            regions: Vec::new(),
            names,
            fixed: Vec::new(),
            debug: None,
            conditions: 0,
        }
    }

    /// A label to be placed later.
    pub fn label(&mut self) -> u32 {
        self.labels.0.push(Labels::NOWHERE);
        self.labels.0.len() as u32 - 1
    }

    /// Places a label before the next bundle.
    pub fn place(&mut self, label: u32) {
        self.labels.0[label as usize] = self.bundles.len() as u32;
    }

    /// Opens a region; bundles appended from now on name it.
    pub fn region(&mut self, kind: RegionKind, depth: u32, id: u32) -> u32 {
        self.regions.push(Region { kind, depth, conditions: self.conditions, id });
        self.regions.len() as u32 - 1
    }

    /// `places`: the lines that its instructions come from.
    pub fn push(&mut self, region: u32, insts: impl IntoIterator<Item = Inst>, places: impl IntoIterator<Item = u16>) {
        self.bundles.push(VBundle {
            place: most(places),
            insts: insts.into_iter().collect(),
            after: SmallVec::new(),
            region,
            debug: self.debug,
        });
    }
}

/// The number that occurs most often, the first of them; 0 does not count.
fn most(places: impl IntoIterator<Item = u16>) -> u16 {
    let mut seen: SmallVec<[(u16, u32); 4]> = SmallVec::new();
    for p in places.into_iter().filter(|p| *p != 0) {
        match seen.iter_mut().find(|s| s.0 == p) {
            Some(s) => s.1 += 1,
            None => seen.push((p, 1)),
        }
    }
    let best = seen.iter().map(|s| s.1).max();
    seen.iter().find(|s| Some(s.1) == best).map_or(0, |s| s.0)
}

/// Which operand of a branch is its target, if any.
pub fn target_at(op: Op) -> Option<usize> {
    op.info().operands.iter().position(|o| o.kind == systole_isa::Kind::Target)
}
