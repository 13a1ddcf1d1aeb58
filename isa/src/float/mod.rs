//! Conversions between the narrow float formats and f32 or f64, shared by all parts of the project.
//!
//! Rounding is to nearest, ties to even, with one rounding from either source type; subnormals are kept. What happens
//! beyond a format's range is the format's own: infinity where it has one, else NaN. Nothing here flushes.

mod f8;

pub use f8::F8;

/// The bf16 bits of an f32. A NaN stays one and keeps its sign.
pub fn bf16_from_f32(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    // Adding just below half a unit, plus one if the kept part is odd, carries exactly when rounding goes up.
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The bf16 bits of an f64, rounded once.
pub fn bf16_from_f64(x: f64) -> u16 {
    half::bf16::from_f64(x).to_bits()
}

/// The value of bf16 bits.
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}

/// An f32 rounded to bf16 precision.
pub fn round_to_bf16(x: f32) -> f32 {
    bf16_to_f32(bf16_from_f32(x))
}

/// The f16 bits of an f32.
pub fn f16_from_f32(x: f32) -> u16 {
    half::f16::from_f32(x).to_bits()
}

/// The f16 bits of an f64, rounded once.
pub fn f16_from_f64(x: f64) -> u16 {
    half::f16::from_f64(x).to_bits()
}

/// The value of f16 bits.
pub fn f16_to_f32(bits: u16) -> f32 {
    half::f16::from_bits(bits).to_f32()
}

/// An f32 rounded to f16 precision.
pub fn round_to_f16(x: f32) -> f32 {
    f16_to_f32(f16_from_f32(x))
}
