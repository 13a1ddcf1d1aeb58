//! Few input channels beside a wide row: windows cut from rows that hold a whole line of places and channels.
//!
//! An image `[N, H, W, C]` of few channels fills few lanes of each of its `N * H * W` rows. As `[N, H, W * C]`, which is
//! the same memory to the host, it is dense, and the `kw * C` elements that the window sees along the last spatial
//! dimension are neighbours: every output position is a slice of lanes. They become channels, so that the convolution that
//! is left has a trivial last window and contracts `kw * C` at once.

use super::{Spec, pack};
use crate::edit::Emit;
use crate::make::window_outputs;
use systole_hlo::graph::{NodeId, Op, PadDim, Shape, WindowDim};

/// Convolutions of at least this many channels are left alone.
pub(super) const ENOUGH: u64 = 32;
/// Most elements that a window may see along the row.
const MAX_SEEN: u64 = 128;
/// Most output positions along the row: each is a move of its own.
const MAX_OUTPUTS: u64 = 512;
/// Results, for each lane, from which it pays to have some beside each other.
const PLACES: u64 = 32;
/// What moving a row of lanes costs beside pushing one into the matrix units (measured).
const MOVE: u64 = 2;
/// Rows of results of which registers are stored in the time that one is pushed: a store slot takes eight rows a cycle, four units
/// together push four (assumed: other chips are near this).
const STORED: u64 = 2;
/// How far the source is looked for.
pub(super) const MAX_DEPTH: u32 = 8;

/// Output positions along the last spatial dimension whose features lie beside each other.
pub(super) struct Beside {
    /// All of them, and how many share a place.
    pub outputs: u64,
    pub shared: u64,
}

impl Beside {
    /// The result with every position at a place of its own.
    pub fn apart(&self, b: &mut Emit, y: NodeId) -> NodeId {
        let mut sizes = b.dims(y).to_vec();
        let n = sizes.len() - 2;
        sizes[n] *= self.shared;
        sizes[n + 1] /= self.shared;
        let y = b.reshape(y, &sizes);
        b.slice_dim(y, n, 0, self.outputs, 1)
    }
}

/// Output positions that share a slice: more of them are fewer slices to move, and more columns of which each contracts zeros
/// beside its own window.
fn shared(b: &Emit, s: &Spec, (w, outputs): (&WindowDim, u64)) -> u64 {
    let others: Vec<u64> = s.outputs(b)[..s.spatial() - 1].to_vec();
    let places = s.batch(b) * others.iter().product::<u64>();
    if places * outputs < PLACES * s.lanes {
        return 1;
    }
    let lines: u64 = b.dims(s.x)[..s.spatial()].iter().product();
    let cost = |shared: u64| {
        let slices = outputs.div_ceil(shared);
        let channels = ((shared - 1) * w.stride + w.size) * s.inputs(b);
        // Window positions of the dimension before are packed beside them.
        let (mut pushes, mut moves) = (places * slices, lines * slices);
        let mut packed = true;
        for above in s.window[..s.spatial() - 1].iter().rev() {
            let together = if packed { pack::outer(above, channels).unwrap_or(1) } else { 1 };
            packed = false;
            moves += places * slices * (together - 1);
            pushes *= above.size.div_ceil(together);
        }
        // Results of units wider than registers wait for stores.
        let columns = shared * s.features(b);
        let results = columns.div_ceil(s.lanes).div_ceil(STORED);
        pushes * columns.div_ceil(s.cols).max(results) + MOVE * moves
    };
    let more = (MAX_SEEN / s.inputs(b)).saturating_sub(w.size) / w.stride;
    (1..=(more + 1).min(outputs)).min_by_key(|&n| cost(n)).unwrap_or(1)
}

/// The convolution with the window's last dimension cut from dense rows, if that is worth it. `s` is not padded yet.
pub fn packed(b: &mut Emit, s: &Spec) -> Option<(Spec, Beside)> {
    let n = s.spatial();
    let w = *s.window.last()?;
    let channels = s.inputs(b);
    let width = b.dims(s.x)[n];
    let outputs = window_outputs(width, &w);
    let simple = s.groups == 1 && w.window_dilation == 1 && w.base_dilation == 1 && !w.reversal;
    let worth = channels < ENOUGH && w.size > 1 && channels * w.size <= MAX_SEEN && outputs > 1;
    if !simple || !worth || outputs > MAX_OUTPUTS || width * channels < MAX_SEEN || !is_dense(b, s.x, MAX_DEPTH) {
        return None;
    }
    if !b.draft.fire("conv-flat") {
        return None;
    }
    let x = flat(b, s.x, n);
    // All the padding while the array is small; along the rows that of whole places.
    let mut pads = vec![PadDim { low: 0, high: 0, interior: 0 }; n + 1];
    for (p, w) in pads[1..].iter_mut().zip(&s.window) {
        *p = PadDim { low: w.pad_low, high: w.pad_high, interior: w.base_dilation - 1 };
    }
    pads[n].low *= channels as i64;
    pads[n].high *= channels as i64;
    // What the last slice sees behind the last window: nothing but zeros of the kernel meet it.
    let shared = shared(b, s, (&w, outputs));
    let (slices, reach) = (outputs.div_ceil(shared), ((shared - 1) * w.stride + w.size) * channels);
    let pitch = shared * w.stride * channels;
    let row = width as i64 * channels as i64 + pads[n].low + pads[n].high;
    pads[n].high += (((slices - 1) * pitch + reach) as i64 - row).max(0);
    let zero = b.scalar(b.dtype(x), 0.0);
    let x = b.pad(x, zero, &pads);
    let mut parts = Vec::new();
    for o in 0..slices {
        let start = o * pitch;
        let part = b.slice_dim(x, n, start, start + reach, 1);
        let mut sizes = b.dims(part).to_vec();
        sizes.insert(n, 1);
        parts.push(b.reshape(part, &sizes));
    }
    let x = b.concatenate(&parts, n);
    let kernel = shifted(b, s, (shared, w.stride * channels));
    let unpadded = |w: &WindowDim| WindowDim { pad_low: 0, pad_high: 0, base_dilation: 1, ..*w };
    let mut window: Vec<WindowDim> = s.window.iter().map(unpadded).collect();
    window[n - 1] = WindowDim::TRIVIAL;
    Some((Spec { x, kernel, window, ..s.clone() }, Beside { outputs, shared }))
}

/// The kernel along a row for `shared` output positions, `pitch` elements apart, beside each other.
fn shifted(b: &mut Emit, s: &Spec, (shared, pitch): (u64, u64)) -> NodeId {
    let n = s.spatial();
    let mut sizes = b.dims(s.kernel).to_vec();
    (sizes[n - 1], sizes[n]) = (1, sizes[n - 1] * sizes[n]);
    let kernel = b.reshape(s.kernel, &sizes);
    let zero = b.scalar(b.dtype(kernel), 0.0);
    let mut parts = Vec::new();
    for j in 0..shared {
        let mut dims = vec![PadDim { low: 0, high: 0, interior: 0 }; n + 2];
        (dims[n].low, dims[n].high) = ((j * pitch) as i64, ((shared - 1 - j) * pitch) as i64);
        parts.push(b.pad(kernel, zero, &dims));
    }
    b.concatenate(&parts, n + 1)
}

/// Whether an array can be made with its last two dimensions as one at no cost: what the host gives, and what is computed
/// from that element by element.
#[allow(clippy::wildcard_enum_match_arm, reason = "anything else may not be dense, which costs speed alone")]
pub(super) fn is_dense(b: &Emit, x: NodeId, depth: u32) -> bool {
    let n = b.node(x);
    match &n.op {
        Op::Parameter { .. } | Op::Constant(_) => true,
        Op::Broadcast { dims } => dims.is_empty(),
        Op::Reshape => depth > 0 && is_dense(b, n.operands[0], depth - 1),
        op if op.is_elementwise() => {
            let same = |o: NodeId| b.rank(o) == 0 || b.dims(o) == b.dims(x) && is_dense(b, o, depth - 1);
            depth > 0 && n.operands.iter().all(|&o| same(o))
        }
        _ => false,
    }
}

/// An array that [`is_dense`] with dimensions `at` and `at + 1` as one.
pub(super) fn flat(b: &mut Emit, x: NodeId, at: usize) -> NodeId {
    let n = b.node(x).clone();
    let mut sizes = b.dims(x).to_vec();
    let last = sizes.remove(at + 1);
    sizes[at] *= last;
    if !n.op.is_elementwise() {
        return b.reshape(x, &sizes);
    }
    let operands: Vec<NodeId> = n.operands.iter().map(|&o| if b.rank(o) == 0 { o } else { flat(b, o, at) }).collect();
    let shape = Shape::array(b.dtype(x), &sizes);
    b.emit(n.op, &operands, shape)
}
