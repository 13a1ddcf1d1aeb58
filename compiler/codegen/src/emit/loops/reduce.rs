//! Kernels that reduce over outer dimensions, rows or columns: [`ReduceSpec`] to a [`Kernel`].
//!
//! Loops over what is kept are outside, loops over what is reduced inside, with the accumulators in registers. Few
//! reduced points (a pooling window) are unrolled into the loop over the rows; where they are more, several blocks of rows (and
//! where those are few, several indices of the dimension around them) are reduced side by side, and what they share (a window's
//! weights, points that are compared with each row) is loaded once for all. So no sum waits for the one before it, either.

use super::address::{Affine, nest, step};
use super::bases::Bases;
use super::eval::{accumulate, each_alone, emit_body, neutral, own_opcode, select_mask, variable, widen_body, widened};
use super::pick::{Pick, combine_lanes, combine_sublanes};
use super::row::{At, Context, Memo, tiles_to_outer};
use super::simplify::merge_reduce;
use super::slide::Slide;
use super::spec::{Body, ExprId, ExprOp, Index, Input, LaneMap, LoopSpec, Output, ReduceSpec};
use super::staged::{TileRegs, work};
use crate::emit::elementwise;
use crate::emit::value::Value;
use crate::kernel::LoopHints;
use crate::kernel::{Kernel, KernelBuilder, M, Trips};
use systole_hlo::graph::Binary;
use systole_isa::{ChipConfig, DType, Op};

/// Most reduced points that are unrolled into one loop body.
const UNROLLED_POINTS: u64 = 16;
/// Most accumulators of blocks of rows that are reduced side by side, and most work ([`work`]) that they do at a point where lanes are
/// reduced.
const SIDE_BY_SIDE: u32 = 8;
const SIDE_BY_SIDE_WORK: u32 = 96;
/// Most blocks of reduced rows that are written out.
const FEW_BLOCKS: u32 = 8;
/// Sets of accumulators that take turns: the latency of a sum times the loads of a cycle; most accumulators in them.
const SETS: u32 = 4;
const MOST_SETS: u32 = 8;

/// The kernel of a spec. Parameters: one register for each input, then one for each output.
pub fn reduce_kernel(spec: &ReduceSpec, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("reduce", chip);
    let bases = Bases::params(&mut b, spec.inputs.len() + spec.outputs.len());
    emit_reduce(&mut b, spec, &bases);
    b.finish()
}

/// Appends the code of a spec.
pub fn emit_reduce(b: &mut KernelBuilder, spec: &ReduceSpec, bases: &Bases) {
    let lanes = b.shape().1;
    let mut spec = spec.clone();
    merge_reduce(&mut spec, lanes);
    let mut kept = spec.kept_outer as usize;
    let mut flat = LoopSpec {
        outer: spec.outer.clone(),
        rows: spec.rows,
        columns: spec.columns,
        inputs: spec.inputs.clone(),
        expr: spec.expr.clone(),
        outputs: spec
            .outputs
            .iter()
            .zip(&spec.reduction.args)
            .map(|(access, &node)| Output { node, access: access.clone() })
            .collect(),
    };
    let tiles = spec.columns.div_ceil(lanes);
    if !spec.reduce_columns && tiles > 1 {
        tiles_to_outer(&mut flat, tiles, lanes);
        kept += 1;
    }
    let ctx = Context::new(b, &flat, bases);
    let regs = ctx.affine.clone();
    let wide = widened(&spec.reduction, &spec.expr.nodes);
    let body = if wide { widen_body(&spec.reduction.body) } else { spec.reduction.body.clone() };
    let around = kept.saturating_sub(1);
    let shared = shared(&flat, &ctx, around);
    let still =
        same(&flat, |outer, by_column| outer.iter().skip(kept).all(|&step| step == 0) && !(by_column && ctx.tiles > 1));
    let slide = Slide::of(&flat, kept).filter(|_| !spec.reduce_rows && !spec.reduce_columns);
    let products = products(&flat, &body);
    let pick =
        Pick::of(&spec.reduction, &flat.expr.nodes, |index| slide.is_none() && rising(&flat, &spec, kept, index));
    let r = Reducer { ctx, spec: &spec, body, pick, wide, kept, shared, still, slide, products };
    nest(b, &flat.outer[..around], 0, &regs, &mut |b, regs| r.kept_indices(b, regs));
}

/// The factors of each result that adds up f32 products, where each result is combined by one instruction: a multiply-add rounds
/// their sum alone.
fn products(spec: &LoopSpec, body: &Body) -> Vec<Option<(ExprId, ExprId)>> {
    let one = |(i, output): (usize, &Output)| {
        let product = &spec.expr.nodes[output.node as usize];
        let &[x, y] = &product.args[..] else { return None };
        let sum = own_opcode(body, i, product.dtype) == Some(Op::VAddF);
        (sum && product.op == ExprOp::Binary(Binary::Mul)).then_some((x, y))
    };
    let simple = |(i, o): (usize, &Output)| own_opcode(body, i, spec.expr.nodes[o.node as usize].dtype).is_some();
    let all = || spec.outputs.iter().enumerate();
    if all().all(simple) { all().map(one).collect() } else { vec![None; spec.outputs.len()] }
}

/// Blocks of rows that are reduced side by side, where there are so many; none where all points of one are in the loop over the rows, or
/// rows are reduced.
pub fn side_by_side(spec: &ReduceSpec, lanes: u32) -> Option<u32> {
    let points: u64 = spec.outer[spec.kept_outer as usize..].iter().map(|&s| u64::from(s)).product();
    let tiles = if spec.reduce_columns { spec.columns.div_ceil(lanes) } else { 1 };
    if points * u64::from(tiles) <= UNROLLED_POINTS || spec.reduce_rows {
        return None;
    }
    let words: usize = spec.outputs.iter().map(|o| o.dtype.components()).sum();
    let most = (SIDE_BY_SIDE / words.max(1) as u32).max(1);
    if !spec.reduce_columns {
        return Some(most);
    }
    let each: u32 = spec.expr.nodes.iter().map(work).sum();
    Some(most.min(SIDE_BY_SIDE_WORK / each.max(1)).max(1))
}

/// Whether an index grows along the points that an accumulator takes, one after the other.
fn rising(flat: &LoopSpec, spec: &ReduceSpec, kept: usize, index: &Index) -> bool {
    let rows = spec.reduce_rows.then_some((index.row, flat.rows));
    let columns = spec.reduce_columns.then_some((index.column, flat.columns));
    let outer = index.outer.iter().copied().zip(flat.outer.iter().copied()).skip(kept);
    let dimensions: Vec<(i64, u32)> = outer.chain(rows).chain(columns).collect();
    // From the innermost dimension on, with what those inside of it reach.
    let mut inside = 0;
    dimensions.iter().rev().filter(|d| d.1 > 1).all(|&(step, size)| {
        let clear = step >= inside;
        inside += step * i64::from(size - 1);
        clear
    })
}

/// Which nodes' values are the same for all rows, and for all indices of outer dimension `d`.
fn shared(spec: &LoopSpec, ctx: &Context, d: usize) -> Vec<bool> {
    let all = same(spec, |outer, _| outer.get(d).is_none_or(|&step| step == 0));
    all.iter().zip(&ctx.row_free).map(|(&same, &row_free)| same && row_free).collect()
}

/// Which nodes' values are the same, as those are that they are made from: `leaf` says it of one by its steps along outer dimensions,
/// and whether it is another in every column.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is computed varies as its operands do")]
fn same(spec: &LoopSpec, leaf: impl Fn(&[i64], bool) -> bool) -> Vec<bool> {
    let mut all: Vec<bool> = Vec::with_capacity(spec.expr.nodes.len());
    for n in &spec.expr.nodes {
        let own = match &n.op {
            ExprOp::Input(i) => match &spec.inputs[*i as usize] {
                Input::Array(a) => match &a.lane {
                    LaneMap::Tile { .. } | LaneMap::Shifted { .. } => leaf(&a.outer, true),
                    LaneMap::Replicated => leaf(&a.outer, false),
                    LaneMap::Indexed { index, .. } => leaf(&a.outer, false) && leaf(&index.outer, false),
                },
                Input::Scalar(_) => true,
            },
            ExprOp::Index(i) => leaf(&i.outer, i.column != 0),
            _ => true,
        };
        all.push(own && n.args.iter().all(|&a| all[a as usize]));
    }
    all
}

pub(super) struct Reducer<'a> {
    pub(super) ctx: Context<'a>,
    spec: &'a ReduceSpec,
    pub(super) body: Body,
    pick: Option<Pick>,
    wide: bool,
    pub(super) kept: usize,
    /// Which nodes' values are the same for all places that are reduced side by side.
    pub(super) shared: Vec<bool>,
    /// Which nodes' values are the same at all reduced points, where columns are reduced.
    still: Vec<bool>,
    slide: Option<Slide>,
    products: Vec<Option<(ExprId, ExprId)>>,
}

impl Reducer<'_> {
    fn reduced_sizes(&self) -> &[u32] {
        &self.ctx.spec.outer[self.kept..]
    }

    /// The innermost kept dimension around the rows: several of its indices side by side where the rows are few blocks.
    fn kept_indices(&self, b: &mut KernelBuilder, regs: &[Affine]) {
        let size = self.kept.checked_sub(1).map_or(1, |d| self.ctx.spec.outer[d]);
        if size == 1 {
            return self.kept_rows(b, regs, 1);
        }
        let d = self.kept - 1;
        let blocks = self.spec.rows.div_ceil(self.ctx.sublanes).max(1);
        let together = match (&self.slide, self.side_by_side()) {
            _ if self.spec.reduce_rows => 1,
            (Some(_), 2..) => Slide::together(size),
            (_, most) => (most / blocks).clamp(1, size),
        };
        let own: Vec<Affine> = regs.iter().map(|a| a.fork(b, d)).collect();
        b.loop_static(size / together, |b| {
            self.kept_rows(b, &own, together);
            step(b, &own, |a| a.outer[d] * i64::from(together));
        });
        if !size.is_multiple_of(together) {
            self.kept_rows(b, &own, size % together);
        }
    }

    /// The rows of `indices` indices of the dimension around them.
    fn kept_rows(&self, b: &mut KernelBuilder, regs: &[Affine], indices: u32) {
        let sub = self.ctx.sublanes;
        if self.spec.reduce_rows {
            return self.points(b, &[At::start(regs, sub)]);
        }
        let fixed: Vec<Vec<i64>> = (0..indices)
            .map(|i| {
                let mut fixed = vec![0; self.kept];
                fixed.last_mut().into_iter().for_each(|last| *last = i64::from(i));
                fixed
            })
            .collect();
        let rows = self.spec.rows;
        let exact =
            self.kept == 0 || self.ctx.spec.outer[..self.kept].iter().all(|&s| s == 1) || rows.is_multiple_of(sub);
        let blocks = if exact { rows.div_ceil(sub) } else { rows / sub };
        let d = self.ctx.spec.outer.len();
        let own: Vec<Affine> = regs.iter().map(|a| a.fork(b, d)).collect();
        let sliding = self.slide.is_some() && self.side_by_side() > 1 && self.is_product();
        let together = match b.sums {
            (wanted, most) if sliding => wanted.div_ceil(indices).min(most / indices),
            _ => self.side_by_side() / indices,
        };
        let together = together.clamp(1, blocks.max(1));
        let places = |blocks: std::ops::Range<u32>, rows: u32| -> Vec<At> {
            let of = |fixed| blocks.clone().map(move |i| (fixed, i));
            let at = |(fixed, i)| At { block: i64::from(i), fixed, ..At::start(&own, rows) };
            fixed.iter().flat_map(|f| of(&f[..])).map(at).collect()
        };
        if blocks / together > 0 {
            b.loop_with(Trips::Static(blocks / together), LoopHints::independent(&self.ctx.outputs), |b| {
                self.points(b, &places(0..together, sub));
                step(b, &own, |a| a.row * i64::from(together * sub));
            });
        }
        let left = blocks % together;
        if left > 0 {
            self.points(b, &places(0..left, sub));
        }
        if !exact {
            self.points(b, &places(left..left + 1, rows % sub));
        }
    }

    /// Blocks of rows that are reduced side by side.
    fn side_by_side(&self) -> u32 {
        side_by_side(self.spec, self.ctx.lanes).unwrap_or(1)
    }

    fn inits(&self, b: &mut KernelBuilder, at: &At) -> Vec<Value> {
        let mut memo = Memo::default();
        let inits: Vec<Value> =
            self.spec.reduction.inits.iter().map(|&i| self.ctx.eval(b, at, i, 0, &mut memo)).collect();
        inits.into_iter().map(|v| self.widen(v)).collect()
    }

    fn widen(&self, v: Value) -> Value {
        if self.wide { v.retyped(DType::F32) } else { v }
    }

    /// Registers of results, one for each place; the places differ in their blocks of rows and indices around them.
    fn points(&self, b: &mut KernelBuilder, places: &[At]) {
        let Some(at) = places.first() else { return };
        let inits = self.inits(b, at);
        let (neutral, known) = neutral(b, &self.body, &inits);
        let points: u64 = self.reduced_sizes().iter().map(|&s| s as u64).product();
        let tiles = if self.spec.reduce_columns { self.ctx.tiles as u64 } else { 1 };
        let from_points = !self.spec.reduce_rows && points * tiles <= UNROLLED_POINTS;
        if from_points {
            for at in places {
                let acc = self.unrolled(b, at, &neutral, !known);
                self.finish(b, at, (&inits, known), acc);
            }
            return;
        }
        let all = self.looped(b, places, (&neutral, known));
        for (at, acc) in places.iter().zip(all) {
            self.finish(b, at, (&inits, known), acc);
        }
    }

    /// Results from accumulators; `known`: those began at the identity.
    fn finish(&self, b: &mut KernelBuilder, at: &At, (inits, known): (&[Value], bool), mut acc: Vec<Value>) {
        if self.spec.reduce_columns {
            acc = combine_lanes(b, (&self.body, self.pick), &acc);
        }
        if self.spec.reduce_rows {
            acc = combine_sublanes(b, (&self.body, self.pick), &acc);
        }
        // Accumulators that began at the identity have not taken the initial values in.
        let result = match (self.spec.resumed, known) {
            (true, _) => {
                let before: Vec<Value> = (0..acc.len()).map(|i| self.ctx.stored(b, at, i)).collect();
                match self.pick {
                    Some(pick) => pick.merged(b, &before, &acc),
                    None => emit_body(b, &self.body, &before, &acc),
                }
            }
            (false, true) => emit_body(b, &self.body, inits, &acc),
            (false, false) => acc,
        };
        for (i, v) in result.iter().enumerate() {
            let dtype = self.ctx.spec.outputs[i].access.dtype;
            let v = if self.wide { elementwise::convert(b, v, dtype) } else { *v };
            self.ctx.store(b, at, i, 0, &v);
        }
    }

    /// Takes a reduced point into the accumulators.
    pub(super) fn take(&self, b: &mut KernelBuilder, (at, tile): (&At, u32), acc: &[Value], memo: &mut Memo) {
        if self.products.iter().all(Option::is_none) {
            let x = self.values(b, at, tile, memo);
            return self.accumulate(b, acc, &x);
        }
        for (i, (sum, product)) in acc.iter().zip(&self.products).enumerate() {
            let mut eval = |b: &mut KernelBuilder, node: ExprId| self.ctx.eval(b, at, node, tile, memo);
            if let &Some((x, y)) = product {
                let (x, y) = (eval(b, x), eval(b, y));
                b.set_v(sum.v(), Op::VFmaF, &[x.v().into(), y.v().into(), sum.v().into()]);
            } else if let Some(op) = own_opcode(&self.body, i, sum.dtype) {
                let x = eval(b, self.spec.reduction.args[i]);
                b.set_v(sum.v(), op, &[sum.v().into(), x.v().into()]);
            }
        }
    }

    /// acc = body(acc, x) of a later point, in place.
    fn accumulate(&self, b: &mut KernelBuilder, acc: &[Value], x: &[Value]) {
        match self.pick {
            Some(pick) => pick.take(b, acc, x),
            None => accumulate(b, &self.body, acc, x),
        }
    }

    /// Whether the only result adds up products.
    fn is_product(&self) -> bool {
        matches!(self.products[..], [Some(_)])
    }

    /// Arguments of the reduction at one reduced point.
    fn values(&self, b: &mut KernelBuilder, at: &At, tile: u32, memo: &mut Memo) -> Vec<Value> {
        let v: Vec<Value> = self.spec.reduction.args.iter().map(|&a| self.ctx.eval(b, at, a, tile, memo)).collect();
        v.into_iter().map(|v| self.widen(v)).collect()
    }

    fn masked(&self, b: &mut KernelBuilder, x: Vec<Value>, inits: &[Value], mask: M) -> Vec<Value> {
        x.iter().zip(inits).map(|(v, init)| select_mask(b, mask, v, init)).collect()
    }

    fn column_mask(&self, b: &mut KernelBuilder, tile: u32) -> M {
        if !self.spec.reduce_columns {
            return M::ALL;
        }
        b.lanes_below((self.spec.columns - tile * self.ctx.lanes).min(self.ctx.lanes))
    }

    /// All reduced points in a row; `begin`: from the initial values on.
    fn unrolled(&self, b: &mut KernelBuilder, at: &At, inits: &[Value], begin: bool) -> Vec<Value> {
        let sizes = self.reduced_sizes().to_vec();
        let points: u64 = sizes.iter().map(|&s| s as u64).product();
        let tiles = if self.spec.reduce_columns { self.ctx.tiles } else { 1 };
        let mut acc: Option<Vec<Value>> = begin.then(|| inits.to_vec());
        for p in 0..points {
            let fixed = point_of(&self.ctx.spec.outer, self.kept, p, at.fixed);
            let at = At { fixed: &fixed, ..*at };
            let mut memo = Memo::default();
            for t in 0..tiles {
                let x = self.values(b, &at, t, &mut memo);
                let mask = self.column_mask(b, t);
                let x = self.masked(b, x, inits, mask);
                acc = Some(match acc {
                    None => x,
                    Some(acc) => match self.pick {
                        Some(pick) => pick.later(b, &acc, &x),
                        None => emit_body(b, &self.body, &acc, &x),
                    },
                });
            }
        }
        acc.unwrap_or_else(|| inits.to_vec())
    }

    /// Accumulators of places, which begin as `inits`; `known`: the identity.
    fn looped(&self, b: &mut KernelBuilder, places: &[At], (inits, known): (&[Value], bool)) -> Vec<Vec<Value>> {
        let begin = |b: &mut KernelBuilder| -> Vec<Value> { inits.iter().map(|v| variable(b, v)).collect() };
        let all: Vec<Vec<Value>> = places.iter().map(|_| begin(b)).collect();
        let (Some(first), Some(acc)) = (places.first(), all.first()) else { return all };
        let sizes = self.ctx.spec.outer.clone();
        if self.spec.reduce_columns && !self.spec.reduce_rows {
            let still = self.still(b, places);
            nest(b, &sizes, self.kept, first.regs, &mut |b, regs| {
                let places: Vec<At> = places.iter().map(|at| At { regs, ..*at }).collect();
                self.columns(b, (&places, &still), inits, &|place, _| &all[place], M::ALL);
            });
            return all;
        }
        if self.spec.reduce_rows {
            let mut sets = vec![acc.clone()];
            sets.extend((1..self.sets(known)).map(|_| begin(b)));
            nest(b, &sizes, self.kept, first.regs, &mut |b, regs| self.rows(b, &At { regs, ..*first }, inits, &sets));
            for other in &sets[1..] {
                match self.pick {
                    Some(pick) => pick.merge(b, acc, other),
                    None => accumulate(b, &self.body, acc, other),
                }
            }
            return all;
        }
        if let Some(slide) = &self.slide {
            // Few sums would wait for themselves: each is two.
            let (wanted, most) = b.sums;
            let count = places.len() as u32;
            if !known || count >= wanted || count * 2 > most || !self.is_product() {
                self.sliding(b, slide, places, &[&all]);
                return all;
            }
            let others: Vec<Vec<Value>> = places.iter().map(|_| begin(b)).collect();
            self.sliding(b, slide, places, &[&all, &others]);
            return all.iter().zip(&others).map(|(acc, other)| emit_body(b, &self.body, acc, other)).collect();
        }
        // The last dimensions are unrolled as far as they are few points.
        let count = |d: usize| sizes[d..].iter().map(|&s| u64::from(s)).product::<u64>();
        let from = (self.kept..=sizes.len()).find(|&d| count(d) <= UNROLLED_POINTS).unwrap_or(sizes.len());
        nest(b, &sizes[..from], self.kept, first.regs, &mut |b, regs| {
            for p in 0..count(from) {
                let mut memo = Memo::default();
                for (i, (at, acc)) in places.iter().zip(&all).enumerate() {
                    let fixed = point_of(&sizes, from, p, at.fixed);
                    let at = At { regs, fixed: &fixed, ..*at };
                    self.take(b, (&at, 0), acc, &mut memo);
                    self.hand_on(places, i, &mut memo);
                }
            }
        });
        all
    }

    /// What place `i` shares with the next one is there for it.
    fn hand_on(&self, places: &[At], i: usize, memo: &mut Memo) {
        let same = places.get(i + 1).is_some_and(|next| next.fixed == places[i].fixed);
        let shared = if same { &self.ctx.row_free } else { &self.shared };
        memo.retain(|&(id, _), _| shared[id as usize]);
    }

    /// Values that are the same at all reduced points, computed before the loops over them (as many as registers allow), for each place.
    fn still(&self, b: &mut KernelBuilder, places: &[At]) -> Vec<Memo> {
        let nodes = &self.ctx.spec.expr.nodes;
        let is_still = |id: ExprId| self.still[id as usize] && !matches!(nodes[id as usize].op, ExprOp::Const(_));
        let moving = nodes.iter().zip(&self.still).filter(|n| !n.1).flat_map(|n| n.0.args.iter().copied());
        let mut wanted: Vec<ExprId> = moving.filter(|&a| is_still(a)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        // A quarter of the registers; less beside a body so large that it is done for one place at a time.
        let most = if places.len() > 1 { b.sums.1 } else { b.sums.1 / 2 } as usize;
        let (mut used, mut memo) = (0, Memo::default());
        let one = |(i, at): (usize, &At)| {
            for &id in &wanted {
                let known = memo.contains_key(&(id, 0));
                used += if known { 0 } else { nodes[id as usize].dtype.components() };
                if used > most {
                    break;
                }
                self.ctx.eval(b, at, id, 0, &mut memo);
            }
            let own = memo.clone();
            self.hand_on(places, i, &mut memo);
            own
        };
        places.iter().enumerate().map(one).collect()
    }

    /// Sets of accumulators that registers of reduced rows are taken into in turn, so that none waits for the one before it;
    /// `known`: they begin at the identity. Picks may begin at the initial values each.
    fn sets(&self, known: bool) -> u32 {
        let words: usize = self.spec.outputs.iter().map(|o| o.dtype.components()).sum();
        let rows = self.spec.rows / self.ctx.sublanes;
        let few = u64::from(rows) * u64::from(self.unrolled_tiles()) < UNROLLED_POINTS;
        let free = self.pick.is_some() || (known && each_alone(&self.body));
        if few || !free { 1 } else { (MOST_SETS / words.max(1) as u32).clamp(1, SETS) }
    }

    /// Tiles of columns that are reduced in one body.
    fn unrolled_tiles(&self) -> u32 {
        let few = self.spec.reduce_columns && u64::from(self.ctx.tiles) <= UNROLLED_POINTS / 2;
        if few { self.ctx.tiles } else { 1 }
    }

    fn rows(&self, b: &mut KernelBuilder, at: &At, inits: &[Value], sets: &[Vec<Value>]) {
        let sub = self.ctx.sublanes;
        let (full, rest) = (self.spec.rows / sub, self.spec.rows % sub);
        let d = self.ctx.spec.outer.len();
        let own: Vec<Affine> = at.regs.iter().map(|a| a.fork(b, d)).collect();
        // As many rows' registers as give every set its turn.
        let tiles = self.unrolled_tiles();
        let together = (sets.len() as u32).div_ceil(tiles);
        let take = |b: &mut KernelBuilder, i: u32, mask: M| {
            let at = At { regs: &own, block: i64::from(i), ..*at };
            let turn = |_, tile| &sets[(i * tiles + tile) as usize % sets.len()];
            self.columns(b, (&[at], &[Memo::default()]), inits, &turn, mask);
        };
        // Of few blocks many times over the loop around them is the innermost one, in which neighbours overlap.
        let written_out = full <= FEW_BLOCKS && self.kept > 0;
        let left = if written_out { full } else { full % together };
        if full > left {
            b.loop_static(full / together, |b| {
                (0..together).for_each(|i| take(b, i, M::ALL));
                step(b, &own, |a| a.row * i64::from(together * sub));
            });
        }
        (0..left).for_each(|i| take(b, i, M::ALL));
        if rest > 0 {
            let mask = b.sublanes_below(rest);
            take(b, left, mask);
        }
    }

    /// Takes all columns at places, of which some values are known, into the accumulators of each place and tile.
    fn columns<'v>(
        &self,
        b: &mut KernelBuilder,
        (places, still): (&[At], &[Memo]),
        inits: &[Value],
        acc: &dyn Fn(usize, u32) -> &'v Vec<Value>,
        rows: M,
    ) {
        let all = |b: &mut KernelBuilder, tile_loop: Option<&TileRegs>, tile: u32, columns: M| {
            let mut memo = Memo::default();
            for (i, at) in places.iter().enumerate() {
                memo.extend(still[i].iter().map(|(&of, &value)| (of, value)));
                let at = At { tile_loop: tile_loop.or(at.tile_loop), ..*at };
                self.column(b, (&at, tile), (acc(i, tile), inits), (rows, columns), &mut memo);
                self.hand_on(places, i, &mut memo);
            }
        };
        let tiles = if self.spec.reduce_columns { self.ctx.tiles } else { 1 };
        if tiles as u64 <= UNROLLED_POINTS / 2 {
            for t in 0..tiles {
                let mask = self.column_mask(b, t);
                all(b, None, t, mask);
            }
            return;
        }
        let Some(first) = places.first() else { return };
        let partial = self.spec.columns % self.ctx.lanes;
        let full = if partial == 0 { tiles } else { tiles - 1 };
        let hints = LoopHints::default();
        let regs = self.ctx.tile_loop(b, first, (full, 0), hints, &mut |b, regs| all(b, Some(regs), 0, M::ALL));
        if partial > 0 {
            let mask = b.lanes_below(partial);
            all(b, Some(&regs), 0, mask);
        }
    }

    /// Takes a tile of columns at a place into its accumulators, which began at `inits`; only rows and columns of masks count.
    fn column(
        &self,
        b: &mut KernelBuilder,
        at: (&At, u32),
        (acc, inits): (&[Value], &[Value]),
        (rows, columns): (M, M),
        memo: &mut Memo,
    ) {
        if rows == M::ALL && columns == M::ALL {
            return self.take(b, at, acc, memo);
        }
        let x = self.values(b, at.0, at.1, memo);
        let mask = if rows == M::ALL {
            columns
        } else if columns == M::ALL {
            rows
        } else {
            b.m_and(rows, columns)
        };
        let x = self.masked(b, x, inits, mask);
        self.accumulate(b, acc, &x);
    }
}

/// Indices of point `p` of the dimensions from `from` on, in row-major order; those before are as given, or 0.
fn point_of(sizes: &[u32], from: usize, p: u64, before: &[i64]) -> Vec<i64> {
    let mut indices = vec![0; sizes.len()];
    indices[..before.len().min(from)].copy_from_slice(&before[..before.len().min(from)]);
    let mut rest = p;
    for d in (from..sizes.len()).rev() {
        indices[d] = (rest % u64::from(sizes[d])) as i64;
        rest /= u64::from(sizes[d]);
    }
    indices
}
