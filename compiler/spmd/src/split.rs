//! A copy of constants for every use.
//!
//! Constants, iotas and what is computed of them alone cost nothing to make anew, but one that several operations share
//! would carry shardings between values that have nothing to do with each other.

use crate::ir::{Kind, Node, Program, Region, Tree, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_hlo::graph::Op;

/// Nodes of a tree of constants that is copied; larger ones are shared.
const MOST_NODES: usize = 32;

/// Drops what nothing needs, and gives every use of a tree of constants its own.
pub fn split(program: &mut Program) {
    let mut entry = std::mem::take(&mut program.entry);
    drop_unused(&mut entry);
    region(&mut entry, program);
    program.entry = entry;
}

/// Drops nodes whose results nobody uses, unless they or what is in them may have effects.
fn drop_unused(r: &mut Region) {
    let mut used: FxHashSet<ValueId> = r.results.iter().copied().collect();
    let nodes = std::mem::take(&mut r.nodes);
    for mut n in nodes.into_iter().rev() {
        let stays = match &mut n.kind {
            Kind::While { condition, body } => {
                drop_unused(condition);
                drop_unused(body);
                true
            }
            Kind::Conditional { branches } => {
                branches.iter_mut().for_each(drop_unused);
                true
            }
            Kind::Op(op) => op.has_effect(),
            Kind::Constrain | Kind::ToLocal(_) | Kind::ToGlobal(_) => false,
        };
        if stays || n.results.iter().any(|v| used.contains(v)) {
            used.extend(n.inputs());
            r.nodes.push(n);
        }
    }
    r.nodes.reverse();
}

/// Whether a node is made of constants if its operands are.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "what is not listed is not made anew for every use, which is always right"
)]
fn is_constant(n: &Node) -> bool {
    match &n.kind {
        Kind::Op(op) => match op {
            Op::Constant(l) => l.as_splat().is_some() || l.elements() <= 1,
            Op::Iota { .. } => true,
            Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare { .. }
            | Op::Select
            | Op::Convert
            | Op::Broadcast { .. }
            | Op::Reshape
            | Op::Transpose { .. } => true,
            _ => false,
        },
        Kind::While { .. } | Kind::Conditional { .. } | Kind::Constrain | Kind::ToLocal(_) | Kind::ToGlobal(_) => false,
    }
}

fn region(r: &mut Region, program: &mut Program) {
    let nodes = std::mem::take(&mut r.nodes);
    // Nodes in a value's tree of constants, in order, and whether somebody has it already.
    let mut trees: FxHashMap<ValueId, (Vec<usize>, bool)> = FxHashMap::default();
    let mut out: Vec<Node> = Vec::with_capacity(nodes.len());
    // Where in `out` a value of such a tree is made.
    let mut made: FxHashMap<ValueId, usize> = FxHashMap::default();
    for mut n in nodes {
        match &mut n.kind {
            Kind::While { condition, body } => {
                region(condition, program);
                region(body, program);
            }
            Kind::Conditional { branches } => branches.iter_mut().for_each(|b| region(b, program)),
            Kind::Op(_) | Kind::Constrain | Kind::ToLocal(_) | Kind::ToGlobal(_) => {}
        }
        for t in &mut n.operands {
            let Tree::Leaf(v) = t else { continue };
            let Some((tree, taken)) = trees.get_mut(v) else { continue };
            if std::mem::replace(taken, true) {
                let tree = tree.clone();
                let first = out.len();
                *v = copy(&tree, *v, &mut out, program);
                made.extend((first..out.len()).map(|i| (out[i].results[0], i)));
            }
        }
        let inputs = n.inputs();
        if is_constant(&n) && n.results.len() == 1 && inputs.iter().all(|v| made.contains_key(v)) {
            // A copy is a tree of its own; its nodes are those just made.
            let mut tree: Vec<usize> = Vec::new();
            let producer = |v: &ValueId| made.get(v).copied();
            let mut open: Vec<usize> = inputs.iter().filter_map(producer).collect();
            while let Some(i) = open.pop() {
                if !tree.contains(&i) && tree.len() <= MOST_NODES {
                    tree.push(i);
                    open.extend(out[i].inputs().iter().filter_map(producer));
                }
            }
            tree.push(out.len());
            tree.sort_unstable();
            made.insert(n.results[0], out.len());
            if tree.len() <= MOST_NODES {
                trees.insert(n.results[0], (tree, false));
            }
        }
        out.push(n);
    }
    r.nodes = out;
}

/// Copies the nodes of a tree; the value that stands for `v`.
fn copy(tree: &[usize], v: ValueId, out: &mut Vec<Node>, program: &mut Program) -> ValueId {
    let mut map: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    for &i in tree {
        let mut n = out[i].clone();
        for t in &mut n.operands {
            if let Tree::Leaf(x) = t {
                *x = map.get(x).copied().unwrap_or(*x);
            }
        }
        for x in &mut n.results {
            let value = program.value(*x).clone();
            program.values.push(value);
            let new = ValueId(program.values.len() as u32 - 1);
            map.insert(*x, new);
            *x = new;
        }
        out.push(n);
    }
    map.get(&v).copied().unwrap_or(v)
}
