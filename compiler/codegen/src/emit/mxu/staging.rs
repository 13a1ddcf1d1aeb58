//! The staging of weights: the next step's, beside the pushes of the current one.

use super::body::{ChunkAt, Context, Step};
use crate::kernel::{KernelBuilder, M, S, V};
use systole_isa::{MxuFormat, Op};

/// Per-step state of staging.
pub(super) struct StageStep {
    /// Element row of the next group.
    pub at: S,
    /// k rows left from that group on, if they may end.
    k_left: Option<S>,
    /// Last group that exists, per column tile of the step (one for all if k lies along sublanes).
    limit: Vec<Option<S>>,
    lhs_like: Vec<(ChunkAt, M)>,
}

impl Context<'_> {
    /// Sets up the staging of a step whose weights begin at `rhs`.
    pub(super) fn begin_staging(&self, b: &mut KernelBuilder, rhs: S) -> StageStep {
        let (g, s, sub) = (self.p.geometry, self.p.staging, self.sub());
        let at = b.s_copy(rhs);
        // The last group of `left` rows, in element rows behind `from`.
        let last = |b: &mut KernelBuilder, left: S, from: S| {
            let groups = b.s_addi(left, sub as i32 - 1);
            let whole = b.def_s(Op::SAndI, &[groups.into(), (-(sub as i32)).into()]);
            let first = b.s_addi(whole, -(sub as i32));
            let positive = b.s(Op::SMax, &[first, S::ZERO]);
            let rows = if s.stride == 1 { positive } else { b.s_muli(positive, s.stride as i32) };
            b.s(Op::SAdd, &[from, rows])
        };
        if !s.transposed {
            let ends = g.k % self.tile_k().min(s.groups * sub) != 0;
            if self.t.k_tiles() == 1 {
                let k_left = ends.then(|| b.s_var(g.k as i32));
                return StageStep { at, k_left, limit: vec![None], lhs_like: Vec::new() };
            }
            let left = ends.then_some(self.next.odometer.vars[2]);
            let limit = left.map(|l| last(b, l, rhs));
            let k_left = left.map(|l| b.s_copy(l));
            return StageStep { at, k_left, limit: vec![limit], lhs_like: Vec::new() };
        }
        let cols = self.t.nch * g.lanes;
        let clamp = self.p.spec.n > cols && self.p.spec.n.next_multiple_of(sub) % cols != 0;
        let limit = (0..self.t.ns).map(|ni| {
            clamp.then(|| {
                let left = b.s_addi(self.next.odometer.vars[3], -((ni * cols) as i32));
                let from = b.s_addi(rhs, (ni * cols * s.stride) as i32);
                last(b, left, from)
            })
        });
        let limit = limit.collect();
        let k_left = (self.t.k_tiles() > 1).then_some(self.next.odometer.vars[2]);
        let k_left = k_left.filter(|_| g.k % self.tile_k() != 0);
        StageStep { at, k_left: None, limit, lhs_like: self.k_chunks(b, self.rhs.plane, k_left) }
    }

    /// Loads a register of weights for every slab, once for those that share it, and runs `f(slab, register)`.
    fn each_slab(
        &self,
        b: &mut KernelBuilder,
        load: &dyn Fn(&mut KernelBuilder, i32) -> V,
        f: &mut dyn FnMut(&mut KernelBuilder, u32, V),
    ) {
        let mut last: Option<(u32, V)> = None;
        for si in 0..self.t.ms {
            let skip = self.rhs.slab(si as usize, 0);
            let v = match last {
                Some((at, v)) if at == skip => v,
                _ => load(b, skip as i32),
            };
            last = Some((skip, v));
            f(b, si, v);
        }
    }

    /// Stages the next group of weight registers in every unit.
    pub fn stage_group(&self, b: &mut KernelBuilder, step: &Step, format: MxuFormat) {
        let (g, s, sub) = (self.p.geometry, self.p.staging, self.sub());
        let st = &step.staging;
        let cols = self.t.nch * g.lanes;
        let bounded = |b: &mut KernelBuilder, at: S, ni: u32| match st.limit[ni as usize] {
            Some(limit) => b.s(Op::SMin, &[at, limit]),
            None => at,
        };
        let units = self.unit_bases(b, st.at);
        if s.transposed {
            for ni in 0..self.t.ns {
                let skip = (ni * cols * s.stride) as i32;
                let (base, offset) = match st.limit[ni as usize] {
                    _ if self.closing.is_some() => units[ni as usize],
                    Some(_) => {
                        let at = b.s_addi(st.at, skip);
                        (bounded(b, at, ni), 0)
                    }
                    None => (st.at, skip),
                };
                for (&(at, mask), c) in st.lhs_like.iter().zip(s.part.k.first..) {
                    self.each_slab(
                        b,
                        &|b, skip| self.load(b, &self.rhs, base, at, offset + skip, s.stride, mask),
                        &mut |b, si, v| {
                            b.mxu_stage_t(si * self.t.ns + ni, v, c, format);
                        },
                    );
                }
            }
        } else {
            let base = bounded(b, st.at, 0);
            let mask = st.k_left.map_or(M::ALL, |left| {
                let (sublane, left) = (b.sublane(), b.splat(left));
                b.cmp(Op::VLtS, sublane, left)
            });
            for ni in 0..self.t.ns {
                for c in 0..self.t.nch {
                    let plane = ni * self.t.nch + c;
                    let (base, at) = match units.get(ni as usize) {
                        Some(&(base, skip)) => (base, ChunkAt::Fixed(skip + (c * self.rhs.plane) as i32)),
                        None => (base, ChunkAt::Fixed((plane * self.rhs.plane) as i32)),
                    };
                    let at = if plane < g.planes_n { at } else { ChunkAt::Missing };
                    let chunk = s.part.n.first + c;
                    self.each_slab(
                        b,
                        &|b, skip| self.load(b, &self.rhs, base, at, skip, s.stride, mask),
                        &mut |b, si, v| {
                            b.mxu_stage(si * self.t.ns + ni, v, chunk, format);
                        },
                    );
                }
            }
            if let Some(left) = st.k_left {
                b.s_inc(left, -(sub as i32));
            }
        }
        b.s_inc(st.at, (sub * s.stride) as i32);
    }

    /// Makes the staged weights active in every unit.
    pub fn latch(&self, b: &mut KernelBuilder) {
        (0..self.t.ns * self.t.ms).for_each(|u| b.mxu_latch(u));
    }
}
