//! Products that only a sum uses, as multiply-adds: one operation instead of two, and one rounding, as XLA's compiler for CPUs has it.

use smallvec::SmallVec;
use systole_codegen::emit::loops::spec::{Expr, ExprId, ExprNode, ExprOp};
use systole_hlo::graph::Binary;
use systole_isa::DType;

/// The expression with multiply-adds, and its `results` in it.
pub fn multiply_adds(expr: Expr, results: &mut [ExprId]) -> Expr {
    let uses = uses(&expr, results);
    let fused: Vec<Option<Sum>> = expr.nodes.iter().map(|n| Sum::of(&expr.nodes, n, &uses)).collect();
    let mut taken = vec![false; expr.nodes.len()];
    fused.iter().flatten().for_each(|s| taken[s.product as usize] = true);
    let mut nodes: Vec<ExprNode> = Vec::with_capacity(expr.nodes.len());
    let mut to: Vec<ExprId> = Vec::with_capacity(expr.nodes.len());
    for (id, node) in expr.nodes.iter().enumerate() {
        // Where a product was there is nothing: it has no other use.
        let Some(sum) = &fused[id] else {
            to.push(nodes.len() as ExprId);
            if !taken[id] {
                nodes.push(ExprNode { args: node.args.iter().map(|&a| to[a as usize]).collect(), ..node.clone() });
            }
            continue;
        };
        let mut args: SmallVec<[ExprId; 3]> = sum.args(&expr.nodes).iter().map(|&a| to[a as usize]).collect();
        if let Some(at) = sum.negated {
            nodes.push(ExprNode { op: negative(&nodes[args[at] as usize]), ..nodes[args[at] as usize].clone() });
            args[at] = nodes.len() as ExprId - 1;
        }
        to.push(nodes.len() as ExprId);
        nodes.push(ExprNode { op: ExprOp::MultiplyAdd, args, dtype: node.dtype });
    }
    results.iter_mut().for_each(|r| *r = to[*r as usize]);
    let mut reductions = expr.reductions;
    for r in &mut reductions {
        r.args.iter_mut().chain(&mut r.inits).for_each(|a| *a = to[*a as usize]);
    }
    Expr { nodes, reductions }
}

/// How often each node is used.
fn uses(expr: &Expr, results: &[ExprId]) -> Vec<u32> {
    let mut uses = vec![0; expr.nodes.len()];
    let args = expr.nodes.iter().flat_map(|n| &n.args);
    let reduced = expr.reductions.iter().flat_map(|r| r.args.iter().chain(&r.inits));
    args.chain(reduced).chain(results).for_each(|&a| uses[a as usize] += 1);
    uses
}

/// A sum of a product and something else.
struct Sum {
    product: ExprId,
    other: ExprId,
    /// Which argument, a number, has the other sign.
    negated: Option<usize>,
}

impl Sum {
    fn of(nodes: &[ExprNode], node: &ExprNode, uses: &[u32]) -> Option<Sum> {
        let (ExprOp::Binary(op), DType::F32 | DType::F64) = (&node.op, node.dtype) else { return None };
        let (add, subtract) = (*op == Binary::Add, *op == Binary::Sub);
        let &[x, y] = &node.args[..] else { return None };
        let product = |id: ExprId| nodes[id as usize].op == ExprOp::Binary(Binary::Mul) && uses[id as usize] == 1;
        let number = |id: ExprId| matches!(nodes[id as usize].op, ExprOp::Const(_));
        if product(x) && (add || subtract && number(y)) {
            return Some(Sum { product: x, other: y, negated: subtract.then_some(2) });
        }
        if product(y) && add {
            return Some(Sum { product: y, other: x, negated: None });
        }
        let negated = nodes[y as usize].args.iter().position(|&a| number(a));
        (product(y) && subtract && negated.is_some()).then_some(Sum { product: y, other: x, negated })
    }

    fn args(&self, nodes: &[ExprNode]) -> [ExprId; 3] {
        let factors = &nodes[self.product as usize].args;
        [factors[0], factors[1], self.other]
    }
}

/// A number with the other sign: that of a float is the highest bit of its last byte.
fn negative(node: &ExprNode) -> ExprOp {
    let mut op = node.op.clone();
    if let ExprOp::Const(bytes) = &mut op {
        bytes.last_mut().into_iter().for_each(|b| *b ^= 0x80);
    }
    op
}
