//! The best tile of a contraction, as plain numbers that everything else about its kernel follows from.

use super::spec::{Array, Contraction, MxuError, Place, RhsForm};
use super::tile::{Problem, Tiling};
use super::{format, geometry};
use crate::kernel::Needs;
use serde::{Deserialize, Serialize};
use std::fmt;
use systole_isa::ChipConfig;

/// How a contraction is cut. With the contraction and the chip it says all that a kernel's code depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tile {
    /// Which of the contraction's geometries ([`geometry::Geometry::variants`]), on which of [`unit_counts`], with which part of the
    /// arrays ([`geometry::Staging::variants`]): all geometries with all units and the largest part first, then with fewer units.
    pub variant: u32,
    /// Matrix units side by side along the columns of results; the others take rows.
    pub units: u32,
    /// Block dimensions of rows that are walked one index at a time, and blocks of the next one that a tile has.
    pub outer: u32,
    pub rows: u32,
    /// Splits of `k`, and column groups of a wide tile.
    pub splits: u32,
    pub groups: u32,
    /// Windows of lhs, rhs and the result; 0 where the array is in vector memory.
    pub windows: [u32; 3],
    /// Matrix units beside each other along `k` in the last part ([`super::ends`]); 1: it is as all others.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub close: u32,
    /// Pieces that chunks of lhs come in ([`super::ends`]); 1: they come whole.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub open: u32,
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_one(n: &u32) -> bool {
    *n == 1
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tile { variant, units, outer, rows, splits, groups, windows: [l, r, o], close, open } = self;
        write!(
            f,
            "variant {variant}, {units} units, {outer} outer, {rows} rows, {splits} splits, {groups} groups, windows \
             {l}/{r}/{o}"
        )?;
        let mut unless_one = |name, n| if n > 1 { write!(f, ", {name} {n}") } else { Ok(()) };
        unless_one("close", *close)?;
        unless_one("open", *open)
    }
}

/// A chosen tile: what its kernel needs besides its arrays, and its estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    pub tile: Tile,
    pub needs: Needs,
    pub cycles: f64,
}

impl Tile {
    pub(super) fn of(variant: u32, t: &Tiling) -> Tile {
        let count = |w: &Option<super::tile::Window>| w.map_or(0, |w| w.count);
        Tile {
            variant,
            units: t.ns,
            outer: t.outer as u32,
            rows: t.ob,
            splits: t.ks,
            groups: t.ng,
            windows: [count(&t.windows.lhs), count(&t.windows.rhs), count(&t.windows.out)],
            close: t.close,
            open: t.open,
        }
    }
}

/// Share of a regular walk's cycles below which a less regular one is worth taking.
const LESS_REGULAR: f64 = 0.97;

impl Chosen {
    fn new(variant: u32, t: &Tiling) -> Chosen {
        let tile = Tile::of(variant, t);
        let needs = Needs { scratch_rows: t.words() as u32, semaphores: t.semaphores() };
        Chosen { tile, needs, cycles: t.cycles }
    }
}

/// How tiles are weighed: their cycles by the planner's own estimate become what they count as; `None`: not to be taken.
pub type Weigh<'a> = dyn Fn(&Tile, f64) -> Option<f64> + 'a;

/// Other tiles that are remembered of a choice.
const REMEMBERED: usize = 4;

/// The search for a tile.
pub(super) struct Search<'a> {
    pub weigh: &'a Weigh<'a>,
    /// The best tiles that were looked at, with their cycles, the best first.
    considered: Vec<(Tile, f64)>,
}

impl Search<'_> {
    /// Whether a tile with such cycles is worth remembering.
    pub fn wants(&self, cycles: f64) -> bool {
        self.considered.len() <= REMEMBERED || self.considered.last().is_some_and(|c| cycles < c.1)
    }

    /// Remembers a tile, as one of those that cut alike only if it is the better one.
    pub fn consider(&mut self, tile: Tile, cycles: f64) {
        let alike = |t: &Tile| (t.units, t.splits, t.outer, t.rows) == (tile.units, tile.splits, tile.outer, tile.rows);
        if let Some(known) = self.considered.iter_mut().find(|c| alike(&c.0)) {
            if cycles < known.1 {
                *known = (tile, cycles);
            }
        } else {
            self.considered.push((tile, cycles));
        }
        self.considered.sort_by(|a, b| a.1.total_cmp(&b.1));
        self.considered.truncate(REMEMBERED + 1);
    }
}

/// The best tile of a contraction, and the best others, with their cycles; `hooked`: of a kernel with a [`super::Hook`].
///
/// # Errors
/// If the budget of vector memory is too small for any blocks, no tile may be taken, or operand types or strides need a
/// rewrite first.
pub fn search(
    spec: &Contraction,
    chip: &ChipConfig,
    hooked: bool,
    weigh: &Weigh<'_>,
) -> Result<(Chosen, Vec<(Tile, f64)>), MxuError> {
    let formats = format::Formats::choose(spec, chip)?;
    let mut search = Search { weigh, considered: Vec::new() };
    let mut best: Option<(Chosen, f64)> = None;
    let mut failed = None;
    let parts = geometry::Staging::variants(spec, chip);
    let counts = parts.iter().flat_map(|&part| unit_counts(chip).into_iter().map(move |units| (part, units)));
    let ways =
        |(part, units)| geometry::Geometry::variants(spec, chip, units).into_iter().map(move |g| (part, units, g));
    for (i, (staging, units, geometry)) in counts.flat_map(ways).enumerate() {
        let variant = i as u32;
        let problem = Problem { spec, chip, geometry: &geometry, formats: &formats, staging, hooked, variant, units };
        match problem.choose(&mut search) {
            Ok((tiling, weight)) if best.as_ref().is_none_or(|b| weight < LESS_REGULAR * b.1) => {
                best = Some((Chosen::new(variant, &tiling), weight));
            }
            Ok(_) => {}
            Err(e) => failed = Some(e),
        }
    }
    let Some((chosen, _)) = best else { return Err(failed.expect("there is always a variant")) };
    search.considered.retain(|c| c.0 != chosen.tile);
    search.considered.truncate(REMEMBERED);
    Ok((chosen, search.considered))
}

/// The best tile by the planner's own estimate; see [`search`].
///
/// # Errors
/// As there.
pub fn choose(spec: &Contraction, chip: &ChipConfig, hooked: bool) -> Result<Chosen, MxuError> {
    search(spec, chip, hooked, &|_, cycles| Some(cycles)).map(|found| found.0)
}

/// What a tile needs and its estimate.
///
/// # Errors
/// If there is no such tile.
pub fn consider(spec: &Contraction, tile: &Tile, chip: &ChipConfig, hooked: bool) -> Result<Chosen, MxuError> {
    with_problem(spec, tile.variant, chip, hooked, |p| Ok(Chosen::new(tile.variant, &p.restored(tile)?)))
}

/// Rows and columns of an array that a tile's weights take; `None` if there is no such tile.
pub fn filled(spec: &Contraction, tile: &Tile, chip: &ChipConfig) -> Option<(u32, u32)> {
    let part = with_problem(spec, tile.variant, chip, false, |p| Ok(p.staging.part)).ok()?;
    Some((part.k.count * chip.core.lanes, part.n.count * chip.core.lanes))
}

/// How a kernel with a tile goes through its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileWalk {
    /// Blocks that the rows of the outermost cut dimension come in.
    pub row_blocks: u32,
    /// Matrix units have neighbouring batch indices, beside each other.
    pub beside: bool,
    /// Several groups of rhs each stay in a window for all row blocks.
    pub keeps_rhs: bool,
    /// Results leave for HBM before all of a tile are there.
    pub leaves_early: bool,
}

/// How a tile's kernel goes through its arrays.
///
/// # Errors
/// If there is no such tile.
pub fn walk(spec: &Contraction, tile: &Tile, chip: &ChipConfig) -> Result<TileWalk, MxuError> {
    with_problem(spec, tile.variant, chip, false, |p| {
        let t = p.restored(tile)?;
        Ok(TileWalk {
            row_blocks: t.mo,
            beside: p.geometry.batch.beside.is_some(),
            keeps_rhs: t.keeps_rhs(),
            leaves_early: t.early_rows(spec, p.geometry).is_some(),
        })
    })
}

/// Word rows that a kernel reads behind the last elements of its arrays, where they lie. What arrays in HBM come through has its
/// own room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beyond {
    pub lhs: u64,
    pub rhs: u64,
    /// Of results and extras, which lie alike, if their elements fill words.
    pub out: u64,
}

/// How far a tile's kernel reads beyond its arrays: registers have all their sublanes loaded, also the last ones of a line of rows
/// and of the weights; copies of rhs by splits of `k` are whole planes of lanes.
///
/// # Errors
/// If there is no such tile.
pub fn beyond(spec: &Contraction, tile: &Tile, chip: &ChipConfig) -> Result<Beyond, MxuError> {
    let words = |elements: u64, a: &Array| elements.div_ceil(a.dtype.packing() as u64);
    let rest = |count: u32, of: u32| u64::from(count.next_multiple_of(of) - count);
    let (k_rows, stride) = match spec.rhs_form {
        RhsForm::LanesN { k_stride } => (true, k_stride),
        RhsForm::LanesK { n_stride } => (false, n_stride),
    };
    let staged = rest(if k_rows { spec.k } else { spec.n }, chip.core.sublanes) * u64::from(stride);
    let rhs = match spec.rhs.place {
        Place::Vmem => staged,
        Place::Hbm if tile.splits > 1 && k_rows => rest(spec.k, chip.core.lanes),
        Place::Hbm => 0,
    };
    with_problem(spec, tile.variant, chip, false, |p| {
        let inner = p.geometry.inner;
        let line = rest(inner.count, p.geometry.sublanes);
        let loaded = |a: &Array, stride: u32| match a.place {
            Place::Vmem => words(line * u64::from(stride), a),
            Place::Hbm => 0,
        };
        Ok(Beyond { lhs: loaded(&spec.lhs, inner.lhs), rhs: words(rhs, &spec.rhs), out: line * u64::from(inner.out) })
    })
}

/// Runs code with one of a contraction's geometries.
pub(super) fn with_problem<T>(
    spec: &Contraction,
    variant: u32,
    chip: &ChipConfig,
    hooked: bool,
    f: impl FnOnce(Problem<'_>) -> Result<T, MxuError>,
) -> Result<T, MxuError> {
    let formats = format::Formats::choose(spec, chip)?;
    let counts = unit_counts(chip);
    let each = geometry::Geometry::variants(spec, chip, counts[0]).len();
    let units = counts[variant as usize / each % counts.len()];
    let staging = geometry::Staging::variants(spec, chip).get(variant as usize / each / counts.len()).copied();
    let staging = staging.ok_or_else(|| MxuError::Tile(format!("variant {variant}")))?;
    let geometry = &geometry::Geometry::variants(spec, chip, units)[variant as usize % each];
    f(Problem { spec, chip, geometry, formats: &formats, staging, hooked, variant, units })
}

/// Matrix units that always work, if there are so many.
const FEW_UNITS: u32 = 4;

/// Numbers of matrix units that a contraction may use: all of them, and where there are many, fewer and fewer: each has to be given
/// its weights, which small products do not wait for.
pub fn unit_counts(chip: &ChipConfig) -> Vec<u32> {
    std::iter::successors(Some(chip.mxu.count), |&n| (n > FEW_UNITS).then(|| (n / 2).max(FEW_UNITS))).collect()
}

/// Sizes of equal parts of `count`, largest first: all of them for the first few, then fewer and fewer.
pub fn cuts(count: u32) -> impl Iterator<Item = u32> {
    let mut last = 0;
    let mut parts = 1;
    let numbers = std::iter::from_fn(move || {
        let now = parts;
        parts += 1 + parts / 8;
        (now < count).then_some(now)
    });
    numbers.chain([count]).map(move |parts| count.div_ceil(parts)).filter(move |&size| {
        let new = size != last;
        last = size;
        new
    })
}
