//! Dots: general, ragged and scaled.

use super::super::error::{Fault, malformed};
use super::super::scalar;
use super::super::value::Tensor;
use super::super::{DotRounding, EvalOptions};
use super::matrix::{Arithmetic, Number};
use super::movement;
use systole_hlo::graph::{ArrayShape, Binary, DotDims, Op, Precision};
use systole_isa::DType;

/// The operand as the options round it before a contraction.
pub(in super::super) fn rounded(opts: &EvalOptions, t: &Tensor, precision: Precision) -> Tensor {
    if opts.dot_rounding == DotRounding::None || precision != Precision::Default || t.dtype != DType::F32 {
        return t.clone();
    }
    let narrow = scalar::floats(DType::F32, t.bytes()).into_iter().map(|x| scalar::finish(DType::BF16, x));
    Tensor::new(DType::F32, &t.dims, scalar::float_bytes(DType::F32, narrow))
}

/// Dimensions of an operand by role: batch, free, contracting.
struct Roles {
    batch: Vec<usize>,
    free: Vec<usize>,
    contracting: Vec<usize>,
}

impl Roles {
    fn new(rank: usize, batch: &[usize], contracting: &[usize]) -> Roles {
        let free = (0..rank).filter(|d| !batch.contains(d) && !contracting.contains(d)).collect();
        Roles { batch: batch.to_vec(), free, contracting: contracting.to_vec() }
    }

    fn sizes(list: &[usize], t: &Tensor) -> Vec<usize> {
        list.iter().map(|&d| t.dims[d]).collect()
    }
}

/// Result dimensions: batch, free of the left, free of the right.
pub(in super::super) fn dot(
    opts: &EvalOptions,
    args: &[&Tensor],
    dims: &DotDims,
    precision: Precision,
    result: DType,
) -> Result<Tensor, Fault> {
    let (a, b) = (rounded(opts, args[0], precision), rounded(opts, args[1], precision));
    match Arithmetic::of([a.dtype, b.dtype, result]) {
        Arithmetic::F32 => dot_in::<f32>(&a, &b, dims, result),
        Arithmetic::F64 => dot_in::<f64>(&a, &b, dims, result),
        Arithmetic::Integer => dot_in::<i64>(&a, &b, dims, result),
        Arithmetic::Complex64 => dot_in::<(f32, f32)>(&a, &b, dims, result),
        Arithmetic::Complex128 => dot_in::<scalar::complex::Complex>(&a, &b, dims, result),
    }
}

fn dot_in<T: Number>(a: &Tensor, b: &Tensor, dims: &DotDims, result: DType) -> Result<Tensor, Fault> {
    let left = Roles::new(a.rank(), &dims.lhs_batch, &dims.lhs_contracting);
    let right = Roles::new(b.rank(), &dims.rhs_batch, &dims.rhs_contracting);
    let batch = Roles::sizes(&left.batch, a);
    let (rows, cols) = (Roles::sizes(&left.free, a), Roles::sizes(&right.free, b));
    let depth = Roles::sizes(&left.contracting, a);
    if batch != Roles::sizes(&right.batch, b) || depth != Roles::sizes(&right.contracting, b) {
        return Err(malformed(format!("dot of {:?} and {:?}", a.dims, b.dims)));
    }
    let order = [left.batch, left.free, left.contracting].concat();
    let x = T::from_tensor(&movement::transpose(a, &order));
    let order = [right.batch, right.contracting, right.free].concat();
    let y = T::from_tensor(&movement::transpose(b, &order));
    let product = |l: &[usize]| l.iter().product::<usize>();
    let (n, m, k, c) = (product(&batch), product(&rows), product(&depth), product(&cols));
    let mut out = vec![T::ZERO; n * m * c];
    for i in 0..n {
        let (xs, ys) = (&x[i * m * k..(i + 1) * m * k], &y[i * k * c..(i + 1) * k * c]);
        T::multiply(m, k, c, xs, ys, &mut out[i * m * c..(i + 1) * m * c]);
    }
    Ok(T::into_tensor(out, result, &[batch, rows, cols].concat()))
}

/// Ragged and scaled dots, by way of plain ones.
#[allow(clippy::wildcard_enum_match_arm, reason = "the caller sends products alone, and the fault is said")]
pub(in super::super) fn special(
    opts: &EvalOptions,
    args: &[&Tensor],
    op: &Op,
    result: &ArrayShape,
) -> Result<Tensor, Fault> {
    match op {
        Op::ScaledDot { dims, precision } => {
            let a = scaled(args[0], args[2])?;
            let b = scaled(args[1], args[3])?;
            dot(opts, &[&a, &b], dims, *precision, result.dtype)
        }
        Op::RaggedDot { dims, lhs_ragged, rhs_group, precision } => {
            ragged(opts, args, dims, (*lhs_ragged, rhs_group, *precision), result)
        }
        _ => Err(malformed("not a dot")),
    }
}

/// The operand times its scales, each of which stands for a block, or a single one for all; computed in `f32`.
fn scaled(t: &Tensor, scale: &Tensor) -> Result<Tensor, Fault> {
    if scale.rank() != t.rank() && scale.rank() != 0 {
        return Err(malformed("scales of another rank"));
    }
    let (own, of_scale) = (super::super::tensor::strides(&t.dims), super::super::tensor::strides(&scale.dims));
    let mut out = Vec::with_capacity(t.elements());
    for i in 0..t.elements() {
        let mut at = 0;
        for d in 0..scale.rank() {
            let index = i / own[d] % t.dims[d];
            at += (index * scale.dims[d] / t.dims[d]) * of_scale[d];
        }
        out.push(scalar::finish(DType::F32, t.get(i).float() * scale.get(at).float()));
    }
    Ok(Tensor::new(DType::F32, &t.dims, scalar::float_bytes(DType::F32, out.into_iter())))
}

/// A dot whose left operand is cut along one dimension into groups of given sizes, one product for each.
///
/// If the cut dimension is free, each group's rows meet that group's right operand; if it is contracted, each group
/// gives a product of its own; if it is a batch dimension the cut changes nothing.
fn ragged(
    opts: &EvalOptions,
    args: &[&Tensor],
    dims: &DotDims,
    (ragged, group, precision): (usize, &[usize], Precision),
    result: &ArrayShape,
) -> Result<Tensor, Fault> {
    let (a, b, sizes) = (args[0], args[1], args[2]);
    if sizes.rank() != 1 {
        return Err(Fault::Unsupported("ragged-dot with group sizes for each batch".to_string()));
    }
    if dims.lhs_batch.contains(&ragged) {
        return dot(opts, &[a, b], dims, precision, result.dtype);
    }
    let contracted = dims.lhs_contracting.iter().position(|&d| d == ragged);
    let mut total: Option<Tensor> = None;
    let mut parts = Vec::new();
    let mut start = 0i64;
    for g in 0..sizes.elements() {
        let end = start + sizes.index(g).max(0);
        let mine = masked(a, ragged, (start, end));
        start = end;
        if contracted.is_some() {
            let mut part = dot(opts, &[&mine, b], dims, precision, result.dtype)?;
            part.dims.insert(0, 1);
            parts.push(part);
            continue;
        }
        let &[at] = group else { return Err(malformed("ragged-dot without one group dimension")) };
        let theirs = movement::slice(b, &one_of(b, at, g as u64));
        let mut left = b.dims.clone();
        left.remove(at);
        let without = |l: &[usize]| l.iter().map(|&d| if d > at { d - 1 } else { d }).collect();
        let inner = DotDims {
            rhs_contracting: without(&dims.rhs_contracting),
            rhs_batch: without(&dims.rhs_batch),
            ..dims.clone()
        };
        let part = dot(opts, &[&mine, &theirs.reshaped(&left)], &inner, precision, result.dtype)?;
        total = Some(match total {
            None => part,
            Some(t) => add(&t, &part)?,
        });
    }
    match total {
        Some(t) => Ok(t),
        None if !parts.is_empty() => movement::concatenate(&parts.iter().collect::<Vec<_>>(), 0),
        None => Ok(Tensor::zeros(result.dtype, &super::super::value::sizes(&result.dims))),
    }
}

fn add(a: &Tensor, b: &Tensor) -> Result<Tensor, Fault> {
    let kernel = super::elementwise::Kernel::new(&Op::Binary(Binary::Add), &[a.dtype, b.dtype], a.dtype);
    let kernel = kernel.ok_or_else(|| malformed("a sum of this type"))?;
    super::elementwise::over_arrays(kernel, &[a, b], a.dtype)
}

/// With zeros outside the range along a dimension.
fn masked(t: &Tensor, dim: usize, (start, end): (i64, i64)) -> Tensor {
    let mut out = t.clone();
    let size = t.dtype.host_bytes();
    let stride = super::super::tensor::strides(&t.dims)[dim];
    let bytes = out.bytes_mut();
    for i in 0..t.elements() {
        let index = (i / stride % t.dims[dim]) as i64;
        if index < start || index >= end {
            bytes[i * size..(i + 1) * size].fill(0);
        }
    }
    out
}

/// The slice of index `i` along a dimension.
fn one_of(t: &Tensor, dim: usize, i: u64) -> Vec<systole_hlo::graph::SliceDim> {
    let all = |(d, &s): (usize, &usize)| match d == dim {
        true => systole_hlo::graph::SliceDim { start: i, limit: i + 1, stride: 1 },
        false => systole_hlo::graph::SliceDim { start: 0, limit: s as u64, stride: 1 },
    };
    t.dims.iter().enumerate().map(all).collect()
}
