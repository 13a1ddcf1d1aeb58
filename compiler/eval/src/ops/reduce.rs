//! Reductions, scans and maps: computations over scalars applied along arrays.

use super::super::error::{Fault, malformed};
use super::super::run::{Body, Machine};
use super::super::scalar::{self, Scalar};
use super::super::tensor::{for_each_run, signed, strides};
use super::super::value::Tensor;
use super::{initial, movement};
use systole_hlo::graph::{Binary, CompId};
use systole_isa::DType;

/// What is reduced, and by what: as many initial values as operands, of which there are some.
pub(in super::super) struct Reduced<'a> {
    pub operands: &'a [&'a Tensor],
    pub inits: &'a [&'a Tensor],
    pub body: CompId,
}

impl<'a> Reduced<'a> {
    /// n operands, n initial values.
    pub fn new(args: &'a [&'a Tensor], body: CompId) -> Result<Reduced<'a>, Fault> {
        let (operands, inits) = args.split_at(args.len() / 2);
        if operands.is_empty() {
            Err(malformed("a reduction of nothing"))
        } else {
            Ok(Reduced { operands, inits, body })
        }
    }
}

/// Elements are taken in row-major order, long dimensions by windows (see [`initial`]).
pub(in super::super) fn reduce(m: &mut Machine, of: &Reduced<'_>, dims: &[usize]) -> Result<Vec<Tensor>, Fault> {
    let Reduced { operands, inits, body: computation } = *of;
    let (first, n) = (operands[0], operands.len());
    if operands.iter().any(|t| t.elements() != first.elements()) {
        return Err(malformed("operands of different sizes"));
    }
    let kept: Vec<usize> = (0..first.rank()).filter(|d| !dims.contains(d)).collect();
    let out_dims: Vec<usize> = kept.iter().map(|&d| first.dims[d]).collect();
    if n == 1 && first.elements() > 0 && out_dims.iter().product::<usize>() == first.elements() {
        return Ok(vec![(*first).clone().reshaped(&out_dims)]);
    }
    let body = Body::new(m, computation, false)?;
    let narrow = first.dtype.is_float() && first.dtype.bits() < 32;
    if let (true, true, [init], Some(op @ (Binary::Add | Binary::Mul))) =
        (m.opts.f32_sums, narrow, inits, body.binary())
    {
        let wide = |t: &Tensor| as_type(t, DType::F32);
        let steps = steps_of(first, &kept, &out_dims);
        let sum = reduce_floats(&wide(first), &wide(init), op, &steps, &out_dims);
        return Ok(vec![as_type(&sum, first.dtype)]);
    }
    let windowed = match operands {
        [one] => Some(initial::by_windows(m, one, inits[0], dims, (computation, body.binary()))?),
        _ => None,
    };
    let operands: Vec<&Tensor> = match &windowed {
        Some(t) => vec![t],
        None => operands.to_vec(),
    };
    let first = operands[0];
    let steps = steps_of(first, &kept, &out_dims);
    match (body.binary(), first.dtype.is_float(), n) {
        (Some(op), true, 1) if is_fast(op) => Ok(vec![reduce_floats(first, inits[0], op, &steps, &out_dims)]),
        _ => reduce_any(m, body, &operands, inits, &steps, &out_dims),
    }
}

/// The result's offset as a function of the operand's index: nothing along reduced dimensions.
fn steps_of(operand: &Tensor, kept: &[usize], out_dims: &[usize]) -> Vec<isize> {
    let mut steps = vec![0isize; operand.rank()];
    kept.iter().zip(signed(&strides(out_dims))).for_each(|(&d, s)| steps[d] = s);
    steps
}

/// Real floats in another type of them.
fn as_type(t: &Tensor, dtype: DType) -> Tensor {
    let values = scalar::floats(t.dtype, t.bytes());
    Tensor::new(dtype, &t.dims, scalar::float_bytes(dtype, values.into_iter()))
}

fn is_fast(op: Binary) -> bool {
    matches!(op, Binary::Add | Binary::Mul | Binary::Max | Binary::Min)
}

/// A reduction of real floats by a plain operation.
///
/// Sums of many `f32` are kept in `f64` (beyond the range of `f32` they are infinite all the same), so that the reference
/// is at least as good as any order of summation. Everything else rounds at every step.
fn reduce_floats(t: &Tensor, init: &Tensor, op: Binary, steps: &[isize], out_dims: &[usize]) -> Tensor {
    let flush = |x| scalar::flush(t.dtype, x);
    let x = scalar::floats(t.dtype, t.bytes());
    let mut acc = vec![flush(init.get(0).float()); out_dims.iter().product()];
    let limit = if t.dtype == DType::F32 { f32::MAX as f64 } else { f64::MAX };
    let wide_sum = initial::is_whole_sum(t, Some(op));
    let add = |a: f64, b: f64| {
        let s = a + b;
        if s.abs() > limit { f64::INFINITY.copysign(s) } else { s }
    };
    let other = scalar::binary::float(op).unwrap_or(|a, _| a);
    let apply = |a: f64, b: f64| if wide_sum { add(a, b) } else { scalar::finish(t.dtype, other(a, b)) };
    let own = signed(&strides(&t.dims));
    let step = steps.last().copied().unwrap_or(0);
    for_each_run(&t.dims, [&own, steps], [0, 0], |[from, mut to], n| {
        let line = &x[from as usize..from as usize + n];
        if step == 0 {
            acc[to as usize] = line.iter().fold(acc[to as usize], |a, &b| apply(a, flush(b)));
        } else {
            for &b in line {
                acc[to as usize] = apply(acc[to as usize], flush(b));
                to += step;
            }
        }
    });
    let rounded = acc.into_iter().map(|a| scalar::finish(t.dtype, a));
    Tensor::new(t.dtype, out_dims, scalar::float_bytes(t.dtype, rounded))
}

fn reduce_any(
    m: &mut Machine,
    mut body: Body,
    operands: &[&Tensor],
    inits: &[&Tensor],
    steps: &[isize],
    out_dims: &[usize],
) -> Result<Vec<Tensor>, Fault> {
    let size = out_dims.iter().product();
    let mut acc: Vec<Vec<Scalar>> = inits.iter().map(|t| vec![t.get(0); size]).collect();
    let first = operands[0];
    let own = signed(&strides(&first.dims));
    let step = steps.last().copied().unwrap_or(0);
    let mut failed = None;
    for_each_run(&first.dims, [&own, steps], [0, 0], |[from, mut to], n| {
        for i in from as usize..from as usize + n {
            if failed.is_some() {
                return;
            }
            let old = acc.iter().map(|a| a[to as usize]);
            match body.call(m, old.chain(operands.iter().map(|t| t.get(i)))) {
                Ok(()) => acc.iter_mut().enumerate().for_each(|(k, a)| a[to as usize] = body.result(k)),
                Err(e) => failed = Some(e),
            }
            to += step;
        }
    });
    if let Some(e) = failed {
        return Err(e);
    }
    let pack =
        |(t, a): (&&Tensor, Vec<Scalar>)| Tensor::new(t.dtype, out_dims, scalar::scalar_bytes(t.dtype, a.into_iter()));
    Ok(operands.iter().zip(acc).map(pack).collect())
}

/// A scalar computation over the elements of n arrays.
pub(in super::super) fn map(m: &mut Machine, args: &[&Tensor], body: CompId, result: DType) -> Result<Tensor, Fault> {
    let first = args.first().ok_or_else(|| malformed("map of nothing"))?;
    let n = first.elements();
    if args.iter().any(|t| t.elements() != n) {
        return Err(malformed("operands of different sizes"));
    }
    let mut body = Body::new(m, body, false)?;
    let mut out = Vec::with_capacity(n);
    for i in 0..n {
        body.call(m, args.iter().map(|t| t.get(i)))?;
        out.push(body.result(0));
    }
    Ok(Tensor::new(result, &first.dims, scalar::scalar_bytes(result, out.into_iter())))
}

/// `scan`: n inputs and the carries; the stacked outputs and the last carries.
pub(in super::super) fn scan(
    m: &mut Machine,
    args: &[&Tensor],
    (dim, carries, reverse, body): (usize, usize, bool, CompId),
) -> Result<Vec<Tensor>, Fault> {
    let inputs = &args[..args.len() - carries];
    let mut state: Vec<Tensor> = args[args.len() - carries..].iter().map(|&t| t.clone()).collect();
    let length = inputs.first().and_then(|t| t.dims.get(dim)).copied().unwrap_or(0);
    let mut outputs: Vec<Vec<Tensor>> = Vec::new();
    for step in 0..length {
        let i = if reverse { length - 1 - step } else { step };
        let slices = inputs.iter().map(|t| take(t, dim, i));
        let given: Vec<_> = slices.chain(state.drain(..)).map(Into::into).collect();
        let mut results = m.run(body, given)?.into_leaves();
        state = results.split_off(results.len().saturating_sub(carries));
        outputs.resize(results.len(), Vec::new());
        outputs.iter_mut().zip(results).for_each(|(o, r)| o.push(r));
    }
    let mut all = Vec::new();
    for mut o in outputs {
        if reverse {
            o.reverse();
        }
        let rows: Vec<Tensor> = o.iter().map(|t| insert(t, dim)).collect();
        all.push(movement::concatenate(&rows.iter().collect::<Vec<_>>(), dim)?);
    }
    all.extend(state);
    Ok(all)
}

/// The slice at `i` along a dimension, without that dimension.
fn take(t: &Tensor, dim: usize, i: usize) -> Tensor {
    let own = signed(&strides(&t.dims));
    let (mut dims, mut steps) = (t.dims.clone(), own.clone());
    dims.remove(dim);
    steps.remove(dim);
    super::super::tensor::gather_strided(t, &dims, i as isize * own[dim], &steps)
}

/// With a dimension of size 1 put in.
fn insert(t: &Tensor, dim: usize) -> Tensor {
    let mut dims = t.dims.clone();
    dims.insert(dim, 1);
    t.clone().reshaped(&dims)
}
