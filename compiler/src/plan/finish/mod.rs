//! Loops over a product's results that become part of its kernel: what they compute is done to every tile of results before it
//! is stored, so that the results themselves are never stored.
//!
//! This is a matter of steps, not of operations: a loop qualifies if it is the only reader of the product's result, and reads
//! and writes every element where the product would have put it. Whatever else it reads lies the same way, along its columns, or is a
//! scalar. What depends on the columns alone is computed before the product, once.
//!
//! Where the cores of a device share a product, each does to its part of the results what is done to them; so they share the loop too.

mod end;

use super::guide::Guide;
use super::lower::memo::Memo;
use super::lower::{product_entry, shared_product};
use super::place::reach::visit;
use super::spec::{KernelKey, KernelSpec};
use super::step::{Arg, BufferKind, Draft, Step, Unit, Use};
use super::view::BufId;
use end::End;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use systole_codegen::emit::blocks::{Body, consider_cut};
use systole_codegen::emit::loops::spec::LoopSpec;
use systole_codegen::emit::loops::work;
use systole_codegen::emit::mxu::{self, Array, Contraction, MxuError, Place};
use systole_isa::{ChipConfig, DType};

/// Operations of an expression at most: longer ones have more values than registers while rows go through the matrix units.
const MOST_NODES: usize = 40;
/// Share of the two kernels' cycles below which one for both is taken.
const WORTH: f64 = 0.99;
/// Times what its operations take by themselves that a register of results takes at the end of a product that cores share: measured,
/// their code waits for results of its own there, and goes on beside no part of the next tile.
const EXPOSED: f64 = 2.0;
/// Cycles of a call and of a loop's beginning and end.
const CALL: f64 = 150.0;

/// Joins products and the loops over their results, in all steps of a draft.
pub fn products(draft: &mut Draft, chip: &ChipConfig, guide: &Guide, memo: &Memo) {
    let mentions = mentions(draft);
    let steps = std::mem::take(&mut draft.steps);
    let whole = (draft.keys.iter()).filter_map(|(key, &kernel)| match key {
        KernelKey::Product(c, Some((0, _)), _) => Some((kernel, c.clone())),
        KernelKey::Product(..) | KernelKey::Blocks(..) | KernelKey::Exactly(_) => None,
    });
    let whole = whole.collect();
    let mut f = Finisher { draft, chip, guide, memo, mentions, whole, made: 0 };
    let steps = f.region(steps);
    let made = f.made;
    draft.steps = steps;
    if made > 0 {
        drop_unused(draft);
    }
}

/// How often each buffer is named: by steps, as a parameter, a result or a channel.
pub(super) fn mentions(draft: &Draft) -> Vec<u32> {
    let mut mentions = vec![0u32; draft.buffers.len()];
    visit(&draft.steps, &mut |b, _| mentions[b.index()] += 1);
    let kept = draft.results.iter().chain(&draft.params).copied().chain(draft.channels.values().map(|v| v.buf));
    kept.for_each(|b| mentions[b.index()] += 1);
    mentions
}

struct Finisher<'a> {
    draft: &'a mut Draft,
    chip: &'a ChipConfig,
    guide: &'a Guide,
    memo: &'a Memo,
    /// How often steps name each buffer.
    mentions: Vec<u32>,
    /// Products that cores share, by the first core's kernel.
    whole: BTreeMap<usize, Contraction>,
    made: u32,
}

/// A loop's call: its spec, the arguments of its arrays and scalars, and its operation.
struct LoopCall {
    spec: LoopSpec,
    args: Vec<Arg>,
    op: u32,
    cycles: f64,
}

/// A product's call and a loop's as one.
pub(super) struct Joined {
    /// Loops before it.
    pub before: Vec<Step>,
    pub call: Step,
}

/// The steps so far, and the places of products among them that may be joined, by what they make.
#[derive(Clone, Copy)]
pub(super) struct SoFar<'s> {
    pub out: &'s [Option<Step>],
    pub products: &'s BTreeMap<BufId, usize>,
}

/// Makes one call of a product's and a loop's behind it, where the loop was, in all steps.
pub(super) trait Join {
    /// What a product that may be joined makes.
    fn product_of(&self, step: &Step) -> Option<BufId>;

    /// The product among the steps so far that goes together with a step, and the call of both.
    fn join(&mut self, made: SoFar<'_>, step: &Step) -> Option<(usize, Joined)>;

    /// A step with what is joined in the steps inside it.
    fn inside(&mut self, step: Step) -> Step {
        step.map_regions(|r| self.region(r))
    }

    fn region(&mut self, steps: Vec<Step>) -> Vec<Step> {
        let mut out: Vec<Option<Step>> = Vec::with_capacity(steps.len());
        let mut products: BTreeMap<BufId, usize> = BTreeMap::new();
        for step in steps {
            let step = self.inside(step);
            if let Some((at, joined)) = self.join(SoFar { out: &out, products: &products }, &step) {
                out[at] = None;
                out.extend(joined.before.into_iter().map(Some));
                out.push(Some(joined.call));
                continue;
            }
            if let Some(buf) = self.product_of(&step) {
                products.insert(buf, out.len());
            }
            out.push(Some(step));
        }
        out.into_iter().flatten().collect()
    }
}

impl Join for Finisher<'_> {
    fn inside(&mut self, step: Step) -> Step {
        // Of a loop whose iterations cores share, each does its own by itself.
        let cores = self.draft.cores;
        if matches!(step, Step::While { shared: true, .. }) {
            self.draft.cores = 1;
        }
        let step = step.map_regions(|r| self.region(r));
        self.draft.cores = cores;
        step
    }

    fn product_of(&self, step: &Step) -> Option<BufId> {
        let Step::Call { kernel, args, .. } = step else { return None };
        let KernelSpec::Product { contraction, looks: None, .. } = &self.draft.kernels[*kernel].spec else {
            return None;
        };
        let [_, _, Arg::Array { buf, usage: Use::Write, offset: 0, dynamic, .. }, Arg::Scratch] = &args[..] else {
            return None;
        };
        let b = &self.draft.buffers[buf.index()];
        let known = !self.draft.splits.contains_key(kernel) || self.whole.contains_key(kernel);
        let free = contraction.finish.is_none()
            && dynamic.is_empty()
            && b.kind == BufferKind::Temp
            && self.guide.schedule.streams(&b.name).is_none()
            && known;
        free.then_some(*buf)
    }

    fn join(&mut self, made: SoFar<'_>, step: &Step) -> Option<(usize, Joined)> {
        let SoFar { out, products } = made;
        let call = self.loop_of(step)?;
        if call.spec.outputs.len() != 1 || !call.spec.expr.reductions.is_empty() {
            return None;
        }
        let read = |a: &Arg| {
            let (buf, usage, _) = a.array()?;
            products.get(&buf).filter(|_| usage == Use::Read).map(|&at| (at, buf))
        };
        let mut made: Vec<(usize, BufId)> = call.args.iter().filter_map(read).collect();
        made.sort_unstable();
        made.dedup();
        for (at, buf) in made.into_iter().rev() {
            let Some(Step::Call { kernel, args, op }) = &out[at] else { continue };
            if !self.may_wait(args, &out[at + 1..]) {
                continue;
            }
            let (buffers, kernels) = (self.draft.buffers.len(), self.draft.kernels.len());
            if let Some(joined) = self.joined((*kernel, &args.clone(), *op), buf, &call) {
                self.made += 1;
                return Some((at, joined));
            }
            // Leaves nothing behind.
            self.draft.buffers.truncate(buffers);
            self.mentions.truncate(buffers);
            self.draft.kernels.truncate(kernels);
            self.draft.keys.retain(|_, k| *k < kernels);
            self.draft.splits.retain(|k, _| *k < kernels);
        }
        None
    }
}

impl Finisher<'_> {
    /// The loop that a step is.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for loops alone")]
    fn loop_of(&self, step: &Step) -> Option<LoopCall> {
        let Step::Call { kernel, args, op } = step else { return None };
        let k = &self.draft.kernels[*kernel];
        let (name, schedule) = (&self.draft.ops[*op as usize].name, &self.guide.schedule);
        if schedule.cut(name).is_some() || schedule.alone(name).is_some() {
            return None;
        }
        let (spec, cycles) = match &k.spec {
            KernelSpec::Body(Body::Loop(spec)) => (spec, self.work(spec)),
            KernelSpec::Blocks { spec, cut, share, looks: None } => {
                let Body::Loop(body) = &spec.body else { return None };
                if spec.operands.iter().any(|o| o.floating || o.kept) {
                    return None;
                }
                // Each core does one part of as many blocks, and has one part of HBM.
                let cores = if share.is_some() { self.draft.cores.max(1) } else { 1 };
                let cost = consider_cut(spec, *cut, &mxu::shared(&self.between(), cores))?.cost;
                (body, cost as f64 / f64::from(cores))
            }
            _ => return None,
        };
        let arrays = spec.inputs.len() + spec.outputs.len();
        let args = args.get(..arrays)?.to_vec();
        Some(LoopCall { spec: spec.clone(), args, op: *op, cycles })
    }

    /// The chip with the memory in which arrays lie between kernels that all cores share.
    fn between(&self) -> ChipConfig {
        let mut chip = self.chip.clone();
        if self.draft.cores > 1 && chip.device_cmem_bytes() > 0 {
            // What is read and what is written do not share it.
            let near = chip.cmem.read_bandwidth.min(chip.cmem.write_bandwidth) / chip.hbm.efficiency;
            chip.hbm.bandwidth = chip.hbm.bandwidth.max(2.0 * near);
            chip.hbm.latency_s = chip.hbm.latency_s.min(chip.cmem.latency_s);
        }
        chip
    }

    /// Cycles of a loop over arrays in vector memory: of its registers alone, without filling its pipeline.
    fn work(&self, spec: &LoopSpec) -> f64 {
        let outer: f64 = spec.outer.iter().map(|&n| f64::from(n)).product();
        let registers = outer * f64::from(spec.rows.div_ceil(self.chip.core.sublanes));
        registers * Body::Loop(spec.clone()).register_cycles(self.chip)
    }

    /// Whether a product may be computed behind these steps: none of them changes what it reads.
    fn may_wait(&self, args: &[Arg], steps: &[Option<Step>]) -> bool {
        let reads: SmallVec<[BufId; 2]> =
            args[..2].iter().filter_map(|a| if let Arg::Array { buf, .. } = a { Some(*buf) } else { None }).collect();
        steps.iter().flatten().all(|s| match s {
            Step::Call { args, .. } => !args
                .iter()
                .any(|a| matches!(a, Arg::Array { buf, usage, .. } if *usage != Use::Read && reads.contains(buf))),
            Step::Copy { dst, .. } => !reads.contains(dst),
            Step::Scalar { .. } => true,
            Step::ReadScalar { .. }
            | Step::Host { .. }
            | Step::Exchange(_)
            | Step::Begin(_)
            | Step::End(_)
            | Step::While { .. }
            | Step::Switch { .. } => false,
        })
    }

    /// A product with a loop over its result `made` as its end, if there is such a kernel and it takes less.
    fn joined(&mut self, (kernel, args, op): (usize, &[Arg], u32), made: BufId, call: &LoopCall) -> Option<Joined> {
        let Arg::Array { buf: result, usage: Use::Write, unit, offset: 0, dynamic } = call.args.last()? else {
            return None;
        };
        let uses = call.args.iter().filter(|a| matches!(a, Arg::Array { buf, .. } if *buf == made)).count();
        let alike = self.same_places(made, *result) && dynamic.is_empty() && made != *result;
        if !alike || self.mentions[made.index()] as usize != uses + 1 {
            return None;
        }
        let mut end = End::new(self, made, *result, call)?;
        end.prepare(self, call)?;
        let end = end.renumbered();
        if end.finish.nodes.len() > MOST_NODES {
            return None;
        }
        let KernelSpec::Product { contraction, .. } = &self.draft.kernels[kernel].spec else { return None };
        let shared = self.whole.get(&kernel);
        let old = shared.unwrap_or(contraction).clone();
        let place = if *unit == Unit::Granules { Place::Hbm } else { Place::Vmem };
        let dtype = self.draft.buffers[result.index()].layout.dtype;
        let at = |place| Contraction {
            out: Array { place, dtype, ..old.out },
            extras: end.extras.iter().map(|e| (e.1, e.2)).collect(),
            finish: Some(end.finish.clone()),
            ..old.clone()
        };
        let before = match shared {
            Some(c) => self.memo.parts(c, self.draft.cores, self.chip)?.1,
            None => self.draft.kernels[kernel].cycles?,
        };
        let name = self.draft.kernels[kernel].name.clone();
        let b = &self.draft.buffers[result.index()];
        let fixed = b.kind != BufferKind::Temp || self.guide.schedule.streams(&b.name).is_some();
        let (new, place, cycles) = self.ended(&at, (place, fixed), *result, &name)?;
        let all = before + call.cycles + CALL - f64::from(u8::from(!end.before.is_empty())) * CALL;
        if cycles > WORTH * all {
            return None;
        }
        let mut all = vec![args[0].clone(), args[1].clone()];
        let word = |a: &Arg| match a {
            Arg::Array { buf, usage, unit: Unit::ElementRows, offset, dynamic } => {
                Arg::Array { buf: *buf, usage: *usage, unit: Unit::WordRows, offset: *offset, dynamic: dynamic.clone() }
            }
            Arg::Array { .. } | Arg::Scalar(_) | Arg::Sum(_) | Arg::Linear { .. } | Arg::Const(_) | Arg::Scratch => {
                a.clone()
            }
        };
        all.push(match place {
            Place::Hbm => {
                Arg::Array { buf: *result, usage: Use::Write, unit: Unit::Granules, offset: 0, dynamic: Vec::new() }
            }
            Place::Vmem => word(call.args.last()?),
        });
        all.extend(end.extras.iter().map(|e| word(&e.0)));
        all.extend(end.params);
        all.push(Arg::Scratch);
        self.draft.absorb(op, call.op);
        Some(Joined { before: end.before, call: Step::Call { kernel: new, args: all, op } })
    }

    /// The kernel of a product with its end, where it leaves its results, and its cycles until they are where `wanted` says. Cores
    /// share what leaves them in HBM; states of loops, and what a schedule says (`fixed`), stay where they are.
    fn ended(
        &mut self,
        at: &dyn Fn(Place) -> Contraction,
        (wanted, fixed): (Place, bool),
        result: BufId,
        name: &str,
    ) -> Option<(usize, Place, f64)> {
        let (chip, guide, memo, cores) = (self.chip, self.guide, self.memo, self.draft.cores);
        if cores < 2 {
            let kernel = self.alone(&at(wanted), name)?;
            return Some((kernel, wanted, self.draft.kernels[kernel].cycles?));
        }
        let mut ways = Vec::new();
        if wanted == Place::Vmem {
            let c = at(wanted);
            ways.extend(memo.cycles(&c, chip).ok().map(|cycles| (cycles + self.exposed(&c), wanted, false)));
        }
        if wanted == Place::Hbm || !fixed {
            // Every core brings in what it reads in vector memory.
            let bytes = if wanted == Place::Vmem { self.draft.buffers[result.index()].layout.bytes() } else { 0 };
            let rate = mxu::shared(chip, cores).hbm_bytes_per_cycle().max(1e-9);
            let latency = if bytes > 0 { 2.0 * chip.hbm_latency_cycles() as f64 } else { 0.0 };
            let c = at(Place::Hbm);
            let more = bytes as f64 / rate + latency + self.exposed(&c) / f64::from(cores);
            ways.extend(memo.parts(&c, cores, chip).map(|(_, part)| (part + more, Place::Hbm, true)));
        }
        let (cycles, place, share) = ways.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
        let c = at(place);
        let kernel = match share {
            true => shared_product(self.draft, &c, name, (chip, guide, memo))?,
            false => self.alone(&c, name)?,
        };
        Some((kernel, place, cycles))
    }

    /// The kernel of a product that one core, or each, does all of.
    fn alone(&mut self, c: &Contraction, name: &str) -> Option<usize> {
        let (chip, guide, memo) = (self.chip, self.guide, self.memo);
        let key = KernelKey::Product(c.clone(), None, guide.schedule.tile(name).map(|t| t.1));
        let made: Result<usize, MxuError> = self.draft.kernel(key, |_| product_entry(c, chip, (name, guide), memo));
        made.ok()
    }

    /// Cycles of what is done to all of a product's results, beside no other work.
    fn exposed(&self, c: &Contraction) -> f64 {
        let core = &self.chip.core;
        let all = c.batch.iter().chain(&c.rows).map(|d| f64::from(d.count)).product::<f64>();
        let registers = all / f64::from(core.sublanes) * f64::from(c.n.div_ceil(core.lanes));
        let operations: u32 = c.finish.iter().flat_map(|f| &f.nodes).map(work).sum();
        EXPOSED * registers * f64::from(operations) / f64::from(core.valu_slots.max(1))
    }

    /// Whether two arrays have their elements at the same places.
    fn same_places(&self, a: BufId, b: BufId) -> bool {
        let layout = |b: BufId| &self.draft.buffers[b.index()].layout;
        let (a, b) = (layout(a), layout(b));
        let plain = |t: DType| t.components() == 1 && t != DType::Pred;
        let of = |l: &systole_isa::Layout| (l.plane_rows(), l.total_rows(), l.columns());
        of(a) == of(b) && plain(a.dtype) && plain(b.dtype)
    }
}

/// Drops kernels that no step calls any more.
pub(super) fn drop_unused(draft: &mut Draft) {
    fn each(steps: &mut [Step], f: &mut dyn FnMut(&mut usize)) {
        for s in steps {
            match s {
                Step::Call { kernel, .. } => f(kernel),
                Step::While { head, body, .. } => {
                    each(head, f);
                    each(body, f);
                }
                Step::Switch { branches, .. } => branches.iter_mut().for_each(|b| each(b, f)),
                Step::Exchange(x) | Step::Begin(x) | Step::End(x) => x.kernels_mut().into_iter().for_each(&mut *f),
                Step::Copy { .. } | Step::Scalar { .. } | Step::ReadScalar { .. } | Step::Host { .. } => {}
            }
        }
    }
    let mut used = vec![false; draft.kernels.len()];
    each(&mut draft.steps, &mut |k| used[*k] = true);
    draft.splits.retain(|k, _| used[*k]);
    draft.splits.values().flatten().for_each(|p| used[p.kernel] = true);
    let mut to = vec![0; used.len()];
    let mut kept = Vec::new();
    for (i, k) in std::mem::take(&mut draft.kernels).into_iter().enumerate().filter(|(i, _)| used[*i]) {
        to[i] = kept.len();
        kept.push(k);
    }
    draft.kernels = kept;
    each(&mut draft.steps, &mut |k| *k = to[*k]);
    draft.keys.retain(|_, k| used[*k]);
    draft.keys.values_mut().for_each(|k| *k = to[*k]);
    let splits = std::mem::take(&mut draft.splits);
    draft.splits = splits
        .into_iter()
        .map(|(k, mut parts)| {
            parts.iter_mut().for_each(|p| p.kernel = to[p.kernel]);
            (to[k], parts)
        })
        .collect();
}
