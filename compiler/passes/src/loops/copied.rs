//! Computations copied node after node, with others in the place of some.

use crate::edit::base_name;
use rustc_hash::FxHashSet;
use systole_hlo::graph::{Computation, Node, NodeId, Op, Shape};

/// Nodes of a computation while they are copied, and the names in use.
pub(super) struct Copied {
    pub(super) nodes: Vec<Node>,
    names: FxHashSet<String>,
}

impl Copied {
    pub(super) fn push(&mut self, n: Node) -> NodeId {
        self.nodes.push(n);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// A node on behalf of another.
    pub(super) fn made(&mut self, of: &Node, op: Op, operands: Vec<NodeId>, shape: Shape) -> NodeId {
        let attributes = Vec::new();
        let base = base_name(&of.name);
        let free = (1..).map(|i| format!("{base}-{i}")).find(|n| !self.names.contains(n));
        let name = free.unwrap_or_else(|| base.to_string());
        self.names.insert(name.clone());
        self.push(Node { name, op, operands, shape, span: of.span, attributes })
    }
}

/// Copies a computation node after node; `f` gets each with its operands renumbered and says what stands for it.
pub(super) fn copied(c: &mut Computation, mut f: impl FnMut(&mut Copied, usize, Node) -> NodeId) {
    let mut map: Vec<NodeId> = Vec::with_capacity(c.nodes.len());
    let names = c.nodes.iter().map(|n| n.name.clone()).collect();
    let mut new = Copied { nodes: Vec::with_capacity(c.nodes.len() + 8), names };
    for (i, mut n) in std::mem::take(&mut c.nodes).into_iter().enumerate() {
        n.operands.iter_mut().for_each(|o| *o = map[o.index()]);
        let id = f(&mut new, i, n);
        map.push(id);
    }
    c.nodes = new.nodes;
    c.params.iter_mut().for_each(|p| *p = map[p.index()]);
    c.root = map[c.root.index()];
}
