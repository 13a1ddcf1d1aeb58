//! Channels of arrays as they lie: neighbours in joined rows.
//!
//! In rows `[.., W * C]` of few channels those of a place are `C` neighbours. The product of every place with a little matrix (colours of
//! another kind) is put together of the row and of the row moved by up to `C - 1` elements, each times the weight that what is so far away
//! has for a channel; nothing is taken apart by channels.

use super::joined::Joined;
use crate::edit::Emit;
use crate::make::{FLOPS, whole};
use crate::simplify::combiner;
use systole_hlo::graph::{Binary, Direction, Node, NodeId, Op, PadDim, SliceDim};
use systole_isa::DType;

/// Channels at most: the row is moved twice as often.
const FEW: u64 = 8;

/// A row of groups: the array that lies so, and its channels.
struct Groups {
    x: NodeId,
    channels: u64,
    zero: NodeId,
}

impl Groups {
    /// Of `x`, `[.., W, C]`, which is the reshape of joined rows.
    fn of(b: &mut Emit, x: NodeId, lies: &Joined) -> Option<Groups> {
        let (from, joined) = lies.source(b, x)?;
        let channels = *b.dims(x).last()?;
        let dtype = b.dtype(from);
        let fits = (2..=FEW).contains(&channels) && joined.last()?.is_multiple_of(channels);
        (fits && (dtype.is_float() || dtype == DType::S32)).then(|| Groups {
            x: from,
            channels,
            zero: b.scalar(b.dtype(from), 0.0),
        })
    }

    /// How far neighbours are: from the first channel's view of the last one to the last one's of the first.
    fn distances(&self) -> impl Iterator<Item = i64> + use<> {
        let last = self.channels as i64 - 1;
        -last..=last
    }

    /// What each channel has of the one that is `by` elements behind it, times its weight along the row: zero where that is one of
    /// another place, whatever it is.
    fn weighted(&self, b: &mut Emit, by: i64, weights: NodeId) -> NodeId {
        let dims = b.dims(self.x).to_vec();
        let last = dims.len() - 1;
        let around = self.channels as i64 - 1;
        let mut pads = vec![PadDim { low: 0, high: 0, interior: 0 }; dims.len()];
        pads[last] = PadDim { low: around, high: around, interior: 0 };
        let padded = b.pad(self.x, self.zero, &pads);
        let mut part = whole(&dims);
        let start = (around + by) as u64;
        part[last] = SliceDim { start, limit: start + dims[last], stride: 1 };
        let part = b.slice(padded, &part);
        let value = b.mul(part, weights);
        if by == 0 {
            return value;
        }
        let channel = b.iota(DType::S32, &[dims[last] / self.channels, self.channels], 1);
        let channel = b.reshape(channel, &[dims[last]]);
        let channel = b.broadcast(channel, &[last], &dims);
        let (direction, bound) = match by {
            0.. => (Direction::Lt, self.channels as i64 - by),
            _ => (Direction::Ge, -by),
        };
        let bound = b.bits(DType::S32, bound as u64);
        let inside = b.compare(direction, channel, bound);
        b.select(inside, value, self.zero)
    }

    /// An array `[C]` along the row, again and again.
    fn along(&self, b: &mut Emit, x: NodeId) -> NodeId {
        let dims = b.dims(self.x).to_vec();
        let last = dims.len() - 1;
        let again = b.broadcast(x, &[1], &[dims[last] / self.channels, self.channels]);
        let row = b.reshape(again, &[dims[last]]);
        b.broadcast(row, &[last], &dims)
    }
}

/// A product over the channels with a matrix of as many columns, `transpose(sum over c of x[.., c] * w[c, ..])`, on joined rows.
pub fn product(b: &mut Emit, n: &Node, operands: &[NodeId], lies: &Joined) -> Option<NodeId> {
    let Op::Transpose { permutation } = &n.op else { return None };
    let sum = *operands.first()?;
    let (x, w) = product_of(b, sum, permutation)?;
    let groups = Groups::of(b, x, lies)?;
    let c = groups.channels;
    let fits = b.dims(w) == [c, c] && b.dtype(x) == b.dtype(sum) && b.dtype(x).is_float();
    (fits && b.draft.fire("joined-product")).then_some(())?;
    let flat = b.reshape(w, &[c * c]);
    let zero = b.scalar(b.dtype(w), 0.0);
    let parts: Vec<NodeId> = groups
        .distances()
        .map(|by| {
            // What is `by` behind channel `k` has the weight `w[k + by, k]`: a diagonal.
            let (start, count) = (if by < 0 { by.unsigned_abs() } else { c * by as u64 }, c - by.unsigned_abs());
            let part = SliceDim { start, limit: start + (count - 1) * (c + 1) + 1, stride: c + 1 };
            let diagonal = b.slice(flat, &[part]);
            let weights = b.pad_dim(diagonal, zero, 0, ((-by).max(0), by.max(0)));
            let weights = groups.along(b, weights);
            groups.weighted(b, by, weights)
        })
        .collect();
    let total = parts.into_iter().reduce(|all, part| b.add(all, part))?;
    if let Some(mark) = b.node(sum).attribute(FLOPS).map(str::to_string) {
        b.mark(total, FLOPS, |_| mark);
    }
    Some(b.reshape(total, &n.shape.as_array()?.dims))
}

/// `x`, `[.., C]`, and `w`, `[C, D]`, of their product as the reduction of all products, turned by `permutation`.
fn product_of(b: &Emit, sum: NodeId, permutation: &[usize]) -> Option<(NodeId, NodeId)> {
    let rank = permutation.len();
    let Op::Reduce { dims, body } = b.op(sum) else { return None };
    let last = permutation.iter().copied().eq((1..rank).chain([0]));
    if !last || dims[..] != [0] || combiner(b, *body) != Some(Binary::Add) {
        return None;
    }
    let all = b.operand(sum, 0);
    let Op::Binary(Binary::Mul) = b.op(all) else { return None };
    let (left, right) = (b.operand(all, 0), b.operand(all, 1));
    let (Op::Broadcast { dims: x }, Op::Broadcast { dims: w }) = (b.op(left), b.op(right)) else { return None };
    let turned = b.operand(left, 0);
    let Op::Transpose { permutation } = b.op(turned) else { return None };
    let first = permutation.iter().copied().eq(std::iter::once(rank - 1).chain(0..rank - 1));
    let fits = first && x.iter().copied().eq(std::iter::once(0).chain(2..=rank)) && w[..] == [0, 1];
    fits.then(|| (b.operand(turned, 0), b.operand(right, 0)))
}
