//! Element types and how the chip stores them.
//!
//! A value of an element type is held in one or more 32-bit *components*: one for every type of at most 32 bits, two
//! for 64-bit types (low word first) and `c64` (real, imaginary), four for `c128`. Each component of an array is
//! stored as an array of its own (see [`crate::layout`]), so data movement never needs to know the type.

use serde::{Deserialize, Serialize};

/// An element type of XLA.
#[allow(missing_docs, reason = "the names are the documentation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[rustfmt::skip]
pub enum DType {
    Pred, S4, S8, S16, S32, S64, U4, U8, U16, U32, U64,
    F8E4M3FN, F8E5M2, F8E4M3, F8E4M3B11FNUZ, F8E4M3FNUZ, F8E5M2FNUZ, F8E3M4,
    BF16, F16, F32, F64, C64, C128,
    F8E8M0FNU, S2, U2, F4E2M1FN,
}

/// The numeric family of an element type.
#[allow(missing_docs, reason = "the names are the documentation")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DTypeClass {
    Pred,
    Signed,
    Unsigned,
    Float,
    Complex,
}

/// Every element type with its HLO name, its size in bits as the host sees it, and its family.
#[rustfmt::skip]
const TYPES: [(DType, &str, u32, DTypeClass); 28] = {
    use {DType::*, DTypeClass::*};
    [
        (DType::Pred, "pred", 8, DTypeClass::Pred),
        (S4, "s4", 4, Signed), (S8, "s8", 8, Signed), (S16, "s16", 16, Signed), (S32, "s32", 32, Signed), (S64, "s64", 64, Signed),
        (U4, "u4", 4, Unsigned), (U8, "u8", 8, Unsigned), (U16, "u16", 16, Unsigned), (U32, "u32", 32, Unsigned), (U64, "u64", 64, Unsigned),
        (F8E4M3FN, "f8e4m3fn", 8, Float), (F8E5M2, "f8e5m2", 8, Float), (F8E4M3, "f8e4m3", 8, Float),
        (F8E4M3B11FNUZ, "f8e4m3b11fnuz", 8, Float), (F8E4M3FNUZ, "f8e4m3fnuz", 8, Float), (F8E5M2FNUZ, "f8e5m2fnuz", 8, Float),
        (F8E3M4, "f8e3m4", 8, Float),
        (BF16, "bf16", 16, Float), (F16, "f16", 16, Float), (F32, "f32", 32, Float), (F64, "f64", 64, Float),
        (C64, "c64", 64, Complex), (C128, "c128", 128, Complex),
        (F8E8M0FNU, "f8e8m0fnu", 8, Float),
        (S2, "s2", 2, Signed), (U2, "u2", 2, Unsigned),
        (F4E2M1FN, "f4e2m1fn", 4, Float),
    ]
};

impl DType {
    /// All element types.
    pub fn all() -> impl Iterator<Item = DType> {
        TYPES.iter().map(|t| t.0)
    }

    fn row(self) -> &'static (DType, &'static str, u32, DTypeClass) {
        &TYPES[self as usize]
    }

    /// The type's name in HLO text.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The type of that name in HLO text.
    pub fn from_name(name: &str) -> Option<DType> {
        TYPES.iter().find(|t| t.1 == name).map(|t| t.0)
    }

    /// Bits of one element (`pred` is 8, as the host stores it).
    pub fn bits(self) -> u32 {
        self.row().2
    }

    /// Bytes of one element in a host array (types of fewer bits than a byte take one each there).
    pub fn host_bytes(self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    /// The numeric family.
    pub fn class(self) -> DTypeClass {
        self.row().3
    }

    /// Real floating point (not complex).
    pub fn is_float(self) -> bool {
        self.class() == DTypeClass::Float
    }

    /// `c64` or `c128`.
    pub fn is_complex(self) -> bool {
        self.class() == DTypeClass::Complex
    }

    /// Signed or unsigned integer (not `pred`).
    pub fn is_integer(self) -> bool {
        matches!(self.class(), DTypeClass::Signed | DTypeClass::Unsigned)
    }

    /// The signed type of an unsigned one's width; other types are their own.
    pub fn signed(self) -> DType {
        let like = |t: &&(DType, _, u32, DTypeClass)| t.3 == DTypeClass::Signed && t.2 == self.bits();
        match self.class() {
            DTypeClass::Unsigned => TYPES.iter().find(like).map_or(self, |t| t.0),
            DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Float | DTypeClass::Complex => self,
        }
    }

    /// A float that a byte holds: of 8 bits or of fewer. Each has its format in [`crate::float::F8`].
    pub fn is_byte_float(self) -> bool {
        self.is_float() && self.bits() <= 8
    }

    /// The type of a complex type's parts; other types are their own.
    pub fn real(self) -> DType {
        if !self.is_complex() {
            return self;
        }
        if self == DType::C64 { DType::F32 } else { DType::F64 }
    }

    /// The complex type of such parts: of `f64` `c128`, of others `c64`; complex types are their own.
    pub fn complex(self) -> DType {
        if matches!(self.real(), DType::F64) { DType::C128 } else { DType::C64 }
    }

    /// How many 32-bit (or narrower) components hold a value: 1, 2 or 4.
    pub fn components(self) -> usize {
        (self.bits() as usize).div_ceil(32)
    }

    /// Bits of one component in chip memory: 8, 16 or 32. Types of fewer take 8.
    pub fn storage_bits(self) -> u32 {
        self.bits().clamp(8, 32)
    }

    /// Elements of one component that share a 32-bit word of chip memory: 4, 2 or 1.
    pub fn packing(self) -> usize {
        32 / self.storage_bits() as usize
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
