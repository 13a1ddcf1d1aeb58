//! `pools`: reductions of groups of neighbours, as windows of the array that the groups are cut from.
//!
//! `x.reshape(n, h/2, 2, w/2, 2, c).mean((2, 4))`, the largest of every eight numbers of a row: what is reduced is an array of narrow
//! dimensions, which takes many times the memory of the one that it is split from. Reduced where it lies, that is a windowed reduction
//! whose windows stand side by side. What is computed of the groups otherwise too (scaled by what they were reduced to) needs them split,
//! and reduced as they lie then.

use crate::edit::{Draft, Emit, reachable, rewrite};
use crate::reductions::sums::wide_sum;
use crate::simplify::{combiner, identity};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CompId, Computation, Module, Node, NodeId, Op, Shape, WindowDim};
use systole_isa::{DType, Layout};

/// The array that is reduced takes at least this factor more memory than the one that it is split from.
const WORTH: u64 = 2;
/// Bytes more that it takes at least.
const SAVES: u64 = 1 << 19;
/// Elementwise operations between the split and the reduction at most.
const DEPTH: u32 = 16;
/// Rows from which the last dimension is reduced by turning them.
const ROWS: u64 = 128;

/// What becomes of a dimension of the array before it was split.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Kept,
    Reduced,
    /// Groups of so many neighbours are reduced.
    Pooled(u64),
}

impl Part {
    /// The dimensions that one of size `n` was split into, without those that go whole.
    fn split(self, n: u64) -> Vec<u64> {
        match self {
            Part::Kept => vec![n],
            Part::Reduced => Vec::new(),
            Part::Pooled(group) => vec![n / group, group],
        }
    }
}

/// Runs the pass; `tile` is the chip's sublanes and lanes.
pub fn run(module: Module, draft: &mut Draft, tile: (u32, u32)) -> Result<Module, CompileError> {
    let wanted = reachable(&module);
    // In the order in which operations are rewritten.
    let mut alone = Vec::new();
    for (_, c) in module.computations.iter().enumerate().filter(|(i, _)| wanted[*i]) {
        let reduced = only_reduced(c);
        alone.extend(
            c.nodes
                .iter()
                .filter(|n| !matches!(n.op, Op::Parameter { .. }))
                .map(|n| matches!(n.op, Op::Reduce { .. }) && is_alone(c, n.operands[0], &reduced, &mut { DEPTH })),
        );
    }
    if !alone.contains(&true) {
        return Ok(module);
    }
    let mut alone = alone.into_iter();
    rewrite(module, draft, &mut |b, n, operands| {
        let alone = alone.next().unwrap_or(false);
        Ok(if alone { rule(b, n, operands, tile) } else { None })
    })
}

/// Which nodes nothing but reductions takes, by way of elementwise operations.
fn only_reduced(c: &Computation) -> Vec<bool> {
    let mut only = vec![true; c.nodes.len()];
    only[c.root.index()] = false;
    for (i, n) in c.nodes.iter().enumerate().rev() {
        let takes = matches!(n.op, Op::Reduce { .. }) || n.op.is_elementwise() && only[i];
        if !takes {
            n.operands.iter().for_each(|o| only[o.index()] = false);
        }
    }
    only
}

/// Whether nothing else takes the split arrays that one is computed of by elementwise operations.
fn is_alone(c: &Computation, x: NodeId, only: &[bool], left: &mut u32) -> bool {
    let Some(rest) = left.checked_sub(1) else { return false };
    *left = rest;
    let n = c.node(x);
    let splat = n.operands.is_empty() || matches!(&n.op, Op::Broadcast { dims } if dims.is_empty());
    splat || only[x.index()] && (!n.op.is_elementwise() || n.operands.iter().all(|&o| is_alone(c, o, only, left)))
}

/// A reduction whose operand is split from an array, as one of that array.
fn rule(b: &mut Emit, n: &Node, operands: &[NodeId], tile: (u32, u32)) -> Option<NodeId> {
    let (Op::Reduce { dims, body }, &[x, init], Some(own)) = (&n.op, operands, n.shape.as_array()) else { return None };
    let (narrow, dtype) = (b.dims(x).to_vec(), b.dtype(x));
    let from = source(b, x, &narrow, &mut { DEPTH })?;
    let sizes = b.dims(from).to_vec();
    let parts = parts(&sizes, &narrow, dims)?;
    // What is left once the dimensions that go whole are gone.
    let left: Vec<u64> = parts.iter().zip(&sizes).filter(|(p, _)| **p != Part::Reduced).map(|(_, &n)| n).collect();
    let groups: Vec<u64> = parts.iter().zip(&sizes).flat_map(|(p, &n)| p.split(n)).collect();
    let bytes = |dims: &[u64]| Layout::row_major(dtype, dims, tile.0, tile.1).bytes();
    let (split, whole) = (bytes(&groups), bytes(&left));
    let pays = whole.saturating_mul(WORTH) <= split && split - whole >= SAVES;
    let op = combiner(b, *body)?;
    let neutral = identity(op, dtype)?;
    let pooled = parts.iter().any(|p| matches!(p, Part::Pooled(_)));
    if !pays || !pooled || dtype.bits() > 32 || !b.draft.fire("pools") {
        return None;
    }
    let mut y = joined(b, x, &sizes, &mut { DEPTH })?;
    let (mut body, mut init) = (*body, init);
    let wide = wide_sum(b, body, dtype).is_some();
    if wide {
        (y, init, body) = (b.convert(y, DType::F32), b.convert(init, DType::F32), b.body(op, DType::F32));
    }
    let reduced: Vec<usize> = (0..sizes.len()).filter(|&d| parts[d] == Part::Reduced).collect();
    if !reduced.is_empty() {
        let nothing = b.scalar(b.dtype(y), neutral);
        y = b.reduce_by(&[y], &[nothing], &reduced, body);
    }
    let rest: Vec<Part> = parts.into_iter().filter(|p| *p != Part::Reduced).collect();
    let done = windows(b, y, (init, neutral), &rest, body);
    let done = if wide { b.convert(done, dtype) } else { done };
    Some(b.reshape(done, &own.dims))
}

/// The array that one is split from, by way of elementwise operations on arrays that are all split alike.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed is not followed")]
fn source(b: &Emit, x: NodeId, narrow: &[u64], left: &mut u32) -> Option<NodeId> {
    *left = left.checked_sub(1)?;
    let static_ = |x: NodeId| b.shape(x).as_array().is_some_and(|a| !a.dynamic.contains(&true));
    match b.op(x) {
        Op::Reshape if b.dims(x) == narrow => Some(b.operand(x, 0)).filter(|&y| static_(y) && b.rank(y) > 0),
        op if op.is_elementwise() => {
            let operands = b.node(x).operands.clone();
            let mut found: Option<NodeId> = None;
            for o in operands.into_iter().filter(|&o| !is_splat(b, o)) {
                let from = source(b, o, narrow, left)?;
                if found.is_some_and(|f| b.dims(f) != b.dims(from)) {
                    return None;
                }
                found = Some(from);
            }
            found
        }
        _ => None,
    }
}

fn is_splat(b: &Emit, x: NodeId) -> bool {
    b.rank(x) == 0 || matches!(b.op(x), Op::Broadcast { dims } if dims.is_empty())
}

/// What [`source`] went through, on arrays as they were before they were split: of `sizes`.
#[allow(clippy::wildcard_enum_match_arm, reason = "what is not listed is not followed")]
fn joined(b: &mut Emit, x: NodeId, sizes: &[u64], left: &mut u32) -> Option<NodeId> {
    *left = left.checked_sub(1)?;
    if b.rank(x) == 0 {
        return Some(x);
    }
    match b.op(x).clone() {
        Op::Broadcast { dims } if dims.is_empty() => {
            let of = b.operand(x, 0);
            Some(b.broadcast(of, &[], sizes))
        }
        Op::Reshape => Some(b.operand(x, 0)),
        op => {
            let operands = b.node(x).operands.clone();
            let operands = operands.into_iter().map(|o| joined(b, o, sizes, left)).collect::<Option<Vec<_>>>()?;
            let shape = Shape::array(b.dtype(x), sizes);
            Some(b.emit(op, &operands, shape))
        }
    }
}

/// What becomes of each dimension of an array of `sizes` that is split (or joined) into `narrow` ones, of which `reduced` ones go.
fn parts(sizes: &[u64], narrow: &[u64], reduced: &[usize]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut at = 0;
    let mut first = 0;
    while first < sizes.len() {
        // The fewest dimensions of either that are as many elements.
        let (mut end, mut until) = (first + 1, at);
        let (mut of, mut to) = (sizes[first], 1u64);
        while of != to {
            if to < of {
                to = to.checked_mul(*narrow.get(until)?)?;
                until += 1;
            } else {
                of = of.checked_mul(*sizes.get(end)?)?;
                end += 1;
            }
        }
        let group: Vec<usize> = (at..until).filter(|&d| narrow[d] != 1).collect();
        let goes = |d: &usize| reduced.contains(d);
        let kept = group.iter().take_while(|d| !goes(d)).count();
        let part = match (kept, group.len()) {
            (k, all) if k == all => Part::Kept,
            (0, _) if group.iter().all(goes) => Part::Reduced,
            (k, _) if end == first + 1 && group[k..].iter().all(goes) => {
                Part::Pooled(group[k..].iter().map(|&d| narrow[d]).product())
            }
            _ => return None,
        };
        parts.extend(vec![part; end - first]);
        (first, at) = (end, until);
    }
    narrow[at..].iter().all(|&d| d == 1).then_some(parts)
}

/// Windows side by side: along all dimensions but the last where they are, then along the last one, of as many rows as there are.
fn windows(b: &mut Emit, x: NodeId, (init, neutral): (NodeId, f64), parts: &[Part], body: CompId) -> NodeId {
    let side_by_side = |p: &Part| match p {
        Part::Pooled(n) => WindowDim { size: *n, stride: *n, ..WindowDim::TRIVIAL },
        Part::Kept | Part::Reduced => WindowDim::TRIVIAL,
    };
    let all: Vec<WindowDim> = parts.iter().map(side_by_side).collect();
    let last = all.len() - 1;
    let group = all[last].size;
    let mut before = all.clone();
    before[last] = WindowDim::TRIVIAL;
    let is_last = before.iter().all(|w| *w == WindowDim::TRIVIAL);
    if group == 1 {
        return b.reduce_window(&[x], &[init], &all, body);
    }
    let mut x = x;
    if !is_last {
        let nothing = b.scalar(b.dtype(x), neutral);
        x = b.reduce_window(&[x], &[nothing], &before, body);
    }
    let dims = b.dims(x).to_vec();
    let length = dims[last];
    let rows: u64 = dims[..last].iter().product();
    // Few long rows are cut into shorter ones.
    let pieces = if rows < ROWS { pieces(length / group) } else { 1 };
    let y = b.reshape(x, &[rows * pieces, length / pieces]);
    let one = WindowDim { size: group, stride: group, ..WindowDim::TRIVIAL };
    let done = b.reduce_window(&[y], &[init], &[WindowDim::TRIVIAL, one], body);
    b.reshape(done, &[&dims[..last], &[length / group]].concat())
}

/// Groups that a piece of a row has at least.
const GROUPS: u64 = 128;

/// Pieces of a row of so many groups: of whole groups, that fill registers.
fn pieces(groups: u64) -> u64 {
    if groups.is_multiple_of(GROUPS) { groups / GROUPS } else { 1 }
}
