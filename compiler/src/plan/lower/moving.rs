//! Move specs of data movement operations.

use crate::plan::view::{Form, View};
use systole_codegen::emit::moves::spec::{MoveSpec, Side};

/// The affine map of iteration dimensions to positions in an array: for each array dimension, `(iteration dimension,
/// coefficient)` terms and an offset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Position {
    pub dims: Vec<(Vec<(usize, i64)>, i64)>,
}

impl Position {
    /// Array dimension `d` is iteration dimension `d`.
    pub fn identity(n: usize) -> Position {
        Position { dims: (0..n).map(|d| (vec![(d, 1)], 0)).collect() }
    }

    /// Array dimension `d` is iteration dimension `at[d]`.
    pub fn permuted(at: &[usize]) -> Position {
        Position { dims: at.iter().map(|&d| (vec![(d, 1)], 0)).collect() }
    }
}

/// The side of a move for an array whose dimensions follow `position` over `n` iteration dimensions.
pub fn side(v: &View, position: &Position, n: usize) -> Side {
    let strides = v.layout.row_strides();
    let minor = (v.form == Form::Lanes && !v.dims.is_empty()).then(|| v.dims.len() - 1);
    let mut s = Side {
        rows: vec![0; n],
        lanes: vec![0; n],
        row_offset: 0,
        lane_offset: 0,
        plane_rows: v.layout.plane_rows() as i64,
        component_rows: v.layout.total_rows() as i64,
        replicated: v.form == Form::Rows,
        dynamic_lane: false,
    };
    for (d, (terms, offset)) in position.dims.iter().enumerate() {
        if Some(d) == minor {
            s.lane_offset += offset;
            for &(i, c) in terms {
                s.lanes[i] += c;
            }
        } else {
            s.row_offset += offset * strides[d] as i64;
            for &(i, c) in terms {
                s.rows[i] += c * strides[d] as i64;
            }
        }
    }
    s
}

/// A move between two arrays whose positions are given over common iteration dimensions. Dimensions of size 1 are dropped.
pub fn move_spec(sizes: &[u64], src: &View, from: &Position, dst: &View, to: &Position) -> MoveSpec {
    let n = sizes.len();
    let mut spec = MoveSpec {
        dtype: src.dtype(),
        sizes: sizes.iter().map(|&s| s as u32).collect(),
        src: side(src, from, n),
        dst: side(dst, to, n),
    };
    for d in (0..n).rev() {
        if spec.sizes[d] == 1 {
            spec.sizes.remove(d);
            for s in [&mut spec.src, &mut spec.dst] {
                s.rows.remove(d);
                s.lanes.remove(d);
            }
        }
    }
    spec
}

/// Splits the dimensions of two shapes with equal elements into common factors: sizes, and for each shape the position
/// of its dimensions. `None` if they have no common refinement.
pub fn refine(a: &[u64], b: &[u64]) -> Option<(Vec<u64>, Position, Position)> {
    let mut sizes = Vec::new();
    let mut positions = [Position::default(), Position::default()];
    let shapes = [a, b];
    let mut rest = [0usize, 0];
    // Factors of each dimension, collected major to minor.
    let mut factors: [Vec<Vec<usize>>; 2] = [vec![Vec::new(); a.len()], vec![Vec::new(); b.len()]];
    let mut left = [1u64, 1];
    let mut dim = [usize::MAX, usize::MAX];
    loop {
        for s in 0..2 {
            while left[s] == 1 && rest[s] < shapes[s].len() {
                dim[s] = rest[s];
                left[s] = shapes[s][rest[s]];
                rest[s] += 1;
            }
        }
        if left[0] == 1 && left[1] == 1 {
            break;
        }
        // The major parts: the smaller must divide the larger, from the major side.
        let size = match (left[0], left[1]) {
            (x, y) if x == y => x,
            (x, y) if x < y && y % x == 0 => x,
            (x, y) if y < x && x % y == 0 => y,
            _ => return None,
        };
        for s in 0..2 {
            factors[s][dim[s]].push(sizes.len());
            left[s] /= size;
        }
        sizes.push(size);
    }
    for s in 0..2 {
        for f in &factors[s] {
            let mut c = 1;
            let mut terms: Vec<(usize, i64)> = Vec::new();
            for &i in f.iter().rev() {
                terms.push((i, c));
                c *= sizes[i] as i64;
            }
            positions[s].dims.push((terms, 0));
        }
    }
    let [pa, pb] = positions;
    Some((sizes, pa, pb))
}
