//! Windowed reductions, and select-and-scatter.

use super::super::error::{Fault, malformed};
use super::super::run::{Body, Machine};
use super::super::scalar::{self, Scalar};
use super::super::tensor::{advance, strides};
use super::super::value::Tensor;
use super::conv::source;
use super::initial;
use super::reduce::Reduced;
use systole_hlo::graph::{CompId, WindowDim};

/// Windows along a dimension of `size` elements.
fn windows(w: &WindowDim, size: usize) -> usize {
    let dilated = |n: i64, d: u64| if n == 0 { 0 } else { (n - 1) * d.max(1) as i64 + 1 };
    let padded = dilated(size as i64, w.base_dilation) + w.pad_low + w.pad_high;
    let window = dilated(w.size as i64, w.window_dilation);
    if window > padded || padded <= 0 { 0 } else { ((padded - window) / w.stride.max(1) as i64 + 1) as usize }
}

/// For each result index along one dimension, the operand indices its window sees, in order.
fn seen(w: &WindowDim, size: usize) -> Vec<Vec<usize>> {
    let taps = |place| (0..w.size as usize).filter_map(|tap| source(w, size, place, tap)).collect();
    (0..windows(w, size)).map(taps).collect()
}

/// What every window sees: calls `f` with each result offset and the operand offsets under its window, in order.
fn for_each_window(
    dims: &[usize],
    window: &[WindowDim],
    mut f: impl FnMut(usize, &[usize]) -> Result<(), Fault>,
) -> Result<Vec<usize>, Fault> {
    let seen: Vec<Vec<Vec<usize>>> = window.iter().zip(dims).map(|(w, &d)| seen(w, d)).collect();
    let out_dims: Vec<usize> = seen.iter().map(Vec::len).collect();
    if out_dims.contains(&0) {
        return Ok(out_dims);
    }
    let own = strides(dims);
    let mut place = vec![0; dims.len()];
    let mut at = 0;
    let mut offsets = Vec::new();
    loop {
        offsets.clear();
        offsets.push(0);
        for (d, &p) in place.iter().enumerate() {
            let taps = &seen[d][p];
            let step = own[d];
            offsets = offsets.iter().flat_map(|o| taps.iter().map(move |t| o + t * step)).collect();
        }
        f(at, &offsets)?;
        at += 1;
        if !advance(&mut place, &out_dims) {
            return Ok(out_dims);
        }
    }
}

/// Padding counts as nothing: the initial value has been taken in once.
pub(in super::super) fn reduce_window(
    m: &mut Machine,
    of: &Reduced<'_>,
    window: &[WindowDim],
) -> Result<Vec<Tensor>, Fault> {
    let Reduced { operands, inits, body } = *of;
    let (first, n) = (operands[0], operands.len());
    if window.len() != first.rank() || operands.iter().any(|t| t.dims != first.dims) {
        return Err(malformed("the window does not fit the operands"));
    }
    let mut body = Body::new(m, body, false)?;
    if let Some(done) = initial::by_blocks(m, (operands, inits), window, &mut body)? {
        return Ok(done);
    }
    if let (Some(op), true, 1) = (body.binary(), first.dtype.is_float(), n)
        && let Some(f) = scalar::binary::float(op)
    {
        return Ok(vec![window_floats(first, inits[0], window, f)?]);
    }
    let values: Vec<Vec<Scalar>> = operands.iter().map(|t| scalar::scalars(t.dtype, t.bytes())).collect();
    let mut out: Vec<Vec<Scalar>> = vec![Vec::new(); n];
    let init: Vec<Scalar> = inits.iter().map(|t| t.get(0)).collect();
    let mut acc = init.clone();
    let out_dims = for_each_window(&first.dims, window, |_, offsets| {
        acc.clone_from(&init);
        for &o in offsets {
            body.call(m, acc.iter().copied().chain(values.iter().map(|v| v[o])))?;
            acc.iter_mut().enumerate().for_each(|(i, a)| *a = body.result(i));
        }
        out.iter_mut().zip(&acc).for_each(|(o, &a)| o.push(a));
        Ok(())
    })?;
    let pack =
        |(t, v): (&&Tensor, Vec<Scalar>)| Tensor::new(t.dtype, &out_dims, scalar::scalar_bytes(t.dtype, v.into_iter()));
    Ok(operands.iter().zip(out).map(pack).collect())
}

/// A plain operation over real floats.
fn window_floats(
    t: &Tensor,
    init: &Tensor,
    window: &[WindowDim],
    f: scalar::float::FloatBinary,
) -> Result<Tensor, Fault> {
    let flush = |x| scalar::flush(t.dtype, x);
    let step = |a: f64, b: f64| scalar::finish(t.dtype, f(a, b));
    let x: Vec<f64> = scalar::floats(t.dtype, t.bytes()).into_iter().map(flush).collect();
    let start = flush(init.get(0).float());
    let mut out = Vec::new();
    let out_dims = for_each_window(&t.dims, window, |_, offsets| {
        out.push(scalar::finish(t.dtype, offsets.iter().fold(start, |a, &o| step(a, x[o]))));
        Ok(())
    })?;
    Ok(Tensor::new(t.dtype, &out_dims, scalar::float_bytes(t.dtype, out.into_iter())))
}

/// operand, source, initial value: each source element goes where its window selects, row-major order.
///
/// The selected element starts as the window's first; a later one takes its place where `select(selected, it)` fails.
pub(in super::super) fn select_and_scatter(
    m: &mut Machine,
    args: &[&Tensor],
    window: &[WindowDim],
    select: CompId,
    scatter: CompId,
) -> Result<Tensor, Fault> {
    let (t, sources, init) = (args[0], args[1], args[2]);
    if window.len() != t.rank() {
        return Err(malformed("the window does not fit the operand"));
    }
    let mut select = Body::new(m, select, false)?;
    let mut scatter = Body::new(m, scatter, false)?;
    let x = scalar::scalars(t.dtype, t.bytes());
    let mut out = vec![init.get(0); t.elements()];
    for_each_window(&t.dims, window, |at, offsets| {
        let Some((&first, rest)) = offsets.split_first() else { return Ok(()) };
        if at >= sources.elements() {
            return Err(malformed("fewer sources than windows"));
        }
        let mut chosen = first;
        for &o in rest {
            select.call(m, [x[chosen], x[o]].into_iter())?;
            if !select.truth() {
                chosen = o;
            }
        }
        scatter.call(m, [out[chosen], sources.get(at)].into_iter())?;
        out[chosen] = scatter.result(0);
        Ok(())
    })?;
    Ok(Tensor::new(t.dtype, &t.dims, scalar::scalar_bytes(t.dtype, out.into_iter())))
}
