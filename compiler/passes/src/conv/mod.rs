//! `conv`: every convolution becomes `[N, spatial.., Cin] x [spatial.., Cin, Cout] -> [N, spatial.., Cout]` without
//! padding, base dilation, reversal or groups; strides and window dilation stay.
//!
//! - padding and base dilation become an explicit `pad` with zeros, reversal a `reverse` of the kernel; zeros between places are left out
//!   where there are enough channels ([`phases`]);
//! - batch groups become feature groups, feature groups see [`group`];
//! - images of few channels are read as rows of places and channels ([`flat`]), long lines of few channels as blocks of places ([`lines`]);
//! - windows of size 1 become dots, few input channels are packed together with window positions ([`pack`]), lines of
//!   few channels are stacked ([`stack`]), products of many channels with colours are formed for every window position at
//!   once ([`few`]); windows larger than the output (gradients of kernels) are products of patches where they lie beside each
//!   other ([`patches`]), contract many places ([`places`]) or images ([`images`]) along lanes, or become a dot, or a sum
//!   for each channel, for each output position ([`gradient`]);
//! - element types that the matrix unit lacks become products and sums for each window position ([`taps`]).

mod few;
mod flat;
mod gradient;
mod group;
mod images;
mod lines;
mod pack;
mod patches;
mod phases;
mod places;
mod stack;
mod taps;

use super::dot::types::{self, TypePlan};
use super::edit::{Emit, Rewritten};
use super::make::{array, inverse, window_outputs};
use crate::options::PassOptions;
use crate::simplify::embeds;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{
    Binary, Conv, ConvDims, DotDims, Node, NodeId, Op, PadDim, Precision, Shape, SliceDim, Unary, WindowDim,
};
use systole_isa::DType;

/// A convolution with dimensions in canonical order.
#[derive(Clone)]
struct Spec {
    /// `[N, spatial.., C]`.
    x: NodeId,
    /// `[spatial.., C / groups, Cout]`.
    kernel: NodeId,
    window: Vec<WindowDim>,
    groups: u64,
    precision: Precision,
    /// Result type.
    to: DType,
    /// Channels that are worth a convolution of their own.
    cols: u64,
    /// Lanes of the chip's vectors, and bytes of its vector memory.
    lanes: u64,
    vmem_bytes: u64,
}

impl Spec {
    fn spatial(&self) -> usize {
        self.window.len()
    }

    /// Sizes of the result's spatial dimensions.
    fn outputs(&self, b: &Emit) -> Vec<u64> {
        let dims = b.dims(self.x);
        self.window.iter().zip(&dims[1..]).map(|(w, &n)| window_outputs(n, w)).collect()
    }

    fn batch(&self, b: &Emit) -> u64 {
        b.dims(self.x)[0]
    }

    fn inputs(&self, b: &Emit) -> u64 {
        b.dims(self.kernel)[self.spatial()]
    }

    fn features(&self, b: &Emit) -> u64 {
        b.dims(self.kernel)[self.spatial() + 1]
    }

    fn taps(&self) -> u64 {
        self.window.iter().map(|w| w.size).product()
    }

    /// Sizes of the result.
    fn result(&self, b: &Emit) -> Vec<u64> {
        [&[self.batch(b)][..], &self.outputs(b), &[self.features(b)]].concat()
    }

    /// The part of `x` that window position `tap` sees: `[N, outputs.., C]`.
    fn seen(&self, b: &mut Emit, tap: &[u64]) -> NodeId {
        let mut dims = super::make::whole(b.dims(self.x));
        for (d, (w, n)) in self.window.iter().zip(self.outputs(b)).enumerate() {
            let start = tap[d] * w.window_dilation;
            dims[d + 1] = SliceDim { start, limit: start + (n - 1) * w.stride + 1, stride: w.stride };
        }
        let (x, wide) = narrow(b, self.x);
        let part = b.slice(x, &dims);
        b.convert(part, wide)
    }

    /// The kernel at window position `tap`: `[C, Cout]`.
    fn kernel_at(&self, b: &mut Emit, tap: &[u64]) -> NodeId {
        let mut dims = super::make::whole(b.dims(self.kernel));
        for (d, &t) in tap.iter().enumerate() {
            dims[d] = SliceDim { start: t, limit: t + 1, stride: 1 };
        }
        let part = b.slice(self.kernel, &dims);
        let s = self.spatial();
        let sizes = b.dims(part)[s..].to_vec();
        b.reshape(part, &sizes)
    }
}

/// All positions of a grid in row-major order.
pub(crate) fn positions(sizes: &[u64]) -> Vec<Vec<u64>> {
    let mut out = vec![Vec::new()];
    for &n in sizes {
        out = out.into_iter().flat_map(|p| (0..n).map(move |i| [&p[..], &[i]].concat())).collect();
    }
    out
}

/// Rewrites a convolution.
pub fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], options: &PassOptions) -> Rewritten {
    let Op::Convolution(conv) = &n.op else { return Ok(None) };
    let to = array(&n.shape);
    let d = &conv.dims;
    let x = b.transpose(operands[0], &d.input.channels_last());
    let kernel = b.transpose(operands[1], &d.kernel.channels_last());
    let precision = types::precision(b, &x, &kernel, conv.precision, options);
    let spec = Spec {
        x,
        kernel,
        window: conv.window.clone(),
        groups: conv.feature_groups,
        precision,
        to: to.dtype,
        cols: options.chip.mxu_cols,
        lanes: u64::from(options.chip.tile.1),
        vmem_bytes: options.chip.vmem_bytes,
    };
    let result = match gradient::depthwise(b, &spec, conv.batch_groups)? {
        Some(done) => done,
        None => {
            let spec = batch_groups(b, spec, conv.batch_groups);
            let packed = if group::is_lines(b, &spec) { None } else { flat::packed(b, &spec) };
            if let Some((spec, places)) = packed.or_else(|| lines::blocks(b, &spec)) {
                let spec = padded(b, spec);
                let result = typed(b, spec)?;
                places.apart(b, result)
            } else {
                phases::any(b, &spec)?
            }
        }
    };
    Ok(Some(b.transpose(result, &inverse(&d.output.channels_last()))))
}

/// Batch groups as feature groups: the groups of the batch move beside the channels.
fn batch_groups(b: &mut Emit, mut s: Spec, groups: u64) -> Spec {
    if groups == 1 {
        return s;
    }
    let dims = b.dims(s.x).to_vec();
    let (channels, rank) = (dims[dims.len() - 1], dims.len());
    let split = [&[groups, dims[0] / groups][..], &dims[1..]].concat();
    let x = b.reshape(s.x, &split);
    let order: Vec<usize> = (1..rank).chain([0, rank]).collect();
    let x = b.transpose(x, &order);
    s.x = b.reshape(x, &[&[dims[0] / groups][..], &dims[1..rank - 1], &[groups * channels]].concat());
    s.groups = groups;
    s
}

/// What an array is converted from without loss, and its own type: what moves it moves less of that.
fn narrow(b: &Emit, x: NodeId) -> (NodeId, DType) {
    let wide = b.dtype(x);
    if *b.op(x) != Op::Convert {
        return (x, wide);
    }
    let from = b.operand(x, 0);
    let t = b.dtype(from);
    (if t.bits() >= u8::BITS && t.bits() < wide.bits() && embeds(t, wide) { from } else { x }, wide)
}

/// Explicit padding and reversal.
fn padded(b: &mut Emit, mut s: Spec) -> Spec {
    let (x, wide) = narrow(b, s.x);
    let zero = b.scalar(b.dtype(x), 0.0);
    let none = PadDim { low: 0, high: 0, interior: 0 };
    let spatial = s.window.iter().map(|w| PadDim { low: w.pad_low, high: w.pad_high, interior: w.base_dilation - 1 });
    let dims: Vec<PadDim> = std::iter::once(none).chain(spatial).chain([none]).collect();
    let x = b.pad(x, zero, &dims);
    s.x = b.convert(x, wide);
    let reversed: Vec<usize> = (0..s.window.len()).filter(|&i| s.window[i].reversal).collect();
    if !reversed.is_empty() {
        s.kernel = b.reverse(s.kernel, &reversed);
    }
    for w in &mut s.window {
        *w = WindowDim { size: w.size, stride: w.stride, window_dilation: w.window_dilation, ..WindowDim::TRIVIAL };
    }
    s
}

/// Chooses how the element types are computed.
fn typed(b: &mut Emit, mut s: Spec) -> Result<NodeId, CompileError> {
    let result = s.result(b);
    if result.contains(&0) || s.taps() * s.inputs(b) == 0 {
        return Ok(b.splat(s.to, &result, 0.0));
    }
    let to = s.to;
    match types::plan(b.dtype(s.x), b.dtype(s.kernel), s.to, s.taps() * s.inputs(b)) {
        TypePlan::Matrix { operand, result } => {
            (s.x, s.kernel) = (b.convert(s.x, operand), b.convert(s.kernel, operand));
            s.to = result;
            let r = group::lower(b, s)?;
            Ok(b.convert(r, to))
        }
        TypePlan::Expand { element } => {
            (s.x, s.kernel) = (b.convert(s.x, element), b.convert(s.kernel, element));
            s.to = element;
            let r = group::lower_by_taps(b, s)?;
            Ok(b.convert(r, to))
        }
        TypePlan::Complex { part } => complex(b, &s, part),
    }
}

fn complex(b: &mut Emit, s: &Spec, part: DType) -> Result<NodeId, CompileError> {
    let full = part.complex();
    let (x, k) = (b.convert(s.x, full), b.convert(s.kernel, full));
    let (xr, xi) = (b.unary(Unary::Real, x), b.unary(Unary::Imag, x));
    let (kr, ki) = (b.unary(Unary::Real, k), b.unary(Unary::Imag, k));
    let mut product = |x: NodeId, kernel: NodeId| typed(b, Spec { x, kernel, to: part, ..s.clone() });
    let (rr, ii, ri, ir) = (product(xr, kr)?, product(xi, ki)?, product(xr, ki)?, product(xi, kr)?);
    let (real, imag) = (b.sub(rr, ii), b.add(ri, ir));
    let c = b.binary(Binary::Complex, real, imag);
    Ok(b.convert(c, s.to))
}

/// A convolution of one group on the matrix unit.
fn single(b: &mut Emit, s: Spec) -> Result<NodeId, CompileError> {
    if s.taps() == 1 && is_free_dot(b, &s) {
        return Ok(as_dot(b, &s));
    }
    if let Some(done) = patches::gradient(b, &s) {
        return Ok(done);
    }
    if gradient::applies(b, &s) {
        let done = patches::gradient(b, &s)
            .or_else(|| few::gradient(b, &s))
            .or_else(|| places::lower(b, &s))
            .or_else(|| images::lower(b, &s));
        return Ok(done.unwrap_or_else(|| gradient::lower(b, &s)));
    }
    if let Some(done) = few::features(b, &s) {
        return Ok(done);
    }
    if let Some(packed) = pack::packed(b, &s).or_else(|| pack::folded(b, &s)) {
        return single(b, packed);
    }
    Ok(stack::lower(b, &s).unwrap_or_else(|| canonical(b, &s)))
}

/// Rows that the chip stores together: a reshape that merges whole groups of them moves nothing.
const ROW_GROUP: u64 = 8;

/// Whether the input's places are rows of a matrix without moving anything.
fn is_free_dot(b: &Emit, s: &Spec) -> bool {
    let dims = b.dims(s.x);
    let places = &dims[..dims.len() - 1];
    let (last, above) = places.split_last().map_or((1, &[][..]), |(l, a)| (*l, a));
    let dense = s.window.iter().all(|w| w.stride == 1);
    dense && (last % ROW_GROUP == 0 || above.iter().all(|&d| d == 1))
}

/// A window of one position: a dot over the channels.
fn as_dot(b: &mut Emit, s: &Spec) -> NodeId {
    let result = s.result(b);
    let seen = s.seen(b, &vec![0; s.spatial()]);
    let kernel = s.kernel_at(b, &vec![0; s.spatial()]);
    let rows: u64 = result[..result.len() - 1].iter().product();
    let channels = s.inputs(b);
    let x = b.reshape(seen, &[rows, channels]);
    let dims = DotDims { lhs_contracting: vec![1], rhs_contracting: vec![0], ..DotDims::default() };
    let d = b.dot(x, kernel, dims, s.precision, s.to);
    b.reshape(d, &result)
}

/// The convolution in canonical form.
fn canonical(b: &mut Emit, s: &Spec) -> NodeId {
    let n = s.spatial();
    let dims = ConvDims::channels_last(n);
    let conv =
        Conv { window: s.window.clone(), dims, feature_groups: s.groups, batch_groups: 1, precision: s.precision };
    let shape = Shape::array(s.to, &s.result(b));
    b.emit(Op::Convolution(Box::new(conv)), &[s.x, s.kernel], shape)
}
