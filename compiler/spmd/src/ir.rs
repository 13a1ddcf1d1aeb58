//! The program as the partitioner sees it: values that are arrays, nodes with several results, nested regions.
//!
//! Tuples and calls are gone: every array is a value of its own, and what aliases it (an element of a tuple, a parameter of
//! a branch) is the same value. A loop's states are values too: the results of a `while` are the parameters of its body and
//! condition, so one sharding is found for all of them.

use crate::mesh::{Axes, Mesh};
use crate::sharding::Spec;
use systole_hlo::graph::{ArrayShape, Op, Shape, Span};

systole_hlo::id! {
    /// A value, by its number in [`Program::values`].
    ValueId
}

/// An array or a token.
#[derive(Clone, Debug)]
pub struct Value {
    pub name: String,
    pub shape: Shape,
    pub spec: Spec,
}

impl Value {
    /// Sizes of an array; none of a token.
    pub fn dims(&self) -> &[u64] {
        match &self.shape {
            Shape::Array(ArrayShape { dims, .. }) => dims,
            Shape::Tuple(_) | Shape::Token => &[],
        }
    }

    pub fn rank(&self) -> usize {
        self.dims().len()
    }

    /// Bytes of the whole array.
    pub fn bytes(&self) -> u64 {
        bytes(&self.shape)
    }
}

/// Bytes of an array on the host; none of a token.
pub fn bytes(shape: &Shape) -> u64 {
    shape.as_array().map_or(0, |a| a.elements().saturating_mul(a.dtype.host_bytes() as u64))
}

/// A value, or a tuple of such.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Leaf(ValueId),
    Tuple(Vec<Tree>),
}

impl Tree {
    /// The values in order.
    pub fn leaves(&self) -> Vec<ValueId> {
        match self {
            Tree::Leaf(v) => vec![*v],
            Tree::Tuple(t) => t.iter().flat_map(Tree::leaves).collect(),
        }
    }
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum Kind {
    /// An operation of the graph; computations that it calls are over scalars, or are kept as they are.
    Op(Op),
    /// Results are the states, which are also the regions' parameters.
    While {
        condition: Region,
        body: Region,
    },
    /// The first operand chooses; the others are the branches' parameters in order.
    Conditional {
        branches: Vec<Region>,
    },
    /// The operand with the result's sharding.
    Constrain,
    /// An array as the part that devices along the atoms have of it, and back.
    ToLocal(Axes),
    ToGlobal(Axes),
}

/// What the graph says of an operation.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The result's shape: of an array, a token or a tuple.
    pub shape: Shape,
    pub name: String,
    pub span: Span,
    pub attributes: Vec<(String, String)>,
}

/// An operation with its operands, results, and where it comes from.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    /// Atoms that belong to the manual computation around it.
    pub manual: Axes,
    pub operands: Vec<Tree>,
    pub results: Vec<ValueId>,
    pub origin: Origin,
}

impl Node {
    /// The operands' values in order.
    pub fn inputs(&self) -> Vec<ValueId> {
        self.operands.iter().flat_map(Tree::leaves).collect()
    }
}

/// Nodes in order, with what goes in and comes out.
#[derive(Clone, Debug, Default)]
pub struct Region {
    pub params: Vec<ValueId>,
    pub nodes: Vec<Node>,
    pub results: Vec<ValueId>,
}

impl Region {
    /// The node and all nodes in regions below, callees first.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Node)) {
        for n in &self.nodes {
            match &n.kind {
                Kind::While { condition, body } => {
                    condition.walk(f);
                    body.walk(f);
                }
                Kind::Conditional { branches } => branches.iter().for_each(|b| b.walk(f)),
                Kind::Op(_) | Kind::Constrain | Kind::ToLocal(_) | Kind::ToGlobal(_) => {}
            }
            f(n);
        }
    }
}

/// A whole program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub values: Vec<Value>,
    pub entry: Region,
    /// Shapes of the entry's parameters and result in the graph.
    pub params: Vec<Tree>,
    pub result: Option<Tree>,
}

impl Program {
    pub fn value(&self, v: ValueId) -> &Value {
        &self.values[v.index()]
    }

    /// A new value, of which nothing is known.
    pub fn add(&mut self, shape: &Shape, name: &str) -> ValueId {
        let rank = shape.as_array().map_or(0, |a| a.rank());
        let shape = match shape {
            Shape::Array(a) => Shape::Array(ArrayShape { minor_to_major: None, ..a.clone() }),
            other @ (Shape::Tuple(_) | Shape::Token) => other.clone(),
        };
        self.values.push(Value { name: name.to_string(), shape, spec: Spec::open(rank) });
        ValueId(self.values.len() as u32 - 1)
    }

    /// The program's results are divided as it says, and no further.
    pub fn close_results(&mut self, region: &mut Region) {
        for v in &mut region.results {
            let value = self.value(*v);
            if value.spec.given && value.spec.is_closed() {
                continue;
            }
            let spec = if value.spec.given { value.spec.clone() } else { Spec::open(value.rank()) };
            *v = self.constrained(*v, spec, &mut region.nodes);
        }
    }

    /// Results that parts of different sizes make up are not divided along those dimensions, whatever their values are
    /// constrained to before: who asks for the results has no such arrays.
    pub fn even_results(&mut self, mesh: &Mesh) {
        let mut region = std::mem::take(&mut self.entry);
        for v in &mut region.results {
            let value = self.value(*v);
            let mut spec = value.spec.clone();
            for (d, n) in value.dims().iter().enumerate() {
                if spec.sharding.is_uneven(d, *n, mesh) {
                    spec.sharding.dims[d].clear();
                }
            }
            if spec.sharding != value.spec.sharding {
                *v = self.constrained(*v, spec, &mut region.nodes);
            }
        }
        self.entry = region;
    }

    /// The value under a sharding that is final.
    fn constrained(&mut self, v: ValueId, mut spec: Spec, nodes: &mut Vec<Node>) -> ValueId {
        spec.close();
        let (shape, name) = (self.value(v).shape.clone(), self.value(v).name.clone());
        let closed = self.add(&shape, &name);
        self.values[closed.index()].spec = spec;
        nodes.push(Node {
            kind: Kind::Constrain,
            manual: Axes::default(),
            operands: vec![Tree::Leaf(v)],
            results: vec![closed],
            origin: Origin { shape, name, span: Span::default(), attributes: Vec::new() },
        });
        closed
    }
}
