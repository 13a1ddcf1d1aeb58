//! `initial-values`: reductions start from what changes nothing; their initial values are combined with the results.
//!
//! An initial value that the computation does not leave alone counts as often as XLA's CPU backend takes it, which
//! reduces dimensions of more than 32 elements by windows of 32 first: once for every window, and once at the end. Sums of at
//! least 4096 `f32` or `f64` are taken at once.

use super::sums::{rounded, wide_sum};
use crate::edit::{Emit, Rewritten};
use crate::simplify::{combiner, identity, is_identity, scalar_of};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Node, NodeId, Op, PadDim, WindowDim};
use systole_isa::DType;

/// Largest dimension that is reduced at once.
const WINDOW: u64 = 32;
/// Elements from which sums of `f32` and `f64` are taken at once.
const WHOLE_SUM: u64 = 4096;

/// How often a reduction of `sizes` along `dims` takes its initial value.
fn times(sizes: &[u64], dims: &[usize], whole: bool) -> u64 {
    let mut sizes: Vec<u64> = dims.iter().map(|&d| sizes[d]).collect();
    let mut times = 1u64;
    while !whole && sizes.iter().any(|&s| s > WINDOW) {
        for s in &mut sizes {
            *s = s.div_ceil(WINDOW);
        }
        times = times.wrapping_add(sizes.iter().fold(1, |n, &s| n.wrapping_mul(s)));
    }
    times
}

/// Rewrites a reduction of one array by one operation.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Rewritten {
    let Op::Reduce { dims, body } = &n.op else { return Ok(None) };
    let &[x, init] = operands else { return Ok(None) };
    let dtype = b.dtype(x);
    let Some(op) = combiner(b, *body) else { return Ok(None) };
    let Some(neutral) = identity(op, dtype) else { return Ok(None) };
    if scalar_of(b, init).is_some_and(|l| is_identity(op, l)) {
        return Ok(None);
    }
    let sizes = b.dims(x).to_vec();
    let whole =
        op == Binary::Add && matches!(dtype, DType::F32 | DType::F64) && sizes.iter().product::<u64>() >= WHOLE_SUM;
    // Sums and products of narrow floats are taken in f32, initial values and all, but where windows come first.
    if matches!(dtype, DType::BF16 | DType::F16)
        && wide_sum(b, *body, dtype).is_some()
        && dims.iter().any(|&d| sizes[d] > WINDOW)
    {
        return by_windows(b, op, x, init, dims).map(Some);
    }
    let wide = if wide_sum(b, *body, dtype).is_some() { DType::F32 } else { dtype };
    let init = b.convert(init, wide);
    let init = repeated(b, op, init, times(&sizes, dims, whole));
    let start = if op == Binary::Add && dtype.is_float() { -neutral } else { neutral };
    let start = b.scalar(wide, start);
    if scalar_of(b, start).zip(scalar_of(b, operands[1])).is_some_and(|(a, b)| a == b) {
        return Ok(None);
    }
    let (x, body) = (b.convert(x, wide), if wide == dtype { *body } else { b.body(op, wide) });
    let r = b.reduce_by(&[x], &[start], dims, body);
    let dims = b.dims(r).to_vec();
    let init = b.broadcast(init, &[], &dims);
    let done = b.binary(op, init, r);
    Ok(Some(b.convert(done, dtype)))
}

/// A reduction of narrow floats window by window, each step rounded.
fn by_windows(b: &mut Emit, op: Binary, x: NodeId, init: NodeId, dims: &[usize]) -> Result<NodeId, CompileError> {
    let dtype = b.dtype(x);
    let body = rounded(b, op, dtype)?;
    let neutral = b.scalar(dtype, if op == Binary::Add { -0.0 } else { 1.0 });
    let mut x = x;
    loop {
        let sizes = b.dims(x).to_vec();
        let mut pads = vec![PadDim::NONE; sizes.len()];
        let mut window = vec![WindowDim::TRIVIAL; sizes.len()];
        for &d in dims {
            let width = sizes[d].clamp(1, WINDOW);
            let padding = (sizes[d].next_multiple_of(width) - sizes[d]) as i64;
            (pads[d].low, pads[d].high) = (padding / 2, padding - padding / 2);
            (window[d].size, window[d].stride) = (width, width);
        }
        let last = dims.iter().all(|&d| sizes[d] <= WINDOW);
        x = b.pad(x, neutral, &pads);
        x = b.reduce_window(&[x], &[init], &window, body);
        if last {
            let kept: Vec<u64> = (0..sizes.len()).filter(|d| !dims.contains(d)).map(|d| sizes[d]).collect();
            return Ok(b.reshape(x, &kept));
        }
    }
}

/// A value combined with itself: `times` of it.
#[allow(clippy::wildcard_enum_match_arm, reason = "an initial value of another operation is applied as it stands")]
fn repeated(b: &mut Emit, op: Binary, x: NodeId, times: u64) -> NodeId {
    let dtype = b.dtype(x);
    if times == 1 || dtype == DType::Pred {
        return x;
    }
    match op {
        Binary::Add if dtype.is_float() || dtype.is_complex() => b.with(Binary::Mul, x, times as f64),
        Binary::Add => {
            let factor = b.bits(dtype, times);
            b.mul(x, factor)
        }
        Binary::Mul => {
            let mut rest = times;
            let (mut power, mut result) = (x, None);
            while rest > 0 {
                if rest % 2 == 1 {
                    result = Some(result.map_or(power, |r| b.mul(r, power)));
                }
                rest /= 2;
                if rest > 0 {
                    power = b.mul(power, power);
                }
            }
            result.unwrap_or(x)
        }
        _ => x,
    }
}
