//! Types of VHLO as StableHLO writes them.

use super::print::Printer;
use super::value::Value;
use std::rc::Rc;
use systole_isa::DType;
use systole_mlir_bytecode::{Custom, Error, MAX_DEPTH, Reader, Signedness, Type, TypeId};

/// Codes of types, names, and what their elements are; `None`: no elements of arrays here.
#[rustfmt::skip]
const ELEMENTS: [(u64, &str, Option<DType>); 31] = [
    (0, "i1", Some(DType::Pred)), (2, "bf16", Some(DType::BF16)), (3, "f16", Some(DType::F16)),
    (4, "f32", Some(DType::F32)), (5, "f64", Some(DType::F64)), (6, "f8E4M3FN", Some(DType::F8E4M3FN)),
    (7, "f8E5M2", Some(DType::F8E5M2)), (9, "index", Some(DType::S64)), (10, "i4", Some(DType::S4)),
    (11, "i8", Some(DType::S8)), (12, "i16", Some(DType::S16)), (13, "i32", Some(DType::S32)),
    (14, "i64", Some(DType::S64)), (15, "ui4", Some(DType::U4)), (16, "ui8", Some(DType::U8)),
    (17, "ui16", Some(DType::U16)), (18, "ui32", Some(DType::U32)), (19, "ui64", Some(DType::U64)),
    (27, "f8E4M3FNUZ", Some(DType::F8E4M3FNUZ)), (28, "f8E5M2FNUZ", Some(DType::F8E5M2FNUZ)),
    (29, "f8E4M3B11FNUZ", Some(DType::F8E4M3B11FNUZ)), (31, "i2", Some(DType::S2)), (32, "ui2", Some(DType::U2)), (33, "none", None),
    (34, "tf32", None), (35, "f8E4M3", Some(DType::F8E4M3)), (36, "f8E3M4", Some(DType::F8E3M4)),
    (37, "f4E2M1FN", Some(DType::F4E2M1FN)), (38, "f6E2M3FN", None), (39, "f6E3M2FN", None), (40, "f8E8M0FNU", Some(DType::F8E8M0FNU)),
];

const COMPLEX: u64 = 1;
const FUNCTION: u64 = 8;
const TENSOR: u64 = 20;
const TENSOR_WITH_ENCODING: u64 = 21;
const TOKEN: u64 = 22;
const TUPLE: u64 = 23;
const QUANTIZED: [u64; 2] = [24, 30];
const BUFFER: u64 = 41;
const FUTURE: u64 = 42;

impl<'a> Printer<'a, '_> {
    /// A type's text.
    pub fn type_text(&mut self, id: TypeId) -> Result<Rc<str>, Error> {
        self.type_at(id, 0)
    }

    fn type_at(&mut self, id: TypeId, depth: usize) -> Result<Rc<str>, Error> {
        if let Some(text) = self.types.get(&id) {
            return Ok(text.clone());
        }
        let text: Rc<str> = self.spell(id, depth)?.into();
        self.spend(text.len())?;
        self.types.insert(id, text.clone());
        Ok(text)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the message for any other value")]
    fn spell(&mut self, id: TypeId, depth: usize) -> Result<String, Error> {
        let mut r = match self.of.type_of(id)? {
            Type::Custom(Custom { dialect: "vhlo", data }) => data,
            Type::Text(text) => return Ok(text.to_string()),
            other @ (Type::Integer(..)
            | Type::Index
            | Type::Float(_)
            | Type::Complex(_)
            | Type::Function { .. }
            | Type::None
            | Type::Tuple(_)
            | Type::Tensor { .. }
            | Type::MemRef { .. }
            | Type::Vector { .. }
            | Type::Custom(_)) => return self.builtin(&other, depth),
        };
        if depth > MAX_DEPTH {
            return Err(r.error(format!("types are nested more than {MAX_DEPTH} deep")));
        }
        let at = r;
        let code = r.varint()?;
        if let Some(e) = ELEMENTS.iter().find(|e| e.0 == code) {
            return Ok(e.1.to_string());
        }
        match code {
            COMPLEX => Ok(format!("complex<{}>", self.next_type(&mut r, depth)?)),
            FUNCTION => {
                let inputs = self.list(&mut r, depth)?;
                Ok(format!("({inputs}) -> ({})", self.list(&mut r, depth)?))
            }
            TENSOR | TENSOR_WITH_ENCODING => {
                let bounds = match code {
                    TENSOR => None,
                    _ => Some(r.attribute(self.of)?),
                };
                let dims = r.dims()?;
                let mut text = String::from("tensor<");
                for d in &dims {
                    match d {
                        Some(n) => text += &format!("{n}x"),
                        None => text += "?x",
                    }
                }
                text += &self.next_type(&mut r, depth)?;
                if let Some(id) = bounds {
                    match self.value(id)? {
                        Value::Bounds(b) => {
                            let list: Vec<String> =
                                b.iter().map(|v| if *v < 0 { "?".to_string() } else { v.to_string() }).collect();
                            text += &format!(", #stablehlo.bounds<{}>", list.join(", "));
                        }
                        _ => return Err(at.error("a tensor's encoding is not known")),
                    }
                }
                Ok(text + ">")
            }
            TOKEN => Ok("!stablehlo.token".to_string()),
            TUPLE => Ok(format!("tuple<{}>", self.list(&mut r, depth)?)),
            FUTURE => Ok(format!("!stablehlo.future<{}>", self.list(&mut r, depth)?)),
            _ if QUANTIZED.contains(&code) => Err(at.error("quantized types are not supported")),
            BUFFER => Err(at.error("memory references are not supported")),
            _ => Err(at.error(format!("a type of unknown kind {code}"))),
        }
    }

    fn next_type(&mut self, r: &mut Reader<'a>, depth: usize) -> Result<Rc<str>, Error> {
        let id = r.type_id(self.of)?;
        self.type_at(id, depth + 1)
    }

    fn list(&mut self, r: &mut Reader<'a>, depth: usize) -> Result<String, Error> {
        let ids = r.list(|r| r.type_id(self.of))?;
        let mut text = String::new();
        for (i, id) in ids.into_iter().enumerate() {
            if i > 0 {
                text += ", ";
            }
            text += &self.type_at(id, depth + 1)?;
            self.spend(text.len().min(64))?;
        }
        Ok(text)
    }

    /// The inputs and results of a function's type.
    pub fn function_type(&self, id: TypeId) -> Result<(Vec<TypeId>, Vec<TypeId>), Error> {
        match self.of.type_of(id)? {
            Type::Custom(Custom { dialect: "vhlo", data: mut r }) => {
                let at = r;
                if r.varint()? != FUNCTION {
                    return Err(at.error("a function's type is due"));
                }
                Ok((r.list(|r| r.type_id(self.of))?, r.list(|r| r.type_id(self.of))?))
            }
            Type::Function { inputs, results } => Ok((inputs, results)),
            Type::Integer(..)
            | Type::Index
            | Type::Float(_)
            | Type::Complex(_)
            | Type::None
            | Type::Tuple(_)
            | Type::Tensor { .. }
            | Type::MemRef { .. }
            | Type::Vector { .. }
            | Type::Text(_)
            | Type::Custom(_) => Err(Error::new(0, "a function's type is due")),
        }
    }

    /// Sizes and element type of a tensor of static size.
    pub fn tensor(&self, id: TypeId) -> Result<(Vec<u64>, DType), Error> {
        let Type::Custom(Custom { dialect: "vhlo", data: mut r }) = self.of.type_of(id)? else {
            return Err(Error::new(0, "a constant's type is no tensor"));
        };
        let at = r;
        if r.varint()? != TENSOR {
            return Err(at.error("a constant's type is no tensor of static size"));
        }
        let dims: Option<Vec<u64>> = r.dims()?.into_iter().collect();
        let dims = dims.ok_or_else(|| at.error("a constant's type is no tensor of static size"))?;
        let element = r.type_id(self.of)?;
        match self.element(element)? {
            Some(dtype) => Ok((dims, dtype)),
            None => Err(at.error("constants of this element type are not supported")),
        }
    }

    /// What a type is as an element of arrays.
    pub fn element(&self, id: TypeId) -> Result<Option<DType>, Error> {
        let Type::Custom(Custom { dialect: "vhlo", data: mut r }) = self.of.type_of(id)? else { return Ok(None) };
        let code = r.varint()?;
        if code != COMPLEX {
            return Ok(ELEMENTS.iter().find(|e| e.0 == code).and_then(|e| e.2));
        }
        let part = r.type_id(self.of)?;
        let Type::Custom(Custom { dialect: "vhlo", data: mut r }) = self.of.type_of(part)? else { return Ok(None) };
        let code = r.varint()?;
        Ok(match ELEMENTS.iter().find(|e| e.0 == code).and_then(|e| e.2) {
            Some(DType::F32) => Some(DType::C64),
            Some(DType::F64) => Some(DType::C128),
            _ => None,
        })
    }

    /// Types of the builtin dialect, which operations of Shardy have.
    fn builtin(&mut self, t: &Type<'a>, depth: usize) -> Result<String, Error> {
        let place = Error::new(0, "a type of the builtin dialect that StableHLO does not use");
        if depth > MAX_DEPTH {
            return Err(place);
        }
        Ok(match t {
            Type::Integer(bits, Signedness::Unsigned) => format!("ui{bits}"),
            Type::Integer(bits, Signedness::Signless | Signedness::Signed) => format!("i{bits}"),
            Type::Index => "index".to_string(),
            Type::Float(kind) => {
                // The letters of an exponent and of what a format has are large.
                let name = format!("{kind:?}");
                name.strip_prefix('F').map_or_else(|| name.to_lowercase(), |format| format!("f{format}"))
            }
            Type::None => "none".to_string(),
            Type::Complex(part) => format!("complex<{}>", self.type_at(*part, depth + 1)?),
            Type::Tensor { dims: Some(dims), element, encoding: None } => {
                let mut text = String::from("tensor<");
                dims.iter().for_each(|d| text += &d.map_or_else(|| "?x".to_string(), |n| format!("{n}x")));
                text + &self.type_at(*element, depth + 1)? + ">"
            }
            Type::Function { .. }
            | Type::Tuple(_)
            | Type::Tensor { .. }
            | Type::MemRef { .. }
            | Type::Vector { .. }
            | Type::Text(_)
            | Type::Custom(_) => return Err(place),
        })
    }
}
