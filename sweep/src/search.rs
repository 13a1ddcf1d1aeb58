//! Search: NSGA-II (Deb 2002) over the parameters of a sweep, for its front with fewer points than the grid has.
//!
//! Choices follow from the seed and from results alone; points are the plan's, so a search that was stopped finds what it
//! already has and goes on. Designs that fail or break a constraint lose against those that do not.

use crate::bad;
use crate::front::{costs, dominates};
use crate::plan::{Plan, Random, Values};
use crate::spec::{Space, Spec, Values as AxisValues};
use crate::store::Store;
use crate::table::Table;
use std::collections::BTreeMap;
use systole_runtime::RuntimeError;

/// What is asked of a search.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Designs at once.
    pub population: usize,
    pub generations: usize,
    pub seed: u64,
}

/// A design: a place from 0 to 1 for the chip and for every parameter.
pub type Genes = Vec<f64>;

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Designs that were run, and those of the whole grid.
    pub designs: usize,
    pub grid: u64,
}

/// Designs of the grid, conditions not regarded.
pub fn grid_size(space: &Space) -> u64 {
    let sizes = space.axes.iter().map(|a| a.values.grid().len() as u64);
    sizes.fold(space.chips.len() as u64, u64::saturating_mul)
}

/// The values that genes stand for. Ranges are cut to the steps of the grid, so that search and grid know the same designs.
fn values(space: &Space, genes: &[f64]) -> (String, Values) {
    let chip = space.chips[((genes[0] * space.chips.len() as f64) as usize).min(space.chips.len() - 1)].clone();
    let one = |(axis, g): (&crate::spec::Axis, &f64)| {
        let all = match &axis.values {
            AxisValues::List(l) => l.clone(),
            AxisValues::Range { .. } => axis.values.grid(),
        };
        (axis.key.clone(), all[((g * all.len() as f64) as usize).min(all.len() - 1)].clone())
    };
    (chip, space.axes.iter().zip(&genes[1..]).map(one).collect())
}

/// A member of the population with what it is worth.
#[derive(Clone, Debug)]
pub struct Member {
    pub genes: Genes,
    /// Smaller is better; infinite where it cannot be built.
    pub values: Vec<f64>,
    /// Of its front: 0 is that of members that no other dominates.
    pub rank: usize,
    /// How lonely it is in its front: distances of its neighbours, in shares of the front's width; infinite at its ends.
    pub crowd: f64,
}

/// Ranks members by fronts, and says how lonely each is in its front.
pub fn rank(members: &mut [Member]) {
    let mut left: Vec<usize> = (0..members.len()).collect();
    let mut rank = 0;
    while !left.is_empty() {
        let on_front = |&&i: &&usize| !left.iter().any(|&j| dominates(&members[j].values, &members[i].values));
        let front: Vec<usize> = left.iter().filter(on_front).copied().collect();
        // Values that are no numbers dominate nothing and are dominated by nothing.
        let front = if front.is_empty() { left.clone() } else { front };
        front.iter().for_each(|&i| {
            members[i].rank = rank;
            members[i].crowd = 0.0;
        });
        for o in 0..members.first().map_or(0, |m| m.values.len()) {
            let mut order = front.clone();
            order.sort_by(|&a, &b| members[a].values[o].total_cmp(&members[b].values[o]).then(a.cmp(&b)));
            let (first, last) = (order[0], order[order.len() - 1]);
            let width = members[last].values[o] - members[first].values[o];
            members[first].crowd = f64::INFINITY;
            members[last].crowd = f64::INFINITY;
            for w in order.windows(3) {
                let gap = members[w[2]].values[o] - members[w[0]].values[o];
                members[w[1]].crowd += if width > 0.0 && gap.is_finite() { gap / width } else { 0.0 };
            }
        }
        left.retain(|i| !front.contains(i));
        rank += 1;
    }
}

/// Whether a member is better than another: by its front, within one by how lonely it is.
pub fn better(a: &Member, b: &Member) -> bool {
    a.rank < b.rank || a.rank == b.rank && a.crowd > b.crowd
}

/// A child of two parents: each gene of one of them or between, then moved a little or drawn again at times.
fn child(a: &Genes, b: &Genes, random: &mut Random) -> Genes {
    let rate = 1.0 / a.len() as f64;
    let one = |(x, y): (&f64, &f64)| {
        let mixed = match random.uniform() {
            r if r < 0.4 => *x,
            r if r < 0.8 => *y,
            _ => x + random.uniform() * (y - x),
        };
        let moved = match random.uniform() {
            r if r < rate / 2.0 => random.uniform(),
            r if r < rate => mixed + 0.3 * (random.uniform() - 0.5),
            _ => mixed,
        };
        moved.clamp(0.0, 1.0 - 1e-9)
    };
    a.iter().zip(b).map(one).collect()
}

/// Searches. `evaluate` runs what the plan has and the store lacks; `tell` hears of every generation.
///
/// # Errors
/// What planning or evaluation says.
pub fn run(
    store: &Store,
    spec: &Spec,
    search: &Search,
    evaluate: &mut dyn FnMut(&Plan) -> Result<(), RuntimeError>,
    tell: &mut dyn FnMut(usize, usize),
) -> Result<Found, RuntimeError> {
    let space = &spec.space;
    if space.axes.is_empty() || search.population < 4 {
        return Err(bad("a search has parameters, and at least 4 designs at once"));
    }
    let mut random = Random::new(search.seed);
    let mut plan = Plan { points: Vec::new(), removed: 0, ..store.plan()? };
    let mut places: BTreeMap<(String, Values), Vec<usize>> = BTreeMap::new();
    let draw = |random: &mut Random| (0..=space.axes.len()).map(|_| random.uniform()).collect::<Genes>();
    let mut fresh: Vec<Genes> = (0..search.population).map(|_| draw(&mut random)).collect();
    let mut population: Vec<Member> = Vec::new();
    for generation in 0..search.generations.max(1) {
        for genes in &fresh {
            let (chip, values) = values(space, genes);
            if !places.contains_key(&(chip.clone(), values.clone())) {
                let base = plan.bases.get(&chip).cloned().ok_or_else(|| bad(format!("no chip `{chip}`")))?;
                let added = plan.add(spec, &base, values.clone())?;
                places.insert((chip, values), added);
            }
        }
        store.grow(&plan)?;
        evaluate(&plan)?;
        let table = Table::new(spec, &plan, &store.results()?, &[])?;
        let worth: BTreeMap<usize, Vec<f64>> = table
            .designs
            .iter()
            .filter(|d| d.feasible)
            .flat_map(|d| d.rows.iter().map(|&r| (r, costs(&spec.objectives, &d.values))))
            .collect();
        let bad_values = vec![f64::INFINITY; spec.objectives.len()];
        for genes in fresh.drain(..) {
            let rows = places.get(&values(space, &genes));
            let found = rows.and_then(|r| r.first()).and_then(|r| worth.get(r));
            let values = found.cloned().unwrap_or_else(|| bad_values.clone());
            population.push(Member { genes, values, rank: 0, crowd: 0.0 });
        }
        // Of members with the same values one is enough.
        let mut seen = Vec::new();
        population.retain(|m| {
            let design = values(space, &m.genes);
            let new = !seen.contains(&design);
            seen.push(design);
            new
        });
        rank(&mut population);
        population.sort_by(|a, b| a.rank.cmp(&b.rank).then(b.crowd.total_cmp(&a.crowd)));
        population.truncate(search.population);
        tell(generation + 1, places.len());
        let n = population.len();
        let mut attempts = 0;
        while fresh.len() < search.population && attempts < 50 * search.population {
            attempts += 1;
            let pick = |random: &mut Random| {
                let (i, j) = (random.below(n), random.below(n));
                if better(&population[i], &population[j]) { i } else { j }
            };
            let (a, b) = (pick(&mut random), pick(&mut random));
            let genes = child(&population[a].genes, &population[b].genes, &mut random);
            if !places.contains_key(&values(space, &genes)) {
                fresh.push(genes);
            }
        }
        if fresh.is_empty() {
            break;
        }
    }
    Ok(Found { designs: places.len(), grid: grid_size(space) })
}
