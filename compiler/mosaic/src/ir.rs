//! The typed form of a module.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use systole_isa::DType;

/// A value: an argument of a block or a result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// A module: its first function is the kernel, the others say where windows lie.
#[derive(Clone, Debug)]
pub struct Module {
    /// Of the serialized dialect.
    pub version: i64,
    pub functions: Vec<Function>,
    /// Of every value its type.
    pub types: Vec<Type>,
}

#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub body: Block,
    pub attributes: Attributes,
    pub place: Option<Place>,
}

pub type Attributes = BTreeMap<String, Attr>;

#[derive(Clone, Debug, Default)]
pub struct Block {
    pub arguments: Vec<Value>,
    pub operations: Vec<Operation>,
}

#[derive(Clone, Debug)]
pub struct Operation {
    /// With its dialect: `arith.addf`, `tpu.matmul`.
    pub name: Arc<str>,
    pub operands: Vec<Value>,
    pub results: Vec<Value>,
    pub attributes: Attributes,
    /// Of one block each.
    pub regions: Vec<Block>,
    pub place: Option<Place>,
}

/// A line of a program's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
    /// The function around it; may be empty.
    pub function: Arc<str>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What one element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// A number; `i1` is [`DType::Pred`], other integers are the signed types (operations say what they mean by signs).
    Number(DType),
    /// An index, of 32 bits here.
    Index,
    DmaSemaphore,
    Semaphore,
}

impl Element {
    /// The type in which elements are stored and computed with: indices and semaphores are 32-bit integers.
    pub fn dtype(self) -> DType {
        match self {
            Element::Number(t) => t,
            Element::Index | Element::DmaSemaphore | Element::Semaphore => DType::S32,
        }
    }
}

/// Where an array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    Vmem,
    Smem,
    Hbm,
    Semaphore,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemRef {
    /// `None`: known when the program runs.
    pub dims: Vec<Option<u64>>,
    pub element: Element,
    pub space: Space,
}

impl MemRef {
    /// The sizes, if all are known.
    pub fn sizes(&self) -> Option<Vec<u64>> {
        self.dims.iter().copied().collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Scalar(Element),
    Vector(Vec<u64>, Element),
    MemRef(MemRef),
    /// Of anything else, as text.
    Other(String),
}

impl Type {
    /// Element type of numbers, vectors and arrays.
    pub fn element(&self) -> Option<Element> {
        match self {
            Type::Scalar(e) | Type::Vector(_, e) => Some(*e),
            Type::MemRef(m) => Some(m.element),
            Type::Other(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    Int(i64),
    Float(f64),
    Str(String),
    Symbol(String),
    Unit,
    Ints(Vec<i64>),
    List(Vec<Attr>),
    Dict(Attributes),
    /// Elements of a vector, as 64-bit patterns of the element type (sign-extended integers, bits of floats); one for
    /// all that are the same.
    Dense(Type, Vec<u64>),
    Type(Type),
    /// Of a dialect, as it is written: `#vector.kind<add>`.
    Text(String),
}

impl Module {
    pub fn type_of(&self, v: Value) -> &Type {
        &self.types[v.0 as usize]
    }

    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.name == name)
    }
}

impl Operation {
    /// An integer attribute.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.attributes.get(name) {
            Some(Attr::Int(i)) => Some(*i),
            _ => None,
        }
    }

    /// A list of integers.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attributes.get(name).and_then(Attr::ints)
    }

    /// The inside of a dialect's attribute: `add` of `#vector.kind<add>`.
    pub fn word(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).and_then(Attr::word)
    }

    /// Whether a flag is set: a unit attribute, or `true`.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.attributes.get(name), Some(Attr::Unit | Attr::Int(1 | -1)))
    }

    /// The operands in groups, where the operation has optional ones.
    pub fn groups(&self) -> Option<Vec<&[Value]>> {
        let sizes = self.ints("operandSegmentSizes")?;
        let mut rest = &self.operands[..];
        let mut groups = Vec::new();
        for n in sizes {
            let n = usize::try_from(n).ok().filter(|n| *n <= rest.len())?;
            let (group, others) = rest.split_at(n);
            groups.push(group);
            rest = others;
        }
        rest.is_empty().then_some(groups)
    }
}

impl Attr {
    pub fn ints(&self) -> Option<Vec<i64>> {
        match self {
            Attr::Ints(v) => Some(v.clone()),
            Attr::List(l) => l.iter().map(|a| if let Attr::Int(i) = a { Some(*i) } else { None }).collect(),
            Attr::Dense(_, v) => Some(v.iter().map(|x| *x as i64).collect()),
            Attr::Int(_)
            | Attr::Float(_)
            | Attr::Str(_)
            | Attr::Symbol(_)
            | Attr::Unit
            | Attr::Dict(_)
            | Attr::Type(_)
            | Attr::Text(_) => None,
        }
    }

    /// The inside of a dialect's attribute: `add` of `#vector.kind<add>`.
    pub fn word(&self) -> Option<&str> {
        if let Attr::Str(s) = self {
            return Some(s);
        }
        let Attr::Text(t) = self else { return None };
        t.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>')).map(str::trim)
    }
}
