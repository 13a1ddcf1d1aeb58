//! How often a reduction takes its initial value, and in what order it takes its elements.
//!
//! An initial value that the computation does not leave alone (a sum that starts at 2) should be taken once, but XLA
//! leaves that open, and its CPU backend takes it once for every partial result of its own order of reduction. Programs
//! are compared with that backend, so the order is part of the meaning here:
//!
//! - a reduction that removes only dimensions of size 1 is a reshape and takes no initial value;
//! - a reduction of one array along dimensions of more than 32 elements is first reduced by windows of 32 (as a
//!   `reduce-window` with padding on both sides), again and again; sums of at least 4096 `f32` or `f64` are not;
//! - a running reduction along a dimension of more than 16 elements is done by blocks of 16, whose totals are run over
//!   in the same way.
//!
//! For floats, which round at every step, the order matters whatever the initial value.

use super::super::error::Fault;
use super::super::run::{Body, Machine};
use super::super::scalar::{self, Scalar};
use super::super::tensor::strides;
use super::super::value::Tensor;
use super::reduce::Reduced;
use super::window;
use systole_hlo::graph::{Binary, CompId, WindowDim};
use systole_isa::DType;

/// Largest dimension that is reduced at once.
const WINDOW: usize = 32;
/// Largest running reduction that is done at once.
const BLOCK: usize = 16;
/// Elements from which sums of `f32` and `f64` are done at once.
const WHOLE_SUM: usize = 4096;

/// Whether taking the value once more changes nothing.
fn is_neutral(op: Option<Binary>, init: Scalar, dtype: DType) -> bool {
    let (re, im) = init.complex();
    match op {
        Some(Binary::Add | Binary::Or | Binary::Xor) if re == 0.0 && im == 0.0 => true,
        Some(Binary::Mul) => re == 1.0 && im == 0.0,
        Some(Binary::Add | Binary::Or) => dtype == DType::Pred,
        Some(Binary::Max | Binary::Min | Binary::And) => true,
        _ => false,
    }
}

/// Whether a reduction is done at once, as a sum that is rounded at its end.
pub(in super::super) fn is_whole_sum(t: &Tensor, op: Option<Binary>) -> bool {
    op == Some(Binary::Add) && matches!(t.dtype, DType::F32 | DType::F64) && t.elements() >= WHOLE_SUM
}

/// The operand of a reduction after its first steps by windows, or the operand itself.
pub(in super::super) fn by_windows(
    m: &mut Machine,
    t: &Tensor,
    init: &Tensor,
    dims: &[usize],
    (body, op): (CompId, Option<Binary>),
) -> Result<Tensor, Fault> {
    let mut t = t.clone();
    let picks = matches!(op, Some(Binary::Max | Binary::Min));
    let order_matters = (t.dtype.is_float() || t.dtype.is_complex()) && !picks;
    if is_whole_sum(&t, op) || (is_neutral(op, init.get(0), t.dtype) && !order_matters) {
        return Ok(t);
    }
    while dims.iter().any(|&d| t.dims[d] > WINDOW) {
        let step = |(d, &size): (usize, &usize)| {
            if !dims.contains(&d) {
                return WindowDim::TRIVIAL;
            }
            let width = size.clamp(1, WINDOW);
            let padding = (size.div_ceil(width) * width - size) as i64;
            let (pad_low, pad_high) = (padding / 2, padding - padding / 2);
            WindowDim { size: width as u64, stride: width as u64, pad_low, pad_high, ..WindowDim::TRIVIAL }
        };
        let by: Vec<WindowDim> = t.dims.iter().enumerate().map(step).collect();
        t = window::reduce_window(m, &Reduced { operands: &[&t], inits: &[init], body }, &by)?.remove(0);
    }
    Ok(t)
}

/// A running reduction: the dimension, whether it runs backwards, whether each result leaves its own element out.
struct Running {
    dim: usize,
    reverse: bool,
    exclusive: bool,
}

/// The window's form if it is that of a long running reduction.
fn running(dims: &[usize], window: &[WindowDim]) -> Option<Running> {
    let mut long = window.iter().enumerate().filter(|(_, w)| **w != WindowDim::TRIVIAL);
    let (dim, w) = long.next()?;
    let n = dims[dim] as i64;
    let plain = WindowDim { size: n as u64, pad_low: w.pad_low, pad_high: w.pad_high, ..WindowDim::TRIVIAL };
    if long.next().is_some() || *w != plain || n <= BLOCK as i64 {
        return None;
    }
    let exclusive = w.pad_low + w.pad_high == n;
    let fits = exclusive || w.pad_low + w.pad_high == n - 1;
    (fits && w.pad_low.min(w.pad_high) == 0).then_some(Running { dim, reverse: w.pad_low == 0, exclusive })
}

/// The result of a windowed reduction that is a running one with an initial value that matters; else `None`.
pub(in super::super) fn by_blocks(
    m: &mut Machine,
    (operands, inits): (&[&Tensor], &[&Tensor]),
    window: &[WindowDim],
    body: &mut Body,
) -> Result<Option<Vec<Tensor>>, Fault> {
    let n = operands.len();
    let init: Vec<Scalar> = inits.iter().map(|t| t.get(0)).collect();
    let Some(form) = running(&operands[0].dims, window) else { return Ok(None) };
    if n == 1 && is_neutral(body.binary(), init[0], operands[0].dtype) {
        return Ok(None);
    }
    let dims = &operands[0].dims;
    let (length, stride) = (dims[form.dim], strides(dims)[form.dim]);
    let mut out_dims = dims.clone();
    out_dims[form.dim] += usize::from(form.exclusive);
    let out_length = out_dims[form.dim];
    let mut out: Vec<Vec<Scalar>> = vec![vec![Scalar::I(0); out_dims.iter().product()]; n];
    for base in (0..operands[0].elements()).filter(|i| i / stride % length == 0) {
        let place = |i: usize| if form.reverse { length - 1 - i } else { i };
        let element = |i: usize| operands.iter().map(|t| t.get(base + place(i) * stride)).collect();
        let mut line: Vec<Vec<Scalar>> = (0..length).map(element).collect();
        line = run_over(m, body, line, &init, form.reverse)?;
        if form.exclusive {
            line.insert(0, init.clone());
        }
        // Lines of the result lie apart by its own length.
        let out_base = base / (length * stride) * (out_length * stride) + base % stride;
        for (i, values) in line.into_iter().enumerate() {
            let i = if form.reverse { out_length - 1 - i } else { i };
            out.iter_mut().zip(values).for_each(|(o, v)| o[out_base + i * stride] = v);
        }
    }
    let pack =
        |(t, v): (&&Tensor, Vec<Scalar>)| Tensor::new(t.dtype, &out_dims, scalar::scalar_bytes(t.dtype, v.into_iter()));
    Ok(Some(operands.iter().zip(out).map(pack).collect()))
}

/// Running reduction of a line, by blocks. With `pad_first` what a last block lacks is put before the line.
fn run_over(
    m: &mut Machine,
    body: &mut Body,
    mut line: Vec<Vec<Scalar>>,
    init: &[Scalar],
    pad_first: bool,
) -> Result<Vec<Vec<Scalar>>, Fault> {
    if line.len() <= BLOCK {
        // Windows are taken in their own order, which is against that of a line that runs backwards.
        let window = |i: usize| if pad_first { (0..=i).rev().collect() } else { vec![i] };
        let mut out: Vec<Vec<Scalar>> = Vec::new();
        for i in 0..line.len() {
            let before = out.last().filter(|_| !pad_first);
            let start = before.map_or_else(|| init.to_vec(), Clone::clone);
            out.push(window(i).into_iter().try_fold(start, |acc, at| combine(m, body, &acc, &line[at]))?);
        }
        return Ok(out);
    }
    let lacking = line.len().next_multiple_of(BLOCK) - line.len();
    let pads = vec![init.to_vec(); lacking];
    if pad_first {
        line.splice(0..0, pads);
    } else {
        line.extend(pads);
    }
    let mut totals = Vec::new();
    let mut blocks = Vec::new();
    for block in line.chunks(BLOCK) {
        let block = run_over(m, body, block.to_vec(), init, pad_first)?;
        totals.extend(block.last().cloned());
        blocks.push(block);
    }
    let mut before = run_over(m, body, totals, init, pad_first)?;
    before.insert(0, init.to_vec());
    let mut out = Vec::new();
    for (block, before) in blocks.into_iter().zip(before) {
        for values in block {
            // In the order in which they lie in windows.
            let (left, right) = if pad_first { (&values, &before) } else { (&before, &values) };
            out.push(combine(m, body, left, right)?);
        }
    }
    Ok(if pad_first { out.split_off(lacking) } else { out.drain(..out.len() - lacking).collect() })
}

fn combine(m: &mut Machine, body: &mut Body, a: &[Scalar], b: &[Scalar]) -> Result<Vec<Scalar>, Fault> {
    body.call(m, a.iter().chain(b).copied())?;
    Ok((0..a.len()).map(|i| body.result(i)).collect())
}
