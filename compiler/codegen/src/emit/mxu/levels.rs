//! The dimensions of a kernel's steps, and what addresses gain along each.

use super::odometer::Level;
use super::spec::{Dim, RhsForm};
use super::stream::Kind;
use super::tile::{Problem, Tiling, Window};
use crate::emit::hbm::HbmUnit;

/// What a variable gains at a level: to the next index, and on the last one besides.
#[derive(Clone, Copy, Default)]
pub(super) struct Gain {
    pub step: i32,
    pub last: i32,
}

pub(super) fn gain(step: i64, last: i64) -> Gain {
    Gain { step: step as i32, last: last as i32 }
}

/// The step-level dimensions of a tiling, with gains in element rows of the arrays (not of windows).
pub(super) struct Levels<'a> {
    pub p: &'a Problem<'a>,
    pub t: &'a Tiling,
}

impl Levels<'_> {
    pub(super) fn kinds(&self) -> Vec<(Kind, u32)> {
        let (g, t) = (self.p.geometry, self.t);
        let mut all = vec![(Kind::Pass, self.p.formats.passes.len() as u32)];
        all.extend(g.taps.iter().enumerate().rev().map(|(i, d)| (Kind::Tap(i), d.count)));
        all.extend([
            (Kind::K, t.kt),
            (Kind::Group, t.ng),
            (Kind::Split, t.ks),
            (Kind::Wide, t.wide),
            (Kind::Block, t.mo),
        ]);
        all.extend((0..t.outer).rev().map(|i| (Kind::Outer(i), g.blocks.dims[i].count)));
        all.extend(g.batch.dims.iter().enumerate().rev().map(|(i, d)| (Kind::Batch(i), d.count)));
        all
    }

    /// Planes that the last group of columns lies before its regular place (as a negative number).
    pub(super) fn group_last(&self) -> i64 {
        let t = self.t;
        if t.ng > 1 && t.wide == 1 { self.p.geometry.planes_n as i64 - (t.ng * t.group()) as i64 } else { 0 }
    }

    /// The gain of planes from one wide tile to the next.
    pub(super) fn wide(&self) -> Gain {
        let t = self.t;
        let planes = (t.ng * t.group()) as i64;
        gain(planes, self.p.geometry.planes_n as i64 - t.wide as i64 * planes)
    }

    fn block(&self, stride: u32) -> Gain {
        let t = self.t;
        let count = self.p.geometry.blocks.dims[t.outer].count as i64;
        gain(t.ob as i64 * stride as i64, (count - (t.mo * t.ob) as i64) * stride as i64)
    }

    fn batch(&self, i: usize, stride: impl Fn(&Dim) -> u32) -> Gain {
        let g = self.p.geometry;
        let beside = g.batch.beside.filter(|_| i + 1 == g.batch.dims.len());
        let last = beside.map_or(0, |beside| beside.last() * i64::from(stride(&beside.whole)));
        gain(stride(&g.batch.dims[i]).into(), last)
    }

    /// The dimension of a copy that batch indices beside each other are, if the window holds several: their number, distances in
    /// the array and in the window.
    pub(super) fn beside(&self, w: &Window, stride: impl Fn(&Dim) -> u32) -> Option<[u32; 3]> {
        let beside = self.p.geometry.batch.beside.filter(|_| w.beside > 1)?;
        Some([w.beside, stride(&beside.whole), w.apart()])
    }

    pub(super) fn lhs(&self, kind: Kind, plane: u32) -> Gain {
        let (g, t) = (self.p.geometry, self.t);
        match kind {
            Kind::Pass | Kind::Group | Kind::Wide => Gain::default(),
            Kind::Split => gain((t.kt * t.kch) as i64 * plane as i64, 0),
            Kind::Tap(i) => gain(g.taps[i].lhs as i64, 0),
            Kind::K => gain((t.kch * plane) as i64, 0),
            Kind::Block => self.block(g.blocks.dims[t.outer].lhs),
            Kind::Outer(i) => gain(g.blocks.dims[i].lhs as i64, 0),
            Kind::Batch(i) => self.batch(i, |d| d.lhs),
        }
    }

    pub(super) fn rhs(&self, kind: Kind, plane: u32) -> Gain {
        let (g, t) = (self.p.geometry, self.t);
        let (group, last) = (t.group() as i64, self.group_last());
        match (kind, self.p.spec.rhs_form) {
            (Kind::Pass | Kind::Block | Kind::Outer(_), _) => Gain::default(),
            (Kind::Tap(i), _) => gain(g.taps[i].rhs as i64, 0),
            (Kind::K, RhsForm::LanesN { k_stride }) => gain((t.kch * g.lanes) as i64 * k_stride as i64, 0),
            (Kind::K, RhsForm::LanesK { .. }) => gain((t.kch * plane) as i64, 0),
            (Kind::Split, RhsForm::LanesN { k_stride }) => gain((t.kt * t.kch * g.lanes) as i64 * k_stride as i64, 0),
            (Kind::Split, RhsForm::LanesK { .. }) => gain((t.kt * t.kch) as i64 * plane as i64, 0),
            (Kind::Wide, form) => {
                let size = match form {
                    RhsForm::LanesN { .. } => plane as i64,
                    RhsForm::LanesK { n_stride } => g.lanes as i64 * n_stride as i64,
                };
                let wide = self.wide();
                gain(wide.step as i64 * size, wide.last as i64 * size)
            }
            (Kind::Group, RhsForm::LanesN { .. }) => gain(group * plane as i64, last * plane as i64),
            (Kind::Group, RhsForm::LanesK { n_stride }) => {
                let row = g.lanes as i64 * n_stride as i64;
                gain(group * row, last * row)
            }
            (Kind::Batch(i), _) => self.batch(i, |d| d.rhs),
        }
    }

    pub(super) fn out(&self, kind: Kind, plane: u32) -> Gain {
        let (g, t) = (self.p.geometry, self.t);
        match kind {
            Kind::Pass | Kind::Tap(_) | Kind::K | Kind::Split => Gain::default(),
            Kind::Group => gain((t.group() * plane) as i64, self.group_last() * plane as i64),
            Kind::Wide => gain(self.wide().step as i64 * plane as i64, self.wide().last as i64 * plane as i64),
            Kind::Block => self.block(g.blocks.dims[t.outer].out),
            Kind::Outer(i) => gain(g.blocks.dims[i].out as i64, 0),
            Kind::Batch(i) => self.batch(i, |d| d.out),
        }
    }

    /// Whether the kind chooses another window of an operand of HBM.
    pub(super) fn is_tile(kind: Kind) -> bool {
        !matches!(kind, Kind::Pass | Kind::Tap(_) | Kind::K)
    }

    pub(super) fn level(&self, (kind, count): (Kind, u32), gains: &[Gain]) -> Level<Kind> {
        Level {
            kind,
            count,
            delta: gains.iter().map(|g| g.step).collect(),
            last: gains.iter().map(|g| g.last).collect(),
        }
    }

    /// Levels of one variable that follows a stream's blocks, in address units.
    pub(super) fn stream(&self, unit: &HbmUnit, of: impl Fn(Kind) -> Gain, skip: &[Kind]) -> Vec<Level<Kind>> {
        let kinds = self.kinds().into_iter().filter(|(k, _)| Levels::is_tile(*k) && !skip.contains(k));
        kinds
            .map(|k| {
                let g = of(k.0);
                self.level(k, &[Gain { step: unit.units(g.step), last: unit.units(g.last) }])
            })
            .collect()
    }

    /// The gain inside a window: nothing between blocks.
    pub(super) fn inside(kind: Kind, g: Gain) -> Gain {
        if Levels::is_tile(kind) { Gain::default() } else { g }
    }
}
