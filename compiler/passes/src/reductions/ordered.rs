//! `ordered`: reductions by computations to which the order of what they combine matters.
//!
//! A reduction combines neighbours, in any grouping: that is enough for a result if the computation is associative. Kernels combine what lies
//! in the lanes of one register with what lies in another's, and so not neighbours alone. Where a computation may tell the difference, pairs of
//! neighbours are combined, array by array, until one is left.

use crate::edit::{Emit, Rewritten};
use crate::simplify::{identity, is_identity, scalar_of, splat_number};
use systole_hlo::analysis::order::{self, Pick};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, CompId, Direction, Node, NodeId, Op, Shape};
use systole_isa::DType;

/// Elements that fill the registers of all chips.
const FULL: u64 = 1024;
/// Elements from which on they are cut into runs that lie beside each other.
const RUNS: u64 = 16;

/// Rewrites one reduction.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    let Op::Reduce { dims, body } = &n.op else { return Ok(None) };
    let (xs, inits) = operands.split_at(operands.len() / 2);
    let computation = &b.draft.computations[body.index()];
    if b.elements(xs[0]) == 0 || order::commutes(computation) {
        return Ok(None);
    }
    let best = match order::pick(computation) {
        Some(pick) if has_kernel(b, operands, pick) => return Ok(None),
        Some(pick) => {
            let (best, idle) = (first_of(b, xs, dims, pick)?, starts_idle(b, inits, pick));
            if let Some(done) = best.as_ref().filter(|_| idle) {
                return Ok(Some(b.joined(done)));
            }
            best
        }
        None => None,
    };
    let done = match best {
        Some(done) => done,
        None if b.draft.fire("ordered") => by_neighbours(b, xs, dims, *body)?,
        None => return Ok(None),
    };
    let sizes = b.dims(done[0]).to_vec();
    let mut all: Vec<NodeId> = inits.iter().map(|&init| b.broadcast(init, &[], &sizes)).collect();
    all.extend(done);
    let done = b.apply(*body, &all, &sizes)?;
    Ok(Some(b.joined(&done)))
}

/// Whether the kernel of picks takes a reduction: the first of all pairs whose values are no numbers, too.
fn has_kernel(b: &Emit, operands: &[NodeId], pick: Pick) -> bool {
    let (number, zero) = (operands[1 - pick.value], operands[3 - pick.value]);
    let counts = b.dtype(number) == DType::S32 && is_count(b, number);
    is_word(b, operands[pick.value]) && counts && splat_number(b, zero) == Some(0.0)
}

/// Whether a pick begins with what is worse than all, at the first place.
fn starts_idle(b: &Emit, inits: &[NodeId], pick: Pick) -> bool {
    let op = if pick.largest { Binary::Max } else { Binary::Min };
    let worst = scalar_of(b, inits[pick.value]).is_some_and(|l| is_identity(op, l));
    worst && splat_number(b, inits[1 - pick.value]) == Some(0.0)
}

/// Whether the kernel of picks takes values of an array's type.
fn is_word(b: &Emit, x: NodeId) -> bool {
    b.dtype(x).components() == 1
}

/// Whether an array is made of numbers of places.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for few operations alone")]
fn is_count(b: &Emit, x: NodeId) -> bool {
    match b.op(x) {
        Op::Iota { .. } => true,
        Op::Reshape | Op::Transpose { .. } | Op::Broadcast { .. } => is_count(b, b.operand(x, 0)),
        _ => false,
    }
}

/// The best values, and the first places that have them, from what changes nothing; `None` if the numbers are none of places.
fn first_of(b: &mut Emit, xs: &[NodeId], dims: &[usize], pick: Pick) -> Result<Option<Vec<NodeId>>, CompileError> {
    let (x, number) = (xs[pick.value], xs[1 - pick.value]);
    let Op::Iota { dim } = *b.op(number) else { return Ok(None) };
    let sizes = b.dims(x).to_vec();
    let op = if pick.largest { Binary::Max } else { Binary::Min };
    let Some(start) = identity(op, b.dtype(x)) else { return Ok(None) };
    if sizes[dim] > i32::MAX as u64 || !b.draft.fire("ordered-picks") {
        return Ok(None);
    }
    let places = b.iota(DType::S32, &sizes, dim);
    let (best, place) = if is_word(b, x) {
        let body = picker(b, b.dtype(x), pick.largest)?;
        let (start, zero) = (b.scalar(b.dtype(x), start), b.index(0));
        let both = b.reduce_by(&[x, places], &[start, zero], dims, body);
        (b.element(both, 0), b.element(both, 1))
    } else {
        one_by_one(b, (x, places), dims, (op, start))
    };
    let place = b.convert(place, b.dtype(number));
    Ok(Some(if pick.value == 0 { vec![best, place] } else { vec![place, best] }))
}

/// A computation that picks the largest or smallest of two floats with their places, as its kernel knows it.
fn picker(b: &mut Emit, dtype: DType, largest: bool) -> Result<CompId, CompileError> {
    b.computation("first", |b| {
        let types = [dtype, DType::S32, dtype, DType::S32];
        let [x, i, y, j] = types.map(|t| b.parameter(Shape::array(t, &[])));
        let better = b.compare(if largest { Direction::Gt } else { Direction::Lt }, x, y);
        let nan = b.compare(Direction::Ne, x, x);
        let wins = b.or(better, nan);
        let (equal, before) = (b.compare(Direction::Eq, x, y), b.compare(Direction::Lt, i, j));
        let tie = b.binary(Binary::And, equal, before);
        let stays = b.or(wins, tie);
        let results = [b.select(wins, x, y), b.select(stays, i, j)];
        Ok(b.tuple(&results))
    })
}

/// The best values by a reduction, and by another the first places that have them.
fn one_by_one(
    b: &mut Emit,
    (x, places): (NodeId, NodeId),
    dims: &[usize],
    (op, start): (Binary, f64),
) -> (NodeId, NodeId) {
    let sizes = b.dims(x).to_vec();
    let best = b.reduce(x, op, start, dims);
    let kept: Vec<usize> = (0..sizes.len()).filter(|d| !dims.contains(d)).collect();
    let all = b.broadcast(best, &kept, &sizes);
    let (same, nan) = (b.compare(Direction::Eq, x, all), b.compare(Direction::Ne, x, x));
    let has = b.or(same, nan);
    let last = f64::from(i32::MAX);
    let behind = b.splat(DType::S32, &sizes, last);
    let places = b.select(has, places, behind);
    (best, b.reduce(places, Binary::Min, last, dims))
}

/// A reduction without its initial values, of neighbours.
fn by_neighbours(b: &mut Emit, xs: &[NodeId], dims: &[usize], body: CompId) -> Result<Vec<NodeId>, CompileError> {
    let sizes = b.dims(xs[0]).to_vec();
    let mut along = dims.to_vec();
    along.sort_unstable();
    let kept: Vec<usize> = (0..sizes.len()).filter(|d| !dims.contains(d)).collect();
    let order = [&along[..], &kept].concat();
    let left: Vec<u64> = kept.iter().map(|&d| sizes[d]).collect();
    let lines: u64 = left.iter().product();
    let mut n: u64 = along.iter().map(|&d| sizes[d]).product();
    let mut parts: Vec<NodeId> = Vec::new();
    for &x in xs {
        let turned = b.transpose(x, &order);
        parts.push(b.reshape(turned, &[n, lines]));
    }
    while n > 1 {
        // Runs of elements beside each other, as many as fill registers.
        let runs = (FULL / lines.max(1)).min(n.isqrt());
        parts =
            if n > RUNS && runs > 1 { in_runs(b, &parts, (n, lines, runs), body)? } else { pairs(b, &parts, n, body)? };
        n = b.dims(parts[0])[0];
    }
    Ok(parts.iter().map(|&x| b.reshape(x, &left)).collect())
}

/// Neighbours along the first dimension of `[n, lines]` combined: half as many, and one more if there is one left.
fn pairs(b: &mut Emit, parts: &[NodeId], n: u64, body: CompId) -> Result<Vec<NodeId>, CompileError> {
    let whole = n / 2 * 2;
    let each = |b: &mut Emit, first: u64| -> Vec<NodeId> {
        parts.iter().map(|&x| b.slice_dim(x, 0, first, whole, 2)).collect()
    };
    let (near, far) = (each(b, 0), each(b, 1));
    let dims = b.dims(near[0]).to_vec();
    let done = b.apply(body, &[near, far].concat(), &dims)?;
    Ok(with_rest(b, &done, parts, whole))
}

/// Runs of neighbours in `[n, lines]` reduced, and what is left.
fn in_runs(
    b: &mut Emit,
    parts: &[NodeId],
    (n, lines, runs): (u64, u64, u64),
    body: CompId,
) -> Result<Vec<NodeId>, CompileError> {
    let mut length = n / runs;
    let whole = length * runs;
    let mut beside = Vec::new();
    for &x in parts {
        let x = b.slice_dim(x, 0, 0, whole, 1);
        let x = b.reshape(x, &[runs, length, lines]);
        let x = b.transpose(x, &[1, 0, 2]);
        beside.push(b.reshape(x, &[length, runs * lines]));
    }
    while length > 1 {
        beside = pairs(b, &beside, length, body)?;
        length = b.dims(beside[0])[0];
    }
    let done: Vec<NodeId> = beside.iter().map(|&x| b.reshape(x, &[runs, lines])).collect();
    Ok(with_rest(b, &done, parts, whole))
}

/// Results of all elements before `whole`, and the elements from there on behind them.
fn with_rest(b: &mut Emit, done: &[NodeId], parts: &[NodeId], whole: u64) -> Vec<NodeId> {
    let n = b.dims(parts[0])[0];
    if whole == n {
        return done.to_vec();
    }
    let mut all = Vec::new();
    for (&done, &x) in done.iter().zip(parts) {
        let rest = b.slice_dim(x, 0, whole, n, 1);
        all.push(b.concatenate(&[done, rest], 0));
    }
    all
}
