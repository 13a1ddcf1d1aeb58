//! Convolutions, as products of patch matrices with the kernel matrix.

use super::super::EvalOptions;
use super::super::error::{Fault, malformed};
use super::super::scalar::complex::Complex;
use super::super::tensor::advance;
use super::super::value::{Tensor, sizes};
use super::contract::rounded;
use super::matrix::{Arithmetic, Number};
use super::movement;
use systole_hlo::graph::{ArrayShape, Conv, WindowDim};

/// Elements of a patch matrix at most; larger ones are made in pieces.
const PATCHES: usize = 1 << 22;

pub(in super::super) fn convolution(
    opts: &EvalOptions,
    input: &Tensor,
    kernel: &Tensor,
    conv: &Conv,
    result: &ArrayShape,
) -> Result<Tensor, Fault> {
    let (x, k) = (rounded(opts, input, conv.precision), rounded(opts, kernel, conv.precision));
    match Arithmetic::of([x.dtype, k.dtype, result.dtype]) {
        Arithmetic::F32 => convolve::<f32>(&x, &k, conv, result),
        Arithmetic::F64 => convolve::<f64>(&x, &k, conv, result),
        Arithmetic::Integer => convolve::<i64>(&x, &k, conv, result),
        Arithmetic::Complex64 => convolve::<(f32, f32)>(&x, &k, conv, result),
        Arithmetic::Complex128 => convolve::<Complex>(&x, &k, conv, result),
    }
}

/// Sizes of a convolution whose operands are in the order batch, space, feature / space, input, output.
struct Geometry<'a> {
    window: &'a [WindowDim],
    /// Spatial sizes of the input and of the result.
    space: Vec<usize>,
    out_space: Vec<usize>,
    channels: usize,
    /// Channels of a feature group, first channel of this one.
    group_channels: usize,
    first_channel: usize,
}

fn convolve<T: Number>(x: &Tensor, k: &Tensor, conv: &Conv, result: &ArrayShape) -> Result<Tensor, Fault> {
    let d = &conv.dims;
    let x = movement::transpose(x, &d.input.channels_last());
    let k = movement::transpose(k, &d.kernel.channels_last());
    let rank = conv.window.len();
    let (batch, channels) = (x.dims[0], x.dims[rank + 1]);
    let outputs = k.dims[rank + 1];
    let (groups, batch_groups) = (conv.feature_groups.max(1) as usize, conv.batch_groups.max(1) as usize);
    let parts = groups.max(batch_groups);
    if channels % groups != 0
        || !outputs.is_multiple_of(parts)
        || batch % batch_groups != 0
        || k.dims[rank] != channels / groups
    {
        return Err(malformed("groups do not divide the convolution"));
    }
    let out_dims = sizes(&result.dims);
    let space = |t: &Tensor| t.dims[1..=rank].to_vec();
    let out_space: Vec<usize> = d.output.spatial.iter().map(|&s| out_dims[s]).collect();
    let (xs, ks) = (T::from_tensor(&x), T::from_tensor(&k));
    let (out_batch, group_outputs) = (batch / batch_groups, outputs / parts);
    let places: usize = out_space.iter().product();
    let mut out = vec![T::ZERO; out_batch * places * outputs];
    for g in 0..parts {
        let first_channel = if groups > 1 { g * (channels / groups) } else { 0 };
        let first_batch = if batch_groups > 1 { g * out_batch } else { 0 };
        let kernel: Vec<T> = ks
            .chunks_exact(outputs.max(1))
            .flat_map(|row| &row[g * group_outputs..(g + 1) * group_outputs])
            .copied()
            .collect();
        let geometry = Geometry {
            window: &conv.window,
            space: space(&x),
            out_space: out_space.clone(),
            channels,
            group_channels: channels / groups,
            first_channel,
        };
        let columns = (g * group_outputs, group_outputs, outputs);
        multiply_patches(&geometry, &xs, (first_batch, out_batch), &kernel, &mut out, columns);
    }
    let physical = [&[out_batch], &out_space[..], &[outputs]].concat();
    let out = T::into_tensor(out, result.dtype, &physical);
    let mut order = vec![0; rank + 2];
    d.output.channels_last().into_iter().enumerate().for_each(|(i, d)| order[d] = i);
    Ok(movement::transpose(&out, &order))
}

/// The products of one group: rows are result places, columns `(first, count, of all)` the group's outputs.
fn multiply_patches<T: Number>(
    geo: &Geometry,
    x: &[T],
    (first_batch, batches): (usize, usize),
    kernel: &[T],
    out: &mut [T],
    (first, count, all): (usize, usize, usize),
) {
    let taps: usize = geo.window.iter().map(|w| w.size as usize).product();
    let depth = taps * geo.group_channels;
    let places: usize = geo.out_space.iter().product();
    let rows = batches * places;
    let piece = (PATCHES / depth.max(1)).clamp(1, rows.max(1));
    let image: usize = geo.space.iter().product::<usize>() * geo.channels;
    let mut patches = Vec::new();
    let mut products = Vec::new();
    let mut index = vec![0; geo.out_space.len()];
    let mut row = 0;
    while row < rows {
        let n = piece.min(rows - row);
        patches.clear();
        for r in row..row + n {
            let b = first_batch + r / places;
            patch(geo, &x[b * image..(b + 1) * image], &index, &mut patches);
            advance(&mut index, &geo.out_space);
        }
        products.clear();
        products.resize(n * count, T::ZERO);
        T::multiply(n, depth, count, &patches, kernel, &mut products);
        for (i, p) in products.chunks_exact(count.max(1)).enumerate() {
            out[(row + i) * all + first..(row + i) * all + first + count].copy_from_slice(p);
        }
        row += n;
    }
}

/// Appends what the window sees at a result place: for each tap the group's channels, zeros where there is no input.
fn patch<T: Number>(geo: &Geometry, image: &[T], place: &[usize], out: &mut Vec<T>) {
    let window: Vec<usize> = geo.window.iter().map(|w| w.size as usize).collect();
    if window.contains(&0) {
        return;
    }
    let mut tap = vec![0; window.len()];
    loop {
        let mut at = Some(0);
        for (d, w) in geo.window.iter().enumerate() {
            at = at.and_then(|a| Some(a * geo.space[d] + source(w, geo.space[d], place[d], tap[d])?));
        }
        match at {
            Some(a) => {
                let begin = a * geo.channels + geo.first_channel;
                out.extend_from_slice(&image[begin..begin + geo.group_channels]);
            }
            None => out.resize(out.len() + geo.group_channels, T::ZERO),
        }
        if !advance(&mut tap, &window) {
            return;
        }
    }
}

/// The operand index under a tap of the window at a result index; `None` in padding and dilation holes.
pub(in super::super) fn source(w: &WindowDim, size: usize, place: usize, tap: usize) -> Option<usize> {
    let tap = if w.reversal { w.size as usize - 1 - tap } else { tap };
    let at = place as i64 * w.stride as i64 + tap as i64 * w.window_dilation as i64 - w.pad_low;
    let dilation = w.base_dilation.max(1) as i64;
    (at >= 0 && at % dilation == 0 && at / dilation < size as i64).then_some((at / dilation) as usize)
}
