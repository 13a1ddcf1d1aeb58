//! Row blocks of many tiles: a loop over the tiles for every reduction along lanes, then one for the outputs.
//!
//! Several row blocks go through the loops together, so that filling and draining their pipelines, and combining lanes at their
//! ends, are waited for once. What a later stage needs again is computed again from the inputs where that is little work; else
//! the stage that computes it first keeps it in scratch memory.

use super::address::{Affine, step};
use super::eval::{accumulate, emit_body, neutral, select_mask, variable, widen_body, widened};
use super::pick::combine_lanes;
use super::row::{At, Context, Memo, flatten};
use super::spec::{Access, Expr, ExprId, ExprKind, ExprNode, ExprOp, Input, LaneMap, LoopSpec};
use crate::emit::elementwise;
use crate::emit::elementwise::effort::{Effort, SERIES, effort};
use crate::emit::value::Value;
use crate::kernel::LoopHints;
use crate::kernel::{BufferRef, KernelBuilder, M, MemFormat, S, StoreFormat, Trips, V};
use systole_isa::{ChipConfig, Class, DType};

/// Most tiles of a row block that one loop body handles at once.
const UNROLLED_TILES: u32 = 16;
/// Operations that the row blocks of a group compute together at most, and most row blocks of a group.
const TOGETHER: usize = 48;
const GROUP: u32 = 4;
/// Tiles from which one row block is enough to hide what its loops wait for.
const LONG: u32 = 128;
/// Word rows of kept values at most, and the part of vector memory (one in so many).
const SCRATCH: u64 = 1024;
const SPARE: u64 = 64;
/// Values of a tile that wait behind reductions at once, where several iterations of a loop are to overlap.
const VALUES: u32 = 3;
/// Work of a value, in simple vector operations, from which it is kept rather than computed again: what a store and a load
/// take of their slots.
const KEPT: u32 = 6;

/// Whether the rows of a spec are done in stages.
pub(super) fn is_staged(spec: &LoopSpec, lanes: u32) -> bool {
    !spec.expr.reductions.is_empty() && spec.columns.div_ceil(lanes) > UNROLLED_TILES
}

/// Word rows of the scratch area of a loop's code.
pub fn scratch_rows(spec: &LoopSpec, chip: &ChipConfig) -> u32 {
    let (sublanes, lanes) = (chip.core.sublanes, chip.core.lanes);
    if !is_staged(spec, lanes) {
        return 0;
    }
    let mut spec = spec.clone();
    flatten(&mut spec, (sublanes, lanes));
    let tiles = spec.columns.div_ceil(lanes);
    let room = chip.vmem.bytes / chip.row_bytes();
    kept(&spec, (tiles * sublanes, room), tiles).len() as u32 * group(&spec.expr, tiles) * tiles * sublanes
}

/// Row blocks of `tiles` registers each that are done together.
pub fn group(expr: &Expr, tiles: u32) -> u32 {
    ((TOGETHER / expr.nodes.len().max(1)) as u32).min(GROUP).min(LONG / tiles).max(1)
}

/// Which nodes' values are the same in every column.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is computed varies as its operands do")]
pub fn column_free(spec: &LoopSpec) -> Vec<bool> {
    let mut free: Vec<bool> = Vec::with_capacity(spec.expr.nodes.len());
    for n in &spec.expr.nodes {
        free.push(match &n.op {
            ExprOp::Input(i) => match &spec.inputs[*i as usize] {
                Input::Array(a) => matches!(a.lane, LaneMap::Replicated | LaneMap::Indexed { .. }),
                Input::Scalar(_) => true,
            },
            ExprOp::Index(i) => i.column == 0,
            ExprOp::LaneReduce(..) => true,
            _ => n.args.iter().all(|&a| free[a as usize]),
        });
    }
    free
}

/// Work of a node at a point, in simple vector operations.
pub fn work(n: &ExprNode) -> u32 {
    let rounded = u32::from(matches!(n.dtype, DType::BF16 | DType::F16));
    let own = match n.op.kind() {
        ExprKind::Input(_) | ExprKind::Given | ExprKind::Across => return 0,
        ExprKind::Unary(u) => match effort(u) {
            Effort::Simple => 1,
            // The unit takes one every second cycle.
            Effort::Function => 8,
            Effort::Series => SERIES,
        },
        ExprKind::Binary(o) => elementwise::effort::work(o),
        ExprKind::Index(_) | ExprKind::Plain => 1,
    };
    own + rounded
}

/// What a node takes at a point: operations of the vector unit, and of the unit of functions.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for functions that are one instruction")]
pub fn operations(n: &ExprNode) -> (u32, u32) {
    let rounded = u32::from(matches!(n.dtype, DType::BF16 | DType::F16));
    match &n.op {
        ExprOp::Unary(u) if effort(*u) == Effort::Function => (rounded, 1),
        _ => (work(n), 0),
    }
}

/// What a register takes of the units that compute, and that load and store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units {
    /// Operations of the vector unit, and of the unit of functions.
    pub simple: u32,
    pub functions: u32,
    pub loads: u32,
    pub stores: u32,
}

impl Units {
    /// What nodes compute, without what reaches memory.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a ExprNode>) -> Units {
        let sum = |a: (u32, u32), n: (u32, u32)| (a.0 + n.0, a.1 + n.1);
        let (simple, functions) = nodes.into_iter().map(operations).fold((0, 0), sum);
        Units { simple, functions, ..Units::default() }
    }

    /// Cycles of the unit that takes longest.
    pub fn cycles(&self, chip: &ChipConfig) -> f64 {
        let c = &chip.core;
        let per = |n: u32, slots: u32| f64::from(n) / f64::from(slots.max(1));
        per(self.simple, c.valu_slots)
            .max(per(self.functions * chip.timing.get(Class::Eup).interval.max(1), c.eup_slots))
            .max(per(self.loads, c.vload_slots))
            .max(per(self.stores, c.vstore_slots))
    }
}

/// What a register of a loop's rows and columns takes of the units: what it computes of every element, and reaches in memory.
pub fn register(spec: &LoopSpec) -> Units {
    let free = column_free(spec);
    let own = Units::of(spec.expr.nodes.iter().zip(&free).filter(|(_, free)| !**free).map(|(n, _)| n));
    let reduced: usize = spec.expr.reductions.iter().map(|r| r.body.roots.len()).sum();
    let tiled = |lane: &LaneMap| matches!(lane, LaneMap::Tile { .. } | LaneMap::Shifted { .. });
    let loads = spec.inputs.iter().filter(|i| matches!(i, Input::Array(a) if tiled(&a.lane))).count() as u32;
    let stores = spec.outputs.iter().filter(|o| tiled(&o.access.lane)).count() as u32;
    Units { simple: own.simple + reduced as u32, loads, stores, ..own }
}

/// What each stage computes of every tile: the arguments of a reduction (in the order of the reductions), at last the outputs.
fn stages(spec: &LoopSpec) -> Vec<Vec<ExprId>> {
    let mut all: Vec<Vec<ExprId>> = Vec::new();
    for n in &spec.expr.nodes {
        if let ExprOp::LaneReduce(r, 0) = n.op {
            all.push(spec.expr.reductions[r as usize].args.clone());
        }
    }
    all.push(spec.outputs.iter().map(|o| o.node).collect());
    all
}

/// The nodes whose values are kept, each with the stage that computes it: as many as there is memory for, `rows` word rows for
/// each of a row block, in a vector memory of `room`.
fn kept(spec: &LoopSpec, (rows, room): (u32, u64), tiles: u32) -> Vec<(ExprId, usize)> {
    let (expr, column_free) = (&spec.expr, &column_free(spec)[..]);
    let most = (SCRATCH.min(room / SPARE) / u64::from(rows * group(expr, tiles))) as usize;
    let mut first: Vec<Option<usize>> = vec![None; expr.nodes.len()];
    let mut kept: Vec<(ExprId, usize)> = Vec::new();
    for (stage, roots) in stages(spec).into_iter().enumerate() {
        let mut open = roots;
        let mut seen = vec![false; expr.nodes.len()];
        while let Some(id) = open.pop() {
            let i = id as usize;
            if column_free[i] || std::mem::replace(&mut seen[i], true) || kept.iter().any(|k| k.0 == id) {
                continue;
            }
            let n = &expr.nodes[i];
            let Some(made) = first[i] else {
                first[i] = Some(stage);
                open.extend(&n.args);
                continue;
            };
            let storable = n.dtype.components() == 1 && n.dtype != DType::Pred;
            if storable && kept.len() < most && again(expr, column_free, &kept, id) >= KEPT {
                kept.push((id, made));
            } else {
                open.extend(&n.args);
            }
        }
    }
    kept
}

/// Whether more masks among the nodes that are `cheap` to make again would wait behind reductions along lanes than there are
/// registers for, those of the iterations that are under way at once included.
pub(super) fn masks_crowd(b: &KernelBuilder, spec: &LoopSpec, cheap: &[bool], tiles: u32) -> bool {
    let free = column_free(spec);
    let (mut known, mut across) = (vec![false; free.len()], vec![false; free.len()]);
    for roots in stages(spec) {
        let mut open = roots;
        let mut seen = known.clone();
        while let Some(id) = open.pop() {
            let i = id as usize;
            across[i] |= known[i];
            if !free[i] && !std::mem::replace(&mut seen[i], true) {
                open.extend(&spec.expr.nodes[i].args);
            }
        }
        known = seen;
    }
    let masks = (0..free.len()).filter(|&i| across[i] && cheap[i] && spec.expr.nodes[i].dtype == DType::Pred).count();
    let (slots, reduced, [vectors, registers]) = b.across;
    let waited = reduced * spec.expr.reductions.len() as u32;
    // A loop takes about half as long again as its vector operations alone.
    let under_way = waited * slots * 2 / (register(spec).simple * 3).max(1);
    let masks = masks as u32;
    // Where vectors alone take all registers, nothing is under way besides. One register has the mask of all.
    let overlaps = tiles * VALUES <= vectors && masks * (tiles + under_way) >= registers;
    overlaps || masks * tiles >= registers
}

/// Work of a value's column-dependent part from the inputs and what is kept.
fn again(expr: &Expr, column_free: &[bool], kept: &[(ExprId, usize)], id: ExprId) -> u32 {
    let mut open = vec![id];
    let mut seen = vec![false; expr.nodes.len()];
    let mut sum = 0u32;
    while let Some(id) = open.pop() {
        let i = id as usize;
        if column_free[i] || std::mem::replace(&mut seen[i], true) || kept.iter().any(|k| k.0 == id) {
            continue;
        }
        sum = sum.saturating_add(work(&expr.nodes[i]));
        open.extend(&expr.nodes[i].args);
    }
    sum
}

/// How row blocks of many tiles are done.
#[derive(Default)]
pub(super) struct Staging {
    /// Row blocks that go through the loops together.
    group: u32,
    kept: Vec<(ExprId, usize)>,
    /// First word row, and the buffer.
    scratch: Option<(S, BufferRef)>,
    /// Word rows of a kept value of a row block.
    rows: u32,
}

impl Staging {
    pub(super) fn of(b: &KernelBuilder, spec: &LoopSpec, scratch: Option<(S, BufferRef)>) -> Staging {
        let (sublanes, lanes) = b.shape();
        if !is_staged(spec, lanes) {
            return Staging::default();
        }
        let tiles = spec.columns.div_ceil(lanes);
        let rows = tiles * sublanes;
        let kept = if scratch.is_some() { kept(spec, (rows, b.vmem_rows), tiles) } else { Vec::new() };
        Staging { group: group(&spec.expr, tiles), kept, scratch, rows }
    }

    /// Word row, from where the loop over tiles stands, of the `slot`-th kept value of a row block.
    fn place(&self, slot: usize, at: &At) -> i32 {
        ((slot as u32 * self.group + at.member) * self.rows) as i32
    }

    /// The value of a node that an earlier stage has kept.
    pub(super) fn kept_before(&self, b: &mut KernelBuilder, id: ExprId, at: &At, regs: &TileRegs) -> Option<V> {
        let slot = self.kept.iter().position(|k| k.0 == id && k.1 < regs.stage)?;
        let (_, buf) = self.scratch?;
        Some(b.load(MemFormat::W32, regs.scratch, self.place(slot, at), 1, buf))
    }
}

/// Registers of a loop over tiles: pointers by input and output, into scratch memory, and the column.
pub(super) struct TileRegs {
    pub(super) inputs: Vec<S>,
    pub(super) outputs: Vec<S>,
    pub(super) column: S,
    scratch: S,
    /// Which stage the loop is.
    stage: usize,
}

/// A stage at a place.
type OnTile<'f> = dyn FnMut(&mut KernelBuilder, &At, &mut Memo) + 'f;

impl Context<'_> {
    /// The rows, in stages: `blocks` whole row blocks, then what is left of one.
    pub(super) fn staged_rows(&self, b: &mut KernelBuilder, own: &[Affine], blocks: u32, last: Option<At>) {
        let (sub, group) = (self.sublanes, self.staging.group);
        b.loop_with(Trips::Static(blocks / group), LoopHints::independent(&self.outputs), |b| {
            self.staged(b, &At::start(own, sub), group);
            step(b, own, |a| a.row * i64::from(sub * group));
        });
        let left = blocks % group;
        if left > 0 {
            self.staged(b, &At::start(own, sub), left);
        }
        if let Some(last) = last {
            self.staged(b, &At { block: i64::from(left), ..last }, 1);
        }
    }

    /// Evaluates what all tiles of a row share, of the nodes before `end`.
    fn shared(&self, b: &mut KernelBuilder, at: &At, end: usize, memo: &mut Memo) {
        for id in (0..end).filter(|&id| self.column_free[id]) {
            self.eval(b, at, id as ExprId, 0, memo);
        }
    }

    /// `count` row blocks.
    fn staged(&self, b: &mut KernelBuilder, at: &At, count: u32) {
        let all: Vec<At> = (0..count).map(|i| At { block: at.block + i64::from(i), member: i, ..*at }).collect();
        let mut memos = vec![Memo::default(); all.len()];
        let mut stage = 0;
        for (id, n) in self.spec.expr.nodes.iter().enumerate() {
            if let ExprOp::LaneReduce(r, 0) = n.op {
                all.iter().zip(&mut memos).for_each(|(at, memo)| self.shared(b, at, id, memo));
                self.staged_reduction(b, &all, (id as ExprId, r, stage), &mut memos);
                stage += 1;
            }
        }
        let (tiled, rows): (Vec<usize>, Vec<usize>) =
            (0..self.spec.outputs.len()).partition(|&i| self.output_tiles(i) > 1);
        for (at, memo) in all.iter().zip(&mut memos) {
            for &i in &rows {
                let v = self.eval(b, at, self.spec.outputs[i].node, 0, memo);
                self.store(b, at, i, 0, &v);
            }
        }
        if !tiled.is_empty() {
            let end = self.spec.expr.nodes.len();
            all.iter().zip(&mut memos).for_each(|(at, memo)| self.shared(b, at, end, memo));
            let hints = LoopHints::independent(&self.outputs);
            self.tile_loop(b, at, (self.tiles, stage), hints, &mut |b, regs| {
                self.together(b, &all, &memos, regs, &mut |b, at, memo| {
                    for &i in &tiled {
                        let v = self.eval(b, at, self.spec.outputs[i].node, 0, memo);
                        self.store(b, at, i, 0, &v);
                    }
                });
            });
        }
    }

    /// A stage of the tile at the registers for each of the row blocks; what does not depend on the row is computed once.
    fn together(&self, b: &mut KernelBuilder, all: &[At], memos: &[Memo], regs: &TileRegs, f: &mut OnTile<'_>) {
        let mut common = Memo::default();
        for (at, memo) in all.iter().zip(memos) {
            let mut memo = memo.clone();
            memo.extend(common.iter().map(|(k, v)| (*k, *v)));
            f(b, &At { tile_loop: Some(regs), ..*at }, &mut memo);
            common.extend(memo.iter().filter(|(k, _)| self.row_free[k.0 as usize]).map(|(k, v)| (*k, *v)));
        }
    }

    /// A loop over the first `tiles` tiles; the registers after it stand at the next tile.
    pub(super) fn tile_loop(
        &self,
        b: &mut KernelBuilder,
        at: &At,
        (tiles, stage): (u32, usize),
        hints: LoopHints,
        f: &mut dyn FnMut(&mut KernelBuilder, &TileRegs),
    ) -> TileRegs {
        let steps = |a: &Access| match a.lane {
            LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => tile_rows,
            LaneMap::Replicated | LaneMap::Indexed { .. } => 0,
        };
        let walked = |b: &mut KernelBuilder, reg: S, step: i64| (if step == 0 { reg } else { b.s_copy(reg) }, step);
        let mut inputs: Vec<(S, i64)> = Vec::new();
        for (i, input) in self.spec.inputs.iter().enumerate() {
            inputs.push(match input {
                Input::Array(a) => walked(b, at.regs[self.input_reg[i]].reg, steps(a)),
                Input::Scalar(_) => (S::ZERO, 0),
            });
        }
        let mut outputs: Vec<(S, i64)> = Vec::new();
        for (i, o) in self.spec.outputs.iter().enumerate() {
            outputs.push(walked(b, at.regs[self.output_reg[i]].reg, steps(&o.access)));
        }
        let scratch = self.staging.scratch.filter(|_| !self.staging.kept.is_empty());
        let scratch = scratch.map_or((S::ZERO, 0), |(base, _)| walked(b, base, i64::from(self.sublanes)));
        let has_column = self.spec.expr.nodes.iter().any(|n| matches!(&n.op, ExprOp::Index(i) if i.column != 0));
        let column = if has_column { b.s_var(0) } else { S::ZERO };
        let regs = TileRegs {
            inputs: inputs.iter().map(|x| x.0).collect(),
            outputs: outputs.iter().map(|x| x.0).collect(),
            column,
            scratch: scratch.0,
            stage,
        };
        b.loop_with(Trips::Static(tiles), hints, |b| {
            f(b, &regs);
            for (r, s) in inputs.iter().chain(&outputs).chain([&scratch]) {
                if *s != 0 {
                    b.s_inc(*r, *s as i32);
                }
            }
            if has_column {
                b.s_inc(column, self.lanes as i32);
            }
        });
        regs
    }

    /// Reduction `r`, whose first node is `id`, of each of the row blocks.
    fn staged_reduction(
        &self,
        b: &mut KernelBuilder,
        all: &[At],
        (id, r, stage): (ExprId, u32, usize),
        memos: &mut [Memo],
    ) {
        let red = &self.spec.expr.reductions[r as usize];
        let wide = widened(red, &self.spec.expr.nodes);
        let body = if wide { widen_body(&red.body) } else { red.body.clone() };
        let pick = self.pick(red);
        let mut sums: Vec<Sum> = Vec::new();
        for (at, memo) in all.iter().zip(&mut *memos) {
            let inits: Vec<Value> = red.inits.iter().map(|&i| self.eval(b, at, i, 0, memo)).collect();
            let inits: Vec<Value> = inits.iter().map(|v| if wide { v.retyped(DType::F32) } else { *v }).collect();
            let (neutral, known) = neutral(b, &body, &inits);
            let acc = neutral.iter().map(|v| variable(b, v)).collect();
            sums.push(Sum { inits, neutral, known, acc });
        }
        let one = |b: &mut KernelBuilder, regs: &TileRegs, memos: &[Memo], mask: M| {
            self.together(b, all, memos, regs, &mut |b, at, memo| {
                let sum = &sums[at.member as usize];
                let mut x: Vec<Value> = Vec::new();
                for (&a, init) in red.args.iter().zip(&sum.neutral) {
                    let v = self.eval(b, at, a, 0, memo);
                    let v = if wide { v.retyped(DType::F32) } else { v };
                    x.push(select_mask(b, mask, &v, init));
                }
                self.keep(b, at, regs, memo);
                match pick {
                    Some(pick) => pick.take(b, &sum.acc, &x),
                    None => accumulate(b, &body, &sum.acc, &x),
                }
            });
        };
        let rest = self.spec.columns % self.lanes;
        let full = if rest == 0 { self.tiles } else { self.tiles - 1 };
        let scratch: Vec<BufferRef> = self.staging.scratch.iter().map(|s| s.1).collect();
        let hints = LoopHints::independent(&scratch);
        let regs = self.tile_loop(b, &all[0], (full, stage), hints, &mut |b, regs| one(b, regs, memos, M::ALL));
        if rest > 0 {
            let mask = b.lanes_below(rest);
            one(b, &regs, memos, mask);
        }
        for (sum, memo) in sums.iter().zip(memos) {
            let lanes = combine_lanes(b, (&body, pick), &sum.acc);
            let result = if sum.known { emit_body(b, &body, &sum.inits, &lanes) } else { lanes };
            self.remember(b, id, r, wide, result, memo);
        }
    }

    /// Stores what this stage is the first to compute and later ones need.
    fn keep(&self, b: &mut KernelBuilder, at: &At, regs: &TileRegs, memo: &Memo) {
        let s = &self.staging;
        let Some((_, buf)) = s.scratch else { return };
        for (slot, (id, _)) in s.kept.iter().enumerate().filter(|(_, k)| k.1 == regs.stage) {
            if let Some(v) = memo.get(&(*id, 0)) {
                b.store(StoreFormat::W32, v.v(), regs.scratch, s.place(slot, at), 1, M::ALL, buf);
            }
        }
    }
}

/// A reduction of a row block.
struct Sum {
    inits: Vec<Value>,
    neutral: Vec<Value>,
    /// Whether `neutral` leaves others alone; else it is the initial values.
    known: bool,
    acc: Vec<Value>,
}
