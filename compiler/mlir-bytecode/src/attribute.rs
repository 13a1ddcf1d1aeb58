//! Attributes of the builtin dialect.

use crate::module::utf8;
use crate::{AttributeId, Bytecode, Custom, Encoding, Error, Reader, Type, TypeId};

/// An attribute.
#[derive(Clone, Debug)]
pub enum Attribute<'a> {
    Array(Vec<AttributeId>),
    /// In the order of the file, which is alphabetical.
    Dictionary(Vec<(&'a str, AttributeId)>),
    /// Any bytes: strings of programs need not be UTF-8.
    String(&'a [u8]),
    /// A symbol and those inside it: `@module::@function`.
    Symbol(Vec<&'a str>),
    Type(TypeId),
    Unit,
    /// Its two's complement, extended.
    Integer(TypeId, i128),
    /// The bits of the value in its type's format.
    Float(TypeId, u128),
    /// The elements of an array, little-endian.
    DenseArray {
        element: TypeId,
        length: u64,
        data: &'a [u8],
    },
    /// The elements of a tensor, little-endian; one element for all that are the same. Elements of one bit are packed.
    DenseElements {
        shaped: TypeId,
        data: &'a [u8],
    },
    /// Strings of a tensor; one for all that are the same.
    DenseStrings {
        shaped: TypeId,
        strings: Vec<&'a [u8]>,
    },
    /// A tensor whose data is a resource of this name.
    DenseResource {
        shaped: TypeId,
        name: &'a str,
    },
    /// Places: [`Bytecode::location`] reads them.
    Location,
    /// An attribute that is no other's equal.
    Distinct(AttributeId),
    /// As text, of any dialect: `#tpu.memory_space<vmem>`.
    Text(&'a str),
    /// Of another dialect.
    Custom(Custom<'a>),
}

/// The codes of the builtin dialect's attributes that this file or `location.rs` reads.
pub(crate) mod code {
    pub const ARRAY: u64 = 0;
    pub const DICTIONARY: u64 = 1;
    pub const STRING: u64 = 2;
    pub const STRING_WITH_TYPE: u64 = 3;
    pub const FLAT_SYMBOL: u64 = 4;
    pub const SYMBOL: u64 = 5;
    pub const TYPE: u64 = 6;
    pub const UNIT: u64 = 7;
    pub const INTEGER: u64 = 8;
    pub const FLOAT: u64 = 9;
    pub const CALL_SITE: u64 = 10;
    pub const FILE_LINE_COLUMN: u64 = 11;
    pub const FUSED: u64 = 12;
    pub const FUSED_WITH_METADATA: u64 = 13;
    pub const NAME: u64 = 14;
    pub const UNKNOWN: u64 = 15;
    pub const DENSE_RESOURCE: u64 = 16;
    pub const DENSE_ARRAY: u64 = 17;
    pub const DENSE_ELEMENTS: u64 = 18;
    pub const DENSE_STRINGS: u64 = 19;
    pub const DISTINCT: u64 = 21;
    pub const FILE_LINE_RANGE: u64 = 22;
}

impl<'a> Bytecode<'a> {
    /// Decodes an attribute.
    ///
    /// # Errors
    /// Damage, and sparse elements.
    pub fn attribute(&self, id: AttributeId) -> Result<Attribute<'a>, Error> {
        self.attribute_encoding(id)?.decoded(Attribute::Text, |data| self.builtin_attribute(data), Attribute::Custom)
    }

    fn builtin_attribute(&self, mut r: Reader<'a>) -> Result<Attribute<'a>, Error> {
        let at = r;
        Ok(match r.varint()? {
            code::ARRAY => Attribute::Array(r.list(|r| r.attribute(self))?),
            code::DICTIONARY => Attribute::Dictionary(r.list(|r| {
                let name = r.attribute(self)?;
                Ok((self.string_attribute(name)?, r.attribute(self)?))
            })?),
            code::STRING | code::STRING_WITH_TYPE => Attribute::String(r.string(self)?),
            code::FLAT_SYMBOL => Attribute::Symbol(vec![self.symbol_part(&mut r)?]),
            code::SYMBOL => {
                let mut parts = vec![self.symbol_part(&mut r)?];
                let nested = r.list(|r| r.attribute(self))?;
                for id in nested {
                    parts.push(self.flat_symbol(id)?);
                }
                Attribute::Symbol(parts)
            }
            code::TYPE => Attribute::Type(r.type_id(self)?),
            code::UNIT => Attribute::Unit,
            code::INTEGER => {
                let t = r.type_id(self)?;
                let Some(bits) = self.integer_bits(t)? else { return Err(at.error("an integer of no integer type")) };
                Attribute::Integer(t, r.integer(bits)?)
            }
            code::FLOAT => {
                let t = r.type_id(self)?;
                let Type::Float(kind) = self.type_of(t)? else { return Err(at.error("a float of no float type")) };
                let bits = r.integer(kind.bits())?;
                Attribute::Float(t, bits as u128 & (u128::MAX >> (128 - kind.bits())))
            }
            code::CALL_SITE
            | code::FILE_LINE_COLUMN
            | code::FUSED
            | code::FUSED_WITH_METADATA
            | code::NAME
            | code::UNKNOWN
            | code::FILE_LINE_RANGE => Attribute::Location,
            code::DENSE_RESOURCE => {
                let shaped = r.type_id(self)?;
                let n = r.varint()?;
                let name = self.resource_name(n).ok_or_else(|| at.error(format!("resource {n} does not exist")))?;
                Attribute::DenseResource { shaped, name }
            }
            code::DENSE_ARRAY => {
                Attribute::DenseArray { element: r.type_id(self)?, length: r.varint()?, data: r.blob()? }
            }
            code::DENSE_ELEMENTS => Attribute::DenseElements { shaped: r.type_id(self)?, data: r.blob()? },
            code::DENSE_STRINGS => {
                let shaped = r.type_id(self)?;
                r.varint()?;
                let mut strings = Vec::new();
                while !r.is_at_end() {
                    strings.push(r.string(self)?);
                }
                Attribute::DenseStrings { shaped, strings }
            }
            code::DISTINCT => Attribute::Distinct(r.attribute(self)?),
            other => return Err(at.error(format!("a builtin attribute of unknown kind {other}"))),
        })
    }

    /// The text of a string attribute, as names have it.
    ///
    /// # Errors
    /// Another attribute, or bytes that are no text.
    pub fn string_attribute(&self, id: AttributeId) -> Result<&'a str, Error> {
        let place = self.attribute_entry(id).bytes;
        let Encoding::Builtin(mut r) = self.attribute_encoding(id)? else {
            return Err(place.error("a string is due"));
        };
        match r.varint()? {
            code::STRING | code::STRING_WITH_TYPE => utf8(&place, r.string(self)?),
            _ => Err(place.error("a string is due")),
        }
    }

    fn symbol_part(&self, r: &mut Reader<'a>) -> Result<&'a str, Error> {
        let id = r.attribute(self)?;
        self.string_attribute(id)
    }

    fn flat_symbol(&self, id: AttributeId) -> Result<&'a str, Error> {
        let place = self.attribute_entry(id).bytes;
        let Encoding::Builtin(mut r) = self.attribute_encoding(id)? else {
            return Err(place.error("a symbol is due"));
        };
        match r.varint()? {
            code::FLAT_SYMBOL => self.symbol_part(&mut r),
            _ => Err(place.error("a symbol is due")),
        }
    }

    fn integer_bits(&self, t: TypeId) -> Result<Option<u32>, Error> {
        Ok(match self.type_of(t)? {
            Type::Integer(bits, _) => Some(bits),
            Type::Index => Some(64),
            Type::Float(_) | Type::Complex(_) | Type::Function { .. } | Type::None | Type::Tuple(_) => None,
            Type::Tensor { .. } | Type::MemRef { .. } | Type::Vector { .. } | Type::Text(_) | Type::Custom(_) => None,
        })
    }

    fn resource_name(&self, n: u64) -> Option<&'a str> {
        self.resources.get(usize::try_from(n).ok()?).map(|r| r.name)
    }

    /// The pairs of a dictionary.
    ///
    /// # Errors
    /// Another attribute.
    pub fn dictionary(&self, id: AttributeId) -> Result<Vec<(&'a str, AttributeId)>, Error> {
        let Attribute::Dictionary(pairs) = self.attribute(id)? else {
            return Err(self.attribute_entry(id).bytes.error("a dictionary is due"));
        };
        Ok(pairs)
    }
}
