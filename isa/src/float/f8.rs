//! The float formats of a byte. Codes of fewer bits are the lowest of theirs; the others are zero, and mean nothing where they are read.

use crate::dtype::DType;

/// A float format of at most 8 bits, numbered as operands of kind [`crate::table::Kind::F8`] encode it.
#[allow(missing_docs, reason = "the names are the documentation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[rustfmt::skip]
pub enum F8 { E4M3FN, E5M2, E4M3, E4M3B11FNUZ, E4M3FNUZ, E5M2FNUZ, E3M4, E8M0FNU, E2M1FN }

/// What the largest codes mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// The last exponent holds infinity and NaNs.
    Ieee,
    /// Only the last code of each sign is special: a NaN.
    Finite,
    /// No code is special: what is too large becomes the largest number, NaN the negative zero.
    Numbers,
    /// The code of negative zero is the only NaN.
    FiniteNoNegativeZero,
    /// Powers of two alone: no sign, no zero, the last code is the only NaN.
    Scale,
}

/// A format's parameters.
struct Format {
    /// Bits of a code.
    bits: u32,
    mantissa: u32,
    bias: i32,
    specials: Specials,
}

const fn format(f: F8) -> Format {
    let (bits, mantissa, bias, specials) = match f {
        F8::E4M3FN => (8, 3, 7, Specials::Finite),
        F8::E5M2 => (8, 2, 15, Specials::Ieee),
        F8::E4M3 => (8, 3, 7, Specials::Ieee),
        F8::E4M3B11FNUZ => (8, 3, 11, Specials::FiniteNoNegativeZero),
        F8::E4M3FNUZ => (8, 3, 8, Specials::FiniteNoNegativeZero),
        F8::E5M2FNUZ => (8, 2, 16, Specials::FiniteNoNegativeZero),
        F8::E3M4 => (8, 4, 3, Specials::Ieee),
        F8::E8M0FNU => (8, 0, 127, Specials::Scale),
        F8::E2M1FN => (4, 1, 1, Specials::Numbers),
    };
    Format { bits, mantissa, bias, specials }
}

impl Format {
    /// The bit of the sign.
    const fn sign(&self) -> u32 {
        1 << (self.bits - 1)
    }

    /// Largest finite code without sign.
    const fn max_code(&self) -> u32 {
        match self.specials {
            Specials::Ieee => (0x7f >> self.mantissa << self.mantissa) - 1,
            Specials::Finite => self.sign() - 2,
            Specials::FiniteNoNegativeZero | Specials::Numbers => self.sign() - 1,
            Specials::Scale => 0xfe,
        }
    }

    const fn is_nan(&self, code: u32) -> bool {
        match self.specials {
            Specials::Ieee => code & 0x7f > self.max_code() + 1,
            Specials::Finite => code & 0x7f == 0x7f,
            Specials::Numbers => false,
            Specials::FiniteNoNegativeZero => code == 0x80,
            Specials::Scale => code == 0xff,
        }
    }

    /// f32 bits of a code.
    const fn decode(&self, code: u32) -> u32 {
        if matches!(self.specials, Specials::Scale) {
            return match code {
                0 => 1 << 22,
                0xff => 0x7fc0_0000,
                _ => code << 23,
            };
        }
        let code = code & (2 * self.sign() - 1);
        let sign = code >> (self.bits - 1) << 31;
        let magnitude = code & (self.sign() - 1);
        if self.is_nan(code) {
            // The sign of zero-coded NaN means nothing.
            let sign = if matches!(self.specials, Specials::FiniteNoNegativeZero) { 0 } else { sign };
            return sign | 0x7fc0_0000;
        }
        if magnitude > self.max_code() {
            return sign | 0x7f80_0000;
        }
        let (exponent, fraction) = (magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1));
        if exponent == 0 {
            if fraction == 0 {
                return sign;
            }
            // Subnormal: shift the leading one out to the implicit place.
            let lead = 31 - fraction.leading_zeros();
            let unbiased = 1 - self.bias - (self.mantissa - lead) as i32;
            let rest = fraction ^ (1 << lead);
            return sign | ((unbiased + 127) as u32) << 23 | rest << (23 - lead);
        }
        sign | ((exponent as i32 - self.bias + 127) as u32) << 23 | fraction << (23 - self.mantissa)
    }

    /// Code of the power of two nearest to an f64 of these bits, halves away from zero; NaN for what is not positive or too
    /// large.
    fn scale(bits: u64) -> u8 {
        let negative = bits >> 63 != 0;
        let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
        let up = (bits >> 51 & 1) as i32;
        if negative || bits == 0 || exponent + up > 127 { 0xff } else { (exponent + up + 127).max(0) as u8 }
    }

    /// Code of an f64's bits.
    fn encode(&self, bits: u64) -> u8 {
        if self.specials == Specials::Scale {
            return Format::scale(bits);
        }
        let sign = (bits >> 63) as u8 * self.sign() as u8;
        let magnitude = bits & (u64::MAX >> 1);
        let exponent = (magnitude >> 52) as i32 - 1023;
        let code = if magnitude >= 0x7ff0_0000_0000_0000 {
            self.max_code() + if magnitude > 0x7ff0_0000_0000_0000 { 2 } else { 1 }
        } else if exponent < -64 {
            0
        } else {
            let significand = magnitude & ((1 << 52) - 1) | 1 << 52;
            // Bits that fall off: more for values that become subnormal. 54 and more all round to zero.
            let subnormal = (1 - self.bias - exponent).max(0) as u32;
            let drop = (52 - self.mantissa + subnormal).min(63);
            let kept = significand >> drop;
            let rounded = (significand + ((1 << (drop - 1)) - 1) + (kept & 1)) >> drop;
            // For normal values `kept` has the implicit one, which adds the exponent's last unit.
            let exponent_field = if subnormal > 0 { 0 } else { (exponent + self.bias - 1) as u64 };
            ((exponent_field << self.mantissa) + rounded).min(1 << 16) as u32
        };
        if code > self.max_code() {
            let nan = magnitude > 0x7ff0_0000_0000_0000;
            return match self.specials {
                // A quiet NaN sets the top fraction bit.
                Specials::Ieee if nan => sign | (self.max_code() + 1) as u8 | 1 << (self.mantissa - 1),
                Specials::Ieee => sign | (self.max_code() + 1) as u8,
                Specials::Finite => sign | 0x7f,
                Specials::Numbers if nan => self.sign() as u8,
                Specials::Numbers => sign | self.max_code() as u8,
                Specials::FiniteNoNegativeZero => 0x80,
                Specials::Scale => 0xff,
            };
        }
        match (self.specials, code) {
            (Specials::FiniteNoNegativeZero, 0) => 0,
            _ => sign | code as u8,
        }
    }
}

/// f32 bits of every code of every format.
static VALUES: [[u32; 256]; F8::ALL.len()] = {
    let mut values = [[0; 256]; F8::ALL.len()];
    let mut f = 0;
    while f < F8::ALL.len() {
        let format = format(F8::ALL[f]);
        let mut code = 0;
        while code < 256 {
            values[f][code] = format.decode(code as u32);
            code += 1;
        }
        f += 1;
    }
    values
};

impl F8 {
    /// All formats in order of their numbers.
    #[rustfmt::skip]
    pub const ALL: [F8; 9] = [
        F8::E4M3FN, F8::E5M2, F8::E4M3, F8::E4M3B11FNUZ, F8::E4M3FNUZ, F8::E5M2FNUZ, F8::E3M4, F8::E8M0FNU, F8::E2M1FN,
    ];

    /// The format of an element type, if a byte holds its floats.
    pub fn from_dtype(dtype: DType) -> Option<F8> {
        F8::ALL.into_iter().find(|f| f.dtype() == dtype)
    }

    /// The format's element type.
    pub fn dtype(self) -> DType {
        match self {
            F8::E4M3FN => DType::F8E4M3FN,
            F8::E5M2 => DType::F8E5M2,
            F8::E4M3 => DType::F8E4M3,
            F8::E4M3B11FNUZ => DType::F8E4M3B11FNUZ,
            F8::E4M3FNUZ => DType::F8E4M3FNUZ,
            F8::E5M2FNUZ => DType::F8E5M2FNUZ,
            F8::E3M4 => DType::F8E3M4,
            F8::E8M0FNU => DType::F8E8M0FNU,
            F8::E2M1FN => DType::F4E2M1FN,
        }
    }

    /// The format's name, as in HLO (`e4m3fn` of `f8e4m3fn`).
    pub fn name(self) -> &'static str {
        &self.dtype().name()[2..]
    }

    /// Bits of the exponent and of the significand's fraction.
    pub fn fields(self) -> (u32, u32) {
        let f = format(self);
        let signs = u32::from(f.specials != Specials::Scale);
        (f.bits - signs - f.mantissa, f.mantissa)
    }

    /// Whether the order of codes, as sign and magnitude, is the total order of what they mean: not where one code of no sign is NaN, or
    /// where there are no signs.
    pub fn in_order(self) -> bool {
        matches!(format(self).specials, Specials::Ieee | Specials::Finite | Specials::Numbers)
    }

    /// The format of that operand number.
    pub fn from_number(n: i32) -> Option<F8> {
        F8::ALL.get(usize::try_from(n).ok()?).copied()
    }

    /// The value of a code.
    pub fn to_f32(self, code: u8) -> f32 {
        f32::from_bits(VALUES[self as usize][code as usize])
    }

    /// The code nearest to a value.
    pub fn from_f32(self, x: f32) -> u8 {
        self.from_f64(x as f64)
    }

    /// The code nearest to a value, rounded once.
    pub fn from_f64(self, x: f64) -> u8 {
        format(self).encode(x.to_bits())
    }
}
