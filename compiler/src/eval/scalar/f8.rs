//! The 8-bit float formats.

use systole_isa::DType;

/// How a format spends its 8 bits.
struct Format {
    mantissa: u32,
    bias: i32,
    kind: Kind,
}

/// What the format has beside finite numbers.
#[derive(PartialEq)]
enum Kind {
    /// Infinities and NaNs as in IEEE 754.
    Ieee,
    /// No infinities; NaN is all ones.
    Finite,
    /// No infinities, no negative zero: its bits are the NaN.
    FiniteUnsignedZero,
}

fn format(dtype: DType) -> Format {
    let (mantissa, bias, kind) = match dtype {
        DType::F8E5M2 => (2, 15, Kind::Ieee),
        DType::F8E4M3 => (3, 7, Kind::Ieee),
        DType::F8E3M4 => (4, 3, Kind::Ieee),
        DType::F8E4M3B11FNUZ => (3, 11, Kind::FiniteUnsignedZero),
        DType::F8E4M3FNUZ => (3, 8, Kind::FiniteUnsignedZero),
        DType::F8E5M2FNUZ => (2, 16, Kind::FiniteUnsignedZero),
        // F8E4M3FN; other types are not 8-bit floats and do not come here.
        _ => (3, 7, Kind::Finite),
    };
    Format { mantissa, bias, kind }
}

/// The value of a bit pattern.
pub fn decode(dtype: DType, bits: u8) -> f64 {
    let f = format(dtype);
    let sign = if bits & 0x80 != 0 { -1.0 } else { 1.0 };
    let magnitude = bits & 0x7f;
    let exponent = (magnitude >> f.mantissa) as i32;
    let fraction = (magnitude & ((1 << f.mantissa) - 1)) as f64;
    let top = (1 << (7 - f.mantissa)) - 1;
    match f.kind {
        Kind::Ieee if exponent == top && fraction == 0.0 => return sign * f64::INFINITY,
        Kind::Ieee if exponent == top => return f64::NAN.copysign(sign),
        Kind::Finite if magnitude == 0x7f => return f64::NAN.copysign(sign),
        Kind::FiniteUnsignedZero if bits == 0x80 => return f64::NAN,
        Kind::Ieee | Kind::Finite | Kind::FiniteUnsignedZero => {}
    }
    let scale = |e: i32| 2f64.powi(e - f.bias - f.mantissa as i32);
    let implied = (1u32 << f.mantissa) as f64;
    sign * if exponent == 0 { fraction * scale(1) } else { (implied + fraction) * scale(exponent) }
}

/// The nearest bit pattern, ties to even; beyond the largest finite number infinity, or NaN where there is none.
pub fn encode(dtype: DType, v: f32) -> u8 {
    let f = format(dtype);
    let sign = if v.is_sign_negative() { 0x80 } else { 0 };
    let top = 0x7f & !((1u8 << f.mantissa) - 1);
    let (nan, overflow) = match f.kind {
        Kind::Ieee => (sign | top | (1 << (f.mantissa - 1)), sign | top),
        Kind::Finite => (sign | 0x7f, sign | 0x7f),
        Kind::FiniteUnsignedZero => (0x80, 0x80),
    };
    if v.is_nan() {
        return nan;
    }
    let a = v.abs() as f64;
    if a.is_infinite() {
        return overflow;
    }
    // The exponent of the last place: that of the number, but not below the subnormals'.
    let exponent = if a == 0.0 { i32::MIN / 2 } else { ((a.to_bits() >> 52) as i32) - 1023 };
    let exponent = exponent.max(1 - f.bias);
    let units = (a / 2f64.powi(exponent - f.mantissa as i32)).round_ties_even() as u64;
    // `units` counts last places; a carry out of the mantissa raises the exponent by itself.
    let magnitude = ((exponent + f.bias - 1) as u64) * (1 << f.mantissa) + units;
    let limit = match f.kind {
        Kind::Ieee => top as u64,
        Kind::Finite => 0x7f,
        Kind::FiniteUnsignedZero => 0x80,
    };
    if magnitude >= limit {
        return overflow;
    }
    if magnitude == 0 && f.kind == Kind::FiniteUnsignedZero { 0 } else { sign | magnitude as u8 }
}
