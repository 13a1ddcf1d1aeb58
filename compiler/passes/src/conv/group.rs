//! Feature groups.
//!
//! One input channel for each group (depthwise), or few features of one channel: products and sums of shifted inputs, no matrix
//! unit. Groups as wide as
//! the matrix unit: a convolution for each, joined. Narrower groups: as many as fill the matrix unit share a convolution
//! whose kernel is zero outside its diagonal blocks.

use super::{Spec, canonical, positions, single, taps};
use crate::dot::types::sum_type;
use crate::edit::Emit;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, NodeId, WindowDim};
use systole_isa::DType;

/// Window positions of a depthwise convolution that are unrolled at most.
const MAX_TAPS: u64 = 128;
/// Window positions of images that are shifts at most, for each channel: blocks of several push zeros between channels too (measured).
const SHORT: u64 = 16;

/// A convolution of any number of groups on the matrix unit.
pub fn lower(b: &mut Emit, s: Spec) -> Result<NodeId, CompileError> {
    if s.groups == 1 && !is_lines(b, &s) {
        return single(b, s);
    }
    if s.inputs(b) == 1 && s.taps() <= MAX_TAPS {
        return Ok(depthwise(b, s));
    }
    let together = (s.cols / s.inputs(b).max(1)).clamp(1, s.groups);
    let together = (1..=together).rev().find(|t| s.groups.is_multiple_of(*t)).unwrap_or(1);
    split(b, &s, together, &mut |b, part| {
        let whole = block_diagonal(b, part);
        single(b, whole)
    })
}

/// A convolution of any number of groups by products and sums.
pub fn lower_by_taps(b: &mut Emit, s: Spec) -> Result<NodeId, CompileError> {
    if s.groups == 1 {
        return taps::lower(b, &s);
    }
    if s.inputs(b) == 1 && s.taps() <= MAX_TAPS {
        return Ok(depthwise(b, s));
    }
    split(b, &s, 1, &mut |b, part| taps::lower(b, &part))
}

/// Does `together` groups at a time and joins the results.
fn split(
    b: &mut Emit,
    s: &Spec,
    together: u64,
    part: &mut dyn FnMut(&mut Emit, Spec) -> Result<NodeId, CompileError>,
) -> Result<NodeId, CompileError> {
    let (inputs, features) = (s.inputs(b) * together, s.features(b) / s.groups * together);
    let last = s.spatial() + 1;
    let mut results = Vec::new();
    for g in 0..s.groups / together {
        let x = b.slice_dim(s.x, last, g * inputs, (g + 1) * inputs, 1);
        let kernel = b.slice_dim(s.kernel, last, g * features, (g + 1) * features, 1);
        results.push(part(b, Spec { x, kernel, groups: together, ..s.clone() })?);
    }
    Ok(b.concatenate(&results, last))
}

/// The same convolution of one group: a kernel of all channels, zero where input and output groups differ.
pub(super) fn block_diagonal(b: &mut Emit, s: Spec) -> Spec {
    if s.groups == 1 {
        return s;
    }
    let n = s.spatial();
    let dims = b.dims(s.kernel).to_vec();
    let (groups, inputs, features) = (s.groups, dims[n], dims[n + 1] / s.groups);
    let split = [&dims[..n], &[inputs, groups, features]].concat();
    let kernel = b.reshape(s.kernel, &split);
    let wide = [&dims[..n], &[groups, inputs, groups, features]].concat();
    let map: Vec<usize> = (0..n).chain([n + 1, n + 2, n + 3]).collect();
    let kernel = b.broadcast(kernel, &map, &wide);
    let (row, column) = (b.iota(DType::S32, &wide, n), b.iota(DType::S32, &wide, n + 2));
    let same = b.compare(Direction::Eq, row, column);
    let zero = b.scalar(b.dtype(kernel), 0.0);
    let kernel = b.select(same, kernel, zero);
    let kernel = b.reshape(kernel, &[&dims[..n], &[groups * inputs, groups * features]].concat());
    Spec { kernel, groups: 1, ..s }
}

/// Window positions up to which the products of a depthwise convolution are written out, for what uses them to take in.
const WRITTEN_OUT: u64 = 16;

/// Times that channels fit into a row of lanes from which on a line of places lies along lanes instead ([`crate::lanes`]).
const FEW: u64 = 4;

/// Whether lines of places are to lie along lanes, since channels would leave most of them empty.
fn is_narrow(b: &Emit, s: &Spec) -> bool {
    let long = |n: &u64| *n >= s.lanes;
    let dense = s.window.last().is_some_and(|w| w.stride == 1);
    dense && s.spatial() > 1 && s.features(b) * FEW <= s.lanes && s.outputs(b).last().is_some_and(long)
}

/// Features of one channel up to which each is sums of shifted lines: the matrix unit would fill so few of its columns.
const FEW_FEATURES: u64 = 4;

/// Whether images of one channel are filtered: a line of places lies along lanes, and there is too little for the matrix unit.
pub(super) fn is_lines(b: &Emit, s: &Spec) -> bool {
    let one = s.groups == 1 && s.inputs(b) == 1 && s.features(b) <= FEW_FEATURES;
    one && s.taps() <= MAX_TAPS && is_narrow(b, s)
}

/// Whether a window on images, of a channel for each group, is so small that sums of shifted lines take less than rows pushed for blocks of
/// places.
pub(super) fn is_short(b: &Emit, s: &Spec) -> bool {
    let dense = s.window.iter().all(|w| w.stride == 1 && w.base_dilation == 1);
    dense && s.inputs(b) == 1 && s.taps() <= SHORT * s.groups && is_narrow(b, s)
}

/// One input channel for each group: sums of shifted inputs times a kernel value for each channel; a window of many positions
/// stays a convolution.
fn depthwise(b: &mut Emit, mut s: Spec) -> NodeId {
    let float = |t: DType| t.is_float() && t != DType::F64;
    let types = float(b.dtype(s.x)) && float(b.dtype(s.kernel)) && float(s.to);
    let narrow = is_narrow(b, &s);
    if s.taps() > WRITTEN_OUT && s.features(b) == s.groups && types && !narrow {
        let to = std::mem::replace(&mut s.to, DType::F32);
        let sums = canonical(b, &s);
        return b.convert(sums, to);
    }
    let sum = if narrow { summed_by_columns(b, &s) } else { summed(b, &s) };
    let wide = sum_type(s.to);
    match sum {
        // Sums begin at zero: one of negative zeros is positive.
        Some(sum) => {
            let sum = if wide.is_float() { b.with(Binary::Add, sum, 0.0) } else { sum };
            b.convert(sum, s.to)
        }
        None => {
            let result = s.result(b);
            b.splat(s.to, &result, 0.0)
        }
    }
}

/// The sum over window positions, `None` of none.
fn summed(b: &mut Emit, s: &Spec) -> Option<NodeId> {
    let result = s.result(b);
    let last = result.len() - 1;
    let multiple = s.features(b) / s.groups;
    let wide = sum_type(s.to);
    let mut sum: Option<NodeId> = None;
    let sizes: Vec<u64> = s.window.iter().map(|w| w.size).collect();
    for tap in positions(&sizes) {
        let seen = s.seen(b, &tap);
        let seen = b.convert(seen, wide);
        let spread = [&result[..last], &[s.groups, multiple]].concat();
        let map: Vec<usize> = (0..=last).collect();
        let seen = b.broadcast(seen, &map, &spread);
        let seen = b.reshape(seen, &result);
        let k = s.kernel_at(b, &tap);
        let k = b.convert(k, wide);
        let k = b.reshape(k, &[result[last]]);
        let k = b.broadcast(k, &[last], &result);
        let product = b.mul(seen, k);
        sum = Some(match sum {
            Some(sum) => b.add(sum, product),
            None => product,
        });
    }
    sum
}

/// The same with the sums of each column of the window done on whole lines, which are shifted once for all of the column.
fn summed_by_columns(b: &mut Emit, s: &Spec) -> Option<NodeId> {
    let n = s.spatial();
    let w = *s.window.last()?;
    let (width, outputs) = (b.dims(s.x)[n], *s.outputs(b).last()?);
    let mut sum: Option<NodeId> = None;
    for column in 0..w.size {
        let kernel = b.slice_dim(s.kernel, n - 1, column, column + 1, 1);
        let mut window = s.window.clone();
        window[n - 1] = WindowDim { size: 1, ..w };
        let lines = summed(b, &Spec { kernel, window, ..s.clone() })?;
        let start = column * w.window_dilation;
        debug_assert!(start + outputs <= width);
        let seen = b.slice_dim(lines, n, start, start + outputs, 1);
        sum = Some(match sum {
            Some(sum) => b.add(sum, seen),
            None => seen,
        });
    }
    sum
}
