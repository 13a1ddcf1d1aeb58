//! Types of the builtin dialect.

use crate::{AttributeId, Bytecode, Custom, Error, Reader, TypeId};

/// What an integer type says of signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signedness {
    Signless,
    Signed,
    Unsigned,
}

/// Float types that have codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatKind {
    BF16,
    F16,
    F32,
    F64,
    F80,
    F128,
    TF32,
    F8E5M2,
    F8E4M3,
    F8E4M3FN,
    F8E5M2FNUZ,
    F8E4M3FNUZ,
    F8E4M3B11FNUZ,
    F8E3M4,
    F4E2M1FN,
    F6E2M3FN,
    F6E3M2FN,
    F8E8M0FNU,
}

impl FloatKind {
    /// Bits of a value.
    pub fn bits(self) -> u32 {
        match self {
            FloatKind::BF16 | FloatKind::F16 => 16,
            FloatKind::F32 => 32,
            FloatKind::F64 => 64,
            FloatKind::F80 => 80,
            FloatKind::F128 => 128,
            FloatKind::TF32 => 19,
            FloatKind::F8E5M2
            | FloatKind::F8E4M3
            | FloatKind::F8E4M3FN
            | FloatKind::F8E5M2FNUZ
            | FloatKind::F8E4M3FNUZ
            | FloatKind::F8E4M3B11FNUZ
            | FloatKind::F8E3M4
            | FloatKind::F8E8M0FNU => 8,
            FloatKind::F6E2M3FN | FloatKind::F6E3M2FN => 6,
            FloatKind::F4E2M1FN => 4,
        }
    }
}

/// A type. Sizes of dimensions are `None` where the type leaves them open.
#[derive(Clone, Debug)]
pub enum Type<'a> {
    Integer(u32, Signedness),
    Index,
    Float(FloatKind),
    Complex(TypeId),
    Function {
        inputs: Vec<TypeId>,
        results: Vec<TypeId>,
    },
    None,
    Tuple(Vec<TypeId>),
    Tensor {
        /// `None`: of any rank.
        dims: Option<Vec<Option<u64>>>,
        element: TypeId,
        encoding: Option<AttributeId>,
    },
    MemRef {
        /// `None`: of any rank.
        dims: Option<Vec<Option<u64>>>,
        element: TypeId,
        layout: Option<AttributeId>,
        space: Option<AttributeId>,
    },
    Vector {
        dims: Vec<Option<u64>>,
        element: TypeId,
        scalable: bool,
    },
    /// As text, of any dialect: `memref<8x128xf32, #tpu.memory_space<vmem>>`.
    Text(&'a str),
    /// Of another dialect.
    Custom(Custom<'a>),
}

impl<'a> Bytecode<'a> {
    /// Decodes a type.
    ///
    /// # Errors
    /// Damage, and types of unknown kinds.
    pub fn type_of(&self, id: TypeId) -> Result<Type<'a>, Error> {
        self.type_encoding(id)?.decoded(Type::Text, |data| self.builtin_type(data), Type::Custom)
    }

    fn builtin_type(&self, mut r: Reader<'a>) -> Result<Type<'a>, Error> {
        let at = r;
        let code = r.varint()?;
        let r = &mut r;
        Ok(match code {
            0 => {
                let v = r.varint()?;
                let sign = match v & 3 {
                    0 => Signedness::Signless,
                    1 => Signedness::Signed,
                    2 => Signedness::Unsigned,
                    _ => return Err(at.error("an integer type with an unknown sign")),
                };
                match u32::try_from(v >> 2) {
                    Ok(bits @ 0..=0xff_ffff) => Type::Integer(bits, sign),
                    _ => return Err(at.error("an integer type of too many bits")),
                }
            }
            1 => Type::Index,
            2 => Type::Function { inputs: self.type_list(r)?, results: self.type_list(r)? },
            3 => Type::Float(FloatKind::BF16),
            4 => Type::Float(FloatKind::F16),
            5 => Type::Float(FloatKind::F32),
            6 => Type::Float(FloatKind::F64),
            7 => Type::Float(FloatKind::F80),
            8 => Type::Float(FloatKind::F128),
            9 => Type::Complex(r.type_id(self)?),
            10 | 11 => {
                let space = if code == 11 { Some(r.attribute(self)?) } else { None };
                let dims = Some(r.dims()?);
                Type::MemRef { dims, element: r.type_id(self)?, layout: Some(r.attribute(self)?), space }
            }
            12 => Type::None,
            13 | 14 => {
                let encoding = if code == 14 { Some(r.attribute(self)?) } else { None };
                Type::Tensor { dims: Some(r.dims()?), element: r.type_id(self)?, encoding }
            }
            15 => Type::Tuple(self.type_list(r)?),
            16 | 17 => {
                let space = if code == 17 { Some(r.attribute(self)?) } else { None };
                Type::MemRef { dims: None, element: r.type_id(self)?, layout: None, space }
            }
            18 => Type::Tensor { dims: None, element: r.type_id(self)?, encoding: None },
            19 => Type::Vector { dims: r.dims()?, element: r.type_id(self)?, scalable: false },
            20 => {
                r.varint()?;
                let dims = r.dims()?;
                Type::Vector { dims, element: r.type_id(self)?, scalable: true }
            }
            21 => Type::Float(FloatKind::TF32),
            22 => Type::Float(FloatKind::F8E5M2),
            23 => Type::Float(FloatKind::F8E4M3),
            24 => Type::Float(FloatKind::F8E4M3FN),
            25 => Type::Float(FloatKind::F8E5M2FNUZ),
            26 => Type::Float(FloatKind::F8E4M3FNUZ),
            27 => Type::Float(FloatKind::F8E4M3B11FNUZ),
            28 => Type::Float(FloatKind::F8E3M4),
            29 => Type::Float(FloatKind::F4E2M1FN),
            30 => Type::Float(FloatKind::F6E2M3FN),
            31 => Type::Float(FloatKind::F6E3M2FN),
            32 => Type::Float(FloatKind::F8E8M0FNU),
            other => return Err(at.error(format!("a builtin type of unknown kind {other}"))),
        })
    }

    fn type_list(&self, r: &mut Reader<'a>) -> Result<Vec<TypeId>, Error> {
        r.list(|r| r.type_id(self))
    }
}

impl Reader<'_> {
    /// A list of sizes of dimensions: what is negative is left open.
    ///
    /// # Errors
    /// The end of the range.
    pub fn dims(&mut self) -> Result<Vec<Option<u64>>, Error> {
        self.list(|r| Ok(u64::try_from(r.signed()?).ok()))
    }
}
