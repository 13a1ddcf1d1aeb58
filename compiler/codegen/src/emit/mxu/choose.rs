//! The best tile of a contraction, as plain numbers that everything else about its kernel follows from.

use super::spec::{Contraction, MxuError};
use super::tile::{Problem, Tiling};
use super::{format, geometry};
use std::fmt;
use systole_isa::ChipConfig;

/// How a contraction is cut. With the contraction and the chip it says all that a kernel's code depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Which of the contraction's geometries ([`geometry::Geometry::variants`]).
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
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tile { variant, units, outer, rows, splits, groups, windows: [l, r, o] } = self;
        write!(
            f,
            "variant {variant}, {units} units, {outer} outer, {rows} rows, {splits} splits, {groups} groups, windows \
             {l}/{r}/{o}"
        )
    }
}

/// A chosen tile: what its kernel needs besides its arrays, and its estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    pub tile: Tile,
    /// Word rows of scratch memory.
    pub scratch_rows: u32,
    pub semaphores: u32,
    pub cycles: f64,
}

impl Chosen {
    fn new(variant: usize, t: &Tiling) -> Chosen {
        let count = |w: &Option<super::tile::Window>| w.map_or(0, |w| w.count);
        let tile = Tile {
            variant: variant as u32,
            units: t.ns,
            outer: t.outer as u32,
            rows: t.ob,
            splits: t.ks,
            groups: t.ng,
            windows: [count(&t.lhs), count(&t.rhs), count(&t.out)],
        };
        Chosen { tile, scratch_rows: t.words() as u32, semaphores: t.semaphores(), cycles: t.cycles }
    }
}

/// The best tile of a contraction; `hooked`: of a kernel with a [`super::Hook`].
///
/// # Errors
/// If the budget of vector memory is too small for any blocks, or operand types or strides need a rewrite first.
pub fn choose(spec: &Contraction, chip: &ChipConfig, hooked: bool) -> Result<Chosen, MxuError> {
    let formats = format::Formats::choose(spec, chip)?;
    let staging = geometry::Staging::new(spec, chip);
    let variants = geometry::Geometry::variants(spec, chip);
    let tiled = variants.iter().enumerate().map(|(i, geometry)| {
        let problem = Problem { spec, chip, geometry, formats: &formats, staging, hooked };
        problem.choose().map(|tiling| Chosen::new(i, &tiling))
    });
    let better = |a: Result<Chosen, MxuError>, b: Result<Chosen, MxuError>| match (a, b) {
        (Ok(a), Err(_)) => Ok(a),
        (Ok(a), Ok(b)) => Ok(if cheaper(&b, &a) { b } else { a }),
        (Err(_), b) => b,
    };
    tiled.reduce(better).expect("there is always a variant")
}

/// What a tile needs and its estimate.
///
/// # Errors
/// If there is no such tile.
pub fn consider(spec: &Contraction, tile: &Tile, chip: &ChipConfig, hooked: bool) -> Result<Chosen, MxuError> {
    with_problem(spec, tile.variant, chip, hooked, |p| Ok(Chosen::new(tile.variant as usize, &p.restored(tile)?)))
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
    let staging = geometry::Staging::new(spec, chip);
    let variants = geometry::Geometry::variants(spec, chip);
    let geometry = variants.get(variant as usize).ok_or_else(|| MxuError::Tile(format!("variant {variant}")))?;
    f(Problem { spec, chip, geometry, formats: &formats, staging, hooked })
}

/// Whether a tiling is worth a less regular walk.
fn cheaper(a: &Chosen, than: &Chosen) -> bool {
    a.cycles < 0.97 * than.cycles
}
