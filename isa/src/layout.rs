//! Where the elements of an array lie in chip memory.
//!
//! An array is a sequence of *element rows* of `lanes` elements. With the physical dimensions (major to minor)
//! `[o0, .., ok, r, c]`, `c` is split into `ceil(c / lanes)` *planes*; a plane holds `G` element rows, one for each
//! `(o0, .., ok, r)` with `r` padded to a multiple of `sublanes`:
//!
//! ```text
//! element row g = plane * G + ((o0 * n1 + o1) * .. ) * Rpad + r        lane = c mod lanes,  plane = c / lanes
//! Rpad = 1 if r's size is 1, else r rounded up to sublanes
//! G    = 1 if there is one row in all (rank 0, 1, or leading ones), else rows rounded up to 4 * sublanes
//! ```
//!
//! `packing` element rows (4 for 8-bit, 2 for 16-bit types) share a row of 32-bit words: element row `g` is part
//! `g mod packing` of word row `g / packing`, the lowest bits first. A type of several components (see
//! [`DType::components`]) is stored as that many arrays one after the other. The total of each component is padded
//! to whole tiles of `4 * sublanes` element rows, so that a full register may always be stored at an aligned place.
//! Element rows do not depend on the element type: arrays of one shape agree row by row whatever their types.

use crate::dtype::DType;
use serde::{Deserialize, Serialize};

/// The physical form of an array: its element type, and its dimensions major to minor.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// Element type.
    pub dtype: DType,
    /// Logical sizes.
    pub dims: Vec<u64>,
    /// Logical dimension numbers, most minor first, as HLO prints them.
    pub minor_to_major: Vec<u8>,
    /// Lanes of the chip's vectors.
    pub lanes: u32,
    /// Sublanes of the chip's vectors.
    pub sublanes: u32,
}

fn round_up(x: u64, to: u64) -> u64 {
    x.div_ceil(to) * to
}

impl Layout {
    /// The layout of an array on a chip with vectors of `sublanes` x `lanes`.
    pub fn new(dtype: DType, dims: &[u64], minor_to_major: &[u8], sublanes: u32, lanes: u32) -> Layout {
        debug_assert_eq!(dims.len(), minor_to_major.len());
        Layout { dtype, dims: dims.to_vec(), minor_to_major: minor_to_major.to_vec(), lanes, sublanes }
    }

    /// Row-major: the last dimension is the most minor.
    pub fn row_major(dtype: DType, dims: &[u64], sublanes: u32, lanes: u32) -> Layout {
        let m2m: Vec<u8> = (0..dims.len() as u8).rev().collect();
        Layout::new(dtype, dims, &m2m, sublanes, lanes)
    }

    /// Sizes of the physical dimensions, major to minor.
    pub fn physical(&self) -> Vec<u64> {
        self.minor_to_major.iter().rev().map(|&d| self.dims[d as usize]).collect()
    }

    /// Size of the minor-most dimension (1 for a scalar).
    pub fn columns(&self) -> u64 {
        self.minor_to_major.first().map_or(1, |&d| self.dims[d as usize])
    }

    /// Size of the second-minor dimension (1 below rank 2).
    pub fn rows(&self) -> u64 {
        self.minor_to_major.get(1).map_or(1, |&d| self.dims[d as usize])
    }

    /// The second-minor dimension's padded size.
    pub fn padded_rows(&self) -> u64 {
        if self.rows() <= 1 { 1 } else { round_up(self.rows(), self.sublanes as u64) }
    }

    /// Product of the dimensions above the two minor ones.
    pub fn outer(&self) -> u64 {
        self.minor_to_major.iter().skip(2).map(|&d| self.dims[d as usize]).product()
    }

    /// Planes: lane tiles along the minor-most dimension.
    pub fn planes(&self) -> u64 {
        self.columns().div_ceil(self.lanes as u64)
    }

    /// Element rows of a plane (`G` above).
    pub fn plane_rows(&self) -> u64 {
        let rows = self.outer() * self.padded_rows();
        if rows <= 1 { rows } else { round_up(rows, 4 * self.sublanes as u64) }
    }

    /// Element rows of one component, padded to whole tiles.
    pub fn total_rows(&self) -> u64 {
        round_up(self.planes() * self.plane_rows(), 4 * self.sublanes as u64)
    }

    /// Distance in element rows between neighbours along each logical dimension; the minor-most has 0 (its step is
    /// a lane, and `plane_rows` element rows every `lanes`).
    pub fn row_strides(&self) -> Vec<u64> {
        let mut s = vec![0; self.dims.len()];
        let mut at = 1;
        for (i, &d) in self.minor_to_major.iter().enumerate().skip(1) {
            s[d as usize] = at;
            at *= if i == 1 { self.padded_rows() } else { self.dims[d as usize] };
        }
        s
    }

    /// Rows of 32-bit words of one component.
    pub fn component_word_rows(&self) -> u64 {
        self.total_rows() / self.dtype.packing() as u64
    }

    /// Bytes of one component.
    pub fn component_bytes(&self) -> u64 {
        self.component_word_rows() * self.lanes as u64 * 4
    }

    /// Bytes of the whole array.
    pub fn bytes(&self) -> u64 {
        self.component_bytes() * self.dtype.components() as u64
    }

    /// Element row and lane of the element at a logical index.
    pub fn locate(&self, index: &[u64]) -> (u64, u64) {
        let mut row = 0;
        for (s, i) in self.row_strides().iter().zip(index) {
            row += s * i;
        }
        let c = self.minor_to_major.first().map_or(0, |&d| index[d as usize]);
        (row + c / self.lanes as u64 * self.plane_rows(), c % self.lanes as u64)
    }

    /// Byte offset, within its component, of the element at an element row and lane.
    pub fn byte_offset(&self, row: u64, lane: u64) -> u64 {
        let p = self.dtype.packing() as u64;
        (row / p * self.lanes as u64 + lane) * 4 + row % p * (4 / p)
    }
}
