//! What StableHLO text says, before it means anything: operations with attributes and regions.
//!
//! The pretty forms of operations are read into the same structure as the generic one.

use super::location::Definitions;
use systole_hlo::diag::Diagnostic;
use systole_hlo::graph::{ArrayShape, Shape, Span};

/// A use of a value: `%name#index`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use<'a> {
    pub name: &'a str,
    pub index: usize,
    pub span: Span,
}

/// An attribute's value.
#[derive(Clone, Debug)]
pub(crate) enum Attr<'a> {
    Unit,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// The text between the quotes, escapes left.
    Str(&'a str),
    Symbol(&'a str),
    List(Vec<Attr<'a>>),
    Dict(Vec<(&'a str, Attr<'a>)>),
    /// `dense<..> : type`: the place inside the angle brackets.
    Dense(Span, ArrayShape),
    /// `#dialect.name<..>`: the name and the place inside the angle brackets.
    #[allow(dead_code, reason = "shown when attributes are printed for debugging")]
    Dialect(&'a str, Span),
    /// A keyword such as `THREE_FRY`.
    Word(&'a str),
    /// `dense_resource<name> : type`.
    Resource(&'a str, Span, ArrayShape),
    /// `(types) -> types`.
    Function(Vec<Shape>, Vec<Shape>),
}

/// A region of one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region<'a> {
    pub args: Vec<(&'a str, Shape)>,
    /// Where the arguments' types stand in the text, if the block has them.
    pub arg_places: Vec<Span>,
    pub ops: Vec<Operation<'a>>,
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation<'a> {
    /// With its dialect: `stablehlo.add`.
    pub name: &'a str,
    pub span: Span,
    /// Names with how many values each stands for.
    pub results: Vec<(&'a str, usize)>,
    pub operands: Vec<Use<'a>>,
    pub attributes: Vec<(&'a str, Attr<'a>, Span)>,
    pub regions: Vec<Region<'a>>,
    pub result_types: Vec<Shape>,
    /// Where they stand in the text, perhaps with the operands' before them.
    pub result_place: Span,
    /// What stands inside `loc(..)`.
    pub location: Option<Span>,
}

/// A function.
#[derive(Clone, Debug)]
pub(crate) struct Function<'a> {
    pub name: &'a str,
    pub span: Span,
    pub is_private: bool,
    pub args: Vec<Argument<'a>>,
    pub results: Vec<(Shape, Vec<(&'a str, Attr<'a>)>)>,
    /// A declaration has none.
    pub body: Option<Region<'a>>,
}

/// A function's argument.
#[derive(Clone, Debug)]
pub(crate) struct Argument<'a> {
    pub name: &'a str,
    pub shape: Shape,
    /// Where its type stands in the text.
    pub place: Span,
    pub attributes: Vec<(&'a str, Attr<'a>)>,
}

/// `sdy.mesh`: axes with their sizes, and the devices where they are not in order.
#[derive(Clone, Debug)]
pub(crate) struct Mesh<'a> {
    pub name: &'a str,
    pub axes: Vec<(&'a str, u64)>,
    pub devices: Vec<u64>,
}

/// A module.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModuleText<'a> {
    pub name: &'a str,
    pub span: Span,
    pub attributes: Vec<(&'a str, Attr<'a>)>,
    pub functions: Vec<Function<'a>>,
    pub meshes: Vec<Mesh<'a>>,
    /// `dialect_resources` by name: `0x`, four bytes of alignment, raw data.
    pub resources: Vec<(&'a str, &'a str)>,
    /// `#loc3 = loc(..)` by name.
    pub locations: Definitions<'a>,
}

impl<'a> Operation<'a> {
    /// An operation that has nothing but its name.
    pub fn named(name: &'a str, span: Span) -> Operation<'a> {
        Operation {
            name,
            span,
            results: Vec::new(),
            operands: Vec::new(),
            attributes: Vec::new(),
            regions: Vec::new(),
            result_types: Vec::new(),
            result_place: Span::default(),
            location: None,
        }
    }

    /// The first attribute of these names.
    pub fn get(&self, names: &[&str]) -> Option<&Attr<'a>> {
        self.attributes.iter().find(|a| names.contains(&a.0)).map(|a| &a.1)
    }

    /// An error at the operation.
    pub fn error(&self, message: impl Into<String>) -> Box<Diagnostic> {
        Box::new(Diagnostic::error(self.span, message))
    }
}
