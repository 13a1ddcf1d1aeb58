//! Move specs of data movement operations.

use crate::plan::view::{Form, View};
use std::ops::Range;
use systole_codegen::emit::moves::spec::{MoveSpec, Side};
use systole_hlo::analysis::pieces;
use systole_hlo::graph::{Binary, Computation, NodeId, Op};
use systole_isa::DType;

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

impl Position {
    /// The positions of an array whose dimensions follow this over those of another one, whose own are `at`.
    pub fn of(&self, at: &Position) -> Position {
        let through = |(terms, offset): &(Vec<(usize, i64)>, i64)| {
            let mut all: Vec<(usize, i64)> = Vec::new();
            let mut sum = *offset;
            for &(d, c) in terms {
                all.extend(at.dims[d].0.iter().map(|&(i, k)| (i, c * k)));
                sum += c * at.dims[d].1;
            }
            (all, sum)
        };
        Position { dims: self.dims.iter().map(through).collect() }
    }

    /// Dimensions of what an operation that moves whole rows is done to, over those of its result, of sizes `to`.
    #[allow(clippy::wildcard_enum_match_arm, reason = "no other operation moves rows")]
    pub fn before(op: &Op, from: &[u64], to: &[u64]) -> Option<Position> {
        let mut position = Position::identity(from.len());
        match op {
            Op::Slice { dims } => {
                for (d, s) in dims.iter().enumerate() {
                    position.dims[d] = (vec![(d, s.stride as i64)], s.start as i64);
                }
            }
            Op::Reverse { dims } => {
                for &d in dims {
                    position.dims[d] = (vec![(d, -1)], to[d] as i64 - 1);
                }
            }
            Op::Transpose { permutation } => {
                for (d, &p) in permutation.iter().enumerate() {
                    position.dims[p] = (vec![(d, 1)], 0);
                }
            }
            Op::Reshape => {
                // Every dimension of the result is one factor, or of size 1.
                let (sizes, split, parts) = refine(from, to)?;
                let mut of = Position { dims: vec![(Vec::new(), 0); sizes.len()] };
                for (d, (terms, _)) in parts.dims.iter().enumerate() {
                    match terms[..] {
                        [] => {}
                        [(factor, 1)] => of.dims[factor] = (vec![(d, 1)], 0),
                        _ => return None,
                    }
                }
                return Some(split.of(&of));
            }
            _ => return None,
        }
        Some(position)
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

/// The same move of 32-bit words, where whole words of narrower elements go from one array to the other; `whole`: it writes all
/// of the destination, so that what its last words hold besides is padding.
pub fn in_words(spec: &MoveSpec, whole: bool) -> Option<MoveSpec> {
    let p = spec.dtype.packing() as i64;
    let sides = [&spec.src, &spec.dst];
    let along = (0..spec.sizes.len()).find(|&d| sides.iter().all(|s| (s.rows[d], s.lanes[d]) == (1, 0)))?;
    let fits = |s: &&Side| {
        let others = s.rows.iter().enumerate().filter(|(d, _)| *d != along).map(|(_, rows)| rows);
        others.chain([&s.row_offset, &s.plane_rows]).all(|rows| rows % p == 0)
    };
    let ends = whole || i64::from(spec.sizes[along]) % p == 0;
    if p == 1 || spec.dtype.components() != 1 || !ends || !sides.iter().all(fits) {
        return None;
    }
    let side = |s: &Side| Side {
        rows: s.rows.iter().enumerate().map(|(d, &rows)| if d == along { 1 } else { rows / p }).collect(),
        row_offset: s.row_offset / p,
        plane_rows: s.plane_rows / p,
        component_rows: s.component_rows / p,
        ..s.clone()
    };
    let mut sizes = spec.sizes.clone();
    sizes[along] = sizes[along].div_ceil(p as u32);
    Some(MoveSpec { dtype: DType::U32, sizes, src: side(&spec.src), dst: side(&spec.dst) })
}

/// Splits the dimensions of two shapes with equal elements into common factors: sizes, and for each shape the position
/// of its dimensions. `None` if they have no common refinement.
pub fn refine(a: &[u64], b: &[u64]) -> Option<(Vec<u64>, Position, Position)> {
    let (sizes, of_a, of_b) = pieces(a, b)?;
    let position = |of: &[Range<usize>]| {
        let mut at = Position::default();
        for pieces in of {
            let mut c = 1;
            let mut terms: Vec<(usize, i64)> = Vec::new();
            for i in pieces.clone().rev() {
                terms.push((i, c));
                c *= sizes[i] as i64;
            }
            at.dims.push((terms, 0));
        }
        at
    };
    let (pa, pb) = (position(&of_a), position(&of_b));
    Some((sizes, pa, pb))
}

/// Whether a move makes lanes of rows and spreads lanes at the same time: neither the one nor the other takes whole registers then,
/// and two moves, one after the other, are faster by far.
pub fn scatters_lanes(spec: &MoveSpec) -> bool {
    let lanes = || spec.src.lanes.iter().zip(&spec.dst.lanes).zip(&spec.src.rows);
    let from_rows = lanes().any(|((&src, &dst), &row)| src == 0 && dst == 1 && row != 0);
    from_rows && lanes().any(|((&src, &dst), _)| src != 0 && dst != 0 && src != dst)
}

/// A start index that is a constant, of a part that leaves `room` elements of the dimension.
pub fn known_start(comp: &Computation, id: NodeId, room: u64) -> Option<i64> {
    let Op::Constant(l) = &comp.node(id).op else { return None };
    let value = l.integer(0).filter(|_| l.dims.is_empty())?;
    let value = if l.dtype == DType::U64 { i128::from(value as u64) } else { i128::from(value) };
    Some(value.clamp(0, i128::from(room)) as i64)
}

/// Whether a start index of a part that leaves `room` elements of the dimension, to which it is clamped, is a multiple of a number
/// whatever it is computed from.
pub fn is_multiple(comp: &Computation, id: NodeId, room: u64, of: u64) -> bool {
    /// How far it is followed.
    const DEPTH: u32 = 6;
    (room.is_multiple_of(of) || at_most(comp, id, room)) && multiple(comp, id, of, DEPTH)
}

/// Whether a start index is known to be no more than that.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not known to be limited may be more")]
fn at_most(comp: &Computation, id: NodeId, room: u64) -> bool {
    let n = comp.node(id);
    match &n.op {
        Op::Constant(_) => {
            known_start(comp, id, u64::MAX >> 1).is_some_and(|v| u64::try_from(v).is_ok_and(|v| v <= room))
        }
        Op::Binary(Binary::Min) => n.operands.iter().any(|o| at_most(comp, *o, room)),
        _ => false,
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "what is not known to be a multiple is taken for none")]
fn multiple(comp: &Computation, id: NodeId, of: u64, depth: u32) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let n = comp.node(id);
    match &n.op {
        Op::Constant(l) => l.dims.is_empty() && l.integer(0).is_some_and(|v| v % of as i64 == 0),
        Op::Binary(Binary::Mul) => n.operands.iter().any(|o| multiple(comp, *o, of, depth)),
        Op::Binary(Binary::Add | Binary::Sub | Binary::Min) => n.operands.iter().all(|o| multiple(comp, *o, of, depth)),
        Op::Reshape => multiple(comp, n.operands[0], of, depth),
        _ => false,
    }
}
