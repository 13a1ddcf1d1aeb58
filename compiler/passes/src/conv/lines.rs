//! Few channels along long lines (filters of signals): blocks of places as channels.
//!
//! A filter of one signal has one channel to contract and one feature to make, of which a matrix unit has no use: a row is pushed for every
//! place. `P` results in a row depend on elements of the line that lie beside each other too, so both are cut into blocks: the line into rows
//! of `pitch` places, as it lies in memory, the results into rows of `P`. Row `j` of the results is a sum over the next few rows of the line,
//! each by a matrix whose columns are the kernel moved by a stride each:
//!
//! ```text
//! x[N, .., W, C] -> [N, .., Q, pitch * C] x [.., m, pitch * C, P * F] -> [N, .., Q', P * F] -> y[N, .., outputs, F]
//! ```
//!
//! The matrices hold zeros beside the kernel, but a row is pushed for `P` places. Strides, and zeros between the line's places, are
//! which elements of the kernel a column has; neither is made.

use super::flat::Beside;
use super::{ROW_GROUP, Spec, group, types};
use crate::dot::types::TypePlan;
use crate::edit::Emit;
use crate::make::whole;
use systole_hlo::graph::{NodeId, PadDim, WindowDim};

/// How many times fewer rows are pushed than one for every place.
const FEWER: u64 = 2;
/// Results for each lane, at least; a line has a row of them, which gradients of kernels have not.
const PLACES: u64 = 2;
/// Channels at most: of more a row is worth pushing, or turned ([`super::few`]).
const FEW: u64 = ROW_GROUP;
/// Elements that all windows of the line see, for each of the matrices, at least: those would be put together for the product instead.
const SEEN: u64 = 4;
/// Sizes of blocks, in parts of the smallest that fills the lanes.
const SIZES: [u64; 3] = [1, 2, 4];

const NONE: PadDim = PadDim { low: 0, high: 0, interior: 0 };

/// How lines and results are cut.
#[derive(Clone, Copy)]
struct Cut {
    /// Results in a row, and places of the line that it begins behind the row before.
    block: u64,
    pitch: u64,
    /// Rows of the line that a row of results depends on.
    rows: u64,
    /// Places before the line's first, and the kernel's element that the first of them meets.
    lead: i64,
    first: u64,
}

impl Cut {
    fn of(block: u64, w: &WindowDim) -> Option<Cut> {
        let (stride, apart) = (w.stride, w.base_dilation);
        let pitch = block * stride / apart;
        let lead = w.pad_low.div_euclid(apart as i64);
        let first = w.pad_low.rem_euclid(apart as i64) as u64;
        let reach = ((w.size - 1) * w.window_dilation + (block - 1) * stride).checked_sub(first)? / apart + 1;
        Some(Cut { block, pitch, rows: reach.div_ceil(pitch), lead, first })
    }

    /// Rows pushed for a line of so many results.
    fn pushes(&self, s: &Spec, (channels, features, outputs): (u64, u64, u64)) -> u64 {
        let deep = (self.pitch * channels).div_ceil(s.lanes) * self.rows;
        outputs.div_ceil(self.block) * deep * (self.block * features).div_ceil(s.cols)
    }
}

/// The convolution on blocks of places along its last spatial dimension, if that is worth it. `s` is not padded yet.
pub(super) fn blocks(b: &mut Emit, s: &Spec) -> Option<(Spec, Beside)> {
    let n = s.spatial();
    let w = *s.window.last()?;
    let (channels, features) = (s.inputs(b) * s.groups, s.features(b));
    let outputs = *s.outputs(b).last()?;
    let few = channels <= FEW && !group::is_short(b, s);
    let some = few && w.size > 1 && b.dims(s.x).iter().chain(&s.result(b)).all(|&d| d > 0);
    let plan = types::plan(b.dtype(s.x), b.dtype(s.kernel), s.to, s.taps() * channels);
    if !some || !matches!(plan, TypePlan::Matrix { .. }) {
        return None;
    }
    let lines: u64 = s.result(b)[..n].iter().product();
    let cut = cut(s, &w, (channels, features, outputs))?;
    let own = outputs * (w.size * channels).div_ceil(s.lanes) * features.div_ceil(s.cols);
    let made = cut.rows * cut.pitch * channels * cut.block * features;
    let worth = cut.pushes(s, (channels, features, outputs)) * FEWER <= own
        && outputs >= cut.block
        && lines * outputs >= PLACES * s.lanes
        && made * SEEN <= lines * outputs * s.taps() * channels;
    if !worth || !b.draft.fire("conv-lines") {
        return None;
    }
    let s = &group::block_diagonal(b, s.clone());
    let count = outputs.div_ceil(cut.block);
    let mut sizes = b.dims(s.x)[..=n].to_vec();
    let width = sizes[n];
    sizes[n] *= channels;
    let x = b.reshape(s.x, &sizes);
    let places = (count + cut.rows - 1) * cut.pitch;
    let mut edges = vec![NONE; n + 1];
    edges[n].low = cut.lead * channels as i64;
    edges[n].high = (places as i64 - width as i64 - cut.lead) * channels as i64;
    let zero = b.scalar(b.dtype(x), 0.0);
    let x = b.pad(x, zero, &edges);
    let x = b.reshape(x, &[&sizes[..n], &[places / cut.pitch, cut.pitch * channels]].concat());
    let kernel = matrices(b, s, (&w, &cut));
    let mut window = s.window.clone();
    window[n - 1] = WindowDim { size: cut.rows, ..WindowDim::TRIVIAL };
    Some((Spec { x, kernel, window, ..s.clone() }, Beside { outputs, shared: cut.block }))
}

/// The blocks for which the fewest rows are pushed.
fn cut(s: &Spec, w: &WindowDim, (channels, features, outputs): (u64, u64, u64)) -> Option<Cut> {
    let common = gcd(w.stride, w.base_dilation);
    // Whole strides of whole places that fill rows of lanes.
    let whole = s.lanes / gcd(s.lanes, w.stride / common * channels);
    let least = w.base_dilation / common * whole;
    let sizes = SIZES.iter().filter_map(|k| Cut::of(least * k, w));
    sizes.min_by_key(|c| c.pushes(s, (channels, features, outputs)))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The kernel moved by a stride for each result of a row: `[.., rows, pitch * C, block * F]`.
fn matrices(b: &mut Emit, s: &Spec, (w, cut): (&WindowDim, &Cut)) -> NodeId {
    let n = s.spatial();
    let sizes = b.dims(s.kernel).to_vec();
    let (channels, features) = (sizes[n], sizes[n + 1]);
    // `[.., C, F, K]`, lines along lanes, without channels and features where there is one.
    let kernel = if w.reversal { b.reverse(s.kernel, &[n - 1]) } else { s.kernel };
    let kernel = b.transpose(kernel, &[&(0..n - 1).collect::<Vec<_>>()[..], &[n, n + 1, n - 1]].concat());
    let lead: Vec<u64> = sizes[..n - 1].iter().chain(&sizes[n..]).copied().filter(|&d| d != 1).collect();
    let at = lead.len() + 1;
    let mut line = b.reshape(kernel, &[&[1][..], &lead, &[w.size]].concat());
    let zero = b.scalar(b.dtype(line), 0.0);
    let padded = |b: &mut Emit, x: NodeId, edge: PadDim| {
        let mut edges = vec![NONE; at + 1];
        edges[at] = edge;
        b.pad(x, zero, &edges)
    };
    line = padded(b, line, PadDim { interior: w.window_dilation - 1, ..NONE });
    let mut made = 1;
    while made < cut.block {
        let by = (made * w.stride) as i64;
        let before = padded(b, line, PadDim { high: by, ..NONE });
        let behind = padded(b, line, PadDim { low: by, ..NONE });
        line = b.concatenate(&[before, behind], 0);
        made *= 2;
    }
    let places = cut.rows * cut.pitch;
    let end = (places - 1) * w.base_dilation + cut.first + 1;
    let more = end as i64 - b.dims(line)[at] as i64;
    line = padded(b, line, PadDim { high: more.max(0), ..NONE });
    let mut dims = whole(b.dims(line));
    dims[0].limit = cut.block;
    (dims[at].start, dims[at].limit, dims[at].stride) = (cut.first, end, w.base_dilation);
    let line = b.slice(line, &dims);
    // `[P, .., C, F, places]` as `[.., places, C, P, F]`.
    let line = b.reshape(line, &[&[cut.block][..], &sizes[..n - 1], &[channels, features, places]].concat());
    let order: Vec<usize> = (1..n).chain([n + 2, n, 0, n + 1]).collect();
    let line = b.transpose(line, &order);
    b.reshape(line, &[&sizes[..n - 1], &[cut.rows, cut.pitch * channels, cut.block * features]].concat())
}
