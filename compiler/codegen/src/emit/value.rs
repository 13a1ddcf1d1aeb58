//! [`Value`]: one register's worth of elements of an HLO type.

use crate::kernel::{M, V};
use systole_isa::DType;

/// The registers that hold `sublanes x lanes` elements of one type.
///
/// | type | registers |
/// | --- | --- |
/// | `pred` | one mask |
/// | `f32` | one vector |
/// | `bf16`, `f16`, floats of a byte | one vector, as f32 rounded to the type's precision |
/// | integers of at most 32 bits | one vector, sign- or zero-extended to 32 bits |
/// | `s64`, `u64`, `f64` | two vectors: low words, high words |
/// | `c64` | two vectors: real, imaginary |
/// | `c128` | four vectors: low and high words of the real parts, then of the imaginary parts |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    pub dtype: DType,
    regs: Regs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Regs {
    Mask(M),
    Words([V; 4]),
}

impl Value {
    /// A `pred` value.
    pub fn mask(m: M) -> Value {
        Value { dtype: DType::Pred, regs: Regs::Mask(m) }
    }

    /// A value of one vector register.
    pub fn word(dtype: DType, v: V) -> Value {
        Value::words(dtype, &[v])
    }

    /// A value of as many vector registers as `dtype` has components.
    ///
    /// # Panics
    /// If their number is not the type's, or the type is `pred`.
    pub fn words(dtype: DType, words: &[V]) -> Value {
        assert!(dtype != DType::Pred && words.len() == dtype.components(), "registers of a {dtype} value");
        let mut w = [words[0]; 4];
        w[..words.len()].copy_from_slice(words);
        Value { dtype, regs: Regs::Words(w) }
    }

    /// The mask of a `pred` value.
    ///
    /// # Panics
    /// If the type is not `pred`.
    pub fn m(&self) -> M {
        match self.regs {
            Regs::Mask(m) => m,
            Regs::Words(_) => panic!("a {} value is not a mask", self.dtype),
        }
    }

    /// The vector register of a value that has one (or the first one).
    ///
    /// # Panics
    /// If the type is `pred`.
    pub fn v(&self) -> V {
        self.all()[0]
    }

    /// All vector registers; none for `pred`.
    pub fn all(&self) -> &[V] {
        match &self.regs {
            Regs::Mask(_) => &[],
            Regs::Words(w) => &w[..self.dtype.components()],
        }
    }

    /// Real (0) or imaginary (1) part of a complex value, as a real value; a real value is its own part 0.
    pub fn part(&self, i: usize) -> Value {
        if !self.dtype.is_complex() {
            return *self;
        }
        let n = self.dtype.components() / 2;
        Value::words(self.dtype.real(), &self.all()[i * n..(i + 1) * n])
    }

    /// The complex value of two real parts (`f32` or `f64`).
    pub fn from_parts(re: Value, im: Value) -> Value {
        let dtype = if re.dtype == DType::F64 { DType::C128 } else { DType::C64 };
        let words: Vec<V> = re.all().iter().chain(im.all()).copied().collect();
        Value::words(dtype, &words)
    }

    /// The same registers read as another type of as many components.
    pub fn retyped(&self, dtype: DType) -> Value {
        match self.regs {
            Regs::Mask(_) => *self,
            Regs::Words(_) => Value::words(dtype, self.all()),
        }
    }
}
