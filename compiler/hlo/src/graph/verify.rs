//! Proves the invariants of a module: see [`crate::graph`].

use super::infer::check_shape;
use super::{CompId, Computation, Module, NodeId, Op, Shape, Span};
use crate::diag::Diagnostic;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    pub computation: CompId,
    /// The node at fault; `None`: the computation or the module as a whole.
    pub node: Option<NodeId>,
    pub span: Span,
    /// The constraint.
    pub label: &'static str,
    pub message: String,
}

impl std::fmt::Display for VerifyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for VerifyError {}

impl From<VerifyError> for Diagnostic {
    fn from(e: VerifyError) -> Diagnostic {
        Diagnostic::error(e.span, e.message).label(e.label.replace('_', " "))
    }
}

/// Proves that a module is well formed.
///
/// # Errors
/// Every invariant that does not hold, in program order; those that follow from a node already at fault are left out.
pub fn verify(module: &Module) -> Result<(), Vec<VerifyError>> {
    let mut v = Verifier { module, errors: Vec::new() };
    for (i, c) in module.computations.iter().enumerate() {
        v.computation(CompId(i as u32), c);
    }
    v.entry();
    if v.errors.is_empty() { Ok(()) } else { Err(v.errors) }
}

struct Verifier<'m> {
    module: &'m Module,
    errors: Vec<VerifyError>,
}

impl Verifier<'_> {
    fn error(&mut self, computation: CompId, node: Option<NodeId>, label: &'static str, message: String) {
        let c = self.module.computations.get(computation.index());
        let node_at = |n: NodeId| c.and_then(|c| c.nodes.get(n.index()));
        let span = node.and_then(node_at).map_or(Span::default(), |n| n.span);
        let message = match node.and_then(node_at) {
            Some(n) => format!("`{}`: {message}", n.name),
            None => message,
        };
        self.errors.push(VerifyError { computation, node, span, label, message });
    }

    fn computation(&mut self, id: CompId, c: &Computation) {
        if c.nodes.len() > u32::MAX as usize || c.root.index() >= c.nodes.len() {
            let message = format!("computation `{}` has no root", c.name);
            return self.error(id, None, "root_exists", message);
        }
        let parameters = c.nodes.iter().filter(|n| matches!(n.op, Op::Parameter { .. })).count();
        let listed = (c.params.iter().enumerate())
            .all(|(i, p)| c.nodes.get(p.index()).is_some_and(|n| n.op == Op::Parameter { index: i }));
        if parameters != c.params.len() || !listed {
            let message = format!("the parameters of computation `{}` are not 0, 1, .. once each", c.name);
            self.error(id, None, "parameter_numbers", message);
        }
        let mut bad = vec![false; c.nodes.len()];
        for i in 0..c.nodes.len() {
            let before = self.errors.len();
            if c.nodes[i].operands.iter().all(|o| o.index() < i && !bad[o.index()]) {
                self.node(id, c, NodeId(i as u32));
            } else if let Some(o) = c.nodes[i].operands.iter().find(|o| o.index() >= i) {
                let message = format!("operand {} does not come before its user", o.0);
                self.error(id, Some(NodeId(i as u32)), "operand_order", message);
            }
            bad[i] = self.errors.len() > before;
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "no other operation ends one that began before")]
    fn node(&mut self, id: CompId, c: &Computation, at: NodeId) {
        let node = c.node(at);
        if let Some(callee) = node.op.called().into_iter().find(|callee| *callee >= id) {
            let message = format!("it calls computation {}, which does not come before its caller", callee.0);
            return self.error(id, Some(at), "callee_order", message);
        }
        let shapes: Vec<&Shape> = node.operands.iter().map(|o| &c.node(*o).shape).collect();
        if let Err(e) = check_shape(&node.op, &shapes, &node.shape, self.module) {
            return self.error(id, Some(at), e.label, e.message);
        }
        if let Some(why) = layout_fault(&node.shape) {
            return self.error(id, Some(at), "layout", why);
        }
        let operand = |i: usize| node.operands.get(i).map(|o| &c.node(*o).op);
        let paired = match &node.op {
            Op::AsyncUpdate | Op::AsyncDone => matches!(operand(0), Some(Op::AsyncStart { .. } | Op::AsyncUpdate)),
            Op::CopyDone => matches!(operand(0), Some(Op::CopyStart)),
            Op::SendDone { .. } => matches!(operand(0), Some(Op::Send { .. })),
            Op::RecvDone { .. } => matches!(operand(0), Some(Op::Recv { .. })),
            _ => true,
        };
        if !paired {
            let message = format!("{} must take the operation that it ends", node.op.name());
            self.error(id, Some(at), "async_pair", message);
        }
    }

    fn entry(&mut self) {
        let module = self.module;
        let Some(entry) = module.computations.get(module.entry.index()) else {
            return self.error(module.entry, None, "entry_exists", "the module has no entry computation".to_string());
        };
        if entry.root.index() >= entry.nodes.len() || entry.params.iter().any(|p| p.index() >= entry.nodes.len()) {
            return; // said before
        }
        let params: Vec<&Shape> = entry.params.iter().map(|p| &entry.node(*p).shape).collect();
        if let Some((layouts, result)) = &module.entry_layout {
            if layouts.len() != params.len() {
                let message = format!(
                    "entry_computation_layout has {} parameters, the entry computation {}",
                    layouts.len(),
                    params.len()
                );
                self.error(module.entry, None, "entry_layout", message);
            }
            for (i, (l, p)) in layouts.iter().zip(&params).enumerate().filter(|(_, (l, p))| !l.same(p)) {
                let message = format!("entry_computation_layout says {l} where parameter {i} is {p}");
                self.error(module.entry, Some(entry.params[i]), "entry_layout", message);
            }
            if !result.same(entry.result()) {
                let message = format!("entry_computation_layout says {result} where the result is {}", entry.result());
                self.error(module.entry, Some(entry.root), "entry_layout", message);
            }
        }
        for a in &module.aliases {
            let from = subshape(entry.result(), &a.output);
            let to = params.get(a.parameter).and_then(|p| subshape(p, &a.parameter_index));
            if !matches!((from, to), (Some(x), Some(y)) if x.same(y)) {
                let message = format!("the alias of result {:?} with parameter {} does not fit", a.output, a.parameter);
                self.error(module.entry, Some(entry.root), "alias", message);
            }
        }
    }
}

/// The part of a tuple at a path.
fn subshape<'s>(shape: &'s Shape, path: &[usize]) -> Option<&'s Shape> {
    path.iter().try_fold(shape, |s, &i| match s {
        Shape::Tuple(t) => t.get(i),
        Shape::Array(_) | Shape::Token => None,
    })
}

/// Why the layouts of a shape are none.
fn layout_fault(shape: &Shape) -> Option<String> {
    match shape {
        Shape::Tuple(t) => t.iter().find_map(layout_fault),
        Shape::Token => None,
        Shape::Array(a) => {
            let mut order = a.minor_to_major.clone()?;
            order.sort_unstable();
            let fits = order.iter().copied().eq(0..a.rank() as u8);
            (!fits).then(|| format!("the layout of {a} is no permutation of its dimensions"))
        }
    }
}
