//! Reinterpreting bits between widths, and rounding by random bits.

use crate::edit::Emit;
use crate::make::{array, unsigned};
use systole_hlo::graph::number::max_float;
use systole_hlo::graph::{Binary, Direction, Node, NodeId, Unary};
use systole_isa::{DType, float::F8};

/// `bitcast-convert` between widths by shifts; `None` for equal widths. Complex numbers are taken apart first.
pub fn bitcast(b: &mut Emit, n: &Node, x: NodeId) -> Option<NodeId> {
    let to = array(&n.shape);
    let from = b.dtype(x);
    if from.is_complex() {
        return (from != to.dtype).then(|| from_complex(b, x, &to));
    }
    if to.dtype.is_complex() {
        return Some(to_complex(b, x, &to));
    }
    if from.bits() == to.dtype.bits() {
        return None;
    }
    Some(if from.bits() > to.dtype.bits() { narrower(b, x, to.dtype) } else { wider(b, x, to.dtype) })
}

/// Each element's parts, low first, along a new last dimension.
fn narrower(b: &mut Emit, x: NodeId, to: DType) -> NodeId {
    let (wide, narrow) = (unsigned(b.dtype(x).bits()), unsigned(to.bits()));
    let parts = u64::from(wide.bits() / narrow.bits());
    let x = b.bitcast(x, wide);
    let rank = b.rank(x);
    let dims = [b.dims(x), &[parts]].concat();
    let map: Vec<usize> = (0..rank).collect();
    let x = b.broadcast(x, &map, &dims);
    let part = b.iota(wide, &dims, rank);
    let shift = b.with(Binary::Mul, part, f64::from(narrow.bits()));
    let x = b.binary(Binary::Shr, x, shift);
    let x = b.convert(x, narrow);
    b.bitcast(x, to)
}

/// Elements along the last dimension joined, low first.
fn wider(b: &mut Emit, x: NodeId, to: DType) -> NodeId {
    let (narrow, wide) = (unsigned(b.dtype(x).bits()), unsigned(to.bits()));
    let x = b.bitcast(x, narrow);
    let x = b.convert(x, wide);
    let dims = b.dims(x).to_vec();
    let last = dims.len() - 1;
    let part = b.iota(wide, &dims, last);
    let shift = b.with(Binary::Mul, part, f64::from(narrow.bits()));
    let x = b.binary(Binary::Shl, x, shift);
    let x = b.reduce(x, Binary::Or, 0.0, &[last]);
    b.bitcast(x, to)
}

fn from_complex(b: &mut Emit, x: NodeId, to: &systole_hlo::graph::ArrayShape) -> NodeId {
    let (re, im) = (b.unary(Unary::Real, x), b.unary(Unary::Imag, x));
    let dims = [b.dims(x), &[1]].concat();
    let (re, im) = (b.reshape(re, &dims), b.reshape(im, &dims));
    let pair = b.concatenate(&[re, im], dims.len() - 1);
    let (bits, part) = (to.dtype.bits(), b.dtype(pair).bits());
    let parts = match bits.cmp(&part) {
        std::cmp::Ordering::Equal => b.bitcast(pair, to.dtype),
        std::cmp::Ordering::Less => narrower(b, pair, to.dtype),
        std::cmp::Ordering::Greater => wider(b, pair, to.dtype),
    };
    b.reshape(parts, &to.dims)
}

fn to_complex(b: &mut Emit, x: NodeId, to: &systole_hlo::graph::ArrayShape) -> NodeId {
    let part = to.dtype.real();
    let pair_dims = [&to.dims[..], &[2]].concat();
    let pair = match b.dtype(x).bits().cmp(&part.bits()) {
        std::cmp::Ordering::Equal => b.bitcast(x, part),
        std::cmp::Ordering::Less => {
            let each = u64::from(part.bits() / b.dtype(x).bits());
            let x = b.reshape(x, &[&pair_dims[..], &[each]].concat());
            wider(b, x, part)
        }
        std::cmp::Ordering::Greater => narrower(b, x, part),
    };
    let pair = b.reshape(pair, &pair_dims);
    let last = to.dims.len();
    let re = b.slice_dim(pair, last, 0, 1, 1);
    let im = b.slice_dim(pair, last, 1, 2, 1);
    let (re, im) = (b.reshape(re, &to.dims), b.reshape(im, &to.dims));
    b.binary(Binary::Complex, re, im)
}

/// `stochastic-convert`: operand, random bits. Rounds away from zero when the random bits are below the fraction cut off.
pub fn stochastic(b: &mut Emit, n: &Node, operands: &[NodeId]) -> NodeId {
    let (x, random) = (operands[0], operands[1]);
    let to = array(&n.shape).dtype;
    if to.is_float() {
        return stochastic_float(b, x, random, to);
    }
    let magnitude = b.unary(Unary::Abs, x);
    let whole = b.unary(Unary::Floor, magnitude);
    let fraction = b.sub(magnitude, whole);
    let bits = b.dtype(random).bits();
    let scaled = b.with(Binary::Mul, fraction, 2f64.powi(bits as i32));
    let limit = b.convert(scaled, b.dtype(random));
    let up = b.compare(Direction::Lt, random, limit);
    let step = b.convert(up, b.dtype(x));
    let rounded = b.add(whole, step);
    let zero = b.scalar(b.dtype(x), 0.0);
    let negative = b.compare(Direction::Lt, x, zero);
    let turned = b.neg(rounded);
    let signed = b.select(negative, turned, rounded);
    b.convert(signed, to)
}

/// Adds the random bits below the last mantissa bit that stays, then cuts.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are floats of a byte")]
fn stochastic_float(b: &mut Emit, x: NodeId, random: NodeId, to: DType) -> NodeId {
    let from = b.dtype(x);
    let mantissa = |t: DType| match t {
        DType::F64 => 52,
        DType::F32 => 23,
        DType::F16 => 10,
        DType::BF16 => 7,
        t => F8::from_dtype(t).map_or(0, |f| f.fields().1),
    };
    let cut: u32 = mantissa(from) - mantissa(to).min(mantissa(from));
    let wide = unsigned(from.bits());
    let bits = b.bitcast(x, wide);
    let random = b.convert(random, wide);
    let mask = b.bits(wide, (1u64 << cut) - 1);
    let noise = b.and(random, mask);
    let sum = b.add(bits, noise);
    let keep = b.not(mask);
    let cut = b.and(sum, keep);
    let rounded = b.bitcast(cut, from);
    let finite = b.unary(Unary::IsFinite, x);
    let rounded = b.select(finite, rounded, x);
    let limit = b.scalar(from, max_float(to));
    let magnitude = b.unary(Unary::Abs, rounded);
    let over = b.compare(Direction::Gt, magnitude, limit);
    let out = b.convert(rounded, to);
    let plain = b.convert(x, to);
    b.select(over, plain, out)
}
