//! Codes of floats that are sorted with all zeros equal and all NaNs equal: integers whose order is that of the sort, and from
//! which the floats come back, so that nothing else has to be carried along.
//!
//! Codes are the integers of total order ([`turn`]) with room between the negative numbers and the positive ones: a zero's code
//! there says which one of the sequence it is, so that equal zeros keep their order, and its sign. NaNs come back as the
//! positive quiet one: which bits a NaN has means nothing.

use super::keys::turn;
use crate::edit::Emit;
use systole_hlo::graph::number::decode_float;
use systole_hlo::graph::{Binary, Computation, Direction, NodeId, Op};
use systole_isa::DType;

/// Integers that negative numbers move down by: as many as there are between negative infinity and the least integer.
const GAP: i32 = (1 << 23) - 2;
/// The least code of a zero; the largest is 0.
const LEAST: i32 = -1 - GAP;
/// The longest sequence whose zeros all have a code: two for each.
const LONGEST: u64 = 1 << 22;
const INFINITY: i32 = 0x7f80_0000;
const QUIET: i32 = 0x7fc0_0000;

/// Whether elements of `x` have codes along its last dimension.
pub fn fits(b: &Emit, x: NodeId) -> bool {
    let floats = matches!(b.dtype(x), DType::F32 | DType::BF16 | DType::F16);
    floats && b.dims(x).last().is_some_and(|&n| n <= LONGEST)
}

/// What a comparator's key makes of a kind of element.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Made {
    /// The element itself.
    Same,
    Number(f64),
    Truth(bool),
}

/// Kinds of elements that a comparison with zero or itself tells apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Zero,
    Nan,
    Other,
}

/// Whether a value of one element is a positive zero for all zeros, a positive NaN for all NaNs, and else the element.
pub fn unifies(c: &Computation, value: NodeId) -> bool {
    let zero = |m: Made| matches!(m, Made::Number(v) if v == 0.0 && v.is_sign_positive());
    let nan = |m: Made| matches!(m, Made::Number(v) if v.is_nan() && v.is_sign_positive());
    made(c, value, Kind::Zero).is_some_and(zero)
        && made(c, value, Kind::Nan).is_some_and(nan)
        && made(c, value, Kind::Other) == Some(Made::Same)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "a body of another form has no code, and is computed as it stands")]
fn made(c: &Computation, id: NodeId, kind: Kind) -> Option<Made> {
    let n = c.node(id);
    let of = |i: usize| made(c, n.operands[i], kind);
    match &n.op {
        Op::Parameter { .. } => Some(Made::Same),
        Op::Constant(l) if l.dims.is_empty() && l.dtype.is_float() && l.dtype.bits() <= 64 => {
            let bits = l.element(0).iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
            Some(Made::Number(decode_float(l.dtype, bits)))
        }
        Op::Select => match of(0)? {
            Made::Truth(yes) => of(if yes { 1 } else { 2 }),
            Made::Same | Made::Number(_) => None,
        },
        Op::Compare { direction, .. } => {
            let equal = match (of(0)?, of(1)?) {
                (Made::Same, Made::Same) => kind != Kind::Nan,
                (Made::Same, Made::Number(0.0)) | (Made::Number(0.0), Made::Same) => kind == Kind::Zero,
                _ => return None,
            };
            match direction {
                Direction::Eq => Some(Made::Truth(equal)),
                Direction::Ne => Some(Made::Truth(!equal)),
                Direction::Lt | Direction::Le | Direction::Gt | Direction::Ge => None,
            }
        }
        _ => None,
    }
}

/// The codes of floats, which are to be sorted along the last dimension.
pub fn encoded(b: &mut Emit, x: NodeId, ascending: bool) -> NodeId {
    let x = b.convert(x, DType::F32);
    let dims = b.dims(x).to_vec();
    let last = dims.len() - 1;
    let bits = b.bitcast(x, DType::S32);
    let size = b.with(Binary::And, bits, f64::from(i32::MAX));
    let code = turn(b, x, DType::F32, false);
    let moved = b.with(Binary::Sub, code, f64::from(GAP));
    let none = b.index(0);
    let negative = b.compare(Direction::Lt, bits, none);
    let code = b.select(negative, moved, code);
    // Zeros: two codes for each place.
    let place = b.iota(DType::S32, &dims, last);
    let place = match ascending {
        true => place,
        false => {
            let end = b.splat(DType::S32, &dims, (dims[last] - 1) as f64);
            b.sub(end, place)
        }
    };
    let twice = b.with(Binary::Mul, place, 2.0);
    let first = b.with(Binary::Add, twice, f64::from(LEAST));
    let sign = b.with(Binary::Shr, bits, 31.0);
    let own = b.add(first, sign);
    let zero = b.compare(Direction::Eq, size, none);
    let code = b.select(zero, own, code);
    let infinity = b.index(i64::from(INFINITY));
    let nan = b.compare(Direction::Gt, size, infinity);
    let quiet = b.index(i64::from(QUIET));
    b.select(nan, quiet, code)
}

/// The floats of codes.
pub fn decoded(b: &mut Emit, code: NodeId, dtype: DType) -> NodeId {
    let back = b.with(Binary::Add, code, f64::from(GAP));
    let negative = b.with(Binary::Xor, back, f64::from(i32::MAX));
    let least = b.index(i64::from(LEAST));
    let is_negative = b.compare(Direction::Lt, code, least);
    let bits = b.select(is_negative, negative, code);
    let own = b.with(Binary::Sub, code, f64::from(LEAST));
    let sign = b.with(Binary::Shl, own, 31.0);
    let from = b.compare(Direction::Ge, code, least);
    let none = b.index(0);
    let to = b.compare(Direction::Le, code, none);
    let zero = b.and(from, to);
    let bits = b.select(zero, sign, bits);
    let x = b.bitcast(bits, DType::F32);
    b.convert(x, dtype)
}
