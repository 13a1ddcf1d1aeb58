//! Loops over a product's results that are done beside it, a tile behind: the softmax of attention beside the next scores, a
//! normalisation beside the next rows.
//!
//! As ends of products are ([`super::finish`]), this is a matter of steps, and for loops that those cannot take: whose rows are reduced,
//! or which have several results. The product leaves its results in vector memory as before; both are one call, of a kernel whose tile
//! is chosen for both. The product is computed where the loop was, so nothing in between may need its results or change what it reads.

use super::finish::{Join, Joined, SoFar, drop_unused};
use super::guide::Guide;
use super::lower::memo::Memo;
use super::lower::product_entry;
use super::spec::{KernelKey, KernelSpec};
use super::step::{Arg, Draft, Step, Unit, Use};
use super::view::BufId;
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::loops::spec::LoopSpec;
use systole_codegen::emit::mxu::{Contraction, Follow};
use systole_isa::ChipConfig;

/// Share of the two kernels' cycles below which one for both is taken.
const WORTH: f64 = 0.98;
/// Operations of a loop at most: longer ones have more values than registers while rows go through the matrix units.
const MOST_NODES: usize = 40;

/// Joins products and loops that can go beside them, in all steps of a draft.
pub fn products(draft: &mut Draft, chip: &ChipConfig, guide: &Guide, memo: &Memo) {
    // Cores that share a product each have a part of its results.
    if draft.cores > 1 {
        return;
    }
    let steps = std::mem::take(&mut draft.steps);
    let mut j = Joiner { draft, chip, guide, memo, made: 0 };
    let steps = j.region(steps);
    let made = j.made;
    draft.steps = steps;
    if made > 0 {
        draft.begun = true;
        drop_unused(draft);
    }
}

struct Joiner<'a> {
    draft: &'a mut Draft,
    chip: &'a ChipConfig,
    guide: &'a Guide,
    memo: &'a Memo,
    made: u32,
}

impl Join for Joiner<'_> {
    fn product_of(&self, step: &Step) -> Option<BufId> {
        let Step::Call { kernel, args, .. } = step else { return None };
        let KernelSpec::Product { contraction, looks: None, .. } = &self.draft.kernels[*kernel].spec else {
            return None;
        };
        let Arg::Array { buf, usage: Use::Write, unit: Unit::WordRows, offset: 0, dynamic } = args.get(2)? else {
            return None;
        };
        let name = &self.draft.buffers[buf.index()].name;
        let free = contraction.follow.is_none()
            && dynamic.is_empty()
            && matches!(args.last(), Some(Arg::Scratch))
            && self.guide.schedule.streams(name).is_none()
            && !self.draft.splits.contains_key(kernel);
        free.then_some(*buf)
    }

    fn join(&mut self, made: SoFar<'_>, step: &Step) -> Option<(usize, Joined)> {
        let SoFar { out, products } = made;
        let (spec, args, op) = self.loop_of(step)?;
        let made = |a: &Arg| match a {
            Arg::Array { buf, usage: Use::Read, unit: Unit::ElementRows, offset: 0, dynamic } if dynamic.is_empty() => {
                products.get(buf).map(|&at| (at, *buf))
            }
            Arg::Array { .. } | Arg::Scalar(_) | Arg::Sum(_) | Arg::Linear { .. } | Arg::Const(_) | Arg::Scratch => {
                None
            }
        };
        let (at, results) = args[..spec.inputs.len()].iter().filter_map(made).max()?;
        let Some(Step::Call { kernel, args: own, op: product }) = &out[at] else { return None };
        let (kernel, own, product) = (*kernel, own.clone(), *product);
        let (others, last) = (&own[..own.len() - 1], own.last()?.clone());
        if !apart(others, &args, spec.inputs.len()) || !out[at + 1..].iter().flatten().all(|s| between(s, others)) {
            return None;
        }
        let inputs = &args[..spec.inputs.len()];
        let is = |a: &Arg| made(a).is_some_and(|(_, buf)| buf == results);
        // Results that are read from another place are not those whose rows are whole.
        let elsewhere = |a: &Arg| a.array().is_some_and(|(buf, ..)| buf == results) && !is(a);
        if inputs.iter().any(elsewhere) {
            return None;
        }
        let reads: Vec<u32> = (0..).zip(inputs).filter(|(_, a)| is(a)).map(|(i, _)| i).collect();
        let follow = Follow { spec, results: reads };
        let entry = &self.draft.kernels[kernel];
        let (before, name) = (entry.cycles?, entry.name.clone());
        let KernelSpec::Product { contraction, .. } = &entry.spec else { return None };
        let alone = KernelSpec::Body(Body::Loop(follow.spec.clone())).estimate(self.chip)?;
        let new = Contraction { follow: Some(follow.clone()), ..contraction.clone() };
        let made = product_entry(&new, self.chip, (&name, self.guide), self.memo).ok()?;
        if made.cycles? > WORTH * (before + alone) {
            return None;
        }
        let key = KernelKey::Product(new, None, self.guide.schedule.tile(&name).map(|t| t.1));
        let Ok(kernel) = self.draft.kernel(key, |_| Ok::<_, std::convert::Infallible>(made));
        let mut all = others.to_vec();
        all.extend((0..).zip(args).filter(|(i, _)| !follow.is_result(*i)).map(|(_, a)| a));
        all.push(last);
        self.draft.absorb(product, op);
        self.made += 1;
        Some((at, Joined { before: Vec::new(), call: Step::Call { kernel, args: all, op: product } }))
    }
}

impl Joiner<'_> {
    /// The loop in vector memory that a step is.
    fn loop_of(&self, step: &Step) -> Option<(LoopSpec, Vec<Arg>, u32)> {
        let Step::Call { kernel, args, op } = step else { return None };
        let (name, schedule) = (&self.draft.ops[*op as usize].name, &self.guide.schedule);
        if schedule.cut(name).is_some() || schedule.alone(name).is_some() {
            return None;
        }
        let KernelSpec::Body(Body::Loop(spec)) = &self.draft.kernels[*kernel].spec else { return None };
        let plain = args.len() == spec.inputs.len() + spec.outputs.len() && spec.expr.nodes.len() <= MOST_NODES;
        plain.then(|| (spec.clone(), args.clone(), *op))
    }
}

/// Whether a loop writes no array that a product reaches, whose tiles are computed while it does, and reads all others as they are.
fn apart(product: &[Arg], own: &[Arg], inputs: usize) -> bool {
    let reached = |buf: BufId| product.iter().filter_map(Arg::array).any(|a| a.0 == buf);
    let written = own[inputs..].iter().all(|a| {
        let plain = matches!(a, Arg::Array { unit: Unit::ElementRows, .. });
        plain && a.array().is_some_and(|(buf, ..)| !reached(buf))
    });
    let near = own[..inputs].iter().all(|a| a.array().is_none_or(|a| a.2 == Unit::ElementRows));
    written && near
}

/// Whether a product may be computed behind a step: that changes nothing that it reads, and needs nothing that it writes.
fn between(step: &Step, product: &[Arg]) -> bool {
    let Step::Call { args, .. } = step else { return matches!(step, Step::Scalar { .. }) };
    let clash = |a: (BufId, Use), b: (BufId, Use)| a.0 == b.0 && (a.1, b.1) != (Use::Read, Use::Read);
    let arrays = |args: &[Arg]| args.iter().filter_map(Arg::array).map(|a| (a.0, a.1)).collect::<Vec<_>>();
    let own = arrays(product);
    arrays(args).iter().all(|&a| !own.iter().any(|&b| clash(a, b)))
}
