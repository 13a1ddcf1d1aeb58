//! A contraction's dimensions in the form that the kernel walks.
//!
//! - Dimensions of size 1 are gone; batch dimensions that the rhs does not have count as rows.
//! - The innermost row dimensions are merged where their rows follow each other in both arrays (rows of padding in
//!   between count: their results land in padding).
//! - Rows are *blocks* of `sublanes` positions along the innermost dimension; the last block of a line may reach past
//!   its end.

use super::spec::{Array, Contraction, Dim, RhsForm};
use systole_isa::ChipConfig;

/// See the module docs. Dimensions are outermost first.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    pub sublanes: u32,
    pub lanes: u32,
    pub batch: Batch,
    pub blocks: Blocks,
    /// The dimension across sublanes: positions of a line and strides between them.
    pub inner: Dim,
    pub taps: Vec<Dim>,
    pub k: u32,
    pub planes_k: u32,
    pub planes_n: u32,
    /// Stores must be masked to the positions that exist.
    pub masked: bool,
}

/// The dimensions that all three arrays have.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub dims: Vec<Dim>,
    /// Batch indices that the matrix units compute beside each other, each with weights of its own: neighbours along a dimension of
    /// which the last of `dims` counts what is done at a time.
    pub beside: Option<Beside>,
}

/// The dimensions of blocks of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    /// Strides from block to block.
    pub dims: Vec<Dim>,
    /// The last of `dims` counts blocks of one line (else a line is one block).
    pub long_lines: bool,
}

/// See [`Batch::beside`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// The whole dimension.
    pub whole: Dim,
    /// How many indices are beside each other. The last ones begin earlier where they do not come out even.
    pub units: u32,
}

impl Beside {
    /// Indices that the last ones begin before their regular place (as a negative number).
    pub fn last(&self) -> i64 {
        let Beside { whole, units } = self;
        i64::from(whole.count) - i64::from(whole.count.div_ceil(*units) * units)
    }
}

/// Element rows rounded up to whole words.
pub fn aligned(array: &Array, rows: u32) -> u32 {
    rows.next_multiple_of(array.dtype.packing() as u32)
}

/// Largest sublane stride of a load or store.
const MAX_STRIDE: u32 = (1 << 15) - 1;

fn round_up(x: u32, to: u32) -> u32 {
    x.div_ceil(to) * to
}

/// The two dimensions as one, if neighbours follow each other in every array.
fn merge_exact(outer: Dim, inner: Dim) -> Option<Dim> {
    let follows = |o: u32, i: u32| o as u64 == inner.count as u64 * i as u64;
    let all = follows(outer.lhs, inner.lhs) && follows(outer.rhs, inner.rhs) && follows(outer.out, inner.out);
    let count = outer.count.checked_mul(inner.count)?;
    all.then_some(Dim { count, ..inner })
}

/// As [`merge_exact`], with lines padded to whole registers.
fn merge_padded(outer: Dim, inner: Dim, sublanes: u32) -> Option<Dim> {
    let pitch = round_up(inner.count, sublanes);
    let fits = inner.lhs == 1 && inner.out == 1 && outer.lhs == pitch && outer.out == pitch && inner.count > 1;
    let count = (outer.count - 1).checked_mul(pitch)?.checked_add(inner.count)?;
    fits.then_some(Dim { count, ..inner })
}

fn merge_all(dims: &mut Vec<Dim>) {
    let mut i = 0;
    while i + 1 < dims.len() {
        match merge_exact(dims[i], dims[i + 1]) {
            Some(d) => {
                dims[i] = d;
                dims.remove(i + 1);
            }
            None => i += 1,
        }
    }
}

impl Geometry {
    /// The geometries to choose from for so many matrix units: as written, where its lines do not fill registers with the
    /// sublanes of a register across another dimension of rows that fills them, and with batch indices beside each other.
    /// How many there are does not depend on `units`.
    pub fn variants(spec: &Contraction, chip: &ChipConfig, units: u32) -> Vec<Geometry> {
        let plain = Geometry::new(spec, chip);
        let sub = chip.core.sublanes;
        let mut all = Vec::new();
        if !plain.inner.count.is_multiple_of(sub) {
            let rows = Geometry::rows(spec);
            let fits = |d: &Dim| d.count.is_multiple_of(sub) && d.lhs.max(d.out) <= MAX_STRIDE;
            let across = (0..rows.len()).filter(|&i| fits(&rows[i]));
            all.extend(across.map(|i| Geometry::across(spec, chip, i)));
        }
        let beside = plain.beside(chip, units);
        all.insert(0, plain);
        all.extend(beside);
        all
    }

    /// The geometry with neighbours along the innermost batch dimension beside each other.
    fn beside(&self, chip: &ChipConfig, units: u32) -> Option<Geometry> {
        let (&whole, around) = self.batch.dims.split_last().filter(|_| chip.mxu.count > 1)?;
        let units = units.min(whole.count);
        let [lhs, rhs, out] = [whole.lhs, whole.rhs, whole.out].map(|stride| stride * units);
        let dims = [around, &[Dim { count: whole.count.div_ceil(units), lhs, rhs, out }]].concat();
        Some(Geometry { batch: Batch { dims, beside: Some(Beside { whole, units }) }, ..self.clone() })
    }

    /// All dimensions of rows: the result's, and batch dimensions that the rhs does not have.
    fn rows(spec: &Contraction) -> Vec<Dim> {
        let shared = spec.batch.iter().filter(|d| d.count > 1 && d.rhs == 0);
        shared.chain(&spec.rows).copied().collect()
    }

    /// The geometry with sublanes across dimension `i` of [`Geometry::rows`], whose size is a multiple of them.
    fn across(spec: &Contraction, chip: &ChipConfig, i: usize) -> Geometry {
        let sub = chip.core.sublanes;
        let mut split = spec.clone();
        split.batch.retain(|d| d.rhs != 0);
        split.rows = Geometry::rows(spec);
        let d = split.rows[i];
        split.rows[i] = Dim { count: d.count / sub, lhs: d.lhs * sub, rhs: 0, out: d.out * sub };
        split.rows.push(Dim { count: sub, ..d });
        Geometry::new(&split, chip)
    }

    /// The geometry of a contraction.
    pub fn new(spec: &Contraction, chip: &ChipConfig) -> Geometry {
        let (sublanes, lanes) = (chip.core.sublanes, chip.core.lanes);
        let batch: Vec<Dim> = spec.batch.iter().copied().filter(|d| d.count > 1 && d.rhs != 0).collect();
        let mut rows = Geometry::rows(spec);
        let mut inner = rows.pop().unwrap_or(Dim { count: 1, lhs: 1, rhs: 0, out: 1 });
        rows.retain(|d| d.count > 1);
        while let Some(&outer) = rows.last() {
            let one = (inner.count == 1).then_some(outer);
            let merged = one.or_else(|| merge_exact(outer, inner)).or_else(|| merge_padded(outer, inner, sublanes));
            let Some(d) = merged else { break };
            inner = d;
            rows.pop();
        }
        let masked = !inner.count.is_multiple_of(sublanes) && !padded(spec, &batch, &rows, inner, sublanes);
        merge_all(&mut rows);
        let block =
            Dim { count: inner.count.div_ceil(sublanes), lhs: sublanes * inner.lhs, rhs: 0, out: sublanes * inner.out };
        let long_lines = block.count > 1 || rows.is_empty();
        if long_lines {
            rows.push(block);
        }
        let mut taps: Vec<Dim> = spec.taps.iter().copied().filter(|d| d.count > 1).collect();
        merge_all(&mut taps);
        let mut batch = batch;
        merge_all(&mut batch);
        Geometry {
            sublanes,
            lanes,
            batch: Batch { dims: batch, beside: None },
            blocks: Blocks { dims: rows, long_lines },
            inner,
            taps,
            k: spec.k,
            planes_k: spec.k.div_ceil(lanes),
            planes_n: spec.n.div_ceil(lanes),
            masked,
        }
    }

    /// Element rows from the first to behind the last that `dims` reach, one at least.
    pub fn extent(dims: &[Dim], stride: impl Fn(&Dim) -> u32) -> u32 {
        dims.iter().map(|d| (d.count - 1) * stride(d)).sum::<u32>() + 1
    }
}

/// Whether the rest of a line's last register is padding of the result.
fn padded(spec: &Contraction, batch: &[Dim], rows: &[Dim], inner: Dim, sublanes: u32) -> bool {
    let line = round_up(inner.count, sublanes);
    inner.out == 1
        && batch.iter().chain(rows).all(|d| d.out >= line)
        && spec.out.plane_rows >= Geometry::extent(batch, |d| d.out) + Geometry::extent(rows, |d| d.out) - 2 + line
}

/// The part of an array that a contraction uses: what does not fill an array's rows or columns leaves the others alone, and what
/// takes several arrays fills each as far. Rows of weights are staged from the array's first row on, columns of transposed ones
/// from its first column; along the other dimension the part is at the array's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Of rows. Pushing the chunk beyond them fires a row.
    pub k: Chunks,
    /// Of columns. Popping the chunk beyond them retires a result.
    pub n: Chunks,
}

/// Lane chunks of an array's rows or columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    pub first: u32,
    pub count: u32,
    /// The array's last chunk, where it is behind these.
    pub beyond: Option<u32>,
}

impl Chunks {
    /// The first `count` of an array's.
    fn first(count: u32, all: u32) -> Chunks {
        Chunks { first: 0, count, beyond: (count < all).then_some(all - 1) }
    }

    /// The last `count` of an array's.
    fn last(count: u32, all: u32) -> Chunks {
        Chunks { first: all - count, count, beyond: None }
    }
}

impl Part {
    /// At most `most` chunks of rows and of columns.
    fn new(spec: &Contraction, chip: &ChipConfig, most: (u32, u32)) -> Part {
        let (rows, cols) = chip.mxu_chunks();
        let even = |size: u32, chunks: u32| {
            let planes = size.div_ceil(chip.core.lanes).max(1);
            planes.div_ceil(planes.div_ceil(chunks))
        };
        let (k, n) = (even(spec.k, most.0.min(rows)), even(spec.n, most.1.min(cols)));
        match spec.rhs_form {
            RhsForm::LanesN { .. } => Part { k: Chunks::first(k, rows), n: Chunks::last(n, cols) },
            RhsForm::LanesK { .. } => Part { k: Chunks::last(k, rows), n: Chunks::first(n, cols) },
        }
    }
}

/// How the rhs is staged: registers along the sublanes' dimension, and lane chunks of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staging {
    /// Staged transposed ([`RhsForm::LanesK`]).
    pub transposed: bool,
    /// Element rows between sublanes.
    pub stride: u32,
    /// Register groups of a full tile, and lane chunks of each.
    pub groups: u32,
    pub chunks: u32,
    pub part: Part,
}

impl Staging {
    /// The stagings of a contraction on a chip: as much of the arrays as it fills, then smaller and smaller parts: their tiles are
    /// smaller, and so are the windows that operands come through.
    pub fn variants(spec: &Contraction, chip: &ChipConfig) -> Vec<Staging> {
        let (mut rows, mut cols) = chip.mxu_chunks();
        let mut all = vec![Staging::new(spec, chip, (rows, cols))];
        while rows * cols > 1 {
            if cols >= rows {
                cols = cols.div_ceil(2);
            } else {
                rows = rows.div_ceil(2);
            }
            let smaller = Staging::new(spec, chip, (rows, cols));
            if all.last().is_some_and(|s| s.part != smaller.part) {
                all.push(smaller);
            }
        }
        all
    }

    /// The staging of a contraction that uses so many chunks of an array at most: a single tile of `k` or `n` is staged only as far
    /// as it reaches.
    fn new(spec: &Contraction, chip: &ChipConfig, most: (u32, u32)) -> Staging {
        let part = Part::new(spec, chip, most);
        let (sub, lanes) = (chip.core.sublanes, chip.core.lanes);
        let groups = |size: u32, chunks: u32| size.min(chunks * lanes).div_ceil(sub);
        match spec.rhs_form {
            RhsForm::LanesN { k_stride } => Staging {
                transposed: false,
                stride: k_stride,
                groups: groups(spec.k, part.k.count),
                chunks: part.n.count,
                part,
            },
            RhsForm::LanesK { n_stride } => Staging {
                transposed: true,
                stride: n_stride,
                groups: groups(spec.n, part.n.count),
                chunks: part.k.count,
                part,
            },
        }
    }
}
