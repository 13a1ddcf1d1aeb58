//! Building computations node after node, and small edits of finished ones.
//!
//! A [`ComputationBuilder`] keeps the invariants of [`crate::graph`] by construction: operands exist before their users,
//! names are unique, and shapes follow from the shape rules or are checked against them.

use super::infer::{ShapeError, check_shape, infer_shape};
use super::{CompId, Computation, Literal, Module, Node, NodeId, Op, Shape, Span};
use rustc_hash::FxHashSet;

impl Module {
    /// A module without computations; its entry is the computation added first until set otherwise.
    pub fn empty(name: &str) -> Module {
        Module {
            name: name.to_string(),
            computations: Vec::new(),
            entry: CompId(0),
            entry_layout: None,
            aliases: Vec::new(),
            replicas: 1,
            partitions: 1,
            attributes: Vec::new(),
            elided: Vec::new(),
        }
    }

    /// Adds a computation; what it calls must have been added before.
    pub fn push(&mut self, computation: Computation) -> CompId {
        self.computations.push(computation);
        CompId(self.computations.len() as u32 - 1)
    }
}

/// A computation being built.
#[derive(Clone, Debug)]
pub struct ComputationBuilder {
    name: String,
    nodes: Vec<Node>,
    params: Vec<NodeId>,
    names: FxHashSet<String>,
    /// The place that new nodes get.
    pub span: Span,
}

impl ComputationBuilder {
    pub fn new(name: &str) -> ComputationBuilder {
        ComputationBuilder {
            name: name.to_string(),
            nodes: Vec::new(),
            params: Vec::new(),
            names: FxHashSet::default(),
            span: Span::default(),
        }
    }

    /// The number of nodes, which is the number of the next one.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node made as `id`.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn shape(&self, id: NodeId) -> &Shape {
        &self.node(id).shape
    }

    /// The next parameter.
    pub fn parameter(&mut self, shape: Shape) -> NodeId {
        let id = self.push(Op::Parameter { index: self.params.len() }, &[], shape);
        self.params.push(id);
        id
    }

    pub fn constant(&mut self, literal: Literal) -> NodeId {
        let shape = Shape::array(literal.dtype, &literal.dims);
        self.push(Op::Constant(literal), &[], shape)
    }

    /// Adds an operation whose result's shape follows from its operands.
    ///
    /// # Errors
    /// The constraint of the shape rule that does not hold, or that the shape does not follow.
    pub fn add(&mut self, op: Op, operands: &[NodeId], module: &Module) -> Result<NodeId, ShapeError> {
        let shapes: Vec<&Shape> = operands.iter().map(|o| self.shape(*o)).collect();
        let shape = infer_shape(&op, &shapes, module)?;
        Ok(self.push(op, operands, shape))
    }

    /// Adds an operation with its result's shape.
    ///
    /// # Errors
    /// The constraint of the shape rule that does not hold.
    pub fn add_shaped(
        &mut self,
        op: Op,
        operands: &[NodeId],
        shape: Shape,
        module: &Module,
    ) -> Result<NodeId, ShapeError> {
        let shapes: Vec<&Shape> = operands.iter().map(|o| self.shape(*o)).collect();
        check_shape(&op, &shapes, &shape, module)?;
        Ok(self.push(op, operands, shape))
    }

    /// Adds a copy of a node of another computation with operands of this one.
    pub fn copy(&mut self, node: &Node, operands: &[NodeId]) -> NodeId {
        let id = self.push(node.op.clone(), operands, node.shape.clone());
        self.nodes[id.index()].attributes = node.attributes.clone();
        id
    }

    /// Names the node, with a suffix if another has the name.
    pub fn rename(&mut self, id: NodeId, name: &str) {
        let name = self.unique(name);
        self.nodes[id.index()].name = name;
    }

    /// Adds an attribute kept as text.
    pub fn attribute(&mut self, id: NodeId, key: &str, value: &str) {
        self.nodes[id.index()].attributes.push((key.to_string(), value.to_string()));
    }

    /// Adds the body of another computation with `args` for its parameters; its result.
    #[allow(clippy::wildcard_enum_match_arm, reason = "every other operation is copied as it is")]
    pub fn inline(&mut self, callee: &Computation, args: &[NodeId]) -> NodeId {
        let mut map: Vec<NodeId> = Vec::with_capacity(callee.nodes.len());
        for n in &callee.nodes {
            let id = match n.op {
                Op::Parameter { index } => args[index],
                _ => {
                    let mut copy = n.clone();
                    copy.operands.iter_mut().for_each(|o| *o = map[o.index()]);
                    copy.name = self.unique(&n.name);
                    self.nodes.push(copy);
                    NodeId(self.nodes.len() as u32 - 1)
                }
            };
            map.push(id);
        }
        map[callee.root.index()]
    }

    pub fn finish(self, root: NodeId) -> Computation {
        Computation { name: self.name, nodes: self.nodes, params: self.params, root }
    }

    fn push(&mut self, op: Op, operands: &[NodeId], shape: Shape) -> NodeId {
        let name = self.unique(&format!("{}.{}", op.name(), self.nodes.len()));
        let operands = operands.to_vec();
        self.nodes.push(Node { name, op, operands, shape, span: self.span, attributes: Vec::new() });
        NodeId(self.nodes.len() as u32 - 1)
    }

    fn unique(&mut self, stem: &str) -> String {
        let mut name = stem.to_string();
        let mut n = 1;
        while !self.names.insert(name.clone()) {
            name = format!("{stem}.{n}");
            n += 1;
        }
        name
    }
}

impl Computation {
    /// Makes every user of `old` use `new`, and the root if it is `old`.
    pub fn replace_uses(&mut self, old: NodeId, new: NodeId) {
        self.nodes.iter_mut().flat_map(|n| &mut n.operands).filter(|o| **o == old).for_each(|o| *o = new);
        if self.root == old {
            self.root = new;
        }
    }

    /// Puts the nodes in topological order and drops those that neither the root nor a node that `keep` names needs.
    /// Parameters stay.
    ///
    /// # Panics
    /// If nodes depend on themselves.
    pub fn reorder(&mut self, keep: impl Fn(&Node) -> bool) {
        let mut place: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        let mut open = vec![false; self.nodes.len()];
        let mut order: Vec<NodeId> = Vec::new();
        let mut stack: Vec<(NodeId, usize)> = Vec::new();
        let wanted = |id: &NodeId| *id == self.root || self.params.contains(id) || keep(self.node(*id));
        for start in self.ids().filter(wanted).collect::<Vec<_>>() {
            stack.push((start, 0));
            while let Some((id, k)) = stack.pop() {
                if place[id.index()].is_some() {
                    continue;
                }
                open[id.index()] = true;
                let Some(&next) = self.nodes[id.index()].operands.get(k) else {
                    place[id.index()] = Some(NodeId(order.len() as u32));
                    order.push(id);
                    continue;
                };
                stack.push((id, k + 1));
                if place[next.index()].is_none() {
                    assert!(!open[next.index()], "a node depends on itself");
                    stack.push((next, 0));
                }
            }
        }
        let new = |id: NodeId| place[id.index()].expect("operands of kept nodes are kept");
        let nodes = order.iter().map(|id| {
            let mut n = self.nodes[id.index()].clone();
            n.operands.iter_mut().for_each(|o| *o = new(*o));
            n
        });
        let nodes = nodes.collect();
        self.params.iter_mut().for_each(|p| *p = new(*p));
        self.root = new(self.root);
        self.nodes = nodes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::verify::verify;
    use crate::graph::{Binary, Unary};
    use systole_isa::DType;

    #[test]
    fn builds_edits_and_inlines() {
        let mut m = Module::empty("m");
        let mut b = ComputationBuilder::new("f");
        let x = b.parameter(Shape::array(DType::F32, &[3]));
        let y = b.parameter(Shape::array(DType::F32, &[3]));
        let sum = b.add(Op::Binary(Binary::Add), &[x, y], &m).expect("adds");
        let wrong = b.add(Op::Unary(Unary::Popcnt), &[sum], &m).expect_err("floats have no popcnt");
        assert_eq!(wrong.label, "element_type");
        let f = b.finish(sum);
        let mut b = ComputationBuilder::new("main");
        let x = b.parameter(Shape::array(DType::F32, &[3]));
        let inner = b.inline(&f, &[x, x]);
        let unused = b.add(Op::Unary(Unary::Neg), &[inner], &m).expect("negates");
        let neg = b.add(Op::Unary(Unary::Neg), &[inner], &m).expect("negates");
        let mut main = b.finish(neg);
        main.replace_uses(neg, unused);
        main.nodes.swap(unused.index(), neg.index());
        main.replace_uses(unused, neg);
        main.reorder(|_| false);
        assert_eq!(main.nodes.len(), 3);
        m.push(main);
        verify(&m).expect("well formed");
    }
}
