//! Kernels of elementwise operations and reductions along lanes: [`LoopSpec`] to a [`Kernel`].
//!
//! Without lane reductions, tiles become an outer dimension and the rows are the inner loop. With them, a body handles all
//! tiles of a row block when they are few (one pipelined loop over the row blocks); else each stage between reductions
//! is a loop over the tiles of its own ([`super::staged`]).

use super::address::{Affine, nest, step};
use super::bases::Bases;
use super::eval::{emit_body, emit_node, map_words, neutral, select_mask, widen_body, widened};
use super::lanes::crosses;
use super::pick::{Pick, combine_lanes};
use super::simplify::{fill_rows, merge};
use super::spec::{Access, ExprId, ExprOp, Input, LaneMap, LoopSpec, Reduction};
use super::staged::{Staging, TileRegs, column_free, is_staged, masks_crowd};
use super::tiled::tile_outermost;
use crate::emit::elementwise;
use crate::emit::memory::{Place, load_value, store_value};
use crate::emit::value::Value;
use crate::kernel::LoopHints;
use crate::kernel::{BufferRef, Kernel, KernelBuilder, S, Trips, V};
use rustc_hash::FxHashMap;
use systole_isa::{ChipConfig, DType, Op};

/// Row loops of fewer blocks than this are unrolled into the loop around them.
const SHORT_ROWS: u32 = 4;
/// Most vector registers of row-invariant values kept across the row loop.
const HOISTED: usize = 10;

/// Marks a tile of an input in a [`Memo`] as it is before its lanes meet those of its neighbour.
pub(super) const TURNED: u32 = 1 << 31;
/// Most nodes of an expression that neighbouring tiles compute in one body, and most of these tiles.
const BESIDE: usize = 192;
const NEIGHBOURS: u32 = 8;

/// The kernel of a spec. Parameters: one register for each input (element-row base address, or the scalar's value), then
/// one for each output, then the first word row of the scratch area if it has one ([`super::scratch_rows`]).
pub fn loop_kernel(spec: &LoopSpec, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("loop", chip);
    let mut bases = Bases::params(&mut b, spec.inputs.len() + spec.outputs.len());
    if super::scratch_rows(spec, chip) > 0 {
        bases.scratch = Some((b.param(), b.buffer()));
    }
    emit_loop(&mut b, spec, &bases);
    b.finish()
}

/// Appends the code of a spec.
pub fn emit_loop(b: &mut KernelBuilder, spec: &LoopSpec, bases: &Bases) {
    let mut spec = spec.clone();
    flatten(&mut spec, b.shape());
    for spec in &columns_apart(spec, b.shape().1) {
        let ctx = Context::new(b, spec, bases);
        let regs = ctx.affine.clone();
        nest(b, &spec.outer, 0, &regs, &mut |b, regs| ctx.rows(b, regs));
    }
}

/// Brings a spec into the form that code is made from: dimensions merged, and tiles an outer dimension where no reduction
/// needs them together, and registers filled.
pub fn flatten(spec: &mut LoopSpec, (sublanes, lanes): (u32, u32)) {
    merge(spec, lanes);
    let tiles = spec.columns.div_ceil(lanes);
    // Neighbouring tiles share what is shifted between them.
    if spec.expr.reductions.is_empty() && tiles > 1 && !spec.is_shifted() {
        tiles_to_outer(spec, tiles, lanes);
    }
    fill_rows(spec, sublanes);
}

/// A flat spec whose inputs are shifted along lanes as one for groups of tiles that are done together, and one for the last of them, behind
/// which there may be nothing to read; any other as it is.
fn columns_apart(spec: LoopSpec, lanes: u32) -> Vec<LoopSpec> {
    let tiles = spec.columns.div_ceil(lanes);
    let most = ((BESIDE / spec.expr.nodes.len().max(1)) as u32).clamp(1, NEIGHBOURS);
    if !spec.is_shifted() || !spec.expr.reductions.is_empty() || tiles <= most {
        return vec![spec];
    }
    let count = (tiles - 1) / most;
    let (mut groups, mut last) = (spec.clone(), spec);
    groups.outer.insert(0, count);
    groups.columns = most * lanes;
    last.columns -= count * most * lanes;
    let (size, before) = (i64::from(most), i64::from(count * most));
    let apart = |a: &mut Access, b: &mut Access| {
        let step = match a.lane {
            LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => tile_rows,
            LaneMap::Replicated | LaneMap::Indexed { .. } => 0,
        };
        a.outer.insert(0, step * size);
        if let LaneMap::Indexed { index, .. } = &mut a.lane {
            index.outer.insert(0, 0);
        }
        b.offset += step * before;
    };
    for pair in groups.inputs.iter_mut().zip(&mut last.inputs) {
        if let (Input::Array(a), Input::Array(b)) = pair {
            apart(a, b);
        }
    }
    for (a, b) in groups.outputs.iter_mut().zip(&mut last.outputs) {
        apart(&mut a.access, &mut b.access);
    }
    for (a, b) in groups.expr.nodes.iter_mut().zip(&mut last.expr.nodes) {
        if let (ExprOp::Index(a), ExprOp::Index(b)) = (&mut a.op, &mut b.op) {
            a.outer.insert(0, a.column * size * i64::from(lanes));
            b.offset += b.column * before * i64::from(lanes);
        }
    }
    vec![groups, last]
}

/// Makes the tiles the outermost dimension.
pub(super) fn tiles_to_outer(spec: &mut LoopSpec, tiles: u32, lanes: u32) {
    spec.outer.insert(0, tiles);
    for i in &mut spec.inputs {
        if let Input::Array(a) = i {
            tile_outermost(a);
        }
    }
    for o in &mut spec.outputs {
        tile_outermost(&mut o.access);
    }
    for n in &mut spec.expr.nodes {
        if let ExprOp::Index(i) = &mut n.op {
            i.outer.insert(0, i.column * lanes as i64);
        }
    }
    spec.columns = spec.columns.min(lanes);
}

/// What stays the same through the loop nest.
pub(super) struct Context<'a> {
    pub(super) spec: &'a LoopSpec,
    pub(super) lanes: u32,
    pub(super) sublanes: u32,
    pub(super) tiles: u32,
    /// Affine registers: inputs' pointers, outputs' pointers, then lane-index functions and index nodes.
    pub(super) affine: Vec<Affine>,
    pub(super) input_reg: Vec<usize>,
    pub(super) output_reg: Vec<usize>,
    lane_reg: FxHashMap<usize, usize>,
    output_lane_reg: FxHashMap<usize, usize>,
    index_reg: FxHashMap<ExprId, usize>,
    scalars: FxHashMap<usize, S>,
    buffers: Vec<BufferRef>,
    pub(super) outputs: Vec<BufferRef>,
    /// Whether a node's value is the same in every column / row.
    pub(super) column_free: Vec<bool>,
    pub(super) row_free: Vec<bool>,
    /// Which nodes are made anew behind each reduction along lanes rather than kept in the few registers for masks through it.
    remade: Vec<bool>,
    /// How row blocks of many tiles are done.
    pub(super) staging: Staging,
}

/// Values that have been computed at the current place.
pub(super) type Memo = FxHashMap<(ExprId, u32), Value>;

/// The current place: registers, row block within an unrolled body, and how tiles are addressed.
pub(super) struct At<'r> {
    pub(super) regs: &'r [Affine],
    pub(super) block: i64,
    /// Rows that exist in this block.
    pub(super) rows: u32,
    /// Registers of a loop over tiles (tile number 0 is then relative): pointers by input and output, and the column.
    pub(super) tile_loop: Option<&'r TileRegs>,
    /// Indices of outer dimensions that are unrolled rather than stepped in the registers (empty: none).
    pub(super) fixed: &'r [i64],
    /// Number among the row blocks that are done together.
    pub(super) member: u32,
}

impl<'r> At<'r> {
    /// The first block of `rows` rows at the registers.
    pub(super) fn start(regs: &'r [Affine], rows: u32) -> At<'r> {
        At { regs, block: 0, rows, tile_loop: None, fixed: &[], member: 0 }
    }

    /// Steps of an affine function that its register does not hold.
    fn unrolled(&self, a: &Affine, sublanes: u32) -> i64 {
        let fixed: i64 = a.outer.iter().zip(self.fixed).map(|(c, i)| c * i).sum();
        a.offset + fixed + self.block * sublanes as i64 * a.row
    }
}

impl<'a> Context<'a> {
    pub(super) fn new(b: &mut KernelBuilder, spec: &'a LoopSpec, bases: &Bases) -> Context<'a> {
        let (sublanes, lanes) = b.shape();
        let mut c = Context {
            spec,
            lanes,
            sublanes,
            tiles: spec.columns.div_ceil(lanes),
            affine: Vec::new(),
            input_reg: Vec::new(),
            output_reg: Vec::new(),
            lane_reg: FxHashMap::default(),
            output_lane_reg: FxHashMap::default(),
            index_reg: FxHashMap::default(),
            scalars: FxHashMap::default(),
            buffers: Vec::new(),
            outputs: Vec::new(),
            column_free: column_free(spec),
            row_free: Vec::new(),
            remade: Vec::new(),
            staging: Staging::of(b, spec, bases.scratch),
        };
        for (i, input) in spec.inputs.iter().enumerate() {
            let (base, buffer) = bases.args[i];
            c.buffers.push(buffer);
            c.input_reg.push(c.affine.len());
            match input {
                Input::Array(a) => {
                    c.affine.push(Affine::pointer(base, &a.outer, a.row, a.offset));
                    if let LaneMap::Indexed { index, .. } = &a.lane {
                        c.lane_reg.insert(i, c.affine.len());
                        c.affine.push(Affine::index(index, bases.lane.get(&i).copied()));
                    }
                }
                Input::Scalar(_) => {
                    c.scalars.insert(i, base);
                }
            }
        }
        for (i, (o, &(base, buffer))) in spec.outputs.iter().zip(&bases.args[spec.inputs.len()..]).enumerate() {
            c.outputs.push(buffer);
            c.output_reg.push(c.affine.len());
            c.affine.push(Affine::pointer(base, &o.access.outer, o.access.row, o.access.offset));
            if let LaneMap::Indexed { index, .. } = &o.access.lane {
                c.output_lane_reg.insert(i, c.affine.len());
                c.affine.push(Affine::index(index, None));
            }
        }
        for (i, n) in spec.expr.nodes.iter().enumerate() {
            if let ExprOp::Index(index) = &n.op {
                c.index_reg.insert(i as ExprId, c.affine.len());
                c.affine.push(Affine::index(index, bases.index.get(&(i as ExprId)).copied()));
            }
        }
        c.classify();
        if !masks_crowd(b, spec, &c.remade, c.tiles) {
            c.remade.fill(false);
        }
        c
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "what is computed varies as its operands do")]
    fn classify(&mut self) {
        for n in &self.spec.expr.nodes {
            let all = |v: &[bool]| n.args.iter().all(|&a| v[a as usize]);
            let row = match &n.op {
                ExprOp::Input(i) => match &self.spec.inputs[*i as usize] {
                    Input::Scalar(_) => true,
                    Input::Array(a) => match &a.lane {
                        LaneMap::Tile { .. } | LaneMap::Shifted { .. } | LaneMap::Replicated => a.row == 0,
                        LaneMap::Indexed { index, .. } => a.row == 0 && index.row == 0,
                    },
                },
                ExprOp::Index(i) => i.row == 0,
                ExprOp::LaneReduce(r, _) => {
                    let r = &self.spec.expr.reductions[*r as usize];
                    r.args.iter().chain(&r.inits).all(|&a| self.row_free[a as usize])
                }
                _ => all(&self.row_free),
            };
            self.row_free.push(row);
            let leaf = |a: ExprId| {
                let arg = &self.spec.expr.nodes[a as usize];
                self.column_free[a as usize] || self.row_free[a as usize] || matches!(arg.op, ExprOp::Const(_))
            };
            let again = match &n.op {
                ExprOp::Input(_) => n.dtype == DType::Pred,
                ExprOp::Index(_) => true,
                ExprOp::Compare(..) | ExprOp::Binary(_) | ExprOp::Unary(_) => {
                    n.dtype == DType::Pred && n.args.iter().all(|&a| leaf(a) || self.remade[a as usize])
                }
                _ => false,
            };
            self.remade.push(again && !row && !self.column_free[self.remade.len()]);
        }
    }

    /// The loop over row blocks.
    fn rows(&self, b: &mut KernelBuilder, regs: &[Affine]) {
        let d = self.spec.outer.len();
        let own: Vec<Affine> = regs.iter().map(|a| a.fork(b, d)).collect();
        let sub = self.sublanes;
        let full = self.spec.rows / sub;
        // Rows that nothing follows may be written past their end (into padding); others must be masked.
        let exact = self.spec.outer.iter().all(|&s| s == 1) || self.spec.rows.is_multiple_of(sub);
        let blocks = if exact { self.spec.rows.div_ceil(sub) } else { full };
        let rest = if exact { 0 } else { self.spec.rows % sub };
        if is_staged(self.spec, self.lanes) {
            let last = (rest > 0).then(|| At { block: i64::from(blocks), ..At::start(&own, rest) });
            return self.staged_rows(b, &own, blocks, last);
        }
        // Blocks of several tiles are long by themselves.
        let short = if self.spec.is_shifted() { 1 } else { SHORT_ROWS };
        if blocks > short {
            let hoisted = self.hoist(b, &own);
            let hints = LoopHints::independent(&self.outputs);
            b.loop_with(Trips::Static(blocks), hints, |b| {
                self.block(b, &At::start(&own, sub), &hoisted);
                step(b, &own, |a| a.row * sub as i64);
            });
            if rest > 0 {
                self.block(b, &At::start(&own, rest), &hoisted);
            }
        } else {
            let hoisted = self.hoist(b, regs);
            for i in 0..blocks {
                self.block(b, &At { block: i as i64, ..At::start(regs, sub) }, &hoisted);
            }
            if rest > 0 {
                self.block(b, &At { block: blocks as i64, ..At::start(regs, rest) }, &hoisted);
            }
        }
    }

    /// Values that no row changes, computed before the row loop (as many as registers allow).
    pub(super) fn hoist(&self, b: &mut KernelBuilder, regs: &[Affine]) -> Memo {
        let mut memo = Memo::default();
        let at = At::start(regs, self.sublanes);
        let mut used = 0;
        let mut wanted: Vec<ExprId> = Vec::new();
        for (i, n) in self.spec.expr.nodes.iter().enumerate() {
            if !self.row_free[i] {
                wanted.extend(n.args.iter().filter(|&&a| self.row_free[a as usize]));
                if let ExprOp::LaneReduce(r, _) = n.op {
                    let r = &self.spec.expr.reductions[r as usize];
                    wanted.extend(r.args.iter().chain(&r.inits).filter(|&&a| self.row_free[a as usize]));
                }
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        for id in wanted {
            if matches!(self.spec.expr.nodes[id as usize].op, ExprOp::Const(_)) {
                continue;
            }
            let tiles = if self.column_free[id as usize] { 1 } else { self.tiles };
            used += tiles as usize * self.spec.expr.nodes[id as usize].dtype.components();
            if used > HOISTED {
                break;
            }
            for t in 0..tiles {
                self.eval(b, &at, id, t, &mut memo);
            }
        }
        memo
    }

    /// One row block: all outputs.
    pub(super) fn block(&self, b: &mut KernelBuilder, at: &At, hoisted: &Memo) {
        let mut memo = hoisted.clone();
        for (i, o) in self.spec.outputs.iter().enumerate() {
            for t in 0..self.output_tiles(i) {
                let v = self.eval(b, at, o.node, t, &mut memo);
                self.store(b, at, i, t, &v);
            }
        }
    }

    pub(super) fn output_tiles(&self, i: usize) -> u32 {
        match self.spec.outputs[i].access.lane {
            LaneMap::Tile { .. } | LaneMap::Shifted { .. } => self.tiles,
            LaneMap::Replicated | LaneMap::Indexed { .. } => 1,
        }
    }

    /// Records the results of reduction `r`, whose first node is `id`.
    pub(super) fn remember(
        &self,
        b: &mut KernelBuilder,
        id: ExprId,
        r: u32,
        wide: bool,
        result: Vec<Value>,
        memo: &mut Memo,
    ) {
        for (i, n) in self.spec.expr.nodes.iter().enumerate().skip(id as usize) {
            if let ExprOp::LaneReduce(r2, k) = n.op
                && r2 == r
            {
                let v = if wide { elementwise::convert(b, &result[k as usize], n.dtype) } else { result[k as usize] };
                memo.insert((i as ExprId, 0), v);
            }
        }
    }

    /// The value of a node at a tile.
    #[allow(clippy::wildcard_enum_match_arm, reason = "leaves are known, everything else is computed")]
    pub(super) fn eval(&self, b: &mut KernelBuilder, at: &At, id: ExprId, tile: u32, memo: &mut Memo) -> Value {
        let tile = if self.column_free[id as usize] { 0 } else { tile };
        if let Some(v) = memo.get(&(id, tile)) {
            return *v;
        }
        if let Some(v) = at.tile_loop.and_then(|t| self.staging.kept_before(b, id, at, t)) {
            let v = Value::word(self.spec.expr.nodes[id as usize].dtype, v);
            memo.insert((id, tile), v);
            return v;
        }
        let node = &self.spec.expr.nodes[id as usize];
        let value = match &node.op {
            ExprOp::Input(i) => match &self.spec.inputs[*i as usize] {
                Input::Array(Access { lane: LaneMap::Shifted { lanes, .. }, .. }) => {
                    self.load_shifted(b, at, (id, *i as usize, *lanes), tile, memo)
                }
                Input::Array(_) | Input::Scalar(_) => self.load(b, at, *i as usize, tile),
            },
            ExprOp::Index(index) => {
                let a = &at.regs[self.index_reg[&id]];
                let column = index.column != 0;
                let v = self.index_vector(b, at, a, index.row, if column { Some(tile) } else { None });
                elementwise::convert(b, &Value::word(DType::S32, v), node.dtype)
            }
            ExprOp::LaneReduce(r, _) => {
                self.unrolled_reduction(b, at, id, *r, memo);
                memo[&(id, 0)]
            }
            _ => {
                let args: smallvec::SmallVec<[Value; 3]> =
                    node.args.iter().map(|&a| self.eval(b, at, a, tile, memo)).collect();
                emit_node(b, node, &args)
            }
        };
        memo.insert((id, tile), value);
        value
    }

    /// row, column and outer indices combined: an s32 vector.
    fn index_vector(&self, b: &mut KernelBuilder, at: &At, a: &Affine, row: i64, tile: Option<u32>) -> V {
        let constant = at.unrolled(a, self.sublanes) + tile.map_or(0, |t| (t * self.lanes) as i64);
        let base = if constant == 0 { a.reg } else { b.s_addi(a.reg, constant as i32) };
        let base = match (tile, at.tile_loop) {
            (Some(_), Some(regs)) => b.s(Op::SAdd, &[base, regs.column]),
            _ => base,
        };
        let mut v = if base == S::ZERO { b.v_imm(0) } else { b.splat(base) };
        if row != 0 {
            let mut s = b.sublane();
            if row != 1 {
                let k = b.v_imm(row as i32);
                s = b.v(Op::VMulI, &[s, k]);
            }
            v = b.v(Op::VAddI, &[v, s]);
        }
        if tile.is_some() {
            let lane = b.lane();
            v = b.v(Op::VAddI, &[v, lane]);
        }
        v
    }

    /// The pick that a reduction along lanes is: its tiles are taken one after the other.
    pub(super) fn pick(&self, red: &Reduction) -> Option<Pick> {
        Pick::of(red, &self.spec.expr.nodes, |_| true)
    }

    /// All tiles combined, then all lanes.
    fn unrolled_reduction(&self, b: &mut KernelBuilder, at: &At, id: ExprId, r: u32, memo: &mut Memo) {
        let red = &self.spec.expr.reductions[r as usize];
        let wide = widened(red, &self.spec.expr.nodes);
        let body = if wide { widen_body(&red.body) } else { red.body.clone() };
        let widen = |v: Value| if wide { v.retyped(DType::F32) } else { v };
        let inits: Vec<Value> = red.inits.iter().map(|&i| widen(self.eval(b, at, i, 0, memo))).collect();
        let (neutral, _) = neutral(b, &body, &inits);
        let pick = self.pick(red);
        let mut acc: Option<Vec<Value>> = None;
        for t in 0..self.tiles {
            let valid = (self.spec.columns - t * self.lanes).min(self.lanes);
            let mask = b.lanes_below(valid);
            let mut x = Vec::new();
            for (&a, init) in red.args.iter().zip(&neutral) {
                let v = widen(self.eval(b, at, a, t, memo));
                x.push(select_mask(b, mask, &v, init));
            }
            acc = Some(match acc {
                None => x,
                Some(acc) => match pick {
                    Some(pick) => pick.later(b, &acc, &x),
                    None => emit_body(b, &body, &acc, &x),
                },
            });
        }
        let acc = acc.unwrap_or_else(|| inits.clone());
        let lanes = combine_lanes(b, (&body, pick), &acc);
        let result = emit_body(b, &body, &inits, &lanes);
        memo.retain(|(i, _), _| !self.remade[*i as usize]);
        self.remember(b, id, r, wide, result, memo);
    }

    fn place(&self, at: &At, reg: usize, buf: BufferRef, access: &Access, tile: u32, own: Option<S>) -> Place {
        let a = &at.regs[reg];
        let tile_rows = match access.lane {
            LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => tile_rows * tile as i64,
            LaneMap::Replicated | LaneMap::Indexed { .. } => 0,
        };
        Place {
            base: own.unwrap_or(a.reg),
            offset: (at.unrolled(a, self.sublanes) + tile_rows) as i32,
            stride: access.row as i32,
            buf,
            component_rows: access.component_rows as i32,
        }
    }

    pub(super) fn load(&self, b: &mut KernelBuilder, at: &At, i: usize, tile: u32) -> Value {
        let access = match &self.spec.inputs[i] {
            Input::Array(a) => a,
            Input::Scalar(dtype) => {
                let v = b.splat(self.scalars[&i]);
                return crate::emit::memory::from_memory(b, *dtype, &[v]);
            }
        };
        let own = |t: &TileRegs| t.inputs[i];
        let place = self.place(at, self.input_reg[i], self.buffers[i], access, tile, at.tile_loop.map(own));
        let LaneMap::Indexed { index, plane_rows } = &access.lane else {
            return load_value(b, access.dtype, place);
        };
        let a = &at.regs[self.lane_reg[&i]];
        let constant = at.unrolled(a, self.sublanes);
        let mask = self.lanes as i32 - 1;
        let l = (a.reg != S::ZERO).then(|| b.s_addi(a.reg, constant as i32));
        let lane = match l {
            None => b.v_imm(constant as i32 & mask),
            Some(l) => {
                let low = b.def_s(Op::SAndI, &[l.into(), mask.into()]);
                b.splat(low)
            }
        };
        let idx = if index.row != 0 {
            let mut s = b.sublane();
            if index.row != 1 {
                let k = b.v_imm(index.row as i32);
                s = b.v(Op::VMulI, &[s, k]);
            }
            b.v(Op::VAddI, &[lane, s])
        } else {
            lane
        };
        let first = self.plane(b, place, (l, constant, 0), *plane_rows);
        let v = load_value(b, access.dtype, first);
        if !crosses(index, self.sublanes) {
            return map_words(b, &v, |b, w| b.def_v(Op::XPermLane, &[w.into(), idx.into()]));
        }
        // The lanes of a register's last rows are in the next plane.
        let more = index.row * i64::from(self.sublanes - 1);
        let last = self.plane(b, place, (l, constant, more), *plane_rows);
        let behind = load_value(b, access.dtype, last);
        let within = b.v_imm(mask);
        let (low, lanes) = (b.v(Op::VAnd, &[idx, within]), b.v_imm(mask + 1));
        let turned =
            |b: &mut KernelBuilder, v: &Value| map_words(b, v, |b, w| b.def_v(Op::XPermLane, &[w.into(), low.into()]));
        let (own, behind) = (turned(b, &v), turned(b, &behind));
        let own_lanes = b.cmp(Op::VLtS, idx, lanes);
        select_mask(b, own_lanes, &own, &behind)
    }

    /// Where output `i` lies at this point, and the lane position of one whose lane is indexed.
    pub(super) fn output_place(&self, at: &At, i: usize) -> Place {
        self.place(at, self.output_reg[i], self.outputs[i], &self.spec.outputs[i].access, 0, None)
    }

    pub(super) fn output_lane(&self, b: &mut KernelBuilder, at: &At, i: usize) -> S {
        let a = &at.regs[self.output_lane_reg[&i]];
        b.s_addi(a.reg, at.unrolled(a, self.sublanes) as i32)
    }

    /// What an output holds at this point.
    pub(super) fn stored(&self, b: &mut KernelBuilder, at: &At, i: usize) -> Value {
        let access = &self.spec.outputs[i].access;
        load_value(b, access.dtype, self.place(at, self.output_reg[i], self.outputs[i], access, 0, None))
    }

    pub(super) fn store(&self, b: &mut KernelBuilder, at: &At, i: usize, tile: u32, value: &Value) {
        let access = &self.spec.outputs[i].access;
        let own = |t: &TileRegs| t.outputs[i];
        let place = self.place(at, self.output_reg[i], self.outputs[i], access, tile, at.tile_loop.map(own));
        let rows = if access.row == 0 { 1 } else { at.rows };
        let mask = b.sublanes_below(rows);
        store_value(b, value, place, mask);
    }
}
