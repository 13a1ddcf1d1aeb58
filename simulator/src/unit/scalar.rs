//! Scalar arithmetic.

use systole_isa::opcodes::ScalarFn;

/// The result of a scalar operation on its source values and its immediate.
#[inline(always)]
pub(crate) fn execute(function: ScalarFn, a: i32, b: i32, c: i32, imm: i32) -> i32 {
    let (ua, ub) = (a as u32, b as u32);
    match function {
        ScalarFn::SLi => imm,
        ScalarFn::SAdd => a.wrapping_add(b),
        ScalarFn::SSub => a.wrapping_sub(b),
        ScalarFn::SMul => a.wrapping_mul(b),
        ScalarFn::SDiv => {
            if b == 0 {
                -1
            } else {
                a.wrapping_div(b)
            }
        }
        ScalarFn::SRem => {
            if b == 0 {
                a
            } else {
                a.wrapping_rem(b)
            }
        }
        ScalarFn::SDivU => ua.checked_div(ub).unwrap_or(!0) as i32,
        ScalarFn::SRemU => ua.checked_rem(ub).unwrap_or(ua) as i32,
        ScalarFn::SAnd => a & b,
        ScalarFn::SOr => a | b,
        ScalarFn::SXor => a ^ b,
        ScalarFn::SShl => a.checked_shl(ub).unwrap_or(0),
        ScalarFn::SShr => ua.checked_shr(ub).unwrap_or(0) as i32,
        ScalarFn::SSar => a >> ub.min(31),
        ScalarFn::SMin => a.min(b),
        ScalarFn::SMax => a.max(b),
        ScalarFn::SEq => (a == b) as i32,
        ScalarFn::SLt => (a < b) as i32,
        ScalarFn::SLtU => (ua < ub) as i32,
        ScalarFn::SAddI => a.wrapping_add(imm),
        ScalarFn::SMulI => a.wrapping_mul(imm),
        ScalarFn::SAndI => a & imm,
        ScalarFn::SShlI => a << (imm & 31),
        ScalarFn::SShrI => (ua >> (imm & 31)) as i32,
        ScalarFn::SSarI => a >> (imm & 31),
        ScalarFn::SEqI => (a == imm) as i32,
        ScalarFn::SLtI => (a < imm) as i32,
        // `s.sel`: c ? a : b in table order.
        ScalarFn::SSel => {
            if a != 0 {
                b
            } else {
                c
            }
        }
    }
}
