//! The graph: a module of computations, each an arena of nodes.
//!
//! A [`Module`] owns its [`Computation`]s; a computation owns its [`Node`]s and knows its root. A node names an
//! operation, its operands (nodes of the same computation) and its shape. Computations are referred to by operations
//! that call them (`while`, `reduce`, `fusion`, ..).
//!
//! Invariants, proved by [`verify`]:
//! - a node's operands come before it in the arena (the arena is a topological order);
//! - computations called come before their callers in the module (no recursion);
//! - every node's shape is what the shape rules give for its operation and operands, up to layout.
//!
//! Spans and names are side data: they change no meaning.

pub mod build;
pub mod dictionary;
pub mod elementwise;
pub mod infer;
pub mod library;
pub mod literal;
pub mod names;
pub mod number;
pub mod op;
pub mod print;
pub mod print_literal;
pub mod shape;
pub mod table;
pub mod verify;

pub use crate::diag::Span;
pub use elementwise::{Binary, Unary};
pub use literal::Literal;
pub use op::*;
pub use shape::{ArrayShape, Shape};
pub use table::{Effect, Family};

/// A number that stands for one of a list: what it is of, and its name.
#[macro_export]
macro_rules! id {
    ($(#[$doc:meta])+ $name:ident) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A node of a computation.
    NodeId
}
id! {
    /// A computation of a module.
    CompId
}

/// An operation applied to operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub name: String,
    pub op: Op,
    pub operands: Vec<NodeId>,
    pub shape: Shape,
    pub span: Span,
    /// Side attributes kept as text for printing and for passes that know them: `sharding`, `frontend_attributes`,
    /// `metadata`, `control-predecessors` and unknown ones.
    pub attributes: Vec<(String, String)>,
}

/// A computation: nodes in topological order.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation {
    pub name: String,
    pub nodes: Vec<Node>,
    /// Parameter nodes by parameter number.
    pub params: Vec<NodeId>,
    pub root: NodeId,
}

impl Node {
    /// The text of an attribute that is kept as text.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

impl Computation {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Ids in topological order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// The result's shape.
    pub fn result(&self) -> &Shape {
        &self.node(self.root).shape
    }
}

/// Aliasing of an entry result leaf (tuple index path) with a parameter (number, tuple index path).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    pub output: Vec<usize>,
    pub parameter: usize,
    pub parameter_index: Vec<usize>,
}

/// A whole program.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    pub name: String,
    pub computations: Vec<Computation>,
    pub entry: CompId,
    /// Layouts from `entry_computation_layout`, if given: parameter shapes and result shape.
    pub entry_layout: Option<(Vec<Shape>, Shape)>,
    pub aliases: Vec<Alias>,
    pub replicas: u64,
    pub partitions: u64,
    /// Module attributes kept as text.
    pub attributes: Vec<(String, String)>,
    /// Constants whose elements the text left out: they are zeros here, and only time may be asked of the program.
    pub elided: Vec<Span>,
}

impl Module {
    pub fn computation(&self, id: CompId) -> &Computation {
        &self.computations[id.index()]
    }

    pub fn entry(&self) -> &Computation {
        self.computation(self.entry)
    }

    /// The last channel that is taken; 0: none is.
    #[allow(clippy::wildcard_enum_match_arm, reason = "no other operation has a channel")]
    pub fn last_channel(&self) -> u64 {
        let channel = |n: &Node| match &n.op {
            Op::Collective { devices, .. } => devices.channel,
            Op::Send { channel, .. } | Op::Recv { channel, .. } => *channel,
            _ => None,
        };
        self.computations.iter().flat_map(|c| &c.nodes).filter_map(channel).max().unwrap_or(0)
    }
}
