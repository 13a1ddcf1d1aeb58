//! Rules for reshapes, broadcasts, transposes and iotas.
//!
//! Simplest forms: a splat is a broadcast of a scalar constant; a broadcast's operand has no dimension of size 1 and its
//! dimensions ascend; no reshape of a reshape, no broadcast of a broadcast, no transpose of a transpose.

use crate::edit::Emit;
use crate::make::array;
use systole_hlo::analysis::pieces;
use systole_hlo::graph::{Literal, NodeId, Op, Shape};
use systole_isa::DType;

/// Constants that are moved at compile time have at most this many elements.
const SMALL: usize = 4096;

/// Pairs (dimension of `from`, dimension of `to`) of the dimensions that are not 1, if those are the same sizes in the
/// same order: a reshape between them only adds and drops dimensions of size 1.
pub fn degenerate_map(from: &[u64], to: &[u64]) -> Option<Vec<(usize, usize)>> {
    let real = |d: &[u64]| -> Vec<usize> { (0..d.len()).filter(|&i| d[i] != 1).collect() };
    let (x, y) = (real(from), real(to));
    let same = x.len() == y.len() && x.iter().zip(&y).all(|(&i, &j)| from[i] == to[j]);
    same.then(|| x.into_iter().zip(y).collect())
}

fn squeezed(dims: &[u64]) -> Vec<u64> {
    dims.iter().copied().filter(|&d| d != 1).collect()
}

/// Whether any dimension's size is only a bound.
fn is_bounded(b: &Emit, x: NodeId) -> bool {
    b.shape(x).as_array().is_some_and(|a| a.dynamic.contains(&true))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
pub fn reshape(b: &mut Emit, x: NodeId, shape: &Shape) -> Option<NodeId> {
    let to = array(shape);
    if is_bounded(b, x) || to.dynamic.contains(&true) {
        return None;
    }
    if b.dims(x) == to.dims {
        return b.draft.fire("reshape-same").then_some(x);
    }
    match b.op(x).clone() {
        Op::Reshape => {
            let y = b.operand(x, 0);
            b.draft.fire("reshape-reshape").then(|| b.reshape(y, &to.dims))
        }
        Op::Constant(l) => b.draft.fire("reshape-constant").then(|| b.constant(l.reshaped(&to.dims))),
        Op::Broadcast { dims } => {
            let y = b.operand(x, 0);
            if b.rank(y) == 0 {
                return b.draft.fire("reshape-splat").then(|| b.broadcast(y, &[], &to.dims));
            }
            let Some(pairs) = degenerate_map(b.dims(x), &to.dims) else {
                return reshape_broadcast(b, x, &dims, &to.dims);
            };
            let map: Option<Vec<usize>> = dims.iter().map(|d| pairs.iter().find(|p| p.0 == *d).map(|p| p.1)).collect();
            let map = map?;
            b.draft.fire("reshape-broadcast").then(|| b.broadcast(y, &map, &to.dims))
        }
        Op::Iota { dim } => {
            let pairs = degenerate_map(b.dims(x), &to.dims)?;
            let dim = pairs.iter().find(|p| p.0 == dim)?.1;
            b.draft.fire("reshape-iota").then(|| b.iota(to.dtype, &to.dims, dim))
        }
        Op::Transpose { permutation } => {
            let y = b.operand(x, 0);
            let moved: Vec<usize> = permutation.into_iter().filter(|&p| b.dims(y)[p] != 1).collect();
            let ascending = moved.windows(2).all(|w| w[0] < w[1]);
            (ascending && b.draft.fire("reshape-transpose")).then(|| b.reshape(y, &to.dims))
        }
        _ => None,
    }
}

/// A broadcast `x` of `map` that is reshaped for good has no dimension of size 1 on the way, which might lie along lanes.
fn reshape_broadcast(b: &mut Emit, x: NodeId, map: &[usize], to: &[u64]) -> Option<NodeId> {
    let dims = b.dims(x).to_vec();
    let kept: Vec<usize> = (0..dims.len()).filter(|&d| dims[d] != 1).collect();
    let moved: Option<Vec<usize>> = map.iter().map(|m| kept.iter().position(|k| k == m)).collect();
    let moved = moved?;
    if kept.len() == dims.len() || !b.draft.fire("reshape-broadcast-squeeze") {
        return None;
    }
    let y = b.operand(x, 0);
    let small = b.broadcast(y, &moved, &squeezed(&dims));
    Some(b.reshape(small, to))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
pub fn broadcast(b: &mut Emit, x: NodeId, map: &[usize], shape: &Shape) -> Option<NodeId> {
    let to = array(shape);
    if is_bounded(b, x) || to.dynamic.contains(&true) {
        return None;
    }
    let from = b.dims(x).to_vec();
    let ascending = map.windows(2).all(|w| w[0] < w[1]);
    if !ascending {
        if !b.draft.fire("broadcast-ascending") {
            return None;
        }
        let mut order: Vec<usize> = (0..map.len()).collect();
        order.sort_by_key(|&i| map[i]);
        let moved = b.transpose(x, &order);
        let sorted: Vec<usize> = order.iter().map(|&i| map[i]).collect();
        return Some(b.broadcast(moved, &sorted, &to.dims));
    }
    let splat = matches!(b.op(x), Op::Constant(_)) && from.is_empty();
    if from == to.dims {
        return b.draft.fire("broadcast-same").then_some(x);
    }
    if from.iter().product::<u64>() == to.elements() && !splat {
        return b.draft.fire("broadcast-reshape").then(|| b.reshape(x, &to.dims));
    }
    if from.contains(&1) {
        if !b.draft.fire("broadcast-squeeze") {
            return None;
        }
        let map: Vec<usize> = map.iter().zip(&from).filter(|&(_, &d)| d != 1).map(|(&m, _)| m).collect();
        let small = b.reshape(x, &squeezed(&from));
        return Some(b.broadcast(small, &map, &to.dims));
    }
    match b.op(x).clone() {
        Op::Broadcast { dims } => {
            let y = b.operand(x, 0);
            let composed: Vec<usize> = dims.iter().map(|&d| map[d]).collect();
            b.draft.fire("broadcast-broadcast").then(|| b.broadcast(y, &composed, &to.dims))
        }
        Op::Iota { dim } => b.draft.fire("broadcast-iota").then(|| b.iota(to.dtype, &to.dims, map[dim])),
        _ => None,
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operations stay as they are")]
pub fn transpose(b: &mut Emit, x: NodeId, permutation: &[usize]) -> Option<NodeId> {
    if is_bounded(b, x) {
        return None;
    }
    let dims: Vec<u64> = permutation.iter().map(|&p| b.dims(x)[p]).collect();
    let moved: Vec<usize> = permutation.iter().copied().filter(|&p| b.dims(x)[p] != 1).collect();
    if moved.windows(2).all(|w| w[0] < w[1]) {
        return b.draft.fire("transpose-reshape").then(|| b.reshape(x, &dims));
    }
    match b.op(x).clone() {
        Op::Transpose { permutation: inner } => {
            let y = b.operand(x, 0);
            let composed: Vec<usize> = permutation.iter().map(|&p| inner[p]).collect();
            b.draft.fire("transpose-transpose").then(|| b.transpose(y, &composed))
        }
        Op::Broadcast { dims: map } => {
            let y = b.operand(x, 0);
            let position = crate::make::inverse(permutation);
            let map: Vec<usize> = map.iter().map(|&d| position[d]).collect();
            b.draft.fire("transpose-broadcast").then(|| b.broadcast(y, &map, &dims))
        }
        Op::Iota { dim } => {
            let dim = permutation.iter().position(|&p| p == dim)?;
            let dtype = b.dtype(x);
            b.draft.fire("transpose-iota").then(|| b.iota(dtype, &dims, dim))
        }
        Op::Constant(l) if l.elements() <= SMALL => {
            b.draft.fire("transpose-constant").then(|| b.constant(transposed(&l, permutation, &dims)))
        }
        Op::Reshape => turned_again(b, x, permutation, &dims),
        op if op.is_elementwise() => turned_back(b, x, permutation, &dims),
        _ => None,
    }
}

/// The transpose of what is computed element by element from transposes alone, beside what is the same in every place, as computed
/// from those arrays as they lie, where that turns no lanes any more: of complex numbers, which transforms leave turned. Which
/// dimension others have along lanes is decided by what it takes (`lanes`, `transfers`).
#[allow(clippy::wildcard_enum_match_arm, reason = "a rule: all other operands stay as they are")]
fn turned_back(b: &mut Emit, x: NodeId, permutation: &[usize], dims: &[u64]) -> Option<NodeId> {
    let n = b.node(x).clone();
    let last = permutation.len() - 1;
    let (mut back, mut others) = (false, false);
    for &o in &n.operands {
        match b.op(o) {
            Op::Transpose { permutation: inner } => {
                back = true;
                others |= inner[permutation[last]] != last;
            }
            Op::Broadcast { dims } => others |= !dims.is_empty(),
            Op::Constant(l) => others |= !l.dims.is_empty(),
            _ => others = true,
        }
    }
    let complex = n.operands.iter().chain([&x]).any(|&o| b.dtype(o).is_complex());
    if !complex || !back || others || permutation[last] == last || !b.draft.fire("transpose-elementwise") {
        return None;
    }
    let turn = |b: &mut Emit, o: NodeId| if b.rank(o) == 0 { o } else { b.transpose(o, permutation) };
    let operands: Vec<NodeId> = n.operands.iter().map(|&o| turn(b, o)).collect();
    Some(b.emit(n.op, &operands, Shape::array(array(&n.shape).dtype, dims)))
}

/// The transpose of a transpose whose dimensions were split or merged between, as one of the pieces that both have in common, where one
/// turns lanes back that the other turned, or undoes all that the other did.
fn turned_again(b: &mut Emit, x: NodeId, permutation: &[usize], dims: &[u64]) -> Option<NodeId> {
    let turned = b.operand(x, 0);
    let Op::Transpose { permutation: inner } = b.op(turned).clone() else { return None };
    let y = b.operand(turned, 0);
    let (sizes, of_turned, of_x) = pieces(b.dims(turned), b.dims(x))?;
    // The pieces in the order of `y`, and in the result's.
    let split: Vec<usize> = crate::make::inverse(&inner).iter().flat_map(|&d| of_turned[d].clone()).collect();
    let place = crate::make::inverse(&split);
    let order: Vec<usize> = permutation.iter().flat_map(|&d| of_x[d].clone()).map(|piece| place[piece]).collect();
    let (from, to) = (split.last()?, of_x[*permutation.last()?].clone().next_back()?);
    let lanes_stay = sizes[*from] == *b.dims(y).last()? && sizes[to] == *dims.last()? && *from == to;
    let lanes_moved = inner.last() != Some(&(inner.len() - 1));
    // Where the one undoes the other nothing is moved at all.
    let undone = order.windows(2).all(|w| w[0] < w[1]);
    if !(undone || lanes_stay && lanes_moved) || !b.draft.fire("transpose-reshape-transpose") {
        return None;
    }
    let y = b.reshape(y, &split.iter().map(|&piece| sizes[piece]).collect::<Vec<_>>());
    let y = b.transpose(y, &order);
    Some(b.reshape(y, dims))
}

fn transposed(l: &Literal, permutation: &[usize], dims: &[u64]) -> Literal {
    let mut strides = vec![1u64; l.dims.len()];
    for i in (0..l.dims.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * l.dims[i + 1];
    }
    let mut bytes = Vec::with_capacity(l.elements() * l.dtype.host_bytes());
    for i in 0..l.elements() as u64 {
        let (mut rest, mut at) = (i, 0);
        for d in (0..dims.len()).rev() {
            at += rest % dims[d] * strides[permutation[d]];
            rest /= dims[d];
        }
        bytes.extend_from_slice(l.element(at as usize));
    }
    Literal::new(l.dtype, dims, bytes)
}

pub fn iota(b: &mut Emit, dim: usize, shape: &Shape) -> Option<NodeId> {
    let a = array(shape);
    let zeros = a.dims[dim] == 1 && a.dtype != DType::Pred && !a.dtype.is_byte_float();
    (zeros && b.draft.fire("iota-zero")).then(|| b.splat(a.dtype, &a.dims, 0.0))
}

/// A constant of equal elements is a broadcast of a scalar.
pub fn constant(b: &mut Emit, literal: &Literal) -> Option<NodeId> {
    if literal.dims.is_empty() {
        return None;
    }
    let element = literal.uniform()?.to_vec();
    if !b.draft.fire("constant-splat") {
        return None;
    }
    let scalar =
        b.raw(Op::Constant(Literal::splat(literal.dtype, &[], &element)), &[], Shape::array(literal.dtype, &[]));
    Some(b.broadcast(scalar, &[], &literal.dims))
}
