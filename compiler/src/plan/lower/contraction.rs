//! Dots and convolutions: kernels of the matrix unit.

use super::loop_spec::depthwise_spec;
use super::memo::KernelMemo;
use super::{Cut, Lower, Region, Val};
use crate::plan::guide::{Guide, TilePin};
use crate::plan::spec::{Considered, KernelKey, KernelSpec, Way};
use crate::plan::step::{Arg, Draft, KernelEntry, SplitPart, Step, Unit, Use, Word};
use crate::plan::view::{Form, View};
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::mxu::{self, Array, Chosen, Contraction, Dim, Place, RhsForm, Tile};
use systole_hlo::error::{CompileError, Resource};
use systole_hlo::graph::{Conv, NodeId, Op, Precision};
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{ChipConfig, DType};

/// Times of what arithmetic alone, or every byte once, takes from which on a product waits for copies.
const WAITS: f64 = 1.1;
/// Share of a streamed product's cycles below which another place for an operand is worth it.
const WORTH: f64 = 0.95;

impl<'a> Lower<'a> {
    /// Lowers a canonical dot or convolution.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the operations of one family; no other comes here")]
    pub fn contraction(&mut self, r: &mut Region<'a>, id: NodeId) -> Result<Val, CompileError> {
        let node = r.comp.node(id);
        if let Op::Convolution(conv) = &node.op
            && conv.feature_groups > 1
        {
            return Ok(self.depthwise(r, id, conv));
        }
        let (lhs, lhs_start) = self.operand(r, node.operands[0]);
        let (rhs, rhs_start) = self.operand(r, node.operands[1]);
        let shape = node.shape.as_array().expect("a product is an array").clone();
        let out = self.array(&node.name, shape.dtype, &shape.dims, Form::Lanes);
        let mut c = match &node.op {
            Op::Dot { dims, precision } => {
                let transposed = dims.rhs_contracting[0] + 1 == rhs.dims.len();
                let mut c = dot(&lhs, &rhs, transposed, &out);
                c.precision = *precision;
                c
            }
            Op::Convolution(conv) => {
                let mut c = convolution(&lhs, &rhs, &out, conv);
                c.precision = conv.precision;
                c
            }
            _ => return Err(self.no_lowering(r.comp, id)),
        };
        // What the program multiplies decides, not what it was before a conversion.
        let dtype = r.comp.node(node.operands[0]).shape.as_array().map(|a| a.dtype);
        if dtype != Some(DType::F32) {
            c.precision = Precision::Default;
        }
        c.vmem_rows = (self.window_bytes() / self.chip.row_bytes()) as u32;
        let flops = c.flops();
        // Large arrays stay in HBM and are streamed, and so are parameters and results: their copies then run behind the
        // product.
        for (v, start) in [(&lhs, &lhs_start), (&rhs, &rhs_start)] {
            if start.is_empty() {
                self.keep_for_rounds(v.buf);
            }
        }
        let result = self.is_result(r, id);
        let place = |hbm: bool| if hbm { Place::Hbm } else { Place::Vmem };
        c.lhs.place = place(self.streams(lhs.buf, false));
        c.rhs.place = place(self.streams(rhs.buf, false));
        c.out.place = place(self.streams(out.buf, result));
        // Where not all of that can be streamed, as little as possible is kept in vector memory.
        let wanted = [c.lhs.place, c.rhs.place, c.out.place];
        let bytes = [&lhs, &rhs, &out].map(|v| v.layout.bytes());
        let pinned = [&lhs, &rhs, &out].map(|v| self.pinned_place(v.buf).is_some());
        let kept = |set: usize| -> u64 { (0..3).filter(|i| set >> i & 1 == 1).map(|i| bytes[i]).sum() };
        let mut sets: Vec<usize> =
            (0..8).filter(|set| (0..3).all(|i| set >> i & 1 == 0 || wanted[i] == Place::Hbm)).collect();
        sets.sort_by_key(|&set| kept(set));
        let free = pinned == [false; 3] && lhs_start.is_empty() && rhs_start.is_empty();
        let mut asked = TileAsked { name: &node.name, pin: self.guide.schedule.tile(&node.name) };
        let mut made = self.fitted(&mut c, asked, (&sets, pinned, bytes), free);
        if made.is_err() && self.without_cuts(r, id) {
            return self.contraction(r, id);
        }
        // Such a tile may fit once less is kept in vector memory: the finished plan is held against the pin.
        if asked.pin.is_some() && matches!(made, Err(mxu::MxuError::Tile(_))) {
            asked.pin = None;
            (c.lhs.place, c.rhs.place, c.out.place) = (wanted[0], wanted[1], wanted[2]);
            made = self.fitted(&mut c, asked, (&sets, pinned, bytes), free);
        }
        let op = self.debug_op(r, id, flops);
        self.plan.ops[op as usize].peak = Some(peak(c.lhs.dtype));
        let kernel = made.and_then(|k| self.shared_or(&mut c, k, &out, asked));
        let kernel = kernel.map_err(|e| self.no_product(&node.name, &e))?;
        let arg = |l: &Lower<'_>, v: &View, p: Place, usage, start: &[(Word, i64)]| {
            let packing = v.dtype().packing() as i64;
            let words = || start.iter().map(|&(w, rows)| (w, rows / packing)).collect();
            let granules = || l.granule_terms(v.buf, start).unwrap_or_default();
            let (unit, dynamic) =
                if p == Place::Hbm { (Unit::Granules, granules()) } else { (Unit::WordRows, words()) };
            Arg::Array { buf: v.buf, usage, unit, offset: 0, dynamic }
        };
        let args = vec![
            arg(self, &lhs, c.lhs.place, Use::Read, &lhs_start),
            arg(self, &rhs, c.rhs.place, Use::Read, &rhs_start),
            arg(self, &out, c.out.place, Use::Write, &[]),
            Arg::Scratch,
        ];
        self.steps.push(Step::Call { kernel, args, op });
        Ok(Val::Array(out))
    }

    /// The kernel of a product, its operands and result where `c` has them, or as little more in vector memory as makes it fit: `sets`
    /// of the three to keep there, smallest first; whether each one's place is pinned, and its bytes. `free`: whether nothing ties the operands.
    fn fitted(
        &mut self,
        c: &mut Contraction,
        asked: TileAsked<'_>,
        (sets, pinned, bytes): (&[usize], [bool; 3], [u64; 3]),
        free: bool,
    ) -> Result<Option<usize>, mxu::MxuError> {
        let wanted = [c.lhs.place, c.rhs.place, c.out.place];
        let mut made = self.placed(c, asked);
        if let (Ok(Some(k)), true) = (&made, free)
            && let Some(near) = self.kept_operand(c, self.plan.kernels[*k].cycles.unwrap_or(0.0), bytes)
        {
            *c = near;
            made = self.placed(c, asked);
        }
        for set in &sets[1..] {
            // No array is moved for a pin's sake.
            let pinned_away = asked.pin.is_some() && matches!(made, Err(mxu::MxuError::Tile(_)));
            if made.is_ok() || pinned_away {
                break;
            }
            if (0..3).any(|i| set >> i & 1 == 1 && pinned[i]) {
                continue;
            }
            let place = |i: usize| if set >> i & 1 == 1 { Place::Vmem } else { wanted[i] };
            (c.lhs.place, c.rhs.place, c.out.place) = (place(0), place(1), place(2));
            made = self.placed(c, asked);
        }
        made
    }

    /// Lowers a convolution with a group for each channel.
    fn depthwise(&mut self, r: &mut Region<'a>, id: NodeId, conv: &Conv) -> Val {
        let node = r.comp.node(id);
        let (x, weights) = (self.lanes(r, node.operands[0]), self.lanes(r, node.operands[1]));
        let shape = node.shape.as_array().expect("a convolution is an array").clone();
        let spec = depthwise_spec(conv, &x, &weights, &shape, self.chip);
        let out = self.array(&node.name, shape.dtype, &shape.dims, Form::Lanes);
        let args = vec![Arg::rows(x.buf, Use::Read), Arg::rows(weights.buf, Use::Read), Arg::rows(out.buf, Use::Write)];
        let op = self.debug_op(r, id, 0.0);
        let result = self.is_result(r, id);
        self.push_body(Body::Reduce(spec), args, "depthwise", op, &[result]);
        Val::Array(out)
    }

    /// Whether an operation multiplies on the matrix unit.
    #[allow(clippy::wildcard_enum_match_arm, reason = "no other operation multiplies on matrix units")]
    fn multiplies(op: &Op) -> bool {
        match op {
            Op::Dot { .. } => true,
            Op::Convolution(c) => c.feature_groups == 1,
            _ => false,
        }
    }

    /// An operand of a product: an array along lanes, and where it begins in its buffer.
    fn operand(&mut self, r: &mut Region<'a>, id: NodeId) -> (View, Vec<(Word, i64)>) {
        match r.cuts[id.index()].clone() {
            // The slice's own sizes in the array's layout.
            Some(c) => (View { dims: c.dims, ..c.source }, c.start),
            None => (self.lanes(r, id), Vec::new()),
        }
    }

    /// Whether only products use a node, as an array of sizes `own`.
    #[allow(clippy::wildcard_enum_match_arm, reason = "any other user wants the array as it is")]
    fn only_products(r: &Region<'_>, id: NodeId, own: &[u64]) -> bool {
        let users = &r.groups.users[id.index()];
        let Some(shape) = r.comp.node(id).shape.as_array() else { return false };
        let leading = shape.dims.len().saturating_sub(own.len());
        let same = shape.dims[leading..] == *own && shape.dims[..leading].iter().all(|&d| d == 1);
        let one = |&u: &NodeId| match &r.comp.node(u).op {
            op if Self::multiplies(op) => leading == 0,
            Op::Reshape => Self::only_products(r, u, own),
            Op::Convert => Self::converts(r, u) && Self::only_products(r, u, own),
            _ => false,
        };
        same && !users.is_empty() && id != r.comp.root && users.iter().all(one)
    }

    /// Whether one transpose alone uses a node, as an array of sizes `own`.
    #[allow(clippy::wildcard_enum_match_arm, reason = "any other user wants the array as it is")]
    fn only_transposed(r: &Region<'_>, id: NodeId, own: &[u64]) -> bool {
        let &[user] = &r.groups.users[id.index()][..] else { return false };
        let Some(shape) = r.comp.node(id).shape.as_array() else { return false };
        let leading = shape.dims.len().saturating_sub(own.len());
        let same = shape.dims[leading..] == *own && shape.dims[..leading].iter().all(|&d| d == 1);
        same && id != r.comp.root
            && match &r.comp.node(user).op {
                Op::Transpose { .. } => leading == 0,
                Op::Reshape => Self::only_transposed(r, user, own),
                _ => false,
            }
    }

    /// Notes a dynamic slice that products or a transpose can read where it lies, or a reshape of one; false for all other nodes.
    #[allow(clippy::wildcard_enum_match_arm, reason = "any other user wants the array as it is")]
    pub fn note_cut(&mut self, r: &mut Region<'a>, id: NodeId) -> bool {
        let node = r.comp.node(id);
        let cut = match &node.op {
            Op::Convert if Self::converts(r, id) => self.converted(r, id),
            Op::Reshape => r.cuts[node.operands[0].index()].clone(),
            Op::DynamicSlice { sizes } if matches!(r.values[node.operands[0].index()], Some(Val::Array(_))) => {
                let source = self.lanes(r, node.operands[0]);
                self.slice_of(r, id, &source, sizes)
            }
            _ => None,
        };
        let found = cut.is_some();
        r.cuts[id.index()] = cut;
        found
    }

    /// Whether products may take what a conversion converts as it is: every value is exact in what the matrix unit multiplies, or
    /// is rounded there as the conversion does. The one that makes arrays smaller is worth it for one product only.
    #[allow(clippy::wildcard_enum_match_arm, reason = "no other operation multiplies on matrix units")]
    fn converts(r: &Region<'_>, id: NodeId) -> bool {
        let node = r.comp.node(id);
        let dtype = |n: NodeId| r.comp.node(n).shape.as_array().map(|a| a.dtype);
        let (Some(from), Some(to)) = (dtype(node.operands[0]), dtype(id)) else { return false };
        let once = |u: &NodeId| match &r.comp.node(*u).op {
            Op::Dot { precision, .. } => *precision == Precision::Default,
            Op::Convolution(c) => c.precision == Precision::Default && c.feature_groups == 1,
            _ => false,
        };
        let users = &r.groups.users[id.index()];
        match (from, to) {
            (DType::S8 | DType::U8 | DType::S4 | DType::U4, DType::BF16) => true,
            (DType::S8 | DType::U8 | DType::S4 | DType::U4 | DType::BF16, DType::F32) => users.iter().all(once),
            (DType::F32, DType::BF16) => users.len() == 1,
            _ => false,
        }
    }

    /// What a conversion converts, as an operand of products.
    fn converted(&mut self, r: &mut Region<'a>, id: NodeId) -> Option<Cut> {
        let own = r.comp.node(id).shape.as_array()?.dims.clone();
        if own.len() < 2 || !Self::only_products(r, id, &own) {
            return None;
        }
        let mut from = r.comp.node(id).operands[0];
        // Reshapes that belong to the conversion only drop dimensions of size 1.
        while r.comp.node(from).op == Op::Reshape && !r.groups.is_root(from) {
            from = r.comp.node(from).operands[0];
        }
        if let Some(cut) = r.cuts[from.index()].clone() {
            return (cut.dims == own).then_some(cut);
        }
        match &r.values[from.index()] {
            Some(Val::Array(v)) if r.groups.is_root(from) && v.form == Form::Lanes && v.dims == own => {
                let row_major = v.layout.minor_to_major.iter().rev().map(|&d| usize::from(d)).eq(0..own.len());
                row_major.then(|| Cut { dims: own, source: v.clone(), start: Vec::new() })
            }
            _ => None,
        }
    }

    fn slice_of(&mut self, r: &mut Region<'a>, id: NodeId, source: &View, sizes: &[u64]) -> Option<Cut> {
        let rank = (0..sizes.len()).rev().take_while(|&d| sizes[d] == source.dims[d]).last()?;
        let own = &source.dims[rank..];
        let strides = source.layout.row_strides();
        let row_major = source.layout.minor_to_major.iter().rev().map(|&d| usize::from(d)).eq(0..source.dims.len());
        // Whole registers of rows of the narrowest type.
        let tile = 4 * u64::from(self.chip.core.sublanes);
        let whole_rows = |d: usize| strides[d].is_multiple_of(tile);
        let aligned =
            |d: usize| whole_rows(d) && self.granule_terms(source.buf, &[(Word(0), strides[d] as i64)]).is_some();
        let fits = rank > 0
            && own.len() >= 2
            && sizes[..rank].iter().all(|&s| s == 1)
            && row_major
            && (0..rank).all(aligned)
            && (Self::only_products(r, id, own) || Self::only_transposed(r, id, own));
        if !fits {
            return None;
        }
        let starts = self.starts(r, &r.comp.node(id).operands[1..], &source.dims.clone(), sizes);
        let start = (0..rank).map(|d| (starts[d], strides[d] as i64)).collect();
        Some(Cut { dims: own.to_vec(), source: source.clone(), start })
    }

    /// Moves the operands that are slices into arrays of their own; whether there were any.
    fn without_cuts(&mut self, r: &mut Region<'a>, id: NodeId) -> bool {
        let mut any = false;
        for &o in &r.comp.node(id).operands {
            let Some(c) = r.cuts[o.index()].take() else { continue };
            let v = self.moved_cut(&c, &r.comp.node(o).name);
            r.values[o.index()] = Some(Val::Array(v));
            any = true;
        }
        any
    }

    /// Why a product has no kernel.
    fn no_product(&self, name: &str, e: &mxu::MxuError) -> CompileError {
        let windows = |why: String| Resource::Windows { op: name.to_string(), why };
        match e {
            mxu::MxuError::Vmem { need, have } => CompileError::Limit {
                resource: windows("the smallest of its blocks".to_string()),
                need: need * self.chip.row_bytes(),
                have: have * self.chip.row_bytes(),
                detail: String::new(),
            },
            mxu::MxuError::Placement(_) | mxu::MxuError::Unsupported(_) | mxu::MxuError::Tile(_) => {
                CompileError::Limit {
                    resource: windows(e.to_string()),
                    need: 0,
                    have: self.chip.vmem.bytes,
                    detail: String::new(),
                }
            }
        }
    }

    /// The product with the operand that is better copied to vector memory whole before it: where windows hold so little that
    /// both operands are read again and again, and the matrix units wait for that.
    fn kept_operand(&self, c: &Contraction, streamed: f64, bytes: [u64; 3]) -> Option<Contraction> {
        let chip = self.chip;
        let rate = chip.hbm_bytes_per_cycle().max(1e-9);
        let once = bytes.iter().sum::<u64>() as f64 / rate;
        let place = |lhs, rhs| Contraction {
            lhs: Array { place: lhs, ..c.lhs },
            rhs: Array { place: rhs, ..c.rhs },
            ..c.clone()
        };
        let cycles = |c: &Contraction| self.memo.cycles(c, chip).ok();
        if streamed < WAITS * once || streamed < WAITS * cycles(&place(Place::Vmem, Place::Vmem))? {
            return None;
        }
        let room = self.array_bytes().saturating_sub(self.window_bytes()).min(chip.vmem.bytes / 2);
        let ways =
            [(0, c.lhs.place, place(Place::Vmem, c.rhs.place)), (1, c.rhs.place, place(c.lhs.place, Place::Vmem))];
        let mut best = (WORTH * streamed, None);
        for (i, _, near) in ways.into_iter().filter(|w| w.1 == Place::Hbm && bytes[w.0] <= room) {
            let copied = bytes[i] as f64 / rate + chip.hbm_latency_cycles() as f64;
            if let Some(all) = cycles(&near).map(|c| c + copied).filter(|&all| all < best.0) {
                best = (all, Some(near));
            }
        }
        best.1
    }

    /// The kernel of a product with its arrays where they are; none where cores may share it, if there is a way.
    fn placed(&mut self, c: &Contraction, asked: TileAsked<'_>) -> Result<Option<usize>, mxu::MxuError> {
        match self.plan.cores {
            0 | 1 => self.product_kernel(c, asked).map(Some),
            _ => self.memo.cycles(c, self.chip).map(|_| None),
        }
    }

    /// The product's kernel: the one there is, the first core's of those that share it, or that of one core alone.
    fn shared_or(
        &mut self,
        c: &mut Contraction,
        kernel: Option<usize>,
        out: &View,
        asked: TileAsked<'_>,
    ) -> Result<usize, mxu::MxuError> {
        if let Some(k) = kernel {
            return Ok(k);
        }
        let far = Contraction { out: Array { place: Place::Hbm, ..c.out }, ..c.clone() };
        if (c.out.place == Place::Hbm || self.pays(c, out))
            && let Some(k) = self.split_product(&far, asked.name)
        {
            *c = far;
            return Ok(k);
        }
        self.product_kernel(c, asked)
    }

    /// Whether a product whose result is kept in vector memory is worth sharing out: results then go through HBM.
    fn pays(&self, c: &Contraction, out: &View) -> bool {
        let cores = self.plan.cores;
        let shared = mxu::shared(self.chip, cores);
        let far = Contraction { out: Array { place: Place::Hbm, ..c.out }, ..c.clone() };
        let (Ok(whole), Some((_, part))) = (self.memo.cycles(c, &shared), self.memo.parts(&far, cores, self.chip))
        else {
            return false;
        };
        // The result comes back to every core.
        let back = out.layout.bytes() as f64 / shared.hbm_bytes_per_cycle().max(1e-9);
        let latency = self.chip.hbm_latency_cycles() as f64;
        part + back + 2.0 * latency < whole
    }

    /// The first core's kernel of a product that all cores share.
    fn split_product(&mut self, c: &Contraction, name: &str) -> Option<usize> {
        shared_product(&mut self.plan, c, name, (self.chip, self.guide, self.memo))
    }

    fn product_kernel(&mut self, c: &Contraction, asked: TileAsked<'_>) -> Result<usize, mxu::MxuError> {
        let (chip, guide, memo) = (self.chip, self.guide, self.memo);
        let key = KernelKey::Product(c.clone(), None, asked.pin.map(|p| p.1));
        self.plan.kernel(key, |_| asked_entry(c, chip, (asked, guide), memo))
    }
}

/// The first core's kernel of a contraction that all cores of the device share; none where there is one core, or it cannot be cut.
pub fn shared_product(
    plan: &mut Draft,
    c: &Contraction,
    name: &str,
    (chip, guide, memo): (&ChipConfig, &Guide, &KernelMemo),
) -> Option<usize> {
    let cores = plan.cores;
    if cores < 2 {
        return None;
    }
    let line = guide.schedule.tile(name).map(|t| t.1);
    let key = |core: usize| KernelKey::Product(c.clone(), Some((core as u32, cores)), line);
    if let Some(&k) = plan.keys.get(&key(0)) {
        return Some(k);
    }
    let (parts, _) = memo.parts(c, cores, chip)?;
    let shared = mxu::shared(chip, cores);
    let units = |a: &Array, rows: u32| {
        let words = i64::from(rows) / a.dtype.packing() as i64;
        if a.place == Place::Hbm { words * chip.row_bytes() as i64 / HBM_GRANULE as i64 } else { words }
    };
    let mut split: Vec<SplitPart> = Vec::new();
    for (i, p) in parts.iter().enumerate() {
        let same = parts[..i].iter().position(|q| q.contraction == p.contraction);
        let kernel = match same {
            Some(j) => split[j].kernel,
            None => {
                let made = product_entry(&p.contraction, &shared, (name, guide), memo).ok()?;
                plan.kernel(key(i), |_| Ok::<_, mxu::MxuError>(made)).ok()?
            }
        };
        let extras = c.extras.iter().map(|&(place, dtype)| units(&Array { place, dtype, ..c.out }, p.out));
        let own = [units(&c.lhs, p.lhs), units(&c.rhs, p.rhs), units(&c.out, p.out)];
        split.push(SplitPart { kernel, offsets: own.into_iter().chain(extras).collect() });
    }
    let first = split.first()?.kernel;
    plan.splits.insert(first, split);
    Some(first)
}

/// The kernel of a contraction with the best tile.
///
/// # Errors
/// If there is none.
pub fn product_entry(
    c: &Contraction,
    chip: &ChipConfig,
    (name, guide): (&str, &Guide),
    memo: &KernelMemo,
) -> Result<KernelEntry, mxu::MxuError> {
    asked_entry(c, chip, (TileAsked { name, pin: guide.schedule.tile(name) }, guide), memo)
}

/// The product of an operation, and the tile that a schedule asks of it with the schedule's line.
#[derive(Clone, Copy)]
struct TileAsked<'a> {
    name: &'a str,
    pin: Option<(TilePin, usize)>,
}

fn asked_entry(
    c: &Contraction,
    chip: &ChipConfig,
    (asked, guide): (TileAsked<'_>, &Guide),
    memo: &KernelMemo,
) -> Result<KernelEntry, mxu::MxuError> {
    let key = (KernelMemo::product(c, chip), asked.pin.map(|p| p.1));
    let found = memo.products.get(key, |_| searched(c, chip, (asked, guide)));
    found.map(|entry| KernelEntry { name: asked.name.to_string(), ..entry })
}

fn searched(
    c: &Contraction,
    chip: &ChipConfig,
    (TileAsked { name, pin }, guide): (TileAsked<'_>, &Guide),
) -> Result<KernelEntry, mxu::MxuError> {
    let weigh = |t: &Tile, cycles: f64| guide.weigh_tile(pin.map(|p| p.0), c, t, cycles);
    let (Chosen { tile, needs, cycles }, others) = mxu::search(c, chip, false, &weigh)?;
    let considered = others.into_iter().map(|(t, cycles)| Considered { way: Way::Tile(t), cycles });
    Ok(KernelEntry {
        name: name.to_string(),
        spec: KernelSpec::Product { contraction: c.clone(), tile, looks: None },
        needs,
        parts: Vec::new(),
        cycles: Some(cycles),
        considered: considered.collect(),
    })
}

/// The element type whose matrix-unit rate is the peak of products of `t`.
#[allow(clippy::wildcard_enum_match_arm, reason = "the units' formats: what is no integer and no f8 goes as bf16")]
fn peak(t: DType) -> DType {
    match t {
        DType::S8 | DType::U8 | DType::S4 | DType::U4 | DType::S2 | DType::U2 => DType::S8,
        t if t.is_byte_float() => t,
        _ => DType::BF16,
    }
}

fn array(v: &View) -> Array {
    Array {
        place: Place::Vmem,
        dtype: v.dtype(),
        plane_rows: v.layout.plane_rows() as u32,
        total_rows: v.layout.total_rows() as u32,
    }
}

/// Element rows between neighbours along each of an array's dimensions; a slice's are the last of its layout's.
fn strides(v: &View) -> Vec<u32> {
    let all = v.layout.row_strides();
    all[all.len() - v.dims.len()..].iter().map(|&s| s as u32).collect()
}

/// One row of the left operand by all columns of the right one: last dimensions are multiplied, or are the result's.
fn plain(lhs: &View, rhs: &View, out: &View, rhs_form: RhsForm) -> Contraction {
    let last = |v: &View| v.dims[v.dims.len() - 1] as u32;
    Contraction {
        lhs: array(lhs),
        rhs: array(rhs),
        out: array(out),
        extras: Vec::new(),
        finish: None,
        start: None,
        follow: None,
        batch: Vec::new(),
        rows: Vec::new(),
        taps: Vec::new(),
        k: last(lhs),
        n: last(out),
        rhs_form,
        precision: Precision::Default,
        vmem_rows: 0,
    }
}

fn dot(lhs: &View, rhs: &View, transposed: bool, out: &View) -> Contraction {
    let (ls, rs, os) = (strides(lhs), strides(rhs), strides(out));
    let (ln, rn, on) = (lhs.dims.len(), rhs.dims.len(), out.dims.len());
    let batched = ln == 3;
    let batch =
        if batched { vec![Dim { count: lhs.dims[0] as u32, lhs: ls[0], rhs: rs[0], out: os[0] }] } else { Vec::new() };
    let rhs_form =
        if transposed { RhsForm::LanesK { n_stride: rs[rn - 2] } } else { RhsForm::LanesN { k_stride: rs[rn - 2] } };
    let rows = vec![Dim { count: lhs.dims[ln - 2] as u32, lhs: ls[ln - 2], rhs: 0, out: os[on - 2] }];
    Contraction { batch, rows, ..plain(lhs, rhs, out, rhs_form) }
}

fn convolution(lhs: &View, rhs: &View, out: &View, conv: &systole_hlo::graph::Conv) -> Contraction {
    let (ls, rs, os) = (strides(lhs), strides(rhs), strides(out));
    let mut rows = vec![Dim { count: out.dims[0] as u32, lhs: ls[0], rhs: 0, out: os[0] }];
    let mut taps = Vec::new();
    for (i, w) in conv.window.iter().enumerate() {
        rows.push(Dim { count: out.dims[i + 1] as u32, lhs: ls[i + 1] * w.stride as u32, rhs: 0, out: os[i + 1] });
        if w.size > 1 {
            taps.push(Dim { count: w.size as u32, lhs: ls[i + 1] * w.window_dilation as u32, rhs: rs[i], out: 0 });
        }
    }
    let rhs_form = RhsForm::LanesN { k_stride: rs[rhs.dims.len() - 2] };
    Contraction { rows, taps, ..plain(lhs, rhs, out, rhs_form) }
}
