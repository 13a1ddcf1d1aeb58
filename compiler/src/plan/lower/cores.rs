//! Bodies that the cores of a device share.
//!
//! What lies in vector memory every core has for itself, so what is made there every core makes. A body whose results go to HBM
//! is shared out block by block. A reduction with few results is shared out along what it reduces: each core leaves the results of its
//! part in HBM, and all combine them.

mod apart;

use super::Lower;
use super::bodies::{array_of, block_entry};
use crate::plan::spec::KernelKey;
use crate::plan::step::{Arg, BufferKind, SplitPart, Step, Unit, Use};
use crate::plan::view::{BufId, Form, layout_of};
use smallvec::SmallVec;
use systole_codegen::emit::blocks::{
    BlockCut, BlockSpec, Body, ChosenCut, Share, choose_shares, slot_rows, tiled, whole_work,
};
use systole_codegen::emit::loops::spec::{
    self, Access, Expr, ExprId, ExprNode, ExprOp, Input, LaneMap, LoopSpec, Output, ReduceSpec,
};
use systole_codegen::emit::loops::{repeatable, widened};
use systole_isa::DType;
use systole_isa::dma::HBM_GRANULE;

/// Of the cycles that the other cores save, the share that the way through HBM or CMEM may take.
const WORTH: f64 = 0.5;
/// Latencies of that memory in barriers, in filling and draining copies.
const LATENCIES: f64 = 4.5;

impl Lower<'_> {
    /// Whether a body whose results may stay in vector memory is worth being shared out among the device's cores, by way of HBM: else
    /// each of them does all of it. `hbm`: what is streamed already; results are the arrays from number `inputs` on.
    pub(super) fn cores_pay(
        &mut self,
        body: &Body,
        args: &[Arg],
        (hbm, inputs): (&[bool], usize),
        (name, op): (&str, u32),
    ) -> bool {
        let made = &args[inputs..hbm.len()];
        let free =
            |a: &Arg| array_of(a).is_some_and(|(buf, usage)| usage == Use::Write && self.pinned_place(buf).is_none());
        let of_kind = matches!(body, Body::Loop(_) | Body::Reduce(_) | Body::Move(_));
        if self.plan.cores < 2 || !of_kind || !made.iter().all(free) {
            return false;
        }
        if !self.worth_sharing(body, args, hbm, self.bytes_of(made)) {
            return false;
        }
        // Loops can be cut; of reductions and moves not all dimensions.
        let far: Vec<bool> = (0..hbm.len()).map(|i| i >= inputs || hbm[i]).collect();
        matches!(body, Body::Loop(_)) || {
            let spec = self.block_spec(body, args, &far);
            self.split_blocks(&spec, args, (name, op)).is_some()
        }
    }

    fn bytes_of(&self, arrays: &[Arg]) -> u64 {
        let bufs = arrays.iter().filter_map(array_of);
        bufs.map(|(buf, _)| self.plan.buffers[buf.index()].layout.bytes()).sum()
    }

    /// Whether the cores save enough if each does a part of a body and writes its part of so many bytes, which all read.
    fn worth_sharing(&self, body: &Body, args: &[Arg], hbm: &[bool], bytes: u64) -> bool {
        let cores = f64::from(self.plan.cores);
        let rate = self.chip.hbm_bytes_per_cycle().max(1e-9);
        let mut read: Vec<(BufId, Use)> =
            args.iter().zip(hbm).filter(|a| *a.1).filter_map(|a| array_of(a.0)).filter(|a| a.1 == Use::Read).collect();
        read.sort_unstable_by_key(|a| a.0);
        read.dedup_by_key(|a| a.0);
        // Of an array that slices are of, a body reads no more than it walks; a move no more than it writes.
        let walked = |dtype: DType| match body {
            Body::Loop(LoopSpec { outer, rows, columns, .. })
            | Body::Reduce(ReduceSpec { outer, rows, columns, .. }) => {
                let all = outer.iter().chain([rows]).map(|&n| u64::from(n)).product::<u64>();
                all.saturating_mul(u64::from(columns.div_ceil(self.chip.core.lanes)) * self.chip.row_bytes())
                    / dtype.packing() as u64
                    * dtype.components() as u64
            }
            Body::Move(_) => bytes,
            Body::Pick(_) => u64::MAX,
        };
        let layouts = read.iter().map(|a| &self.plan.buffers[a.0.index()].layout);
        let read: u64 = layouts.map(|l| l.bytes().min(walked(l.dtype))).sum();
        // Every core reads all of what it does all of.
        self.way_pays(whole_work(body, self.chip).max(cores * read as f64 / rate), bytes)
    }

    /// Whether cores that share work of so many cycles save more than its results' way takes: so many bytes in all.
    pub(super) fn way_pays(&self, whole: f64, bytes: u64) -> bool {
        let cores = f64::from(self.plan.cores);
        let rate = self.chip.hbm_bytes_per_cycle().max(1e-9);
        // Written once, and read by every core: by way of CMEM, where there is room in it for what vector memory would hold.
        let fixed = |latency: u64| LATENCIES * (latency + u64::from(self.chip.dma.issue_cycles)) as f64;
        let (read_rate, write_rate, fixed) = if self.chip.device_cmem_bytes() > self.chip.vmem.bytes {
            let (read, write) = self.chip.cmem_bytes_per_cycle();
            (read, write, fixed(self.chip.cmem_latency_cycles()))
        } else {
            (rate, rate, fixed(self.chip.hbm_latency_cycles()))
        };
        let way = bytes as f64 / write_rate + cores * bytes as f64 / read_rate + fixed;
        way < WORTH * whole * (1.0 - 1.0 / cores)
    }

    /// Shares the blocks of a body out among the device's cores: the first one's kernel.
    pub(super) fn split_blocks(&mut self, spec: &BlockSpec, args: &[Arg], (name, op): (&str, u32)) -> Option<usize> {
        let cores = self.plan.cores;
        let arrays: Vec<(BufId, Use)> = args.iter().filter_map(array_of).collect();
        // One core must not read what another has made anew.
        let alone = |w: &(BufId, Use)| w.1 == Use::Read || arrays.iter().filter(|a| a.0 == w.0).count() == 1;
        if cores < 2 || !arrays.iter().all(alone) {
            return None;
        }
        let pin = self.guide.schedule.cut(self.op_name(op));
        let line = pin.map(|p| p.1);
        if let Some(&k) = self.plan.keys.get(&KernelKey::Blocks(spec.clone(), Some((0, cores)), line)) {
            return Some(k);
        }
        let guide = self.guide;
        let weigh = |c: &BlockCut, cost: u64| guide.weigh_cut(pin.map(|p| p.0), spec, c, cost);
        let (chosen, shares) = choose_shares(spec, (self.chip, self.window_bytes()), (cores, false), &weigh)?;
        Some(self.shares(spec, (chosen, shares, line), name, &[]))
    }

    /// The kernels of shares of a body, the first one's number; `offsets`: how much further each core's arrays begin than those of the
    /// core before.
    fn shares(
        &mut self,
        spec: &BlockSpec,
        (chosen, shares, line): (ChosenCut, Vec<Share>, Option<usize>),
        name: &str,
        offsets: &[i64],
    ) -> usize {
        let cores = self.plan.cores;
        let mut parts = Vec::new();
        for (i, share) in shares.into_iter().enumerate() {
            let entry = block_entry(spec, (chosen, Vec::new()), Some(share), format!("{name} in blocks, core {i}"));
            // What a body's results are of is part of what was asked for.
            let key = match share.partial {
                true => KernelKey::Exactly(entry.spec.clone()),
                false => KernelKey::Blocks(spec.clone(), Some((i as u32, cores)), line),
            };
            let made: Result<usize, std::convert::Infallible> = self.plan.kernel(key, |_| Ok(entry));
            let Ok(kernel) = made;
            parts.push(SplitPart { kernel, offsets: offsets.iter().map(|o| o * i as i64).collect() });
        }
        let first = parts[0].kernel;
        self.plan.splits.insert(first, parts);
        first
    }

    /// Appends a reduction with a part of what is reduced for each core, and what combines their results; false if that is not
    /// worth it, or cannot be. `hbm`: which arrays are streamed.
    pub(super) fn push_partial(
        &mut self,
        body: &Body,
        args: &[Arg],
        hbm: &[bool],
        (name, op): (&str, u32),
        results: &[bool],
    ) -> bool {
        let Body::Reduce(reduce) = body else { return false };
        let inputs = hbm.len() - reduce.outputs.len();
        if self.plan.cores < 2 || !self.parts_combine(reduce, &args[inputs..hbm.len()]) || hbm[inputs..].contains(&true)
        {
            return false;
        }
        let walks = body.walks(self.chip.core.lanes);
        let slots: Vec<u64> = walks[inputs..].iter().flatten().map(|w| slot_rows(w, self.chip)).collect();
        let cores = u64::from(self.plan.cores);
        let bytes = |(slot, w): (&u64, DType)| slot / w.packing() as u64 * self.chip.row_bytes();
        let sizes: Vec<u64> = slots.iter().zip(&reduce.outputs).map(|(s, a)| bytes((s, a.dtype))).collect();
        if !self.worth_sharing(body, args, hbm, sizes.iter().sum()) {
            return false;
        }
        let pin = self.guide.schedule.cut(self.op_name(op));
        let guide = self.guide;
        let mut found = None;
        for body in std::iter::once(body.clone()).chain(tiled(body, self.chip)) {
            let spec = self.block_spec(&body, args, hbm);
            let weigh = |c: &BlockCut, cost: u64| guide.weigh_cut(pin.map(|p| p.0), &spec, c, cost);
            let budget = self.window_bytes();
            if let Some(chosen) = choose_shares(&spec, (self.chip, budget), (self.plan.cores, true), &weigh) {
                found = Some((spec, chosen));
                break;
            }
        }
        let Some((spec, (chosen, shares))) = found else { return false };
        // Scalars take an argument too; offsets are those of the first arguments.
        let offsets: Vec<i64> = (0..inputs).map(|_| 0).chain(sizes.iter().map(|s| (s / HBM_GRANULE) as i64)).collect();
        let kernel = self.shares(&spec, (chosen, shares, None), name, &offsets);
        let mut call = self.block_args(args, hbm);
        let lanes = u64::from(self.chip.core.lanes);
        let mut made = Vec::new();
        for (i, (slot, a)) in slots.iter().zip(&reduce.outputs).enumerate() {
            let layout = layout_of(a.dtype, &[slot * cores, lanes], Form::Lanes, self.chip);
            let buf = self.plan.buffer(self.op_name(op).to_string(), layout, BufferKind::Temp);
            call[inputs + i] =
                Arg::Array { buf, usage: Use::Write, unit: Unit::Granules, offset: 0, dynamic: Vec::new() };
            made.push(buf);
        }
        self.steps.push(Step::Call { kernel, args: call, op });
        let outputs = &args[inputs..hbm.len()];
        let sum = Body::Loop(self.combined(reduce, &slots, outputs));
        let parts = (0..cores).flat_map(|_| made.iter().map(|&b| Arg::rows(b, Use::Read)));
        let all = parts.chain(outputs.iter().cloned()).collect();
        self.push_body(sum, all, "parts combined", op, results);
        true
    }

    /// Whether parts of a reduction can be reduced apart and combined: their results lose nothing, and lie as numbers.
    fn parts_combine(&self, s: &ReduceSpec, outputs: &[Arg]) -> bool {
        let plain = |a: &Arg| {
            array_of(a).is_some_and(|(buf, usage)| {
                let t = self.plan.buffers[buf.index()].layout.dtype;
                usage == Use::Write && self.pinned_place(buf).is_none() && t.components() == 1 && t.bits() >= 8
            })
        };
        let whole = |a: &Access| a.dtype != DType::Pred && a.offset == 0;
        let sums = !widened(&s.reduction, &s.expr.nodes) && repeatable(&s.reduction, &s.expr.nodes);
        sums && !s.resumed && outputs.iter().all(plain) && s.outputs.iter().all(whole)
    }

    /// The loop that combines parts that lie behind each other, so many element rows apart: inputs are all results of the first part,
    /// then of the next.
    fn combined(&self, s: &ReduceSpec, slots: &[u64], outputs: &[Arg]) -> LoopSpec {
        let cores = self.plan.cores as usize;
        let layouts: Vec<_> =
            outputs.iter().filter_map(array_of).map(|(buf, _)| &self.plan.buffers[buf.index()].layout).collect();
        let rows = layouts.iter().map(|l| l.plane_rows()).min().unwrap_or(1).max(1);
        let planes = layouts.first().map_or(1, |l| l.planes());
        let access = |j: usize, total: u64, offset: u64| Access {
            dtype: layouts[j].dtype,
            component_rows: total as i64,
            outer: SmallVec::new(),
            row: 1,
            offset: offset as i64,
            lane: LaneMap::Tile { tile_rows: layouts[j].plane_rows() as i64 },
        };
        let n = slots.len();
        let inputs = (0..cores * n).map(|i| {
            let (core, j) = (i / n, i % n);
            Input::Array(access(j, slots[j] * cores as u64, slots[j] * core as u64))
        });
        let inputs: Vec<Input> = inputs.collect();
        let (expr, roots) = folded(&s.reduction.body, cores, &layouts.iter().map(|l| l.dtype).collect::<Vec<_>>());
        let output = |(j, node): (usize, ExprId)| Output { node, access: access(j, layouts[j].total_rows(), 0) };
        LoopSpec {
            outer: Vec::new(),
            rows: rows as u32,
            columns: (planes * u64::from(self.chip.core.lanes)) as u32,
            inputs,
            expr,
            outputs: roots.into_iter().enumerate().map(output).collect(),
        }
    }
}

/// A reduction's body over `parts` values of each type: nodes, and which of them are the results. Inputs are all values of the first
/// part, then of the next.
pub(super) fn folded(body: &spec::Body, parts: usize, dtypes: &[DType]) -> (Expr, Vec<ExprId>) {
    let n = dtypes.len();
    let input = |i: usize| ExprNode { op: ExprOp::Input(i as u32), args: SmallVec::new(), dtype: dtypes[i % n] };
    let mut nodes: Vec<ExprNode> = (0..parts * n).map(input).collect();
    let mut so_far: Vec<ExprId> = (0..n as ExprId).collect();
    for part in 1..parts {
        let mut of: Vec<ExprId> = Vec::new();
        for node in &body.nodes {
            if let ExprOp::Param(p) = node.op {
                let p = p as usize;
                of.push(if p < n { so_far[p] } else { (part * n + p - n) as ExprId });
                continue;
            }
            let args = node.args.iter().map(|&a| of[a as usize]).collect();
            nodes.push(ExprNode { args, ..node.clone() });
            of.push(nodes.len() as ExprId - 1);
        }
        so_far = body.roots.iter().map(|&r| of[r as usize]).collect();
    }
    (Expr { nodes, reductions: Vec::new() }, so_far)
}
