//! Attributes of VHLO.

use super::print::Printer;
use systole_mlir_bytecode::{Attribute, AttributeId, Custom, Error, Reader, TypeId};

/// An attribute; lists are not decoded further.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Array(Vec<AttributeId>),
    Bool(bool),
    /// The enumeration and the case.
    Enum(&'static str, &'static str),
    /// A number that StableHLO writes as an integer of 32 bits.
    Version(u64),
    Dictionary(Vec<(AttributeId, AttributeId)>),
    /// The value's bits, in a type.
    Float(TypeId, u64),
    Integer(Option<TypeId>, i128),
    String(&'a [u8]),
    Tensor(TypeId, &'a [u8]),
    Type(TypeId),
    Bounds(Vec<i64>),
    /// How exact a function must be; nothing here depends on it.
    Accuracy,
    Alias {
        output: Vec<i64>,
        operand: i64,
        operand_indices: Vec<i64>,
    },
    SubAxis {
        before: i64,
        size: i64,
    },
    Axis {
        name: AttributeId,
        part: Option<AttributeId>,
    },
    MeshGroups {
        mesh: AttributeId,
        axes: AttributeId,
    },
    MeshAxis {
        name: AttributeId,
        size: i64,
    },
    Mesh {
        axes: AttributeId,
    },
    /// As text.
    Text(&'a str),
    /// In Shardy's encoding.
    Shardy,
    Symbol(&'a str),
    Unit,
}

const DIRECTIONS: (&str, &[&str]) = ("comparison_direction", &["EQ", "NE", "GE", "GT", "LE", "LT"]);
const COMPARISONS: (&str, &[&str]) = ("comparison_type", &["NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"]);
const FFT_TYPES: (&str, &[&str]) = ("fft_type", &["FFT", "IFFT", "RFFT", "IRFFT"]);
const PRECISIONS: (&str, &[&str]) = ("precision", &["DEFAULT", "HIGH", "HIGHEST"]);
const RNG_ALGORITHMS: (&str, &[&str]) = ("rng_algorithm", &["DEFAULT", "THREE_FRY", "PHILOX"]);
const RNG_DISTRIBUTIONS: (&str, &[&str]) = ("rng_distribution", &["", "UNIFORM", "NORMAL"]);
const TRANSPOSES: (&str, &[&str]) = ("transpose", &["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]);
const ACCURACIES: (&str, &[&str]) = ("result_accuracy_mode", &["DEFAULT", "HIGHEST", "TOLERANCE"]);

impl<'a> Printer<'a, '_> {
    /// Decodes an attribute.
    pub fn value(&self, id: AttributeId) -> Result<Value<'a>, Error> {
        match self.of.attribute(id)? {
            Attribute::Custom(Custom { dialect: "vhlo", data }) => self.vhlo(data),
            Attribute::Custom(Custom { dialect: "sdy", .. }) => Ok(Value::Shardy),
            Attribute::Text(text) => Ok(Value::Text(text)),
            Attribute::String(s) => Ok(Value::String(s)),
            Attribute::Symbol(parts) if parts.len() == 1 => Ok(Value::Symbol(parts[0])),
            Attribute::Unit => Ok(Value::Unit),
            Attribute::Array(list) => Ok(Value::Array(list)),
            Attribute::Integer(_, v) => Ok(Value::Integer(None, v)),
            Attribute::Type(t) => Ok(Value::Type(t)),
            Attribute::Custom(Custom { dialect, data }) => {
                Err(data.error(format!("attributes of the dialect `{dialect}` are not known")))
            }
            Attribute::Dictionary(_)
            | Attribute::Symbol(_)
            | Attribute::Float(..)
            | Attribute::DenseArray { .. }
            | Attribute::DenseElements { .. }
            | Attribute::DenseStrings { .. }
            | Attribute::DenseResource { .. }
            | Attribute::Location
            | Attribute::Distinct(_) => {
                Err(Error::new(0, format!("attribute {} is of a kind that StableHLO does not use", id.index())))
            }
        }
    }

    fn vhlo(&self, mut r: Reader<'a>) -> Result<Value<'a>, Error> {
        let at = r;
        let code = r.varint()?;
        let (r, of) = (&mut r, self.of);
        Ok(match code {
            1 => Value::Array(r.list(|r| r.attribute(of))?),
            2 => Value::Bool(r.varint()? != 0),
            3 => case(r, DIRECTIONS)?,
            4 => case(r, COMPARISONS)?,
            5 => Value::Version(r.varint()?),
            6 => Value::Dictionary(r.list(|r| Ok((r.attribute(of)?, r.attribute(of)?)))?),
            7 => case(r, FFT_TYPES)?,
            8 => {
                let t = r.type_id(of)?;
                let Some(dtype) = self.element(t)? else { return Err(at.error("a float of an unknown type")) };
                let bits = r.integer(dtype.bits())? as u64;
                Value::Float(t, bits & (u64::MAX >> (64 - dtype.bits())))
            }
            9 => {
                let t = r.type_id(of)?;
                let Some(dtype) = self.element(t)? else { return Err(at.error("an integer of an unknown type")) };
                Value::Integer(Some(t), r.integer(dtype.bits())?)
            }
            10 => {
                let output = r.list(|r| r.signed())?;
                Value::Alias { output, operand: r.signed()?, operand_indices: r.list(|r| r.signed())? }
            }
            11 => case(r, PRECISIONS)?,
            12 => case(r, RNG_ALGORITHMS)?,
            13 => case(r, RNG_DISTRIBUTIONS)?,
            14 => Value::String(r.string(of)?),
            15 => Value::Tensor(r.type_id(of)?, r.blob()?),
            16 => case(r, TRANSPOSES)?,
            17 => Value::Type(r.type_id(of)?),
            18 => Value::Bounds(r.list(|r| r.signed())?),
            19 => case(r, ACCURACIES)?,
            20 => Value::Accuracy,
            21 => Value::SubAxis { before: r.signed()?, size: r.signed()? },
            22 => {
                let name = r.attribute(of)?;
                let part = if r.varint()? != 0 { Some(r.attribute(of)?) } else { None };
                Value::Axis { name, part }
            }
            23 => Value::MeshGroups { mesh: r.attribute(of)?, axes: r.attribute(of)? },
            24 => Value::MeshAxis { name: r.attribute(of)?, size: r.signed()? },
            25 => {
                let axes = r.attribute(of)?;
                if r.optional_attribute(of)?.is_some() {
                    return Err(at.error("meshes with explicit device ids are not supported"));
                }
                Value::Mesh { axes }
            }
            other => return Err(at.error(format!("an attribute of unknown kind {other}"))),
        })
    }

    /// The text of a string.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the message for any other value")]
    pub fn string(&self, id: AttributeId) -> Result<&'a str, Error> {
        match self.value(id)? {
            Value::String(s) => {
                std::str::from_utf8(s).map_err(|_| Error::new(0, format!("attribute {} is not UTF-8", id.index())))
            }
            Value::Symbol(s) => Ok(s),
            _ => Err(Error::new(0, format!("attribute {} is no string", id.index()))),
        }
    }

    /// The integers of a list or a tensor, or of one integer.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the message for any other value")]
    pub fn integers(&self, id: AttributeId) -> Result<Vec<i64>, Error> {
        match self.value(id)? {
            Value::Integer(_, v) => Ok(vec![v as i64]),
            Value::Tensor(t, data) => super::dense::integers(self.tensor(t)?, data),
            Value::Array(list) => {
                let mut out = Vec::new();
                for id in list {
                    match self.value(id)? {
                        Value::Integer(_, v) => out.push(v as i64),
                        _ => return Err(Error::new(0, format!("attribute {} is no integer", id.index()))),
                    }
                }
                Ok(out)
            }
            _ => Err(Error::new(0, format!("attribute {} has no integers", id.index()))),
        }
    }
}

fn case<'a>(r: &mut Reader<'a>, (kind, cases): (&'static str, &'static [&'static str])) -> Result<Value<'a>, Error> {
    let at = *r;
    let n = r.varint()?;
    match usize::try_from(n).ok().and_then(|n| cases.get(n)) {
        Some(name) => Ok(Value::Enum(kind, name)),
        None => Err(at.error(format!("case {n} of {kind} does not exist"))),
    }
}
