//! Sorting.

use super::super::error::{Fault, malformed};
use super::super::run::{Body, Machine};
use super::super::scalar::{self, Scalar, float, integer};
use super::super::tensor::strides;
use super::super::value::Tensor;
use std::cmp::Ordering;
use systole_hlo::graph::{CompId, Direction, Op, Order};
use systole_isa::{DType, dtype::DTypeClass};

/// Sorts n arrays together along a dimension by a comparator over 2n scalars; stable whatever the comparator.
pub(in super::super) fn sort(
    m: &mut Machine,
    args: &[&Tensor],
    dim: usize,
    comparator: CompId,
) -> Result<Vec<Tensor>, Fault> {
    let first = args.first().ok_or_else(|| malformed("sort of nothing"))?;
    if args.iter().any(|t| t.dims != first.dims) || dim >= first.rank() {
        return Err(malformed("operands of different sizes"));
    }
    let plain = plain_comparison(m, comparator, args.len());
    let mut body = Body::new(m, comparator, false)?;
    let values: Vec<Vec<Scalar>> = args.iter().map(|t| scalar::scalars(t.dtype, t.bytes())).collect();
    let (length, stride) = (first.dims[dim], strides(&first.dims)[dim]);
    let mut out: Vec<Tensor> = args.iter().map(|&t| t.clone()).collect();
    for base in lines(first, dim) {
        let at = |i: usize| base + i * stride;
        let mut order: Vec<usize> = (0..length).collect();
        let mut failed = None;
        match plain {
            Some((operand, direction, order_kind)) => {
                let (x, t) = (&values[operand], args[operand].dtype);
                merge_sort(&mut order, &mut |a, b| plain_less(t, direction, order_kind, x[at(a)], x[at(b)]));
            }
            None => merge_sort(&mut order, &mut |a, b| {
                let pairs = values.iter().flat_map(|v| [v[at(a)], v[at(b)]]);
                if failed.is_none() {
                    failed = body.call(m, pairs).err();
                }
                failed.is_none() && body.truth()
            }),
        }
        if let Some(e) = failed {
            return Err(e);
        }
        for (o, t) in out.iter_mut().zip(args) {
            let size = t.dtype.host_bytes();
            let bytes = o.bytes_mut();
            for (i, &from) in order.iter().enumerate() {
                bytes[at(i) * size..][..size].copy_from_slice(&t.bytes()[at(from) * size..][..size]);
            }
        }
    }
    Ok(out)
}

/// Offsets of the first elements of all lines along a dimension.
fn lines(t: &Tensor, dim: usize) -> Vec<usize> {
    let stride = strides(&t.dims)[dim];
    (0..t.elements()).filter(|i| (i / stride).is_multiple_of(t.dims[dim])).collect()
}

/// Operand, direction and order if the comparator is a strict comparison of one operand's two elements.
fn plain_comparison(m: &Machine, comparator: CompId, operands: usize) -> Option<(usize, Direction, Order)> {
    let c = m.module.computation(comparator);
    let root = c.node(c.root);
    let Op::Compare { direction: direction @ (Direction::Lt | Direction::Gt), order } = root.op else { return None };
    let number = |i: usize| c.params.iter().position(|p| Some(p) == root.operands.get(i));
    let (a, b) = (number(0)?, number(1)?);
    (a % 2 == 0 && b == a + 1 && a / 2 < operands).then_some((a / 2, direction, order))
}

fn plain_less(t: DType, direction: Direction, order: Order, a: Scalar, b: Scalar) -> bool {
    match t.class() {
        DTypeClass::Float => float::compare(t, direction, order, a.float(), b.float()),
        DTypeClass::Complex => false,
        DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned => {
            integer::compare(t, direction, a.int(), b.int())
        }
    }
}

/// A stable merge sort that ends for any comparator, also one that is no order (as with NaN).
fn merge_sort(order: &mut [usize], less: &mut impl FnMut(usize, usize) -> bool) {
    let n = order.len();
    let mut from = order.to_vec();
    let mut to = vec![0; n];
    let mut width = 1;
    while width < n {
        for begin in (0..n).step_by(2 * width) {
            let (mid, end) = ((begin + width).min(n), (begin + 2 * width).min(n));
            let (mut l, mut r) = (begin, mid);
            for slot in &mut to[begin..end] {
                let right = l == mid || (r < end && less(from[r], from[l]));
                let next = if right { &mut r } else { &mut l };
                *slot = from[*next];
                *next += 1;
            }
        }
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
    order.copy_from_slice(&from);
}

/// The `k` largest (or smallest) along the last dimension and their indices; of equal ones the lower index first.
pub(in super::super) fn top_k(t: &Tensor, k: usize, largest: bool) -> Vec<Tensor> {
    let length = t.dims.last().copied().unwrap_or(1);
    let k = k.min(length);
    let size = t.dtype.host_bytes();
    let (mut values, mut indices) = (Vec::new(), Vec::new());
    for line in t.bytes().chunks_exact((length * size).max(1)) {
        let x = scalar::scalars(t.dtype, line);
        let compare = |a: Scalar, b: Scalar| match t.dtype.class() {
            DTypeClass::Float | DTypeClass::Complex => float::total_order(a.float(), b.float()),
            DTypeClass::Unsigned => (a.int() as u64).cmp(&(b.int() as u64)),
            DTypeClass::Pred | DTypeClass::Signed => a.int().cmp(&b.int()),
        };
        let mut order: Vec<usize> = (0..length).collect();
        let want = if largest { Ordering::Greater } else { Ordering::Less };
        merge_sort(&mut order, &mut |a, b| compare(x[a], x[b]) == want);
        for &i in &order[..k] {
            values.extend_from_slice(&line[i * size..(i + 1) * size]);
            indices.extend_from_slice(&(i as i32).to_le_bytes());
        }
    }
    let mut dims = t.dims.clone();
    if let Some(d) = dims.last_mut() {
        *d = k;
    }
    vec![Tensor::new(t.dtype, &dims, values), Tensor::new(DType::S32, &dims, indices)]
}
