//! Loops whose iterations the cores of a device share.
//!
//! What lies in vector memory every core has for itself, so that all do all work there. Iterations that have nothing to do with each
//! other ([`apart_loop`]) are different: each core does a run of them by itself, and nothing else waits for what they leave in vector
//! memory. The arrays that the loop makes stay in HBM, where each core writes its part in whole tiles.

use super::super::moving::is_multiple;
use super::super::{Lower, Region};
use crate::plan::step::{ScalarOp, Step, Use, Word};
use systole_hlo::analysis::{ApartLoop, apart_loop};
use systole_hlo::graph::{Binary, CompId, Direction, Module, NodeId};
use systole_isa::DType;

/// Of what the cores could do in the time of a shared loop, the part that they do at least: the last core may have fewer iterations.
const WORTH: (u64, u64) = (3, 4);

/// A loop whose iterations cores share.
pub(in crate::plan::lower) struct Shared {
    pub found: ApartLoop,
    /// Iterations of a core.
    each: u64,
    /// State elements that are made part by part: they stay in HBM.
    pub made: Vec<usize>,
}

/// A shared loop that has begun.
pub(in crate::plan::lower) struct Begun {
    each: u64,
    /// The counter, and its value behind the loop.
    counter: (Word, DType),
    last: i64,
    /// Iterations that are left to this core, and whether there are any.
    left: Word,
    flag: Word,
}

impl Begun {
    pub fn each(&self) -> u64 {
        self.each
    }

    /// The word that decides whether another iteration follows.
    pub fn condition(&self) -> Word {
        self.flag
    }
}

impl<'a> Lower<'a> {
    /// How the cores share a loop, if they can.
    pub(in crate::plan::lower) fn shared_loop(&self, r: &Region<'a>, id: NodeId, body: CompId) -> Option<Shared> {
        let cores = u64::from(self.plan.cores);
        let node = r.comp.node(id);
        if cores < 2 || self.plan.pod.shape.devices() > 1 || self.plan.together.contains(&node.name) {
            return None;
        }
        let found = apart_loop(self.module, r.comp, id)?;
        let each = found.trips.div_ceil(cores);
        if found.trips * WORTH.1 < each * cores * WORTH.0 {
            return None;
        }
        let module: &'a Module = self.module;
        let body = module.computation(body);
        let counter = body.node(*body.node(body.root).operands.get(found.counter)?).shape.as_array()?;
        if !matches!(counter.dtype, DType::S32 | DType::U32) {
            return None;
        }
        for m in &found.made {
            let n = body.node(m.update);
            let sizes = |id: NodeId| body.node(id).shape.as_array().map(|a| a.dims.clone());
            let (dims, part) = (sizes(m.update)?, sizes(n.operands[1])?);
            let begins = |d: usize, tile: u64| is_multiple(body, n.operands[2 + d], dims[d] - part[d], tile);
            m.runs(each, dims[m.dim])?;
            if self.part(&dims, &part, &begins) != Use::Tiles {
                return None;
            }
        }
        let made = found.made.iter().map(|m| m.element).collect();
        Some(Shared { found, each, made })
    }

    /// Appends the scalar code by which each core goes to the first of its iterations, and counts those that are left.
    pub(in crate::plan::lower) fn begin_shared(&mut self, s: &Shared, (counter, dtype): (Word, DType)) -> Begun {
        let number = |l: &mut Self, n: i64| l.scalar(ScalarOp::Const(n as i32), dtype);
        let core = self.scalar(ScalarOp::Core, dtype);
        let each = number(self, s.each as i64);
        let before = self.scalar(ScalarOp::Binary(Binary::Mul, core, each), dtype);
        let step = number(self, s.found.step);
        let further = self.scalar(ScalarOp::Binary(Binary::Mul, before, step), dtype);
        let value = ScalarOp::Binary(Binary::Add, counter, further);
        self.steps.push(Step::Scalar { dst: counter, value, dtype });
        // The last cores may have fewer, or none.
        let all = number(self, s.found.trips as i64);
        let rest = self.scalar(ScalarOp::Binary(Binary::Sub, all, before), DType::S32);
        let left = self.scalar(ScalarOp::Binary(Binary::Min, rest, each), DType::S32);
        let last = s.found.init + s.found.step * s.found.trips as i64;
        Begun { each: s.each, counter: (counter, dtype), last, left, flag: self.plan.word() }
    }

    /// The head of a shared loop: whether iterations are left.
    pub(in crate::plan::lower) fn shared_head(&mut self, c: &Begun) -> Vec<Step> {
        let outer = std::mem::take(&mut self.steps);
        let zero = self.scalar(ScalarOp::Const(0), DType::S32);
        let value = ScalarOp::Compare(Direction::Gt, c.left, zero);
        self.steps.push(Step::Scalar { dst: c.flag, value, dtype: DType::S32 });
        std::mem::replace(&mut self.steps, outer)
    }

    /// Appends the end of an iteration.
    pub(in crate::plan::lower) fn shared_next(&mut self, c: &Begun) {
        let one = self.scalar(ScalarOp::Const(1), DType::S32);
        let value = ScalarOp::Binary(Binary::Sub, c.left, one);
        self.steps.push(Step::Scalar { dst: c.left, value, dtype: DType::S32 });
    }

    /// Appends what is behind a shared loop: the counter is what it is after all iterations.
    pub(in crate::plan::lower) fn end_shared(&mut self, c: &Begun) {
        let (dst, dtype) = c.counter;
        self.steps.push(Step::Scalar { dst, value: ScalarOp::Const(c.last as i32), dtype });
    }
}
