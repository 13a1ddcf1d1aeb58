//! `siblings`: reductions of the same arrays as one reduction with several results.
//!
//! Statistics of an array (a sum and a sum of squares; the gradients of a scale and of an offset) are written as reductions of their own,
//! and each would read the array. One with several results reads it once.
//!
//! Sums along the last dimension alone stay: they are computed inside of what uses their rows.

use crate::edit::{Draft, base_name, reachable};
use rustc_hash::FxHashSet;
use systole_hlo::graph::{ArrayShape, CompId, Computation, Module, Node, NodeId, Op, Shape};

/// Reductions of a group at most: each has sums in registers.
const MOST: usize = 4;
/// Operations above a reduction that are looked at for what it reads.
const MOST_LOOKED: usize = 64;
/// Operations that are looked at to see that a reduction does not need another.
const MOST_WALKED: usize = 1 << 22;

/// Makes one of reductions of the same arrays, in every computation.
pub fn run(module: Module, draft: &mut Draft) -> Module {
    let wanted = reachable(&module);
    let mut out: Vec<Computation> = Vec::with_capacity(module.computations.len());
    let mut ids: Vec<CompId> = Vec::with_capacity(module.computations.len());
    let mut walked = 0;
    for (index, c) in module.computations.iter().enumerate() {
        let mut c = c.clone();
        c.nodes.iter_mut().for_each(|n| n.op.for_each_called(|id| *id = ids[id.index()]));
        let groups = if wanted[index] { Groups::find(&c, &out, draft, &mut walked) } else { Groups::default() };
        if !groups.members.is_empty() {
            c = joined(&c, &groups, &mut out);
        }
        ids.push(CompId(out.len() as u32));
        out.push(c);
    }
    Module { entry: ids[module.entry.index()], computations: out, ..module }
}

/// Reductions that become one, in the order of the graph.
#[derive(Default)]
struct Groups {
    members: Vec<Vec<NodeId>>,
    /// The group of a node.
    of: Vec<Option<usize>>,
}

/// A reduction's operand, if it may be joined with others.
fn operand<'c>(c: &'c Computation, id: NodeId, all: &[Computation]) -> Option<(&'c ArrayShape, &'c [usize])> {
    let node = c.node(id);
    let Op::Reduce { dims, body } = &node.op else { return None };
    let [x, _] = node.operands[..] else { return None };
    let shape = c.node(x).shape.as_array()?;
    let body = &all[body.index()];
    let plain = body.nodes.iter().all(|n| n.op.called().is_empty()) && body.params.len() == 2;
    let lanes = dims.len() == 1 && dims[0] + 1 == shape.rank();
    (plain && !lanes && shape.elements() > 0 && shape.dtype.is_float()).then_some((shape, &dims[..]))
}

impl Groups {
    fn find(c: &Computation, all: &[Computation], draft: &mut Draft, walked: &mut usize) -> Groups {
        let mut g = Groups { members: Vec::new(), of: vec![None; c.nodes.len()] };
        let mut reads: Vec<FxHashSet<NodeId>> = Vec::new();
        for id in c.ids() {
            let Some((shape, dims)) = operand(c, id, all) else { continue };
            let mine = arrays_read(c, c.node(id).operands[0]);
            let alike = |m: &Vec<NodeId>| {
                let first = operand(c, m[0], all);
                m.len() < MOST && first.is_some_and(|(s, d)| (s, d) == (shape, dims))
            };
            let found = (0..g.members.len())
                .rev()
                .find(|&i| alike(&g.members[i]) && !reads[i].is_disjoint(&mine) && g.is_apart(c, i, id, walked));
            match found {
                Some(i) => {
                    g.members[i].push(id);
                    g.of[id.index()] = Some(i);
                    reads[i].extend(mine);
                }
                None => {
                    g.of[id.index()] = Some(g.members.len());
                    g.members.push(vec![id]);
                    reads.push(mine);
                }
            }
        }
        for members in &mut g.members {
            if members.len() > 1 && !draft.fire("reduce-siblings") {
                members.truncate(1);
            }
        }
        g.only_several();
        g
    }

    /// Drops groups of one.
    fn only_several(&mut self) {
        self.members.retain(|m| m.len() > 1);
        self.of.fill(None);
        for (i, m) in self.members.iter().enumerate() {
            m.iter().for_each(|id| self.of[id.index()] = Some(i));
        }
    }

    /// Whether neither a reduction nor group `i` needs the other, where every group is one operation.
    fn is_apart(&self, c: &Computation, i: usize, id: NodeId, walked: &mut usize) -> bool {
        let both: Vec<NodeId> = self.members[i].iter().copied().chain([id]).collect();
        // What lies before all of both, and before every group that reaches beyond them, needs none of them.
        let first = both.iter().copied().min().unwrap_or(id);
        let spans = self.members.iter().filter(|m| m.len() > 1 && m.iter().any(|n| *n > first));
        let lowest = spans.flatten().copied().min().map_or(first, |l| l.min(first));
        let mut seen: FxHashSet<NodeId> = FxHashSet::default();
        let mut stack: Vec<NodeId> = both.iter().flat_map(|m| c.node(*m).operands.iter().copied()).collect();
        while let Some(at) = stack.pop() {
            if both.contains(&at) || *walked > MOST_WALKED {
                return false;
            }
            if at < lowest || !seen.insert(at) {
                continue;
            }
            *walked += 1;
            match self.of[at.index()] {
                Some(group) => {
                    for m in &self.members[group] {
                        if *m != at {
                            seen.insert(*m);
                        }
                        stack.extend(&c.node(*m).operands);
                    }
                }
                None => stack.extend(&c.node(at).operands),
            }
        }
        true
    }
}

/// The arrays of a node's own size that it is computed from element by element.
fn arrays_read(c: &Computation, id: NodeId) -> FxHashSet<NodeId> {
    let elements = |id: NodeId| c.node(id).shape.as_array().map_or(0, ArrayShape::elements);
    let mut seen = FxHashSet::default();
    let mut arrays = FxHashSet::default();
    let mut stack = vec![id];
    while let Some(at) = stack.pop() {
        if elements(at) != elements(id) || seen.len() > MOST_LOOKED || !seen.insert(at) {
            continue;
        }
        let n = c.node(at);
        if n.op.is_elementwise() {
            stack.extend(&n.operands);
        } else if !matches!(n.op, Op::Broadcast { .. } | Op::Iota { .. } | Op::Constant(_)) {
            arrays.insert(at);
        }
    }
    arrays
}

/// The computation with every group as one reduction and its elements.
fn joined(c: &Computation, groups: &Groups, all: &mut Vec<Computation>) -> Computation {
    let mut nodes: Vec<Node> = Vec::with_capacity(c.nodes.len());
    let mut map: Vec<Option<NodeId>> = vec![None; c.nodes.len()];
    let push = |nodes: &mut Vec<Node>, n: Node| {
        nodes.push(n);
        NodeId(nodes.len() as u32 - 1)
    };
    for root in c.ids() {
        let mut stack = vec![root];
        while let Some(&at) = stack.last() {
            if map[at.index()].is_some() {
                stack.pop();
                continue;
            }
            let alone = [at];
            let members: &[NodeId] = groups.of[at.index()].map_or(&alone, |g| &groups.members[g]);
            let before = stack.len();
            let needed = members.iter().flat_map(|m| c.node(*m).operands.iter().rev());
            stack.extend(needed.filter(|o| map[o.index()].is_none()));
            if stack.len() > before {
                continue;
            }
            stack.pop();
            let place = |o: &NodeId| map[o.index()].unwrap_or(NodeId(0));
            if members.len() == 1 {
                let n = c.node(at);
                let operands = n.operands.iter().map(place).collect();
                map[at.index()] = Some(push(&mut nodes, Node { operands, ..n.clone() }));
                continue;
            }
            let both = |i: usize| members.iter().map(move |m| c.node(*m).operands[i]);
            let operands = both(0).chain(both(1)).map(|o| place(&o)).collect();
            let first = c.node(members[0]);
            let Op::Reduce { dims, .. } = &first.op else { continue };
            all.push(body(c, members, all));
            let op = Op::Reduce { dims: dims.clone(), body: CompId(all.len() as u32 - 1) };
            let shape = Shape::Tuple(members.iter().map(|m| c.node(*m).shape.clone()).collect());
            // The elements have the names.
            let name = format!("{}-{}", base_name(&first.name), c.nodes.len() + nodes.len());
            let tuple = push(&mut nodes, Node { name, op, operands, shape, ..first.clone() });
            for (index, m) in members.iter().enumerate() {
                let n = c.node(*m);
                let element = Node { op: Op::GetTupleElement { index }, operands: vec![tuple], ..n.clone() };
                map[m.index()] = Some(push(&mut nodes, element));
            }
        }
    }
    let new = |id: &NodeId| map[id.index()].unwrap_or(NodeId(0));
    let (params, root) = (c.params.iter().map(new).collect(), new(&c.root));
    Computation { name: c.name.clone(), nodes, params, root }
}

/// What combines the elements of all members: `(sums.., values..) -> sums`.
#[allow(clippy::wildcard_enum_match_arm, reason = "the caller sends reductions alone")]
fn body(c: &Computation, members: &[NodeId], all: &[Computation]) -> Computation {
    let k = members.len();
    let bodies: Vec<&Computation> = members
        .iter()
        .filter_map(|m| match &c.node(*m).op {
            Op::Reduce { body, .. } => Some(&all[body.index()]),
            _ => None,
        })
        .collect();
    let mut nodes: Vec<Node> = Vec::new();
    for index in 0..2 * k {
        let of = bodies[index % k];
        let p = of.node(of.params[index / k]);
        nodes.push(Node { name: format!("p{index}"), op: Op::Parameter { index }, ..p.clone() });
    }
    let mut roots = Vec::new();
    for (i, b) in bodies.iter().enumerate() {
        let mut map: Vec<NodeId> = Vec::with_capacity(b.nodes.len());
        for n in &b.nodes {
            if let Op::Parameter { index } = n.op {
                map.push(NodeId((index * k + i) as u32));
                continue;
            }
            let operands = n.operands.iter().map(|o| map[o.index()]).collect();
            map.push(NodeId(nodes.len() as u32));
            nodes.push(Node { name: format!("{}-{}", base_name(&n.name), nodes.len()), operands, ..n.clone() });
        }
        roots.push(map[b.root.index()]);
    }
    let shape = Shape::Tuple(roots.iter().map(|r| nodes[r.index()].shape.clone()).collect());
    let root = NodeId(nodes.len() as u32);
    nodes.push(Node {
        name: "sums".into(),
        op: Op::Tuple,
        operands: roots,
        shape,
        span: Default::default(),
        attributes: Vec::new(),
    });
    let params = (0..2 * k as u32).map(NodeId).collect();
    Computation { name: "siblings".into(), nodes, params, root }
}
