//! Equal parts of an array along a dimension, as rows of memory.
//!
//! A part that lies in whole rows of 32-bit words can be copied to and from an array of its own by strided DMA. Everything
//! here counts rows of words.

use serde::{Deserialize, Serialize};
use systole_isa::dma::HBM_GRANULE;
use systole_isa::{DType, Layout};

/// Where the parts of an array lie: `components x planes x before` runs of `run` rows each, the same in the whole array
/// and in an array that is one part, with different strides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parts {
    pub components: u64,
    pub planes: u64,
    pub before: u64,
    /// Contiguous rows.
    pub run: u64,
    /// Rows from one part to the next in the whole array.
    pub step: u64,
    /// Rows between components, planes, and runs of a plane, in the whole array and in a part.
    pub whole: [u64; 3],
    pub part: [u64; 3],
}

impl Parts {
    /// Parts that are consecutive rows of one array, `step` rows each, components `component` rows apart.
    pub fn rows(dtype: DType, component: u64, step: u64) -> Parts {
        let strides = [component, 0, 0];
        Parts {
            components: dtype.components() as u64,
            planes: 1,
            before: 1,
            run: step,
            step,
            whole: strides,
            part: strides,
        }
    }

    /// Rows that one component of `rows` rows of every run takes in vector memory: whole tiles, since kernels store whole
    /// registers.
    pub fn slot_component(&self, rows: u64, sublanes: u32) -> u64 {
        (self.planes * self.before * rows).next_multiple_of(4 * u64::from(sublanes))
    }

    /// Rows of a part.
    pub fn total(&self) -> u64 {
        self.components * self.planes * self.before * self.run
    }
}

/// The parts of an array of `dims` cut into `n` along dimension `dim`, if they lie in whole rows (and HBM granules).
pub fn parts(dtype: DType, dims: &[u64], dim: usize, n: u64, tile: (u32, u32)) -> Option<Parts> {
    let size = dims[dim].checked_div(n).filter(|s| s * n == dims[dim])?;
    let mut small = dims.to_vec();
    small[dim] = size;
    let (s, l) = tile;
    let (whole, part) = (Layout::row_major(dtype, dims, s, l), Layout::row_major(dtype, &small, s, l));
    if dims.iter().product::<u64>() == 0 {
        return None;
    }
    let packing = dtype.packing() as u64;
    let rank = dims.len();
    // In element rows first.
    let strides = |x: &Layout, before: u64| [x.total_rows(), x.plane_rows(), before];
    let (planes, before, run, step, wb, pb) = if dim + 1 == rank {
        if size % u64::from(l) != 0 {
            return None;
        }
        let run = part.planes() * part.plane_rows();
        (1, 1, run, run, 0, 0)
    } else if dim + 2 == rank {
        (whole.planes(), whole.outer(), size, size, whole.padded_rows(), part.padded_rows())
    } else {
        let after: u64 = dims[dim + 1..rank - 2].iter().product::<u64>() * whole.padded_rows();
        let before: u64 = dims[..dim].iter().product();
        (whole.planes(), before, size * after, size * after, dims[dim] * after, size * after)
    };
    // What there is one of has no stride.
    let alone = |[component, plane, before]: [u64; 3]| [component, if planes > 1 { plane } else { 0 }, before];
    let (a, b) = (alone(strides(&whole, wb)), alone(strides(&part, pb)));
    let rows = [run, step].into_iter().chain(a).chain(b);
    if rows.into_iter().any(|r| r % packing != 0) {
        return None;
    }
    let words = |x: [u64; 3]| x.map(|r| r / packing);
    let p = Parts {
        components: dtype.components() as u64,
        planes,
        before,
        run: run / packing,
        step: step / packing,
        whole: words(a),
        part: words(b),
    };
    let row_bytes = u64::from(l) * 4;
    (p.step * row_bytes).is_multiple_of(HBM_GRANULE).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_where_the_layout_puts_their_elements() {
        let tile = (8, 128);
        for (dtype, dims, dim, n) in [
            (DType::F32, vec![64, 200], 0, 4),
            (DType::F32, vec![12, 300], 0, 4),
            (DType::F32, vec![6, 16, 130], 1, 2),
            (DType::BF16, vec![8, 16, 256], 0, 4),
            (DType::S8, vec![3, 8, 10, 20], 1, 4),
            (DType::F32, vec![16, 512], 1, 4),
            (DType::C128, vec![4, 5, 6, 7], 0, 2),
            (DType::F32, vec![1024], 0, 8),
        ] {
            let p = parts(dtype, &dims, dim, n, tile).unwrap_or_else(|| panic!("{dims:?} by {dim}"));
            let packing = dtype.packing() as u64;
            let whole = Layout::row_major(dtype, &dims, 8, 128);
            let mut small = dims.clone();
            small[dim] /= n;
            let part = Layout::row_major(dtype, &small, 8, 128);
            // Every row of a part, as (row in the whole, row in the part).
            let mut rows = std::collections::BTreeMap::new();
            for plane in 0..p.planes {
                for b in 0..p.before {
                    for r in 0..p.run {
                        let w = plane * p.whole[1] + b * p.whole[2] + r;
                        rows.insert(plane * p.part[1] + b * p.part[2] + r, w);
                    }
                }
            }
            for flat in 0..small.iter().product::<u64>() {
                let mut rest = flat;
                let mut index = vec![0; small.len()];
                for d in (0..small.len()).rev() {
                    index[d] = rest % small[d];
                    rest /= small[d];
                }
                let (row, lane) = part.locate(&index);
                for k in 0..n {
                    let mut at = index.clone();
                    at[dim] += k * small[dim];
                    let (want, want_lane) = whole.locate(&at);
                    let found = (rows[&(row / packing)] + k * p.step) * packing + row % packing;
                    assert_eq!((found, lane), (want, want_lane), "{dims:?} by {dim}, {index:?} of part {k}");
                }
            }
        }
        // Parts inside lanes or inside packed words are no rows.
        assert_eq!(parts(DType::F32, &[4, 64], 1, 4, tile), None);
        assert_eq!(parts(DType::BF16, &[4, 64], 0, 4, tile), None);
    }
}
