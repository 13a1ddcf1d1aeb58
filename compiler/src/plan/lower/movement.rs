//! Data movement: views where nothing moves, move kernels where something does.

mod joined;

use super::moving::{Position, is_multiple, known_start, move_spec, refine, scatters_lanes};
use super::{Cut, Lower, Region, Val};
use crate::plan::group::Owner;
use crate::plan::step::{Arg, ScalarOp, Step, Unit, Use, Word};
use crate::plan::view::{BufId, Form, View};
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::loops::spec::{Expr, ExprNode, ExprOp, Input, LaneMap, LoopSpec, Output};
use systole_codegen::emit::moves::spec::MoveSpec;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, NodeId, Op, PadDim};
use systole_isa::DType;

/// The part of vector memory from which on an array stays in HBM where only so small a part of it (one in `.1`) is updated.
const PART: (u64, u64) = (2, 5);

/// What a move does to its destination.
#[derive(Clone, Copy)]
struct Target {
    /// `Write`: every element is written; `Update`: the others keep their value.
    usage: Use,
    op: u32,
    /// See [`Lower::is_result`].
    result: bool,
}

impl<'a> Lower<'a> {
    /// Appends a move between two buffers; `Use::Write` if it writes every element, else `Use::Update`.
    pub fn push_move(&mut self, spec: MoveSpec, src: BufId, (dst, usage): (BufId, Use), name: &str) {
        let op = self.named_op(name, "copy");
        self.push_move_dynamic(
            spec,
            (src, Vec::new()),
            (dst, Vec::new()),
            [None, None],
            Target { usage, op, result: false },
        );
    }

    /// Appends a move whose sides start at dynamic element rows (`(word, rows)` terms) and lanes.
    fn push_move_dynamic(
        &mut self,
        spec: MoveSpec,
        src: (BufId, Vec<(Word, i64)>),
        dst: (BufId, Vec<(Word, i64)>),
        lanes: [Option<Word>; 2],
        to: Target,
    ) {
        if spec.sizes.contains(&0) {
            return;
        }
        let array = |(buf, dynamic): (BufId, Vec<(Word, i64)>), usage| Arg::Array {
            buf,
            usage,
            unit: Unit::ElementRows,
            offset: 0,
            dynamic,
        };
        let mut args = vec![array(src, Use::Read), array(dst, to.usage)];
        args.extend(lanes.iter().flatten().map(|w| Arg::Scalar(*w)));
        self.push_body(Body::Move(spec), args, "move", to.op, &[to.result]);
    }

    /// A node's array moved into a new one: sizes of the iteration and the positions of both.
    pub(super) fn moved(
        &mut self,
        r: &Region<'a>,
        id: NodeId,
        src: &View,
        sizes: &[u64],
        from: &Position,
        to: &Position,
    ) -> Val {
        let (dtype, dims) = self.shape(r, id);
        let dst = self.array(&r.comp.node(id).name, dtype, &dims, Form::Lanes);
        let spec = move_spec(sizes, src, from, &dst, to);
        let to = Target { usage: Use::Write, op: self.debug_op(r, id, 0.0), result: self.is_result(r, id) };
        self.push_move_dynamic(spec, (src.buf, Vec::new()), (dst.buf, Vec::new()), [None, None], to);
        Val::Array(dst)
    }

    /// A slice as an array of its own.
    pub fn moved_cut(&mut self, c: &Cut, name: &str) -> View {
        let dst = self.array(name, c.source.dtype(), &c.dims, Form::Lanes);
        let n = c.dims.len();
        let mut from = Position::identity(n);
        from.dims.splice(0..0, vec![(Vec::new(), 0); c.source.dims.len() - n]);
        let spec = move_spec(&c.dims, &c.source, &from, &dst, &Position::identity(n));
        let to = Target { usage: Use::Write, op: self.named_op(name, "dynamic-slice"), result: false };
        self.push_move_dynamic(spec, (c.source.buf, c.start.clone()), (dst.buf, Vec::new()), [None, None], to);
        dst
    }

    /// A transpose, of a slice where it lies; `at` says which dimension of the result each of the operand's is.
    fn transpose(&mut self, r: &mut Region<'a>, id: NodeId, at: &[usize]) -> Val {
        let operand = r.comp.node(id).operands[0];
        if r.groups.owner[operand.index()] == Owner::Inline {
            return self.split_transpose(r, id, at);
        }
        let (src, start) = match r.cuts[operand.index()].clone() {
            Some(c) => (c.source, c.start),
            None => (self.lanes(r, operand), Vec::new()),
        };
        let within = src.dims.len() - at.len();
        if within == 0
            && let Some(done) = self.merged_transpose(r, id, &src, at)
        {
            return done;
        }
        let (dtype, dims) = self.shape(r, id);
        let mut from = Position::permuted(at);
        from.dims.splice(0..0, vec![(Vec::new(), 0); within]);
        let dst = self.array(&r.comp.node(id).name, dtype, &dims, Form::Lanes);
        let spec = move_spec(&dims, &src, &from, &dst, &Position::identity(dims.len()));
        let to = Target { usage: Use::Write, op: self.debug_op(r, id, 0.0), result: self.is_result(r, id) };
        self.push_move_dynamic(spec, (src.buf, start), (dst.buf, Vec::new()), [None, None], to);
        Val::Array(dst)
    }

    fn shape(&self, r: &Region<'a>, id: NodeId) -> (systole_isa::DType, Vec<u64>) {
        let a = r.comp.node(id).shape.as_array().expect("movement makes arrays");
        (a.dtype, a.dims.clone())
    }

    /// Every other operation: data movement, then what has no lowering.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the operations of one family; no other comes here")]
    pub fn movement(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        match &node.op {
            Op::Reshape => self.reshape(r, id),
            Op::Copy => self.copy(r, id),
            Op::Transpose { permutation } => {
                let mut at = vec![0; permutation.len()];
                for (i, &p) in permutation.iter().enumerate() {
                    at[p] = i;
                }
                Ok(self.transpose(r, id, &at))
            }
            Op::Reverse { dims: reversed } => {
                let src = self.lanes(r, node.operands[0]);
                let (_, dims) = self.shape(r, id);
                let mut from = Position::identity(dims.len());
                for &d in reversed {
                    from.dims[d] = (vec![(d, -1)], dims[d] as i64 - 1);
                }
                Ok(self.moved(r, id, &src, &dims, &from, &Position::identity(dims.len())))
            }
            Op::Slice { dims: slice } => {
                let src = self.lanes(r, node.operands[0]);
                let (_, dims) = self.shape(r, id);
                let mut from = Position::identity(dims.len());
                for (d, s) in slice.iter().enumerate() {
                    from.dims[d] = (vec![(d, s.stride as i64)], s.start as i64);
                }
                Ok(self.moved(r, id, &src, &dims, &from, &Position::identity(dims.len())))
            }
            Op::Concatenate { dim } => self.concatenate(r, id, *dim),
            Op::Pad { .. } => self.pad(r, id),
            Op::DynamicSlice { .. } => self.dynamic_slice(r, id),
            Op::DynamicUpdateSlice => self.dynamic_update_slice(r, id),
            _ => Err(self.no_lowering(r.comp, id)),
        }
    }

    /// A transpose that only a reshape reads, moved to where the reshape wants its elements: small dimensions on the way
    /// take no registers of their own. `at` says which dimension of the transpose each of the source's is.
    fn merged_transpose(&mut self, r: &Region<'a>, id: NodeId, src: &View, at: &[usize]) -> Option<Val> {
        let (user, merged) = self.merging_reshape(r, id)?;
        let (dtype, dims) = self.shape(r, id);
        let (sizes, middle, to) = refine(&dims, &merged)?;
        let from = Position { dims: at.iter().map(|&d| middle.dims[d].clone()).collect() };
        let dst = self.array(&r.comp.node(id).name, dtype, &merged, Form::Lanes);
        let spec = move_spec(&sizes, src, &from, &dst, &to);
        if scatters_lanes(&spec) {
            return None;
        }
        self.push_merged(r, (id, user), spec, (src.buf, dst.buf));
        // The reshape goes by the layout.
        Some(Val::Array(View { dims, ..dst }))
    }

    /// The reshape that alone reads a node and has fewer dimensions, and its sizes.
    pub(super) fn merging_reshape(&self, r: &Region<'a>, id: NodeId) -> Option<(NodeId, Vec<u64>)> {
        let &[user] = &r.groups.users[id.index()][..] else { return None };
        let is_reshape = matches!(r.comp.node(user).op, Op::Reshape) && r.groups.is_root(user) && r.comp.root != id;
        let merged = r.comp.node(user).shape.as_array().filter(|_| is_reshape)?.dims.clone();
        (merged.len() < r.comp.node(id).shape.as_array()?.dims.len()).then_some((user, merged))
    }

    /// Appends the move of a node to where the reshape that reads it wants its elements.
    pub(super) fn push_merged(
        &mut self,
        r: &Region<'a>,
        (id, user): (NodeId, NodeId),
        spec: MoveSpec,
        (src, dst): (BufId, BufId),
    ) {
        let target = Target { usage: Use::Write, op: self.debug_op(r, id, 0.0), result: self.is_result(r, user) };
        self.push_move_dynamic(spec, (src, Vec::new()), (dst, Vec::new()), [None, None], target);
    }

    fn reshape(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let (_, dims) = self.shape(r, id);
        if r.groups.repeated.contains(&node.operands[0]) {
            return self.repeat(r, id);
        }
        let val = self.value(r, node.operands[0]);
        if let Val::Array(v) = &val
            && let Some(v) = v.reshaped(&dims, self.chip)
        {
            return Ok(Val::Array(v));
        }
        let src = self.lanes(r, node.operands[0]);
        if let Some(v) = src.reshaped(&dims, self.chip) {
            return Ok(Val::Array(v));
        }
        // The same elements may be there in another shape.
        let made = |u: &NodeId| match (&r.comp.node(*u).op, &r.values[u.index()]) {
            (Op::Reshape, Some(Val::Array(v))) => v.reshaped(&dims, self.chip),
            _ => None,
        };
        if let Some(v) = r.groups.users[node.operands[0].index()].iter().find_map(made) {
            return Ok(Val::Array(v));
        }
        if let Some((sizes, from, to)) = refine(&src.dims, &dims) {
            return Ok(self.moved(r, id, &src, &sizes, &from, &to));
        }
        // By way of one dimension.
        let flat = [src.dims.iter().product::<u64>()];
        let mid = self.array(&node.name, src.dtype(), &flat, Form::Lanes);
        let (sizes, from, to) = refine(&src.dims, &flat).expect("one dimension is refined by any");
        let spec = move_spec(&sizes, &src, &from, &mid, &to);
        self.push_move(spec, src.buf, (mid.buf, Use::Write), &node.name);
        let (sizes, from, to) = refine(&flat, &dims).expect("one dimension is refined by any");
        Ok(self.moved(r, id, &mid, &sizes, &from, &to))
    }

    fn copy(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let src = self.value(r, node.operands[0]);
        let Val::Array(v) = &src else { return Ok(src) };
        let row_major: Vec<u8> = (0..v.dims.len() as u8).rev().collect();
        if v.form == Form::Rows || v.layout.minor_to_major == row_major {
            return Ok(src);
        }
        // From another layout: the array's memory is that of the permuted dimensions in row-major order.
        let order: Vec<usize> = v.layout.minor_to_major.iter().rev().map(|&d| d as usize).collect();
        let permuted: Vec<u64> = order.iter().map(|&d| v.dims[d]).collect();
        let layout = crate::plan::view::layout_of(v.dtype(), &permuted, Form::Lanes, self.chip);
        let src = View { buf: v.buf, dims: permuted, form: Form::Lanes, layout };
        let (_, dims) = self.shape(r, id);
        Ok(self.moved(r, id, &src, &dims, &Position::permuted(&order), &Position::identity(dims.len())))
    }

    /// Whole registers of rows of the narrowest type.
    fn tile_rows(&self) -> u64 {
        4 * u64::from(self.chip.core.sublanes)
    }

    /// How a part of sizes `part` of an array is written: in whole tiles if of each of the last two dimensions it has all, or
    /// whole tiles; of a vector, if it has whole tiles of its rows of lanes. `begins` says whether the part begins at a multiple along a dimension.
    pub(super) fn part(&self, dims: &[u64], part: &[u64], begins: &dyn Fn(usize, u64) -> bool) -> Use {
        let n = dims.len();
        let tiles = |d: usize, tile: u64| part[d] == dims[d] || part[d].is_multiple_of(tile) && begins(d, tile);
        let lanes = u64::from(self.chip.core.lanes);
        let whole = match n {
            0 => false,
            // Its rows of lanes follow each other.
            1 => tiles(0, lanes * self.tile_rows()),
            _ => tiles(n - 1, lanes) && tiles(n - 2, self.tile_rows()),
        };
        if whole { Use::Tiles } else { Use::Update }
    }

    /// Fills an array with a scalar value (an array of rank 0 or a word).
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for constants alone")]
    pub fn fill(&mut self, r: &Region<'a>, value: NodeId, dst: &View, op: u32, result: bool) {
        let n = dst.dims.len().max(2);
        let mut dims = vec![1; n - dst.dims.len()];
        dims.extend(&dst.dims);
        let map: Vec<Option<usize>> = (n - dst.dims.len()..n).map(|d| (dims[d] != 1).then_some(d)).collect();
        let mut access = dst.access(&map, n - 2);
        if let LaneMap::Indexed { .. } = access.lane {
            access.lane = LaneMap::Replicated;
        }
        let rows = dst.layout.padded_rows() as u32;
        let dtype = dst.dtype();
        let constant = match &r.comp.node(value).op {
            Op::Constant(l) => Some(l.element(0).into()),
            _ => None,
        };
        let mut args = Vec::new();
        let mut inputs = Vec::new();
        let op0 = match constant {
            Some(bytes) => ExprOp::Const(bytes),
            None => {
                match self.value(r, value) {
                    Val::Word(w, t) => {
                        inputs.push(Input::Scalar(t));
                        args.push(Arg::Scalar(w));
                    }
                    Val::Array(v) => {
                        inputs.push(Input::Array(v.access(&vec![None; v.dims.len()], n - 2)));
                        args.push(Arg::rows(v.buf, Use::Read));
                    }
                    Val::Tuple(_) | Val::Token => unreachable!("a fill value is a scalar"),
                }
                ExprOp::Input(0)
            }
        };
        let spec = LoopSpec {
            outer: dims[..n - 2].iter().map(|&d| d as u32).collect(),
            rows,
            columns: dims[n - 1] as u32,
            inputs,
            expr: Expr { nodes: vec![ExprNode { op: op0, args: Default::default(), dtype }], reductions: Vec::new() },
            outputs: vec![Output { node: 0, access }],
        };
        args.push(Arg::rows(dst.buf, Use::Write));
        self.push_body(Body::Loop(spec), args, "fill", op, &[result]);
    }

    fn pad(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let Op::Pad { dims: pads } = &node.op else { return Err(self.no_lowering(r.comp, id)) };
        let (dtype, dims) = self.shape(r, id);
        let src = self.lanes(r, node.operands[0]);
        let dst = self.array(&node.name, dtype, &dims, Form::Lanes);
        let op = self.debug_op(r, id, 0.0);
        let result = self.is_result(r, id);
        let edges = self.edges(pads, &src, &dst, result);
        if edges.is_none() {
            self.fill(r, node.operands[1], &dst, op, result);
        }
        // Elements that negative edges cut are left out: those whose place lies outside.
        let n = dims.len();
        let mut sizes = Vec::new();
        let (mut from, mut to) = (Position::default(), Position::default());
        for (d, p) in pads.iter().enumerate() {
            let step = p.interior as i64 + 1;
            let first = (-p.low).max(0).div_euclid(step) + ((-p.low).max(0) % step != 0) as i64;
            let room = dims[d] as i64 - 1 - p.low;
            let last = if room < 0 { -1 } else { (room / step).min(src.dims[d] as i64 - 1) };
            sizes.push((last - first + 1).max(0) as u64);
            from.dims.push((vec![(d, 1)], first));
            to.dims.push((vec![(d, step)], p.low + first * step));
        }
        debug_assert_eq!(sizes.len(), n);
        let spec = move_spec(&sizes, &src, &from, &dst, &to);
        let usage = if edges.is_some() { Use::First } else { Use::Update };
        let to = Target { usage, op, result };
        self.push_move_dynamic(spec, (src.buf, Vec::new()), (dst.buf, Vec::new()), [None, None], to);
        for (begin, sizes) in edges.unwrap_or_default() {
            self.edge(r, node.operands[1], &dst, (&begin, &sizes), to);
        }
        Ok(Val::Array(dst))
    }

    /// The parts of a padded array that its operand does not reach, each as begin and sizes, if writing them after the rest is less
    /// work than filling all of the array before: of what is streamed, whole rows go out at once and nothing comes back; what lies in
    /// vector memory is written once.
    fn edges(&self, pads: &[PadDim], src: &View, dst: &View, result: bool) -> Option<Vec<(Vec<i64>, Vec<u64>)>> {
        /// The part of the array that reading and writing edges may take.
        const WORTH: u64 = 2;
        /// Element rows of vector memory that are filled while the two kernels of a part begin and end.
        const CALLS: u64 = 1024;
        let n = dst.dims.len();
        let plain = pads.iter().all(|p| p.low >= 0 && p.high >= 0 && p.interior == 0);
        if n < 2 || dst.dims[n - 2] <= 1 || src.dims.contains(&0) || !plain {
            return None;
        }
        let mut parts = Vec::new();
        // Places of a dimension: those of the operand once its edges are done, all of those that come later.
        let (mut begin, mut sizes) = (vec![0; n], dst.dims.clone());
        let mut rows = 0;
        for (d, p) in pads.iter().enumerate() {
            let (low, high) = (p.low as u64, p.high as u64);
            let inner = src.dims[d];
            for (first, size) in [(0, low), (low + inner, high)].into_iter().filter(|e| e.1 > 0) {
                begin[d] = first as i64;
                sizes[d] = size;
                parts.push((begin.clone(), sizes.clone()));
                rows += self.touched_rows(first, &sizes, d);
            }
            (begin[d], sizes[d]) = (p.low, inner);
        }
        let calls = if self.streams(dst.buf, result) { 0 } else { CALLS * parts.len() as u64 };
        (rows * WORTH + calls <= dst.layout.total_rows()).then_some(parts)
    }

    /// Element rows that the part of an array which begins at `first` of dimension `d` comes and goes with.
    fn touched_rows(&self, first: u64, sizes: &[u64], d: usize) -> u64 {
        let n = sizes.len();
        let whole = |at: usize, tile: u64| {
            let begin = if at == d { first } else { 0 };
            (begin + sizes[at]).div_ceil(tile) * tile - begin / tile * tile
        };
        let (rows, lanes) = (whole(n - 2, u64::from(self.chip.core.sublanes)), u64::from(self.chip.core.lanes));
        sizes[..n - 2].iter().product::<u64>() * rows * (whole(n - 1, lanes) / lanes)
    }

    /// Fills a part of an array, from an array of one value that is as large as the part's last two dimensions.
    fn edge(&mut self, r: &Region<'a>, value: NodeId, dst: &View, (begin, sizes): (&[i64], &[u64]), to: Target) {
        let n = sizes.len();
        let name = self.op_name(to.op).to_string();
        let flat = self.array(&name, dst.dtype(), &sizes[n - 2..], Form::Lanes);
        self.fill(r, value, &flat, to.op, false);
        let from = Position { dims: vec![(vec![(n - 2, 1)], 0), (vec![(n - 1, 1)], 0)] };
        let place = Position { dims: begin.iter().enumerate().map(|(d, &b)| (vec![(d, 1)], b)).collect() };
        let spec = move_spec(sizes, &flat, &from, dst, &place);
        let usage = self.part(&dst.dims, sizes, &|d, tile| (begin[d] as u64).is_multiple_of(tile));
        let to = Target { usage, ..to };
        self.push_move_dynamic(spec, (flat.buf, Vec::new()), (dst.buf, Vec::new()), [None, None], to);
    }

    /// Clamped start indices as words: one for each dimension of the array.
    pub fn starts(&mut self, r: &mut Region<'a>, operands: &[NodeId], limits: &[u64], sizes: &[u64]) -> Vec<Word> {
        let mut words = Vec::new();
        for (d, (&limit, &size)) in limits.iter().zip(sizes).enumerate() {
            let val = self.value(r, operands[d]);
            let (w, t) = self.to_word(&val, &r.comp.node(operands[d]).name);
            let unsigned = t.class() == systole_isa::dtype::DTypeClass::Unsigned;
            let op = ScalarOp::ClampIndex { word: w, limit: (limit - size) as i32, unsigned };
            words.push(self.scalar(op, systole_isa::DType::S32));
        }
        words
    }

    /// Row terms and lane start of an array's dynamic position; `begins`: whether it begins at a multiple along a dimension. Where
    /// these are whole tiles it is a number of tiles or planes, from which copies can begin.
    fn dynamic(
        &mut self,
        v: &View,
        starts: &[Word],
        sizes: &[u64],
        begins: &dyn Fn(usize, u64) -> bool,
    ) -> (Vec<(Word, i64)>, Option<Word>) {
        let strides = v.layout.row_strides();
        let minor = v.dims.len() - 1;
        let moves = |d: usize| v.dims[d] != sizes[d];
        let mut rows: Vec<(Word, i64)> = Vec::new();
        let (most, least) = (self.tile_rows(), u64::from(self.chip.core.sublanes.max(4)));
        // Of so many elements along a dimension a tile has one row.
        let tile = |d: usize, stride: u64, elements: u64| {
            let mut tiles = std::iter::successors(Some(most), |t| (*t > least).then_some(t / 2));
            let known = |t: &u64| t.is_power_of_two() && begins(d, *t * elements);
            if stride.is_multiple_of(least) { None } else { tiles.find(known) }
        };
        for d in (0..minor).filter(|&d| moves(d)) {
            let tile = tile(d, strides[d], 1);
            rows.push(match tile {
                Some(tile) => (self.shifted(starts[d], tile), (strides[d] * tile) as i64),
                None => (starts[d], strides[d] as i64),
            });
        }
        let lanes = u64::from(v.layout.lanes);
        let tiles = lanes.is_power_of_two() && sizes[minor].is_multiple_of(lanes) && begins(minor, lanes);
        if !moves(minor) || !tiles {
            return (rows, moves(minor).then(|| starts[minor]));
        }
        let plane = v.layout.plane_rows();
        let several = tile(minor, plane, lanes).unwrap_or(1);
        rows.push((self.shifted(starts[minor], lanes * several), (plane * several) as i64));
        (rows, None)
    }

    /// How often `of`, a power of two, goes into a word that is not negative.
    fn shifted(&mut self, word: Word, of: u64) -> Word {
        let bits = self.scalar(ScalarOp::Const(of.ilog2() as i32), DType::S32);
        self.scalar(ScalarOp::Binary(Binary::Shr, word, bits), DType::S32)
    }

    fn dynamic_slice(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let (dtype, dims) = self.shape(r, id);
        let src = self.lanes(r, node.operands[0]);
        if dims.is_empty() {
            return Ok(Val::Array(src));
        }
        let limits = src.dims.clone();
        let starts = self.starts(r, &node.operands[1..], &limits, &dims);
        let dst = self.array(&node.name, dtype, &dims, Form::Lanes);
        self.keep_for_parts(src.buf, dst.layout.bytes());
        let n = dims.len();
        let begins = |d: usize, tile: u64| is_multiple(r.comp, node.operands[1 + d], limits[d] - dims[d], tile);
        let (rows, lane) = self.dynamic(&src, &starts, &dims, &begins);
        let mut spec = move_spec(&dims, &src, &Position::identity(n), &dst, &Position::identity(n));
        spec.src.dynamic_lane = lane.is_some();
        let to = Target { usage: Use::Write, op: self.debug_op(r, id, 0.0), result: self.is_result(r, id) };
        self.push_move_dynamic(spec, (src.buf, rows), (dst.buf, Vec::new()), [lane, None], to);
        Ok(Val::Array(dst))
    }

    fn dynamic_update_slice(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        let (dtype, dims) = self.shape(r, id);
        let update = self.lanes(r, node.operands[1]);
        let src = self.lanes(r, node.operands[0]);
        if dims.is_empty() {
            return Ok(Val::Array(update));
        }
        // Places that are known are the move's own.
        let place: Vec<Option<i64>> =
            (0..dims.len()).map(|d| known_start(r.comp, node.operands[2 + d], dims[d] - update.dims[d])).collect();
        let moving: Vec<u64> =
            place.iter().enumerate().map(|(d, p)| if p.is_some() { dims[d] } else { update.dims[d] }).collect();
        let starts = self.starts(r, &node.operands[2..], &dims, &moving);
        let op = self.debug_op(r, id, 0.0);
        let dst = self.array(&node.name, dtype, &dims, Form::Lanes);
        // A large array that lies in HBM is not brought in for a small part of it.
        let bytes = dst.layout.bytes();
        if bytes > self.chip.vmem.bytes / PART.1 * PART.0
            && update.layout.bytes() <= bytes / PART.1
            && self.streams(src.buf, false)
        {
            self.plan.residency.streamed.insert(node.name.clone());
        }
        self.steps.push(Step::Copy { src: src.buf, dst: dst.buf, op });
        let n = dims.len();
        let begins = |d: usize, tile: u64| is_multiple(r.comp, node.operands[2 + d], dims[d] - update.dims[d], tile);
        let (rows, lane) = self.dynamic(&dst, &starts, &moving, &begins);
        let sizes = update.dims.clone();
        let to = Position { dims: place.iter().enumerate().map(|(d, p)| (vec![(d, 1)], p.unwrap_or(0))).collect() };
        let mut spec = move_spec(&sizes, &update, &Position::identity(n), &dst, &to);
        spec.dst.dynamic_lane = lane.is_some();
        let usage = self.part(&dims, &update.dims, &begins);
        let to = Target { usage, op, result: self.is_result(r, id) };
        self.push_move_dynamic(spec, (update.buf, Vec::new()), (dst.buf, rows), [None, lane], to);
        Ok(Val::Array(dst))
    }
}
