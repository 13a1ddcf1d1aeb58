//! Element bits from and to real numbers, for reading and printing literals.

use systole_isa::DType;
use systole_isa::dtype::DTypeClass;
use systole_isa::float::F8;

/// A floating-point format of at most 16 bits.
struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    special: Special,
}

/// What a format's topmost codes mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// Infinities and NaNs as IEEE 754 has them.
    Ieee,
    /// No infinity; only all ones (of either sign) is NaN.
    Fn,
    /// No infinity, no negative zero; the code of negative zero is NaN.
    Fnuz,
    /// Numbers alone: infinity is the largest, NaN negative zero.
    Numbers,
}

#[allow(clippy::wildcard_enum_match_arm, reason = "no float of at most 16 bits: it has no such format")]
fn format(dtype: DType) -> Option<Format> {
    use Special::{Fn, Fnuz, Ieee, Numbers};
    let (exponent_bits, mantissa_bits, bias, special) = match dtype {
        DType::F8E4M3FN => (4, 3, 7, Fn),
        DType::F8E5M2 => (5, 2, 15, Ieee),
        DType::F8E4M3 => (4, 3, 7, Ieee),
        DType::F8E4M3B11FNUZ => (4, 3, 11, Fnuz),
        DType::F8E4M3FNUZ => (4, 3, 8, Fnuz),
        DType::F8E5M2FNUZ => (5, 2, 16, Fnuz),
        DType::F8E3M4 => (3, 4, 3, Ieee),
        DType::F4E2M1FN => (2, 1, 1, Numbers),
        DType::BF16 => (8, 7, 127, Ieee),
        DType::F16 => (5, 10, 15, Ieee),
        _ => return None,
    };
    Some(Format { exponent_bits, mantissa_bits, bias, special })
}

impl Format {
    /// The code of the largest finite magnitude.
    fn max_code(&self) -> u64 {
        let (e, m) = (self.exponent_bits, self.mantissa_bits);
        match self.special {
            Special::Ieee => (((1 << e) - 1) << m) - 1,
            Special::Fn => (1 << (e + m)) - 2,
            Special::Fnuz | Special::Numbers => (1 << (e + m)) - 1,
        }
    }

    fn sign_bit(&self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    fn nan(&self, negative: bool) -> u64 {
        let sign = if negative { self.sign_bit() } else { 0 };
        match self.special {
            Special::Ieee => {
                sign | (((1 << self.exponent_bits) - 1) << self.mantissa_bits) | 1 << (self.mantissa_bits - 1)
            }
            Special::Fn => sign | (self.sign_bit() - 1),
            Special::Fnuz | Special::Numbers => self.sign_bit(),
        }
    }

    fn infinity(&self, negative: bool) -> u64 {
        let sign = if negative { self.sign_bit() } else { 0 };
        match self.special {
            Special::Ieee => sign | (((1 << self.exponent_bits) - 1) << self.mantissa_bits),
            Special::Fn | Special::Fnuz => self.nan(negative),
            Special::Numbers => sign | self.max_code(),
        }
    }

    /// Nearest value, ties to even.
    fn encode(&self, x: f64) -> u64 {
        let negative = x.is_sign_negative();
        if x.is_nan() {
            return self.nan(negative);
        }
        let a = x.abs();
        if a == 0.0 {
            return if negative && self.special != Special::Fnuz { self.sign_bit() } else { 0 };
        }
        if a.is_infinite() {
            return self.infinity(negative);
        }
        let min_exponent = 1 - self.bias;
        let exponent = (((a.to_bits() >> 52) as i32) - 1023).max(min_exponent);
        // In units of the last place at that exponent the value is an integer after rounding.
        let scaled = a * 2f64.powi(self.mantissa_bits as i32 - exponent);
        let steps = scaled.round_ties_even() as u64;
        // Codes are consecutive across exponents, so a carry needs no care.
        let code = steps + (((exponent - min_exponent) as u64) << self.mantissa_bits);
        if code > self.max_code() {
            return self.infinity(negative);
        }
        if code == 0 && self.special == Special::Fnuz {
            return 0;
        }
        code | if negative { self.sign_bit() } else { 0 }
    }

    fn decode(&self, bits: u64) -> f64 {
        let negative = bits & self.sign_bit() != 0;
        let code = bits & (self.sign_bit() - 1);
        let magnitude = if self.special == Special::Fnuz && negative && code == 0 {
            return f64::NAN;
        } else if code <= self.max_code() {
            let m = code & ((1 << self.mantissa_bits) - 1);
            match (code >> self.mantissa_bits) as i32 {
                0 => m as f64 * 2f64.powi(1 - self.bias - self.mantissa_bits as i32),
                e => (m | 1 << self.mantissa_bits) as f64 * 2f64.powi(e - self.bias - self.mantissa_bits as i32),
            }
        } else if self.special == Special::Ieee && code == self.max_code() + 1 {
            f64::INFINITY
        } else {
            f64::NAN
        };
        if negative { -magnitude } else { magnitude }
    }
}

/// The bits of the value of a real floating-point type nearest to `x`; 0 for other types.
pub fn encode_float(dtype: DType, x: f64) -> u64 {
    match (dtype, format(dtype)) {
        (DType::F64, _) => x.to_bits(),
        (DType::F32, _) => u64::from((x as f32).to_bits()),
        (DType::F8E8M0FNU, _) => u64::from(F8::E8M0FNU.from_f64(x)),
        (_, Some(f)) => f.encode(x),
        (_, None) => 0,
    }
}

/// The value of bits of a real floating-point type; 0 for other types.
pub fn decode_float(dtype: DType, bits: u64) -> f64 {
    match (dtype, format(dtype)) {
        (DType::F64, _) => f64::from_bits(bits),
        (DType::F32, _) => f64::from(f32::from_bits(bits as u32)),
        (DType::F8E8M0FNU, _) => f64::from(F8::E8M0FNU.to_f32(bits as u8)),
        (_, Some(f)) => f.decode(bits),
        (_, None) => 0.0,
    }
}

/// The largest finite value of a real floating-point type.
pub fn max_float(dtype: DType) -> f64 {
    match (dtype, format(dtype)) {
        (DType::F32, _) => f64::from(f32::MAX),
        (_, Some(f)) => f.decode(f.max_code()),
        (_, None) => f64::MAX,
    }
}

/// Mantissa bits of a real floating-point type whose NaNs have payloads.
#[allow(clippy::wildcard_enum_match_arm, reason = "the table of formats has the others")]
pub fn nan_payload_bits(dtype: DType) -> Option<u32> {
    match dtype {
        DType::F64 => Some(52),
        DType::F32 => Some(23),
        t => format(t).filter(|f| f.special == Special::Ieee).map(|f| f.mantissa_bits),
    }
}

/// The bits of a NaN with this payload (`None`: the quiet NaN).
pub fn encode_nan(dtype: DType, negative: bool, payload: Option<u64>) -> u64 {
    let quiet = encode_float(dtype, if negative { -f64::NAN } else { f64::NAN });
    match (payload, nan_payload_bits(dtype)) {
        (Some(p), Some(n)) if p & ((1 << n) - 1) != 0 => (quiet & !((1 << n) - 1)) | (p & ((1 << n) - 1)),
        _ => quiet,
    }
}

/// Smallest and largest value of an integer type.
pub fn integer_range(dtype: DType) -> Option<(i128, i128)> {
    let bits = dtype.bits();
    match dtype.class() {
        systole_isa::dtype::DTypeClass::Signed => Some((-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)),
        systole_isa::dtype::DTypeClass::Unsigned => Some((0, (1i128 << bits) - 1)),
        systole_isa::dtype::DTypeClass::Pred
        | systole_isa::dtype::DTypeClass::Float
        | systole_isa::dtype::DTypeClass::Complex => None,
    }
}

/// Bytes of the number `value` as an element of type `dtype` (rounded, wrapped); complex types take it as real part.
pub fn element_bytes(dtype: DType, value: f64) -> Vec<u8> {
    let real = |t: DType, v: f64| encode_float(t, v).to_le_bytes()[..t.host_bytes()].to_vec();
    match dtype.class() {
        DTypeClass::Pred => vec![u8::from(value != 0.0)],
        DTypeClass::Signed | DTypeClass::Unsigned => (value as i128).to_le_bytes()[..dtype.host_bytes()].to_vec(),
        DTypeClass::Float => real(dtype, value),
        DTypeClass::Complex => [real(dtype.real(), value), real(dtype.real(), 0.0)].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_formats_round_trip_and_round_to_even() {
        for t in DType::all().filter(|t| t.is_float() && t.bits() <= 16) {
            for bits in 0..(1u64 << t.bits()) {
                let x = decode_float(t, bits);
                if !x.is_nan() {
                    assert_eq!(encode_float(t, x), bits, "{t} {bits:#x}");
                }
            }
        }
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (decode_float(DType::F16, bits.into()), half::f16::from_bits(bits).to_f64());
            assert!(ours == theirs || ours.is_nan() && theirs.is_nan(), "{bits:#x}");
        }
        assert_eq!(encode_float(DType::F8E4M3FN, 464.0), 0x7e);
        assert_eq!(encode_float(DType::F8E4M3FN, 465.0), 0x7f);
        assert_eq!(encode_float(DType::BF16, 3.4e38), 0x7f80);
        assert_eq!(max_float(DType::F8E4M3FN), 448.0);
        assert_eq!(encode_nan(DType::F32, true, Some(1)), 0xff80_0001);
    }
}
