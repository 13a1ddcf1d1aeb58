//! What results depend on: by coefficient of the cost table, and along one parameter.

use crate::outcome::Counters;
use crate::table::Table;
use systole_isa::ChipConfig;
use systole_isa::chip::Cost;
use systole_runtime::cost::{Prices, energy};

/// What a coefficient at the ends of its range does to the energy.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    pub name: &'static str,
    /// Joules at the range's low end, and at its high end.
    pub low: f64,
    pub high: f64,
}

impl Bar {
    /// How far apart the ends are.
    pub fn swing(&self) -> f64 {
        (self.high - self.low).abs()
    }
}

/// The coefficients that the energy of a run depends on most.
pub fn tornado(chip: &ChipConfig, c: &Counters, most: usize) -> Vec<Bar> {
    let prices = Prices::of(chip);
    let seconds = chip.seconds(c.cycles);
    let counted = energy::Counted::of(chip, &c.work);
    let total = |p: &Prices| counted.energy(seconds, c.devices, p).total();
    let bar = |&cost: &Cost| {
        let row = chip.costs.row(cost);
        Bar { name: cost.info().0, low: total(&prices.with(cost, row.low)), high: total(&prices.with(cost, row.high)) }
    };
    let mut bars: Vec<Bar> = Cost::ALL.iter().map(bar).filter(|b| b.swing() > 0.0).collect();
    bars.sort_by(|a, b| b.swing().total_cmp(&a.swing()).then(a.name.cmp(b.name)));
    bars.truncate(most);
    bars
}

/// One parameter's effect: the mean of an objective over the designs of each value.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    pub key: String,
    /// Value, objective, in order of the value.
    pub points: Vec<(f64, f64)>,
    /// Where more of it stops to pay: the place farthest from the line between the ends.
    pub knee: Option<usize>,
}

impl Slice {
    /// Greatest over least.
    pub fn effect(&self) -> f64 {
        let values = || self.points.iter().map(|p| p.1).filter(|v| *v > 0.0);
        let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        if low > 0.0 && low.is_finite() { high / low } else { 1.0 }
    }
}

/// The place farthest from the line between the ends of a curve that falls, in shares of both axes.
pub fn knee(points: &[(f64, f64)]) -> Option<usize> {
    let (first, last) = (points.first()?, points.last()?);
    let (dx, dy) = (last.0 - first.0, last.1 - first.1);
    if points.len() < 3 || dx == 0.0 || dy == 0.0 {
        return None;
    }
    let distance = |p: &(f64, f64)| {
        let (x, y) = ((p.0 - first.0) / dx, (p.1 - first.1) / dy);
        y - x
    };
    let inner = points.iter().enumerate().skip(1).take(points.len() - 2);
    let best = inner.max_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))?;
    (distance(best.1) > 0.05).then_some(best.0)
}

/// Slices of an objective (its place) along every parameter that is a number, those with most effect first. The geometric mean
/// over all feasible designs of a value stands for it.
pub fn slices(table: &Table, objective: usize) -> Vec<Slice> {
    let mut out = Vec::new();
    for key in &table.keys {
        let mut by: std::collections::BTreeMap<u64, (f64, f64, usize)> = Default::default();
        for d in table.designs.iter().filter(|d| d.feasible && d.values[objective] > 0.0) {
            let row = &table.rows[d.rows[0]];
            let text = row.case.value(key);
            let Some(x) = text.and_then(|t| crate::spec::number(key, t)).filter(|x| *x >= 0.0) else { continue };
            let e = by.entry(x.to_bits()).or_insert((x, 0.0, 0));
            e.1 += d.values[objective].ln();
            e.2 += 1;
        }
        // A range that was sampled has a design a value: values are joined in twelve parts.
        let mut all: Vec<(f64, f64, usize)> = by.into_values().collect();
        if all.len() > 24 {
            let part = all.len().div_ceil(12);
            let join = |c: &[(f64, f64, usize)]| {
                let n: usize = c.iter().map(|p| p.2).sum();
                (c.iter().map(|p| p.0 * p.2 as f64).sum::<f64>() / n as f64, c.iter().map(|p| p.1).sum(), n)
            };
            all = all.chunks(part).map(join).collect();
        }
        let points: Vec<(f64, f64)> = all.into_iter().map(|(x, sum, n)| (x, (sum / n as f64).exp())).collect();
        if points.len() > 1 {
            let knee = knee(&points);
            out.push(Slice { key: key.clone(), points, knee });
        }
    }
    out.sort_by(|a, b| b.effect().total_cmp(&a.effect()).then_with(|| a.key.cmp(&b.key)));
    out
}
