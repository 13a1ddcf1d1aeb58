//! Gathers from places that are known when the program is compiled.
//!
//! Few rows at constant places are slices beside each other. Places that advance by a constant step along each dimension of the
//! indices (`arange(n)[:, None] * hop + arange(width)`: the frames of a signal) are slices with that step; where two dimensions
//! advance, pieces as long as the larger step lie beside each other.

use super::{Indexed, table_of_rows};
use crate::edit::Emit;
use crate::simplify::degenerate_map;
use systole_hlo::graph::number::integer_range;
use systole_hlo::graph::{Binary, Direction, Gather, Literal, NodeId, Op, Unary};
use systole_isa::DType;

/// The slices, `[n, slice sizes..]` (dimensions of size 1 apart), if their places are known and they are worth it.
pub(super) fn lower(b: &mut Emit, x: NodeId, indexed: &[Indexed], (g, indices): (&Gather, NodeId)) -> Option<NodeId> {
    rows(b, x, indexed, (g, indices)).or_else(|| steps(b, x, indexed, (g, indices)))
}

/// Runs of rows at known places that are cut out one by one at most.
const MOST_RUNS: usize = 32;
/// Elements of a row from which that pays.
const WIDE: u64 = 128;

/// Rows whose places are constants: slices of the operand beside each other, `[n, W..]`.
fn rows(b: &mut Emit, x: NodeId, indexed: &[Indexed], (g, indices): (&Gather, NodeId)) -> Option<NodeId> {
    let Op::Constant(l) = b.op(indices).clone() else { return None };
    if l.dtype == DType::U64 {
        return None;
    }
    let dims = b.dims(x).to_vec();
    let whole = |d: usize| g.slice_sizes[d] == dims[d] || indexed.iter().any(|i| i.dim == d && g.slice_sizes[d] == 1);
    let width: u64 = g.slice_sizes.iter().product();
    if !g.map.batching.is_empty() || !(0..dims.len()).all(whole) || width < WIDE || indexed.is_empty() {
        return None;
    }
    let vector = l.dims.get(g.map.vector).copied().unwrap_or(1) as usize;
    let inner: usize = l.dims.iter().skip(g.map.vector + 1).product::<u64>() as usize;
    let n = l.elements() / vector.max(1);
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for i in 0..n {
        let mut row = 0;
        for one in indexed {
            let j = g.map.start.iter().position(|&d| d == one.dim)?;
            let at = l.integer((i / inner * vector + j) * inner + i % inner)?;
            row = row * dims[one.dim] + at.clamp(0, dims[one.dim] as i64 - 1) as u64;
        }
        match runs.last_mut() {
            Some((_, end)) if *end == row => *end += 1,
            _ => runs.push((row, row + 1)),
        }
        if runs.len() > MOST_RUNS {
            return None;
        }
    }
    if runs.is_empty() || !b.draft.fire("gather-known-rows") {
        return None;
    }
    let table = table_of_rows(b, x, indexed, g);
    let parts: Vec<NodeId> = runs.into_iter().map(|(from, to)| b.slice_dim(table, 0, from, to, 1)).collect();
    Some(b.concatenate(&parts, 0))
}

/// Elements from which places that advance in steps are worth slices.
const MANY: u64 = 1 << 12;
/// Pieces of a frame at most, and their least length.
const MOST_PIECES: u64 = 16;
const PIECE: u64 = 32;
/// Slices that are put beside each other one by one at most.
const MOST_SLICES: u64 = 64;

/// Single elements or whole rows along one dimension, at places that advance in steps.
fn steps(b: &mut Emit, x: NodeId, indexed: &[Indexed], (g, indices): (&Gather, NodeId)) -> Option<NodeId> {
    let &[d] = &g.map.start[..] else { return None };
    let (dims, of) = (b.dims(x).to_vec(), b.dims(indices).to_vec());
    let whole = (0..dims.len()).all(|i| g.slice_sizes[i] == if i == d { 1 } else { dims[i] });
    let elements = g.slice_sizes.iter().product::<u64>() * b.elements(indices);
    if !g.map.batching.is_empty() || !whole || indexed.len() != 1 || elements < MANY {
        return None;
    }
    let places = Places::of(b, indices, &mut { MOST_NODES })?;
    let (low, high) = places.range(&of);
    if low < 0 || high >= dims[d] as i64 {
        return None;
    }
    let batch: Vec<usize> = (0..of.len()).filter(|&i| i != g.map.vector && of[i] != 1).collect();
    let moving: Vec<usize> = batch.iter().copied().filter(|&i| places.step[i] != 0).collect();
    let step = |i: usize| (of[i], places.step[i]);
    let taken = match moving[..] {
        [i] => Some(advancing(b, x, d, (places.offset, step(i)))),
        [i, j] if places.step[i] >= places.step[j] => frames(b, x, d, (places.offset, step(i), step(j))),
        [i, j] => {
            let turned = frames(b, x, d, (places.offset, step(j), step(i)));
            turned.map(|y| {
                let mut order: Vec<usize> = (0..=dims.len()).collect();
                order.swap(d, d + 1);
                b.transpose(y, &order)
            })
        }
        _ => None,
    }?;
    if !b.draft.fire("gather-known-steps") {
        return None;
    }
    // Dimensions of places first; those that do not move repeat what is taken.
    let rank = b.rank(taken);
    let order: Vec<usize> = (d..d + moving.len()).chain(0..d).chain(d + moving.len()..rank).collect();
    let taken = b.transpose(taken, &order);
    let rest = b.dims(taken)[moving.len()..].to_vec();
    let all: Vec<u64> = batch.iter().map(|&i| of[i]).chain(rest.iter().copied()).collect();
    let position = |i: &usize| batch.iter().position(|k| k == i).unwrap_or(0);
    let map: Vec<usize> = moving.iter().map(position).chain(batch.len()..all.len()).collect();
    let taken = b.broadcast(taken, &map, &all);
    let n: u64 = batch.iter().map(|&i| of[i]).product();
    Some(b.reshape(taken, &[&[n][..], &rest].concat()))
}

/// `n` places along dimension `d` from `offset` on, `step` apart.
fn advancing(b: &mut Emit, x: NodeId, d: usize, (offset, (n, step)): (i64, (u64, i64))) -> NodeId {
    let last = offset + (n as i64 - 1) * step;
    let (low, high) = (offset.min(last) as u64, offset.max(last) as u64);
    let y = b.slice_dim(x, d, low, high + 1, step.unsigned_abs());
    if step < 0 { b.reverse(y, &[d]) } else { y }
}

/// Places that advance along two dimensions, by more along the first: both in the place of dimension `d`.
fn frames(
    b: &mut Emit,
    x: NodeId,
    d: usize,
    (offset, (n, hop), (width, step)): (i64, (u64, i64), (u64, i64)),
) -> Option<NodeId> {
    if step <= 0 {
        return None;
    }
    let (offset, hop, step) = (offset as u64, hop as u64, step as u64);
    let span = (width - 1) * step + 1;
    let pieces = span.div_ceil(hop);
    let mut split = b.dims(x).to_vec();
    if hop >= PIECE && pieces <= MOST_PIECES {
        let rows = n + pieces - 1;
        let size = b.dims(x)[d];
        let end = offset + rows * hop;
        let x = b.slice_dim(x, d, offset, end.min(size), 1);
        let none = b.scalar(b.dtype(x), 0.0);
        let x = b.pad_dim(x, none, d, (0, end.saturating_sub(size) as i64));
        split.splice(d..=d, [rows, hop]);
        let x = b.reshape(x, &split);
        let parts: Vec<NodeId> = (0..pieces).map(|k| b.slice_dim(x, d, k, k + n, 1)).collect();
        let y = b.concatenate(&parts, d + 1);
        return Some(b.slice_dim(y, d + 1, 0, span, step));
    }
    // The shorter dimension slice by slice.
    let (by, axis, along) = if width <= n { ((width, step), d + 1, (n, hop)) } else { ((n, hop), d, (width, step)) };
    if by.0 > MOST_SLICES {
        return None;
    }
    split.splice(d..=d, if axis == d { [1, along.0] } else { [along.0, 1] });
    let mut parts = Vec::new();
    for k in 0..by.0 {
        let part = advancing(b, x, d, ((offset + k * by.1) as i64, (along.0, along.1 as i64)));
        parts.push(b.reshape(part, &split));
    }
    Some(b.concatenate(&parts, axis))
}

/// Operations that are looked at to find the places.
pub const MOST_NODES: u32 = 64;
/// Offsets and steps at most.
const LARGEST: i64 = 1 << 40;
/// Elements of a constant that are looked at.
const MOST_ELEMENTS: usize = 1 << 22;

/// Integers that advance by a constant step along each dimension of their array (0 along those of size 1).
#[derive(Clone, Debug)]
pub struct Places {
    pub offset: i64,
    pub step: Vec<i64>,
}

impl Places {
    pub fn range(&self, dims: &[u64]) -> (i64, i64) {
        let ends = self.step.iter().zip(dims).map(|(&s, &n)| s.saturating_mul(n as i64 - 1));
        let add = i64::saturating_add;
        ends.fold((self.offset, self.offset), |(low, high), e| (add(low, e.min(0)), add(high, e.max(0))))
    }

    /// Those of an array of integers, if it is one and nothing overflows on the way.
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed is not followed")]
    pub fn of(b: &Emit, x: NodeId, left: &mut u32) -> Option<Places> {
        *left = left.checked_sub(1)?;
        let dims = b.dims(x).to_vec();
        let (least, most) = integer_range(b.dtype(x))?;
        let mut operand = |i: usize| Places::of(b, b.operand(x, i), left);
        let still = |offset: i64| Places { offset, step: vec![0; dims.len()] };
        let mut found = match b.op(x) {
            Op::Constant(l) => Places::of_literal(l)?,
            Op::Iota { dim } => {
                let mut p = still(0);
                p.step[*dim] = 1;
                p
            }
            Op::Broadcast { dims: map } => {
                let from = operand(0)?;
                let mut p = still(from.offset);
                map.iter().zip(from.step).for_each(|(&d, s)| p.step[d] = s);
                p
            }
            Op::Reshape => {
                let from = operand(0)?;
                let mut p = still(from.offset);
                for (i, j) in degenerate_map(b.dims(b.operand(x, 0)), &dims)? {
                    p.step[j] = from.step[i];
                }
                p
            }
            Op::Transpose { permutation } => {
                let from = operand(0)?;
                Places { step: permutation.iter().map(|&p| from.step[p]).collect(), ..from }
            }
            Op::Slice { dims: cut } => {
                let mut p = operand(0)?;
                for (s, c) in p.step.iter_mut().zip(cut) {
                    p.offset = p.offset.saturating_add(s.saturating_mul(c.start as i64));
                    *s = s.saturating_mul(c.stride as i64);
                }
                p
            }
            Op::Convert => operand(0)?,
            Op::Binary(op) => Places::combined(*op, operand(0)?, operand(1)?, &dims)?,
            Op::Select => {
                let first = truth(b, b.operand(x, 0), left)?;
                Places::of(b, b.operand(x, if first { 1 } else { 2 }), left)?
            }
            Op::Clamp => {
                let (low, p, high) = (operand(0)?, operand(1)?, operand(2)?);
                let (from, to) = p.range(&dims);
                let within = from >= low.offset && to <= high.offset;
                let fixed = [&low, &high].iter().all(|l| l.step.iter().all(|&s| s == 0));
                (within && fixed).then_some(p)?
            }
            _ => return None,
        };
        found.step.iter_mut().zip(&dims).filter(|(_, n)| **n == 1).for_each(|(s, _)| *s = 0);
        if found.step.iter().chain([&found.offset]).any(|v| v.abs() > LARGEST) {
            return None;
        }
        let (low, high) = found.range(&dims);
        (i128::from(low) >= least && i128::from(high) <= most && !dims.contains(&0)).then_some(found)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed is not followed")]
    fn combined(op: Binary, x: Places, y: Places, dims: &[u64]) -> Option<Places> {
        let fixed = |p: &Places| p.step.iter().all(|&s| s == 0);
        let times = |p: Places, by: i64| -> Option<Places> {
            let step = p.step.iter().map(|s| s.checked_mul(by)).collect::<Option<_>>()?;
            Some(Places { offset: p.offset.checked_mul(by)?, step })
        };
        let sum = |x: Places, y: Places| Places {
            offset: x.offset + y.offset,
            step: x.step.iter().zip(&y.step).map(|(a, b)| a + b).collect(),
        };
        match op {
            Binary::Add => Some(sum(x, y)),
            Binary::Sub => Some(sum(x, times(y, -1)?)),
            Binary::Mul if fixed(&y) => times(x, y.offset),
            Binary::Mul if fixed(&x) => times(y, x.offset),
            Binary::Max | Binary::Min => {
                let (a, c) = (x.range(dims), y.range(dims));
                let first = if op == Binary::Max { a.0 >= c.1 } else { a.1 <= c.0 };
                let second = if op == Binary::Max { c.0 >= a.1 } else { c.1 <= a.0 };
                if first { Some(x) } else { second.then_some(y) }
            }
            _ => None,
        }
    }

    fn of_literal(l: &Literal) -> Option<Places> {
        let n = l.elements();
        if n == 0 || n > MOST_ELEMENTS {
            return None;
        }
        let offset = l.integer(0).filter(|o| (-LARGEST..LARGEST).contains(o))?;
        let mut step = vec![0; l.dims.len()];
        let mut stride = 1;
        for (d, &size) in l.dims.iter().enumerate().rev() {
            if size > 1 {
                step[d] = l.integer(stride)?.checked_sub(offset).filter(|s| s.abs() < LARGEST)?;
            }
            stride *= size as usize;
        }
        let fits = (0..n).all(|i| {
            let (mut rest, mut value) = (i as u64, offset);
            for (s, &size) in step.iter().zip(&l.dims).rev() {
                value += s * (rest % size) as i64; // below 2^62: fewer than 2^22 elements
                rest /= size;
            }
            l.integer(i) == Some(value)
        });
        fits.then_some(Places { offset, step })
    }
}

/// What a condition is at every point, if it is the same everywhere.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed is not followed")]
fn truth(b: &Emit, x: NodeId, left: &mut u32) -> Option<bool> {
    *left = left.checked_sub(1)?;
    let mut operand = |i: usize| truth(b, b.operand(x, i), left);
    match b.op(x) {
        Op::Constant(l) => Some(l.uniform()?.first()? != &0),
        Op::Broadcast { .. } | Op::Reshape | Op::Transpose { .. } => operand(0),
        Op::Unary(Unary::Not) => Some(!operand(0)?),
        Op::Binary(Binary::And) => Some(operand(0)? && operand(1)?),
        Op::Binary(Binary::Or) => Some(operand(0)? || operand(1)?),
        Op::Compare { direction, .. } => {
            let dims = b.dims(b.operand(x, 0));
            let (l, r) = (Places::of(b, b.operand(x, 0), left)?, Places::of(b, b.operand(x, 1), left)?);
            let ((a, z), (c, y)) = (l.range(dims), r.range(dims));
            let less = if z < c { Some(true) } else { (a >= y).then_some(false) };
            let greater = if a > y { Some(true) } else { (z <= c).then_some(false) };
            match direction {
                Direction::Lt => less,
                Direction::Ge => less.map(|l| !l),
                Direction::Gt => greater,
                Direction::Le => greater.map(|g| !g),
                Direction::Eq | Direction::Ne => None,
            }
        }
        _ => None,
    }
}
