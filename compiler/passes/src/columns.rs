//! `columns`: single columns of an array as rows of its transpose.
//!
//! A column of `[N,C]` has an element in each row of memory; to bring it along lanes costs nearly as much as to transpose the whole
//! array, if that is narrow. Of several columns the array is transposed once, and each is a row then.

use super::edit::{Draft, reachable, rewrite};
use std::collections::{BTreeMap, BTreeSet};
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Computation, Module, NodeId, Op, SliceDim};

/// Columns from which on the array is transposed.
const SEVERAL: usize = 2;

/// Runs the pass for a chip of so many lanes.
pub fn run(module: Module, draft: &mut Draft, lanes: u64) -> Result<Module, CompileError> {
    let wanted = reachable(&module);
    let mut found: BTreeSet<(usize, NodeId)> = BTreeSet::new();
    for (i, c) in module.computations.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        found.extend(columns(c, lanes).into_iter().map(|id| (i, id)));
    }
    if found.is_empty() {
        return Ok(module);
    }
    rewrite(module, draft, &mut |b, n, operands| {
        let Op::Slice { dims } = &n.op else { return Ok(None) };
        if !found.contains(&b.place()) || !b.draft.fire("columns") {
            return Ok(None);
        }
        let rank = dims.len();
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        let turned = b.transpose(operands[0], &order);
        let cut: Vec<SliceDim> = order.iter().map(|&d| dims[d]).collect();
        let row = b.slice(turned, &cut);
        let own = n.shape.as_array().map(|a| a.dims.clone()).unwrap_or_default();
        Ok(Some(b.reshape(row, &own)))
    })
}

/// The slices of a computation that are single columns, of arrays of which several are wanted along lanes.
fn columns(c: &Computation, lanes: u64) -> Vec<NodeId> {
    let users = uses(c);
    let mut of: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for id in c.ids().filter(|&id| is_column(c, &users, id, lanes)) {
        of.entry(c.node(id).operands[0]).or_default().push(id);
    }
    of.into_values().filter(|all| all.len() >= SEVERAL).flatten().collect()
}

fn is_column(c: &Computation, users: &[Vec<NodeId>], id: NodeId, lanes: u64) -> bool {
    let n = c.node(id);
    let (Op::Slice { dims }, Some(to)) = (&n.op, n.shape.as_array()) else { return false };
    let Some(from) = c.node(n.operands[0]).shape.as_array() else { return false };
    let (Some(rows), Some(&width)) = (to.dims.iter().rev().nth(1), from.dims.last()) else { return false };
    // Long enough to fill lanes, of an array whose rows are one register wide at most.
    let narrow = to.dims.last() == Some(&1) && (2..=lanes).contains(&width) && *rows >= lanes;
    let plain = dims.iter().all(|d| d.stride == 1) && !from.dynamic.contains(&true);
    // Along lanes: the column's rows are the last dimension of what it becomes, which is not spread along lanes again.
    let along = |u: &NodeId| {
        let user = c.node(*u);
        let last = user.shape.as_array().and_then(|a| a.dims.last());
        let spread = |v: &NodeId| {
            let Op::Broadcast { dims } = &c.node(*v).op else { return false };
            c.node(*v).shape.as_array().is_some_and(|a| dims.last() != Some(&(a.rank() - 1)))
        };
        user.op == Op::Reshape && last == Some(rows) && !users[u.index()].iter().any(spread)
    };
    let used = &users[id.index()];
    narrow && plain && !used.is_empty() && used.iter().all(along)
}
