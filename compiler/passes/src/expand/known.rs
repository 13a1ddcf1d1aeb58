//! Inverses of diagonal blocks that a factorisation has made already.
//!
//! A Cholesky factor is made block by block, with the inverses of its diagonal blocks on the way. What solves a system with it needs the
//! same ones: the blocks of its matrix are followed back, by way of what puts matrices together and of what makes all of a factor NaN
//! where there is none, to the factors that they are.

use super::linear::{Blocks, inverse_of, nan};
use crate::edit::Emit;
use crate::simplify::splat_number;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Direction, NodeId, Op};

/// Operations that a block is followed through at most.
const DEPTH: u32 = 32;

/// What a diagonal block is.
struct Known {
    /// The Cholesky factor `[B, k, k]`.
    factor: NodeId,
    /// `pred[]` or `pred[B]`: where one of them is false, all is NaN.
    guards: Vec<NodeId>,
}

/// The inverses of the diagonal blocks of triangular matrices `[B, n, n]`, one `[B, k, k]` for each, if all blocks are known factors, or
/// transposes of such.
pub(super) fn inverses(
    b: &mut Emit,
    a: NodeId,
    lower: bool,
    blocks: &Blocks,
) -> Result<Option<Vec<NodeId>>, CompileError> {
    let block = |i: u64| Block { x: a, at: [i * blocks.size; 2], size: blocks.size, lower };
    let found: Option<Vec<Known>> = (0..blocks.count).map(|i| block(i).known(b, DEPTH)).collect();
    let Some(found) = found.filter(|f| f.len() > 1) else { return Ok(None) };
    if !b.draft.fire("known-inverses") {
        return Ok(None);
    }
    let mut all = Vec::new();
    for Known { factor, guards } in found {
        let dims = b.dims(factor).to_vec();
        let mut inverse = inverse_of(b, factor, blocks)?;
        for guard in guards {
            let map: &[usize] = if b.rank(guard) == 0 { &[] } else { &[0] };
            let guard = b.broadcast(guard, map, &dims);
            let none = nan(b, b.dtype(factor));
            let none = b.broadcast(none, &[], &dims);
            inverse = b.select(guard, inverse, none);
        }
        all.push(if lower { inverse } else { b.transpose(inverse, &[0, 2, 1]) });
    }
    Ok(Some(all))
}

/// A square block of the last two dimensions of an array, of which one triangle is looked at.
#[derive(Clone, Copy)]
struct Block {
    x: NodeId,
    at: [u64; 2],
    size: u64,
    lower: bool,
}

impl Block {
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is made by anything else is not known")]
    fn known(self, b: &mut Emit, depth: u32) -> Option<Known> {
        let depth = depth.checked_sub(1)?;
        let Block { x, at, size, lower } = self;
        let rank = b.rank(x);
        let first = rank.checked_sub(2)?;
        let dims = b.dims(x).to_vec();
        match b.op(x).clone() {
            Op::Cholesky { lower: true } if lower => {
                let whole = rank == 3 && dims[1..] == [size; 2] && at == [0; 2];
                whole.then(|| Known { factor: x, guards: Vec::new() })
            }
            Op::Reshape => {
                let from = b.operand(x, 0);
                let same = b.rank(from) >= 2 && b.dims(from)[b.rank(from) - 2..] == dims[first..];
                if same { Block { x: from, ..self }.known(b, depth) } else { None }
            }
            Op::Transpose { permutation } => {
                let swapped: Vec<usize> = (0..first).chain([first + 1, first]).collect();
                let from = Block { x: b.operand(x, 0), at: [at[1], at[0]], size, lower: !lower };
                if permutation[..] == swapped { from.known(b, depth) } else { None }
            }
            Op::Slice { dims: cut } => {
                let from = b.operand(x, 0);
                let whole = cut[..first].iter().zip(b.dims(from)).all(|(c, &n)| (c.start, c.limit) == (0, n));
                let plain = cut.iter().all(|c| c.stride == 1);
                let at = [at[0] + cut[first].start, at[1] + cut[first + 1].start];
                if whole && plain { Block { x: from, at, ..self }.known(b, depth) } else { None }
            }
            Op::Pad { dims: edges } => {
                let from = b.operand(x, 0);
                let whole = edges[..first].iter().all(|e| (e.low, e.high) == (0, 0));
                let plain = edges.iter().all(|e| e.interior == 0);
                let back = |d: usize| u64::try_from(at[d] as i64 - edges[first + d].low).ok();
                let inner = Block { x: from, at: [back(0)?, back(1)?], ..self };
                if whole && plain && inner.inside(b) { inner.known(b, depth) } else { None }
            }
            Op::Concatenate { dim } if dim >= first => {
                let mut inner = self;
                for &part in &b.node(x).operands.clone() {
                    inner.x = part;
                    let size = b.dims(part)[dim];
                    if inner.at[dim - first] < size {
                        return if inner.inside(b) { inner.known(b, depth) } else { None };
                    }
                    inner.at[dim - first] -= size;
                }
                None
            }
            Op::Select => {
                let [mask, yes, no] = b.node(x).operands[..] else { return None };
                if at[0] == at[1]
                    && let Some(kept) = keeps(b, mask, lower)
                {
                    return Block { x: if kept { yes } else { no }, ..self }.known(b, depth);
                }
                let guard = guard(b, mask)?;
                if !is_nan(b, no, lower, depth) {
                    return None;
                }
                let mut known = Block { x: yes, ..self }.known(b, depth)?;
                known.guards.push(guard);
                Some(known)
            }
            _ => None,
        }
    }

    fn inside(self, b: &Emit) -> bool {
        let dims = b.dims(self.x);
        let ends = self.at.map(|at| at + self.size);
        ends.iter().zip(&dims[dims.len() - 2..]).all(|(end, n)| end <= n)
    }
}

/// The one value for each matrix that a mask has, `pred[]` or, of `[B, n, n]`, `pred[B]`.
fn guard(b: &mut Emit, mask: NodeId) -> Option<NodeId> {
    let Op::Broadcast { dims } = b.op(mask).clone() else { return None };
    let (of, rank) = (b.operand(mask, 0), b.rank(mask));
    let matrices: u64 = b.dims(mask)[..rank - 2].iter().product();
    let apart = dims.iter().all(|&d| d + 2 < rank);
    match (apart, b.elements(of)) {
        (true, 1) => Some(b.reshape(of, &[])),
        (true, n) if n == matrices => Some(b.reshape(of, &[n])),
        _ => None,
    }
}

/// Whether all of a triangle of matrices is NaN.
#[allow(clippy::wildcard_enum_match_arm, reason = "anything else is one value everywhere, or not known")]
fn is_nan(b: &Emit, x: NodeId, lower: bool, depth: u32) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match b.op(x) {
        Op::Select => {
            let of = keeps(b, b.operand(x, 0), lower).map(|kept| b.operand(x, if kept { 1 } else { 2 }));
            of.is_some_and(|x| is_nan(b, x, lower, depth))
        }
        Op::Reshape if b.rank(x) >= 2 => is_nan(b, b.operand(x, 0), lower, depth),
        _ => splat_number(b, x).is_some_and(f64::is_nan),
    }
}

/// Whether a mask is true (or false) in a triangle of matrices with its diagonal, and the other outside.
fn keeps(b: &Emit, mask: NodeId, lower: bool) -> Option<bool> {
    let Op::Compare { direction, .. } = *b.op(mask) else { return None };
    let rank = b.rank(mask);
    let along = |i: usize| place_of(b, b.operand(mask, i));
    // As a comparison of the place along a triangle's long side with the other.
    let rows_first = match (along(0)?, along(1)?) {
        (row, column) if (row + 2, column + 1) == (rank, rank) => true,
        (column, row) if (row + 2, column + 1) == (rank, rank) => false,
        _ => return None,
    };
    match (direction, rows_first == lower) {
        (Direction::Ge, true) | (Direction::Le, false) => Some(true),
        (Direction::Lt, true) | (Direction::Gt, false) => Some(false),
        (Direction::Ge | Direction::Le | Direction::Lt | Direction::Gt | Direction::Eq | Direction::Ne, _) => None,
    }
}

/// The dimension along which an array counts.
#[allow(clippy::wildcard_enum_match_arm, reason = "nothing else counts")]
fn place_of(b: &Emit, x: NodeId) -> Option<usize> {
    match b.op(x) {
        Op::Iota { dim } => Some(*dim),
        Op::Broadcast { dims } => dims.get(place_of(b, b.operand(x, 0))?).copied(),
        _ => None,
    }
}
