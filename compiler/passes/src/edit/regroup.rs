//! A computation built anew in another order, some of its nodes replaced together.

use super::{Draft, Emit, each_computation, rewrite_one};
use std::collections::BTreeMap;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Computation, Module, NodeId, Op};

/// What makes nodes in the place of others: gets the emitter, the new node of every old one so far, and the new numbers of
/// computations; it adds those of the nodes it stands for.
pub type Build<'r> = &'r mut dyn FnMut(&mut Emit, &mut [Option<NodeId>], &[CompId]) -> Result<(), CompileError>;

/// Builds computation `at` anew in another order: the nodes `before` (in an order that holds), what `build` makes instead of
/// those that are in neither list, and the nodes `after`. Other computations stay.
pub fn regroup(
    module: Module,
    draft: &mut Draft,
    at: usize,
    parts: (&[NodeId], &[NodeId]),
    build: Build<'_>,
) -> Result<Module, CompileError> {
    each_computation(module, draft, &mut |index, old, draft, new_ids| {
        if index == at {
            regroup_one(old, draft, new_ids, parts, build)
        } else {
            rewrite_one(old, draft, (new_ids, &BTreeMap::new()), &mut |_, _, _| Ok(None))
        }
    })
}

fn regroup_one(
    old: &Computation,
    draft: &mut Draft,
    new_ids: &[CompId],
    (before, after): (&[NodeId], &[NodeId]),
    build: Build<'_>,
) -> Result<Computation, CompileError> {
    let mut b = Emit::new(draft);
    let mut map: Vec<Option<NodeId>> = vec![None; old.nodes.len()];
    for &p in &old.params {
        b.on_behalf_of(old.node(p));
        map[p.index()] = Some(b.parameter(old.node(p).shape.clone()));
    }
    let missing = || CompileError::internal("regroup", "a node comes before an operand");
    let copy = |b: &mut Emit, map: &mut [Option<NodeId>], ids: &[NodeId]| -> Result<(), CompileError> {
        for &id in ids.iter().filter(|id| !matches!(old.node(**id).op, Op::Parameter { .. })) {
            let n = old.node(id);
            b.on_behalf_of(n);
            let operands: Option<Vec<NodeId>> = n.operands.iter().map(|o| map[o.index()]).collect();
            let mut op = n.op.clone();
            op.for_each_called(|c| *c = new_ids[c.index()]);
            map[id.index()] = Some(b.emit(op, &operands.ok_or_else(missing)?, n.shape.clone()));
        }
        Ok(())
    };
    copy(&mut b, &mut map, before)?;
    build(&mut b, &mut map, new_ids)?;
    copy(&mut b, &mut map, after)?;
    let root = map[old.root.index()].ok_or_else(missing)?;
    Ok(b.finish(old.name.clone(), root))
}
