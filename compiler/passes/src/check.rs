//! What must hold between passes: order of nodes and computations, parameters, shapes of operands.

use systole_hlo::graph::infer::check_shape;
use systole_hlo::graph::{Computation, Family, Module, Op, Shape};

/// The first broken invariant, as text that names it.
pub fn check(module: &Module) -> Result<(), String> {
    for (index, c) in module.computations.iter().enumerate() {
        check_one(module, index, c).map_err(|m| format!("computation {}: {m}", c.name))?;
    }
    if module.entry.index() >= module.computations.len() {
        return Err("the entry does not exist".into());
    }
    Ok(())
}

fn check_one(module: &Module, index: usize, c: &Computation) -> Result<(), String> {
    for (i, n) in c.nodes.iter().enumerate() {
        if n.operands.iter().any(|o| o.index() >= i) {
            return Err(format!("{} comes before an operand", n.name));
        }
        if n.op.called().iter().any(|c| c.index() >= index) {
            return Err(format!("{} calls a computation that comes later", n.name));
        }
        if let Op::Parameter { index } = n.op
            && c.params.get(index).map(|p| p.index()) != Some(i)
        {
            return Err(format!("{} is not parameter {index}", n.name));
        }
        let operands: Vec<&Shape> = n.operands.iter().map(|&o| &c.node(o).shape).collect();
        if !is_tokenless(&n.op) {
            check_shape(&n.op, &operands, &n.shape, module).map_err(|e| format!("{}: {}", n.name, e.message))?;
        }
        flow_shapes(module, &n.op, &operands, &n.shape).map_err(|m| format!("{}: {m}", n.name))?;
    }
    if c.root.index() >= c.nodes.len() {
        return Err("the root does not exist".into());
    }
    Ok(())
}

#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation has a rule here")]
fn flow_shapes(module: &Module, op: &Op, operands: &[&Shape], shape: &Shape) -> Result<(), String> {
    let param = |c: systole_hlo::graph::CompId| {
        let c = module.computation(c);
        c.params.first().map(|&p| c.node(p).shape.clone())
    };
    match op {
        Op::While { condition, body } => {
            let same = [param(*condition), param(*body), Some(module.computation(*body).result().clone())];
            if same.iter().any(|s| s.as_ref().is_none_or(|s| !s.same(shape))) || !operands[0].same(shape) {
                return Err("the loop's shapes differ".into());
            }
        }
        Op::Conditional { branches } => {
            for (b, o) in branches.iter().zip(&operands[1..]) {
                if !module.computation(*b).result().same(shape) || param(*b).is_none_or(|p| !p.same(o)) {
                    return Err("a branch's shapes differ".into());
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Operations that the lowering keeps in another form than the shape rules know: without tokens.
fn is_tokenless(op: &Op) -> bool {
    matches!(op.family(), Family::Transfer | Family::Host)
}
