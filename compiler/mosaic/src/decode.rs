//! From bytecode to the typed form.

use crate::ir::Attributes;
use crate::text::{self, parse_attribute, parse_type};
use crate::{Attr, Block, Element, Error, Function, MemRef, Module, Operation, Place, Type, VERSION, Value};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use systole_isa::DType;
use systole_mlir_bytecode as mlir;
use systole_mlir_bytecode::{Attribute, AttributeId, Bytecode, FloatKind, MAX_DEPTH, TypeId};

/// The dialect whose operations stand for those of others.
const DIALECT: &str = "stable_mosaic";
/// Elements of all constants of a module at most.
const MAX_ELEMENTS: usize = 1 << 24;

impl Module {
    /// Reads a module.
    ///
    /// # Errors
    /// Damage, other dialects, other versions.
    pub fn decode(bytes: &[u8]) -> Result<Module, Error> {
        if !mlir::is_bytecode(bytes) {
            return Err(Error::new("the kernel is no MLIR bytecode"));
        }
        let of = Bytecode::read(bytes)?;
        let [outer] = &of.block.operations[..] else {
            return Err(Error::new("a kernel's file holds one module"));
        };
        let (types, files) = (FxHashMap::default(), FxHashMap::default());
        let mut d = Decoder { of: &of, types, files, elements: 0, types_within: 0 };
        let attributes = d.attributes_of(outer)?;
        let version = attributes.get("stable_mosaic.version").or_else(|| attributes.get("version"));
        let version = match version {
            Some(Attr::Int(v)) => *v,
            _ => return Err(Error::new(format!("the kernel says no version of `{DIALECT}`"))),
        };
        if version != VERSION {
            let why =
                format!("the kernel has version {version} of `{DIALECT}`; version {VERSION} (jaxlib 0.10) is read");
            return Err(Error::new(why));
        }
        let types = (0..of.values() as u32).map(|v| d.type_of(of.value_type(mlir::ValueId(v))));
        let types = types.collect::<Result<Vec<Type>, Error>>()?;
        let mut functions = Vec::new();
        for o in outer.regions.iter().flat_map(|r| &r.blocks).flat_map(|b| &b.operations) {
            functions.push(d.function(o)?);
        }
        Ok(Module { version, functions, types })
    }
}

/// Most types around a type: that of an array's elements, of a constant that is an array's memory.
const MOST_WITHIN: usize = 8;

struct Decoder<'a, 'b> {
    of: &'b Bytecode<'a>,
    types: FxHashMap<TypeId, Type>,
    files: FxHashMap<String, Arc<str>>,
    elements: usize,
    /// Types around the one that is read.
    types_within: usize,
}

impl<'a> Decoder<'a, '_> {
    fn function(&mut self, o: &mlir::Operation<'a>) -> Result<Function, Error> {
        if !matches!(bare(&o.name), "func.func") {
            return Err(Error::new(format!("`{}` stands where a function is due", o.name)));
        }
        let attributes = self.attributes_of(o)?;
        let name = match attributes.get("sym_name") {
            Some(Attr::Str(s)) => s.clone(),
            _ => return Err(Error::new("a function has no name")),
        };
        let place = self.place(o.location)?;
        let [region] = &o.regions[..] else { return Err(Error::new(format!("function `{name}` has no body"))) };
        Ok(Function { name, body: self.region(region, 0)?, attributes, place })
    }

    fn region(&mut self, region: &mlir::Region<'a>, depth: usize) -> Result<Block, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(format!("regions are nested more than {MAX_DEPTH} deep")));
        }
        let block = match &region.blocks[..] {
            [] => return Ok(Block::default()),
            [block] => block,
            _ => return Err(Error::new("a region of several blocks")),
        };
        let arguments = block.arguments.iter().map(|a| Value(a.value.0)).collect();
        let operations = block.operations.iter().map(|o| self.operation(o, depth));
        Ok(Block { arguments, operations: operations.collect::<Result<_, Error>>()? })
    }

    fn operation(&mut self, o: &mlir::Operation<'a>, depth: usize) -> Result<Operation, Error> {
        let regions = o.regions.iter().map(|r| self.region(r, depth + 1));
        let regions = regions.collect::<Result<Vec<Block>, Error>>()?;
        Ok(Operation {
            name: bare(&o.name).into(),
            operands: o.operands.iter().map(|v| Value(v.0)).collect(),
            results: o.results.iter().map(|(v, _)| Value(v.0)).collect(),
            attributes: self.attributes_of(o)?,
            regions,
            place: self.place(o.location)?,
        })
    }

    /// The innermost line that a location names.
    fn place(&mut self, id: AttributeId) -> Result<Option<Place>, Error> {
        let location = self.of.location(id)?;
        let Some(frame) = location.frames.iter().find(|f| f.line > 0) else { return Ok(None) };
        let file = self.files.entry(frame.file.to_string()).or_insert_with(|| frame.file.into());
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let file = Arc::clone(file);
        let function =
            Arc::clone(self.files.entry(frame.function.to_string()).or_insert_with(|| frame.function.into()));
        Ok(Some(Place { file, line: number(frame.line), column: number(frame.column), function }))
    }

    fn attributes_of(&mut self, o: &mlir::Operation<'a>) -> Result<Attributes, Error> {
        let mut out = Attributes::new();
        if let Some(mut r) = o.properties
            && !o.registered
        {
            let id = r.attribute(self.of)?;
            self.dictionary(id, &mut out, 0)?;
        }
        if let Some(id) = o.attributes {
            self.dictionary(id, &mut out, 0)?;
        }
        Ok(out)
    }

    fn dictionary(&mut self, id: AttributeId, out: &mut Attributes, depth: usize) -> Result<(), Error> {
        for (name, id) in self.of.dictionary(id)? {
            let value = self.attribute(id, depth)?;
            out.insert(name.to_string(), value);
        }
        Ok(())
    }

    fn attribute(&mut self, id: AttributeId, depth: usize) -> Result<Attr, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::new(format!("attributes are nested more than {MAX_DEPTH} deep")));
        }
        Ok(match self.of.attribute(id)? {
            Attribute::Array(ids) => {
                self.spend(ids.len())?;
                Attr::List(ids.into_iter().map(|id| self.attribute(id, depth + 1)).collect::<Result<_, Error>>()?)
            }
            Attribute::Dictionary(_) => {
                let mut out = Attributes::new();
                self.dictionary(id, &mut out, depth + 1)?;
                Attr::Dict(out)
            }
            Attribute::String(s) => Attr::Str(String::from_utf8_lossy(s).into_owned()),
            Attribute::Symbol(parts) => Attr::Symbol(parts.join("::")),
            Attribute::Type(t) if matches!(self.of.type_of(t)?, mlir::Type::Function { .. }) => {
                Attr::Text("function".into())
            }
            Attribute::Type(t) => Attr::Type(self.type_of(t)?),
            Attribute::Unit => Attr::Unit,
            Attribute::Integer(_, v) => Attr::Int(v as i64),
            Attribute::Float(t, bits) => {
                let Type::Scalar(Element::Number(t)) = self.type_of(t)? else {
                    return Err(Error::new("a float of no float type"));
                };
                Attr::Float(float(t, bits as u64).ok_or_else(|| Error::new(format!("a constant of type {t}")))?)
            }
            Attribute::DenseArray { element, data, .. } => self.dense_array(element, data)?,
            Attribute::DenseElements { shaped, data } => self.dense_elements(shaped, data)?,
            Attribute::Text(t) => parse_attribute(t),
            Attribute::DenseStrings { .. }
            | Attribute::DenseResource { .. }
            | Attribute::Location
            | Attribute::Distinct(_)
            | Attribute::Custom(_) => return Err(Error::new("an attribute of a kind that kernels do not have")),
        })
    }

    fn spend(&mut self, elements: usize) -> Result<(), Error> {
        self.elements = self.elements.saturating_add(elements);
        match self.elements > MAX_ELEMENTS {
            true => Err(Error::new(format!("constants of more than {MAX_ELEMENTS} elements in all"))),
            false => Ok(()),
        }
    }

    fn dense_array(&mut self, element: TypeId, data: &[u8]) -> Result<Attr, Error> {
        let mlir::Type::Integer(bits, _) = self.of.type_of(element)? else {
            return Err(Error::new("a dense array of no integers"));
        };
        let width = (bits as usize).div_ceil(8).clamp(1, 8);
        self.spend(data.len() / width)?;
        Ok(Attr::Ints(data.chunks_exact(width).map(signed).collect()))
    }

    fn dense_elements(&mut self, shaped: TypeId, data: &[u8]) -> Result<Attr, Error> {
        let t = if let mlir::Type::Tensor { dims: Some(dims), element, .. } = self.of.type_of(shaped)? {
            let Type::Scalar(e) = self.type_of(element)? else { return Err(Error::new("a tensor of no numbers")) };
            let dims = dims.into_iter().collect::<Option<Vec<u64>>>();
            Type::Vector(dims.ok_or_else(|| Error::new("a constant of open size"))?, e)
        } else {
            self.type_of(shaped)?
        };
        let Type::Vector(dims, element) = &t else { return Err(Error::new("dense elements of no vector")) };
        let n = dims.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?));
        let n = n.ok_or_else(|| Error::new("a constant of too many elements"))?;
        let bits = if *element == Element::Index { 64 } else { element.dtype().bits() as usize };
        let values: Vec<u64> = if *element == Element::Number(DType::Pred) {
            // Bits, or one byte for all that are the same.
            match data {
                [one] if n != 1 && matches!(one, 0 | 0xff) => vec![u64::from(*one != 0)],
                _ if data.len() >= n.div_ceil(8) => {
                    self.spend(n)?;
                    (0..n).map(|i| u64::from(data[i / 8] >> (i % 8) & 1)).collect()
                }
                _ => return Err(Error::new("a constant of too few bits")),
            }
        } else {
            let width = bits.div_ceil(8).clamp(1, 8);
            self.spend(data.len() / width)?;
            data.chunks_exact(width).map(|c| signed(c) as u64).collect()
        };
        match values.len() == 1 || values.len() == n {
            true => Ok(Attr::Dense(t, values)),
            false => Err(Error::new(format!("a constant of {n} elements has {}", values.len()))),
        }
    }

    fn type_of(&mut self, id: TypeId) -> Result<Type, Error> {
        if let Some(t) = self.types.get(&id) {
            return Ok(t.clone());
        }
        // Arrays hold numbers in a memory: what nests deeper is a type that is a part of itself.
        if self.types_within > MOST_WITHIN {
            return Err(Error::new(format!("types are nested more than {MOST_WITHIN} deep")));
        }
        self.types_within += 1;
        let t = self.fresh_type(id);
        self.types_within -= 1;
        self.types.insert(id, t.clone()?);
        t
    }

    fn fresh_type(&mut self, id: TypeId) -> Result<Type, Error> {
        let open = || Error::new("a vector of open size");
        Ok(match self.of.type_of(id)? {
            mlir::Type::Integer(bits, _) => Type::Scalar(integer(bits)?),
            mlir::Type::Index => Type::Scalar(Element::Index),
            mlir::Type::Float(k) => Type::Scalar(Element::Number(match k {
                FloatKind::BF16 => DType::BF16,
                FloatKind::F16 => DType::F16,
                FloatKind::F32 => DType::F32,
                FloatKind::F64 => DType::F64,
                FloatKind::F8E5M2 => DType::F8E5M2,
                FloatKind::F8E4M3 => DType::F8E4M3,
                FloatKind::F8E4M3FN => DType::F8E4M3FN,
                FloatKind::F8E5M2FNUZ => DType::F8E5M2FNUZ,
                FloatKind::F8E4M3FNUZ => DType::F8E4M3FNUZ,
                FloatKind::F8E4M3B11FNUZ => DType::F8E4M3B11FNUZ,
                FloatKind::F8E3M4 => DType::F8E3M4,
                FloatKind::F8E8M0FNU => DType::F8E8M0FNU,
                FloatKind::F4E2M1FN => DType::F4E2M1FN,
                FloatKind::F80 | FloatKind::F128 | FloatKind::TF32 | FloatKind::F6E2M3FN | FloatKind::F6E3M2FN => {
                    return Err(Error::new(format!("floats of {} bits", k.bits())));
                }
            })),
            mlir::Type::Vector { dims, element, scalable: false } => {
                let dims = dims.into_iter().collect::<Option<Vec<u64>>>().ok_or_else(open)?;
                Type::Vector(dims, self.element(element)?)
            }
            mlir::Type::MemRef { dims: Some(dims), element, space, .. } => {
                let space = match space.map(|s| self.attribute(s, 0)).transpose()? {
                    Some(Attr::Text(t)) => {
                        text::space(&t).ok_or_else(|| Error::new(format!("memory `{t}` is unknown")))?
                    }
                    _ => return Err(Error::new("an array in no memory")),
                };
                Type::MemRef(MemRef { dims, element: self.element(element)?, space })
            }
            mlir::Type::Text(t) => parse_type(t)?,
            mlir::Type::Function { .. } => Type::Other("function".into()),
            mlir::Type::Complex(_)
            | mlir::Type::None
            | mlir::Type::Tuple(_)
            | mlir::Type::Tensor { .. }
            | mlir::Type::MemRef { .. }
            | mlir::Type::Vector { .. }
            | mlir::Type::Custom(_) => return Err(Error::new("a type of a kind that kernels do not have")),
        })
    }

    fn element(&mut self, id: TypeId) -> Result<Element, Error> {
        match self.type_of(id)? {
            Type::Scalar(e) => Ok(e),
            Type::Other(t) => Err(Error::new(format!("elements of type `{t}`"))),
            Type::Vector(..) | Type::MemRef(_) => Err(Error::new("vectors of vectors")),
        }
    }
}

/// The operation's own name, without the dialect that it is stored in.
fn bare(name: &str) -> &str {
    name.strip_prefix(DIALECT).and_then(|n| n.strip_prefix('.')).unwrap_or(name)
}

fn integer(bits: u32) -> Result<Element, Error> {
    text::element(&format!("i{bits}")).ok_or_else(|| Error::new(format!("integers of {bits} bits")))
}

/// A little-endian integer of at most eight bytes.
fn signed(bytes: &[u8]) -> i64 {
    let n = bytes.len();
    let mut all = [if bytes[n - 1] & 0x80 != 0 { 0xff } else { 0 }; 8];
    all[..n].copy_from_slice(bytes);
    i64::from_le_bytes(all)
}

/// The value of a float's bits.
#[allow(clippy::wildcard_enum_match_arm, reason = "of all others, floats that a byte holds have values")]
pub fn float(t: DType, bits: u64) -> Option<f64> {
    Some(match t {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        DType::BF16 => f64::from(systole_isa::float::bf16_to_f32(bits as u16)),
        DType::F16 => f64::from(systole_isa::float::f16_to_f32(bits as u16)),
        t => systole_isa::float::F8::from_dtype(t).map(|f| f64::from(f.to_f32(bits as u8)))?,
    })
}
