//! Recurrences: elementwise operations on values that every turn takes from the one before, [`RecurrenceSpec`] to a [`Kernel`].
//!
//! What is carried stays in registers through all turns: a group of registers goes through them together, so that one has
//! something to do while another's operations are waited for. What every turn reads and writes lies in vector memory, one place
//! further each time.

use super::address::{Affine, nest, step};
use super::bases::Bases;
use super::eval::{assign, variable};
use super::row::{At, Context, Memo, tiles_to_outer};
use super::spec::{ExprId, ExprKind, ExprOp, Input, LaneMap, LoopSpec};
use super::staged::Units;
use crate::emit::memory::{Place, store_value};
use crate::emit::value::Value;
use crate::kernel::LoopHints;
use crate::kernel::{Kernel, KernelBuilder, Trips};
use serde::{Deserialize, Serialize};
use systole_isa::{ChipConfig, Class, Op};

/// Registers that go through the turns together at most, the values that these keep, and the operations of a turn.
const TOGETHER: u32 = 8;
const KEPT: u32 = 32;
const OPERATIONS: u32 = 192;

/// Elementwise operations done again and again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecurrenceSpec {
    /// What a turn does. The last of the outer dimensions counts the turns; what is carried is an input, from which the first turn takes
    /// it. Without reductions along lanes.
    pub turn: LoopSpec,
    /// What is carried: the number of its input, and the node of its next value.
    pub carried: Vec<(u32, ExprId)>,
    /// Of the outputs, the last ones, so many: written once, behind the last turn. Their nodes are next values.
    pub last: u32,
}

impl RecurrenceSpec {
    /// How many turns there are.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.turn.outer.last().copied().unwrap_or(1)
    }

    /// Estimated cycles: of a group of registers, the longest way around or what the units take.
    #[must_use]
    pub fn cycles(&self, chip: &ChipConfig) -> f64 {
        let (sublanes, lanes) = (chip.core.sublanes, chip.core.lanes);
        let spec = self.flat((sublanes, lanes));
        let registers = f64::from(spec.outer.iter().rev().skip(1).product::<u32>() * spec.rows.div_ceil(sublanes));
        let together = f64::from(self.together(&spec, sublanes));
        let varies = |i: &&Input| matches!(i, Input::Array(a) if a.outer.last() != Some(&0));
        let units = Units {
            loads: spec.inputs.iter().filter(varies).count() as u32,
            stores: spec.outputs.len() as u32 - self.last,
            ..Units::of(&spec.expr.nodes)
        };
        let around = self.around(&spec, chip).max(units.cycles(chip) * together);
        f64::from(self.turns()) * around * (registers / together).ceil()
    }

    /// Cycles of the longest way from what is carried to a next value.
    fn around(&self, spec: &LoopSpec, chip: &ChipConfig) -> f64 {
        let latency = |op: Op| f64::from(chip.timing.get(op.info().class).latency);
        let (simple, function) = (latency(Op::VMulF), f64::from(chip.timing.get(Class::Eup).latency));
        let mut ready: Vec<Option<f64>> = Vec::with_capacity(spec.expr.nodes.len());
        for n in &spec.expr.nodes {
            let own = Units::of([n]);
            let own = f64::from(own.simple) * simple + f64::from(own.functions) * function;
            let before = n.args.iter().filter_map(|&a| ready[a as usize]).reduce(f64::max);
            let carried = matches!(n.op, ExprOp::Input(i) if self.carried.iter().any(|c| c.0 == i));
            ready.push(if carried { Some(0.0) } else { before.map(|b| b + own) });
        }
        self.carried.iter().filter_map(|c| ready[c.1 as usize]).fold(1.0, f64::max)
    }

    /// The turn with tiles as rows, where these are one and tiles fill registers, else as the outermost dimension.
    fn flat(&self, (sublanes, lanes): (u32, u32)) -> LoopSpec {
        let mut spec = self.turn.clone();
        let tiles = spec.columns.div_ceil(lanes);
        if tiles <= 1 {
            return spec;
        }
        let plain = |i: &Input| !matches!(i, Input::Array(a) if matches!(a.lane, LaneMap::Indexed { .. }) );
        if spec.rows != 1 || !tiles.is_multiple_of(sublanes) || !spec.inputs.iter().all(plain) {
            tiles_to_outer(&mut spec, tiles, lanes);
            return spec;
        }
        let inputs = spec.inputs.iter_mut().filter_map(|i| if let Input::Array(a) = i { Some(a) } else { None });
        for a in inputs.chain(spec.outputs.iter_mut().map(|o| &mut o.access)) {
            if let LaneMap::Tile { tile_rows } = a.lane {
                a.row = tile_rows;
            }
        }
        for n in &mut spec.expr.nodes {
            if let ExprOp::Index(i) = &mut n.op {
                i.row = i.column * i64::from(lanes);
            }
        }
        (spec.rows, spec.columns) = (tiles, lanes);
        spec
    }

    /// Registers that go through the turns together: as many as there are in rows, or else in the outermost dimension.
    fn together(&self, spec: &LoopSpec, sublanes: u32) -> u32 {
        let blocks = spec.rows.div_ceil(sublanes);
        let there = if blocks > 1 || spec.outer.len() < 2 { blocks } else { spec.outer[0] };
        let kept = KEPT / (self.carried.len() as u32 + 1);
        let work = OPERATIONS / (spec.expr.nodes.len() as u32).max(1);
        there.min(TOGETHER).min(kept).min(work).max(1)
    }
}

/// The kernel. Parameters: one register for each input (element-row base address, or the scalar's value), then one for each
/// output.
pub fn recurrence_kernel(s: &RecurrenceSpec, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("recurrence", chip);
    let bases = Bases::params(&mut b, s.turn.inputs.len() + s.turn.outputs.len());
    let spec = s.flat(b.shape());
    let ctx = Context::new(&mut b, &spec, &bases);
    let sublanes = ctx.sublanes;
    let r = Recurrence { s, free: free(s, &spec), ctx: &ctx };
    let time = spec.outer.len() - 1;
    let regs = ctx.affine.clone();
    let together = s.together(&spec, sublanes);
    if spec.rows.div_ceil(sublanes) > 1 || time == 0 {
        nest(&mut b, &spec.outer[..time], 0, &regs, &mut |b, regs| r.rows(b, regs, together));
    } else {
        r.outermost(&mut b, &regs, together);
    }
    b.finish()
}

/// Which nodes are the same in every turn.
fn free(s: &RecurrenceSpec, spec: &LoopSpec) -> Vec<bool> {
    let still = |outer: &[i64]| outer.last() == Some(&0);
    let mut free: Vec<bool> = Vec::with_capacity(spec.expr.nodes.len());
    for n in &spec.expr.nodes {
        free.push(match n.op.kind() {
            ExprKind::Input(i) if s.carried.iter().any(|c| c.0 == i) => false,
            ExprKind::Input(i) => match &spec.inputs[i as usize] {
                Input::Scalar(_) => true,
                Input::Array(a) => {
                    still(&a.outer) && !matches!(&a.lane, LaneMap::Indexed { index, .. } if !still(&index.outer))
                }
            },
            ExprKind::Index(i) => still(&i.outer),
            ExprKind::Given | ExprKind::Unary(_) | ExprKind::Binary(_) | ExprKind::Plain | ExprKind::Across => {
                n.args.iter().all(|&a| free[a as usize])
            }
        });
    }
    free
}

struct Recurrence<'a> {
    s: &'a RecurrenceSpec,
    /// By node: whether it is the same in every turn.
    free: Vec<bool>,
    ctx: &'a Context<'a>,
}

impl Recurrence<'_> {
    /// The turns of all rows, so many registers of them together.
    fn rows(&self, b: &mut KernelBuilder, regs: &[Affine], together: u32) {
        let (sub, rows, outer) = (self.ctx.sublanes, self.ctx.spec.rows, self.ctx.spec.outer.len());
        let blocks = rows.div_ceil(sub);
        let own: Vec<Affine> = regs.iter().map(|a| a.fork(b, outer)).collect();
        let group = |b: &mut KernelBuilder, regs: &[Affine], count: u32, last: u32| {
            let at = |i: u32| At {
                block: i64::from(i),
                member: i,
                ..At::start(regs, if i + 1 == count { last } else { sub })
            };
            let all: Vec<At> = (0..count).map(at).collect();
            self.turns(b, &all);
        };
        let rest = rows - (blocks - 1) * sub;
        // The last registers may have fewer rows.
        let whole =
            if rest < sub && blocks.is_multiple_of(together) { blocks / together - 1 } else { blocks / together };
        b.loop_static(whole, |b| {
            group(b, &own, together, sub);
            step(b, &own, |a| a.row * i64::from(sub * together));
        });
        let left = blocks - whole * together;
        if left > 0 {
            group(b, &own, left, rest);
        }
    }

    /// The turns of registers that are apart in the outermost dimension, so many together.
    fn outermost(&self, b: &mut KernelBuilder, regs: &[Affine], together: u32) {
        let spec = self.ctx.spec;
        let time = spec.outer.len() - 1;
        let own: Vec<Affine> = regs.iter().map(|a| a.fork(b, 0)).collect();
        let fixed: Vec<Vec<i64>> = (0..i64::from(together)).map(|i| vec![i]).collect();
        let group = |b: &mut KernelBuilder, count: u32| {
            nest(b, &spec.outer[..time], 1, &own, &mut |b, regs| {
                let at = |i: u32| At { fixed: &fixed[i as usize], member: i, ..At::start(regs, spec.rows) };
                let all: Vec<At> = (0..count).map(at).collect();
                self.turns(b, &all);
            });
        };
        b.loop_static(spec.outer[0] / together, |b| {
            group(b, together);
            step(b, &own, |a| a.outer[0] * i64::from(together));
        });
        if !spec.outer[0].is_multiple_of(together) {
            group(b, spec.outer[0] % together);
        }
    }

    /// All turns of the registers at some places.
    fn turns(&self, b: &mut KernelBuilder, all: &[At]) {
        let (ctx, nodes) = (self.ctx, &self.ctx.spec.expr.nodes);
        let time = ctx.spec.outer.len() - 1;
        let node_of = |input: u32| nodes.iter().position(|n| n.op == ExprOp::Input(input));
        let mut carried: Vec<Vec<(Option<usize>, Value)>> = Vec::new();
        let mut memos: Vec<Memo> = Vec::new();
        for at in all {
            let mut known = Memo::default();
            let first = |b: &mut KernelBuilder, &(input, _): &(u32, ExprId)| {
                let value = ctx.load(b, at, input as usize, 0);
                (node_of(input), variable(b, &value))
            };
            carried.push(self.s.carried.iter().map(|c| first(b, c)).collect());
            self.before(b, at, all.len(), &mut known);
            memos.push(known);
        }
        let steps: Vec<Affine> = all[0].regs.iter().map(|a| a.fork(b, time)).collect();
        b.loop_with(Trips::Static(self.s.turns()), LoopHints::independent(&ctx.outputs), |b| {
            let mut next: Vec<Vec<Value>> = Vec::new();
            for ((at, known), carried) in all.iter().zip(&memos).zip(&carried) {
                let at = At { regs: &steps, ..*at };
                let mut memo = known.clone();
                memo.extend(carried.iter().filter_map(|(node, v)| node.map(|n| ((n as ExprId, 0), *v))));
                for i in 0..self.written() {
                    let v = ctx.eval(b, &at, ctx.spec.outputs[i].node, 0, &mut memo);
                    self.store(b, &at, i, &v);
                }
                let value = |b: &mut KernelBuilder, &(_, node): &(u32, ExprId), memo: &mut Memo| {
                    let v = ctx.eval(b, &at, node, 0, memo);
                    // Another's register changes before it is read.
                    if matches!(nodes[node as usize].op, ExprOp::Input(_)) { variable(b, &v) } else { v }
                };
                next.push(self.s.carried.iter().map(|c| value(b, c, &mut memo)).collect());
            }
            for (carried, next) in carried.iter().zip(&next) {
                for ((_, to), from) in carried.iter().zip(next) {
                    assign(b, to, from);
                }
            }
            step(b, &steps, |a| a.outer[time]);
        });
        for (at, carried) in all.iter().zip(&carried) {
            for i in self.written()..ctx.spec.outputs.len() {
                let node = ctx.spec.outputs[i].node;
                let of = self.s.carried.iter().position(|c| c.1 == node).expect("what is written last is carried");
                self.store(b, at, i, &carried[of].1);
            }
        }
    }

    /// Outputs that every turn writes.
    fn written(&self) -> usize {
        self.ctx.spec.outputs.len() - self.s.last as usize
    }

    /// What no turn changes, computed before them: as much as there are registers for.
    fn before(&self, b: &mut KernelBuilder, at: &At, count: usize, memo: &mut Memo) {
        let nodes = &self.ctx.spec.expr.nodes;
        let outputs = self.ctx.spec.outputs.iter().map(|o| o.node).chain(self.s.carried.iter().map(|c| c.1));
        let mut wanted: Vec<ExprId> = outputs.filter(|&n| self.free[n as usize]).collect();
        for n in nodes.iter().enumerate().filter(|(i, _)| !self.free[*i]).map(|(_, n)| n) {
            wanted.extend(n.args.iter().filter(|&&a| self.free[a as usize]));
        }
        wanted.sort_unstable();
        wanted.dedup();
        wanted.retain(|&id| !matches!(nodes[id as usize].op, ExprOp::Const(_)));
        let room = (KEPT as usize / count).saturating_sub(self.s.carried.len());
        for id in wanted.into_iter().take(room) {
            self.ctx.eval(b, at, id, 0, memo);
        }
    }

    /// Stores a value: where the lane follows the turn, in that lane alone.
    fn store(&self, b: &mut KernelBuilder, at: &At, i: usize, value: &Value) {
        let ctx = self.ctx;
        let access = &ctx.spec.outputs[i].access;
        let LaneMap::Indexed { plane_rows, .. } = &access.lane else { return ctx.store(b, at, i, 0, value) };
        let position = ctx.output_lane(b, at, i);
        let shift = ctx.lanes.trailing_zeros() as i32;
        let plane = b.def_s(Op::SSarI, &[position.into(), shift.into()]);
        let rows = b.s_muli(plane, *plane_rows as i32);
        let low = b.def_s(Op::SAndI, &[position.into(), (ctx.lanes as i32 - 1).into()]);
        let place = ctx.output_place(at, i);
        let place = Place { base: b.s(Op::SAdd, &[place.base, rows]), ..place };
        let (number, here) = (b.lane(), b.splat(low));
        let lane = b.cmp(Op::VEqI, number, here);
        let count = if access.row == 0 { 1 } else { at.rows };
        let rows = b.sublanes_below(count);
        let mask = b.m_and(lane, rows);
        store_value(b, value, place, mask);
    }
}
