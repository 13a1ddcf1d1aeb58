//! `shifts`: what stencils read of an array as slices, which loops read where they lie.
//!
//! A roll is a concatenation of two slices of an array; of several rolls each would be an array of its own. Here the array is made
//! once with its other ends around it, and every roll is a slice of that. Along lanes what goes before is whole tiles, so that
//! the array's own elements stay in the lanes they are in.
//!
//! Slices that begin within a tile of lanes, in the same lane but in different rows, turn the same lanes: what they have in common is
//! one slice, of whose rows each takes some.
//!
//! The local rules would undo both: they are not applied.

use super::edit::{Draft, Emit, reachable, rewrite};
use std::collections::{BTreeMap, BTreeSet};
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Computation, Family, Module, Node, NodeId, Op, SliceDim};

/// A roll goes at most so far: one part in so many of the dimension.
const PART: i64 = 4;
/// A slice that several share takes at most one part in so many of vector memory.
const SHARE: u64 = 4;

/// What the pass knows of a chip.
#[derive(Clone, Copy)]
pub struct Chip {
    pub lanes: u64,
    pub vmem_bytes: u64,
}

/// An array read round and round: element `i` of it is element `i + by` of `base`.
struct Roll {
    base: NodeId,
    by: Vec<i64>,
}

/// What is done to a computation.
#[derive(Default)]
struct Found {
    rolls: BTreeMap<NodeId, Roll>,
    /// The rolls that become slices, and for each array that is rolled the elements before and behind it along each dimension.
    replaced: BTreeSet<NodeId>,
    around: BTreeMap<NodeId, Vec<(u64, u64)>>,
    /// Slices, and rolls that become some, whose lanes others turn, too.
    shared: BTreeSet<NodeId>,
}

/// Runs the pass.
pub fn run(module: Module, draft: &mut Draft, chip: Chip) -> Result<Module, CompileError> {
    draft.simplify = false;
    let wanted = reachable(&module);
    let look = |(i, c): (usize, &Computation)| if wanted[i] { find(c, chip) } else { Found::default() };
    let found: Vec<Found> = module.computations.iter().enumerate().map(look).collect();
    if found.iter().all(|f| f.replaced.is_empty() && f.shared.is_empty()) {
        return Ok(module);
    }
    let mut bases = BTreeMap::new();
    rewrite(module, draft, &mut |b, n, operands| Ok(rule(b, n, operands, (&found, &mut bases))))
}

/// `bases` are the arrays that are rolled, by computation, as they are now.
fn rule(
    b: &mut Emit,
    n: &Node,
    operands: &[NodeId],
    (found, bases): (&[Found], &mut BTreeMap<(usize, NodeId), NodeId>),
) -> Option<NodeId> {
    let (computation, id) = b.place();
    let f = &found[computation];
    let shared = f.shared.contains(&id);
    if let Op::Slice { dims } = &n.op {
        return (shared && b.draft.fire("shifts-share")).then(|| by_lanes(b, operands[0], dims));
    }
    let roll = f.rolls.get(&id)?;
    // The first roll of an array takes slices of it itself.
    let base = *bases.entry((computation, roll.base)).or_insert_with(|| b.operand(operands[0], 0));
    if !f.replaced.contains(&id) || !b.draft.fire("shifts-roll") {
        return None;
    }
    let around = &f.around[&roll.base];
    let dims = roll.slice(around, b.dims(base));
    let wide = surrounded(b, base, &mut Vec::new(), around);
    Some(if shared { by_lanes(b, wide, &dims) } else { b.slice(wide, &dims) })
}

/// Of an array with so much of itself around it the part whose first dimensions are those of `begun`: all of it at first.
fn surrounded(b: &mut Emit, x: NodeId, begun: &mut Vec<SliceDim>, around: &[(u64, u64)]) -> NodeId {
    let d = begun.len();
    let Some(&(low, high)) = around.get(d) else {
        let all = crate::make::whole(b.dims(x));
        return if *begun == all { x } else { b.slice(x, begun) };
    };
    let n = b.dims(x)[d];
    let ends = [(n - low, n), (0, n), (0, high)];
    let mut parts = Vec::new();
    for (start, limit) in ends.into_iter().filter(|(start, limit)| start < limit) {
        begun.push(SliceDim { start, limit, stride: 1 });
        parts.push(surrounded(b, x, begun, around));
        begun.pop();
    }
    if let [all] = parts[..] { all } else { b.concatenate(&parts, d) }
}

/// A slice as one along lanes alone, and of that one of everything else.
fn by_lanes(b: &mut Emit, x: NodeId, dims: &[SliceDim]) -> NodeId {
    let mut lanes = crate::make::whole(b.dims(x));
    let mut rest = dims.to_vec();
    if let (Some(own), Some(rest), Some(last)) = (lanes.last_mut(), rest.last_mut(), dims.last()) {
        *own = *last;
        *rest = SliceDim { start: 0, limit: last.limit - last.start, stride: 1 };
    }
    let turned = b.slice(x, &lanes);
    b.slice(turned, &rest)
}

impl Roll {
    /// Of the array with so much of itself around it.
    fn slice(&self, around: &[(u64, u64)], sizes: &[u64]) -> Vec<SliceDim> {
        let starts = around.iter().zip(&self.by).map(|((low, _), by)| low.saturating_add_signed(*by));
        starts.zip(sizes).map(|(start, n)| SliceDim { start, limit: start + n, stride: 1 }).collect()
    }
}

fn sizes(c: &Computation, id: NodeId) -> &[u64] {
    c.node(id).shape.as_array().map_or(&[], |a| &a.dims)
}

/// A dimension, the array, and how far it is rolled there, of a concatenation of its end and its beginning.
fn rolled(c: &Computation, id: NodeId) -> Option<(usize, NodeId, u64)> {
    let n = c.node(id);
    let (Op::Concatenate { dim }, [x, y]) = (&n.op, &n.operands[..]) else { return None };
    let part = |id: &NodeId| {
        if let Op::Slice { dims } = &c.node(*id).op { Some((c.node(*id).operands[0], dims)) } else { None }
    };
    let ((source, first), (other, second)) = (part(x)?, part(y)?);
    let all = sizes(c, source);
    let fits = |d: usize, s: &SliceDim, range: (u64, u64)| {
        s.stride == 1 && (s.start, s.limit) == if d == *dim { range } else { (0, all[d]) }
    };
    let by = first.get(*dim)?.start;
    let whole = |dims: &[SliceDim], range| dims.iter().enumerate().all(|(d, s)| fits(d, s, range));
    let is = source == other && sizes(c, id) == all && whole(first, (by, all[*dim])) && whole(second, (0, by));
    let fixed = c.node(source).shape.as_array().is_some_and(|a| !a.dynamic.contains(&true));
    (is && fixed && by > 0).then_some((*dim, source, by))
}

/// The rolls of a computation, rolls of rolls as rolls of the first array.
fn rolls(c: &Computation) -> BTreeMap<NodeId, Roll> {
    let mut all: BTreeMap<NodeId, Roll> = BTreeMap::new();
    for id in c.ids() {
        let Some((d, source, by)) = rolled(c, id) else { continue };
        let sizes = sizes(c, source);
        let (base, mut all_by) = match all.get(&source) {
            Some(before) => (before.base, before.by.clone()),
            None => (source, vec![0; sizes.len()]),
        };
        let n = sizes[d] as i64;
        let by = (all_by[d] + by as i64).rem_euclid(n);
        all_by[d] = if 2 * by > n { by - n } else { by };
        all.insert(id, Roll { base, by: all_by });
    }
    all
}

fn find(c: &Computation, chip: Chip) -> Found {
    let users = uses(c);
    let pointwise = |u: &NodeId| c.node(*u).op.family() == Family::Pointwise;
    let mut f = Found { rolls: rolls(c), ..Found::default() };
    let of_roll = |u: &NodeId| {
        matches!(c.node(*u).op, Op::Slice { .. }) && users[u.index()].iter().all(|v| f.rolls.contains_key(v))
    };
    for (&id, roll) in &f.rolls {
        let mut own = users[id.index()].iter().filter(|u| !of_roll(u)).peekable();
        let read = own.peek().is_some() && own.all(pointwise) && id != c.root;
        let near = roll.by.iter().zip(sizes(c, roll.base)).all(|(by, &n)| by.abs() * PART <= n as i64);
        if !read || !near {
            continue;
        }
        f.replaced.insert(id);
        let around = f.around.entry(roll.base).or_insert_with(|| vec![(0, 0); roll.by.len()]);
        for ((low, high), by) in around.iter_mut().zip(&roll.by) {
            *low = (*low).max((-by).max(0) as u64);
            *high = (*high).max((*by).max(0) as u64);
        }
    }
    for (base, around) in &mut f.around {
        if let (Some((low, _)), Some(n)) = (around.last_mut(), sizes(c, *base).last()) {
            let tiles = low.next_multiple_of(chip.lanes);
            *low = if tiles <= *n { tiles } else { *low };
        }
    }
    f.shared = shared(c, &f, (chip, &users, &pointwise));
    f
}

type Users<'a> = (Chip, &'a [Vec<NodeId>], &'a dyn Fn(&NodeId) -> bool);

/// Slices that turn lanes which others, of other rows, turn as well.
fn shared(c: &Computation, f: &Found, (chip, users, pointwise): Users<'_>) -> BTreeSet<NodeId> {
    let mut same: BTreeMap<(NodeId, bool, u64, u64), Vec<(NodeId, Vec<SliceDim>)>> = BTreeMap::new();
    let mut note = |id: NodeId, source: NodeId, rolled: bool, mut dims: Vec<SliceDim>| {
        let Some(last) = dims.pop() else { return };
        let array = c.node(source).shape.as_array();
        let bytes = array.map_or(0, |a| a.elements().saturating_mul(u64::from(a.dtype.bits())) / 8);
        let turns = last.stride == 1 && last.start % chip.lanes != 0 && last.limit > last.start + 1;
        if turns && bytes <= chip.vmem_bytes / SHARE {
            same.entry((source, rolled, last.start, last.limit)).or_default().push((id, dims));
        }
    };
    for id in c.ids() {
        if f.replaced.contains(&id) {
            let roll = &f.rolls[&id];
            note(id, roll.base, true, roll.slice(&f.around[&roll.base], sizes(c, roll.base)));
        } else if let Op::Slice { dims } = &c.node(id).op
            && !users[id.index()].is_empty()
            && users[id.index()].iter().all(pointwise)
            && id != c.root
        {
            note(id, c.node(id).operands[0], false, dims.clone());
        }
    }
    let several = |all: &&Vec<(NodeId, Vec<SliceDim>)>| all.iter().any(|(_, dims)| *dims != all[0].1);
    same.values().filter(several).flatten().map(|s| s.0).collect()
}
