//! Scalar arithmetic.

use crate::issue::code::ScalarOp;
use systole_isa::Op;

/// The result of a scalar operation on its source values. Loads, stores and `x.extract` are the issue stage's.
#[inline(always)]
pub(crate) fn execute(s: &ScalarOp, a: i32, b: i32, c: i32) -> i32 {
    let (ua, ub) = (a as u32, b as u32);
    match s.op {
        Op::SLi => s.imm,
        Op::SAdd => a.wrapping_add(b),
        Op::SSub => a.wrapping_sub(b),
        Op::SMul => a.wrapping_mul(b),
        Op::SDiv => {
            if b == 0 {
                -1
            } else {
                a.wrapping_div(b)
            }
        }
        Op::SRem => {
            if b == 0 {
                a
            } else {
                a.wrapping_rem(b)
            }
        }
        Op::SDivU => ua.checked_div(ub).unwrap_or(!0) as i32,
        Op::SRemU => ua.checked_rem(ub).unwrap_or(ua) as i32,
        Op::SAnd => a & b,
        Op::SOr => a | b,
        Op::SXor => a ^ b,
        Op::SShl => a.checked_shl(ub).unwrap_or(0),
        Op::SShr => ua.checked_shr(ub).unwrap_or(0) as i32,
        Op::SSar => a >> ub.min(31),
        Op::SMin => a.min(b),
        Op::SMax => a.max(b),
        Op::SEq => (a == b) as i32,
        Op::SLt => (a < b) as i32,
        Op::SLtU => (ua < ub) as i32,
        Op::SAddI => a.wrapping_add(s.imm),
        Op::SMulI => a.wrapping_mul(s.imm),
        Op::SAndI => a & s.imm,
        Op::SShlI => a << (s.imm & 31),
        Op::SShrI => (ua >> (s.imm & 31)) as i32,
        Op::SSarI => a >> (s.imm & 31),
        Op::SEqI => (a == s.imm) as i32,
        Op::SLtI => (a < s.imm) as i32,
        // `s.sel`: c ? a : b in table order.
        Op::SSel => {
            if a != 0 {
                b
            } else {
                c
            }
        }
        _ => 0,
    }
}
