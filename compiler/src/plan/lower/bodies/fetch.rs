//! Moves from arrays in HBM that are copies of whole rows: one kernel begins those that follow each other, and waits once.

use super::array_of;
use crate::plan::fuse::MOST_OPERANDS;
use crate::plan::lower::Lower;
use crate::plan::spec::KernelSpec;
use crate::plan::step::{Arg, Step, Unit, Use, Word};
use crate::plan::view::BufId;
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::fetch::{FetchPart, FetchSpec};

/// A call that fetches.
struct Fetch {
    spec: FetchSpec,
    args: Vec<Arg>,
    op: u32,
}

impl<'a> Lower<'a> {
    /// Appends the call of a move that brings a part of an array in HBM (`hbm` says which arrays are) into one of its own as it
    /// lies; false if it does something else.
    pub(super) fn push_fetch(&mut self, body: &Body, args: &[Arg], hbm: &[bool], op: u32) -> bool {
        let pinned = self.guide.schedule.cut(self.op_name(op)).is_some();
        let Some(alone) = self.fetch(body, args, hbm, op).filter(|_| !pinned) else { return false };
        let joined = self.joined_fetch(&alone);
        if let Some((at, before)) = &joined {
            self.steps.remove(*at);
            self.plan.absorb(before.op, op);
        }
        let Fetch { spec, args, op } = joined.map_or(alone, |j| j.1);
        let spec = KernelSpec::Fetch(spec);
        let needs = spec.needs(self.chip).unwrap_or_default();
        let kernel = self.plan.simple_kernel(spec, "fetch", needs);
        self.steps.push(Step::Call { kernel, args, op });
        true
    }

    fn fetch(&self, body: &Body, args: &[Arg], hbm: &[bool], op: u32) -> Option<Fetch> {
        let (Body::Move(spec), [true, false]) = (body, hbm) else { return None };
        let [from, Arg::Array { buf: dst, usage: Use::Write, offset: 0, dynamic: to, .. }] = args else { return None };
        let Arg::Array { buf: src, dynamic, offset: 0, .. } = from else { return None };
        let fetched = FetchPart::of(spec, self.chip).filter(|f| f.to == 0 && to.is_empty())?;
        let dynamic = self.granule_terms(*src, dynamic)?;
        let offset = self.granules(*src, fetched.from)?;
        let from = Arg::Array { buf: *src, usage: Use::Read, unit: Unit::Granules, offset, dynamic };
        let to = Arg::Array { buf: *dst, usage: Use::Write, unit: Unit::WordRows, offset: 0, dynamic: Vec::new() };
        let spec = FetchSpec { parts: vec![fetched.part], ahead: None };
        spec.semaphores(self.chip)?;
        Some(Fetch { spec, args: vec![from, to], op })
    }

    /// The step of the last fetch, and what it is with another one, if both may go together: between them are scalars alone, which
    /// it does not read, and all that is brought has room.
    fn joined_fetch(&self, next: &Fetch) -> Option<(usize, Fetch)> {
        let at = self.steps.iter().rposition(|s| !matches!(s, Step::Scalar { .. }))?;
        let Step::Call { kernel, args, op } = &self.steps[at] else { return None };
        let KernelSpec::Fetch(spec) = &self.plan.kernels[*kernel].spec else { return None };
        let read = |w: &Word| {
            let of = |a: &Arg| matches!(a, Arg::Array { dynamic, .. } if dynamic.iter().any(|t| t.0 == *w));
            args.iter().any(of)
        };
        let changed = self.steps[at + 1..].iter().any(|s| matches!(s, Step::Scalar { dst, .. } if read(dst)));
        let args = [&args[..], &next.args].concat();
        let side = |read: bool| -> Vec<BufId> {
            args.iter().filter_map(array_of).filter(|a| (a.1 == Use::Read) == read).map(|a| a.0).collect()
        };
        let (from, to) = (side(true), side(false));
        let apart = (0..to.len()).all(|i| !from.contains(&to[i]) && !to[..i].contains(&to[i]));
        let bytes: u64 = to.iter().map(|b| self.plan.buffers[b.index()].layout.bytes()).sum();
        let spec = FetchSpec { parts: [&spec.parts[..], &next.spec.parts].concat(), ahead: None };
        spec.semaphores(self.chip)?;
        let may = !changed && apart && bytes <= self.window_bytes() && args.len() <= MOST_OPERANDS;
        may.then_some((at, Fetch { spec, args, op: *op }))
    }
}
