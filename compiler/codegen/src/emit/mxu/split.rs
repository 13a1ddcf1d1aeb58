//! A contraction cut into parts that the cores of a device compute side by side.
//!
//! A part is a contraction of its own on parts of the same arrays: the geometry stays, the bases move. The cut dimension is
//! the columns, one of the dimensions of the rows, or a batch dimension. Parts of the result begin at whole registers and
//! granules, so that no part stores to another's rows. What is done to results before they are stored is done by each part to
//! its own: extras begin where the result does, and rows along the columns are read from the part's first column on.

use super::choose::choose;
use super::finish::FinishInput;
use super::spec::{Array, Contraction, Dim, Place, RhsForm};
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{ChipConfig, DType};

/// What one core computes: a contraction, and where its arrays begin, in element rows behind those of the whole. Extras begin
/// where the result does.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub contraction: Contraction,
    pub lhs: u32,
    pub rhs: u32,
    pub out: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Columns,
    Rows(usize),
    Batch(usize),
}

/// The parts of a contraction for `cores` cores, which share the chip's HBM, with the estimated cycles of the longest; none
/// if it cannot be cut.
pub fn split(spec: &Contraction, cores: u32, chip: &ChipConfig) -> Option<(Vec<Part>, f64)> {
    let shared = shared(chip, cores);
    let rows = (0..spec.rows.len()).map(Cut::Rows);
    let cuts = rows.chain((0..spec.batch.len()).map(Cut::Batch)).chain([Cut::Columns]);
    let mut best: Option<(Vec<Part>, f64)> = None;
    for cut in cuts {
        let Some(parts) = parts(spec, cut, cores, chip) else { continue };
        let mut cycles = 0.0f64;
        for (i, p) in parts.iter().enumerate() {
            if i > 0 && p.contraction == parts[i - 1].contraction {
                continue;
            }
            cycles = cycles.max(choose(&p.contraction, &shared, false).map_or(f64::INFINITY, |c| c.cycles));
        }
        if cycles.is_finite() && best.as_ref().is_none_or(|b| cycles < b.1) {
            best = Some((parts, cycles));
        }
    }
    best
}

/// The chip as one of `cores` cores sees it that share its HBM: what estimates are made for.
pub fn shared(chip: &ChipConfig, cores: u32) -> ChipConfig {
    let mut shared = chip.clone();
    shared.hbm.bandwidth /= f64::from(cores);
    shared
}

fn parts(spec: &Contraction, cut: Cut, cores: u32, chip: &ChipConfig) -> Option<Vec<Part>> {
    let count = match cut {
        Cut::Columns => spec.n,
        Cut::Rows(i) => spec.rows[i].count,
        Cut::Batch(i) => spec.batch[i].count,
    };
    if !whole(spec, cut) {
        return None;
    }
    // The smallest step at which every array may be cut.
    let first = if cut == Cut::Columns { chip.core.lanes } else { 1 };
    let mut unit = first;
    while !aligned(spec, begins(spec, cut, unit, chip), chip) {
        unit = unit.checked_mul(2).filter(|&u| u < count)?;
    }
    let units = count.div_ceil(unit);
    if units < cores {
        return None;
    }
    let bound = |i: u32| ((u64::from(units) * u64::from(i)).div_ceil(u64::from(cores)) as u32 * unit).min(count);
    let part = |i: u32| {
        let (from, to) = (bound(i), bound(i + 1));
        let [lhs, rhs, out] = begins(spec, cut, from, chip);
        let mut c = spec.clone();
        match cut {
            Cut::Columns => {
                c.n = to - from;
                let inputs = c.finish.iter_mut().flat_map(|f| &mut f.inputs);
                for input in inputs {
                    if let FinishInput::Columns { offset, step, .. } = input {
                        *offset += (from / chip.core.lanes * *step) as i32;
                    }
                }
            }
            Cut::Rows(d) => c.rows[d].count = to - from,
            Cut::Batch(d) => c.batch[d].count = to - from,
        }
        for (a, by) in [(&mut c.lhs, lhs), (&mut c.rhs, rhs), (&mut c.out, out)] {
            a.total_rows = a.total_rows.saturating_sub(by);
        }
        Part { contraction: c, lhs, rhs, out }
    };
    Some((0..cores).map(part).collect())
}

/// Whether the rows of the result that a part reaches, from the first to the last of a tile, belong to it alone: copies
/// may write what lies between. Tiles lie within a batch index of the right operand; other batch dimensions are rows.
fn whole(spec: &Contraction, cut: Cut) -> bool {
    let all: Vec<&Dim> = spec.batch.iter().chain(&spec.rows).collect();
    let at = match cut {
        Cut::Columns => return true,
        Cut::Rows(i) => spec.batch.len() + i,
        Cut::Batch(i) => i,
    };
    let reach: u64 = all[at + 1..].iter().map(|d| u64::from(d.count.saturating_sub(1)) * u64::from(d.out)).sum();
    u64::from(all[at].out) > reach && all[..at].iter().all(|d| d.count == 1 || d.rhs != 0)
}

/// Element rows of lhs, rhs and out before index `at` of the cut dimension.
fn begins(spec: &Contraction, cut: Cut, at: u32, chip: &ChipConfig) -> [u32; 3] {
    let dim = |d: &Dim| [d.lhs * at, d.rhs * at, d.out * at];
    match cut {
        Cut::Rows(i) => dim(&spec.rows[i]),
        Cut::Batch(i) => dim(&spec.batch[i]),
        Cut::Columns => {
            let planes = at / chip.core.lanes;
            let rhs = match spec.rhs_form {
                RhsForm::LanesN { .. } => planes * spec.rhs.plane_rows,
                RhsForm::LanesK { n_stride } => at * n_stride,
            };
            [0, rhs, planes * spec.out.plane_rows]
        }
    }
}

/// Whether arrays may begin so many element rows later: at whole registers and, in HBM, granules.
fn aligned(spec: &Contraction, rows: [u32; 3], chip: &ChipConfig) -> bool {
    let fits = |(a, rows): (&Array, u32)| {
        let packing = a.dtype.packing() as u32;
        let words = u64::from(rows / packing);
        let registers = rows % (packing * chip.core.sublanes) == 0;
        registers && (a.place == Place::Vmem || (words * chip.row_bytes()).is_multiple_of(HBM_GRANULE))
    };
    let extra = |&(place, dtype): &(Place, DType)| fits((&Array { place, dtype, ..spec.out }, rows[2]));
    [&spec.lhs, &spec.rhs, &spec.out].into_iter().zip(rows).all(fits) && spec.extras.iter().all(extra)
}
