//! `strips`: chains over large arrays done strip by strip.
//!
//! Operations that hand arrays to each other which do not stay in vector memory move each of them through HBM and back. Where
//! all of them do the same along one dimension (elementwise ones, products with it as a batch or a free dimension, moves along
//! others), they are done for a part of that dimension after the other, in a loop: what they hand to each other then stays in
//! vector memory. Arrays from outside are cut into strips by the loop, results are put together in it.

mod members;
mod region;
mod walk;

use crate::edit::{Draft, Emit, reachable, regroup, rewrite};
use crate::squeeze;
use region::Region;
pub use region::{LARGE, Room};
use std::collections::{BTreeMap, BTreeSet};
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, CompId, Computation, DotDims, Module, Node, NodeId, Op, Shape, SliceDim};
use systole_isa::DType;
use walk::{At, Need, needs};

/// Most loops that are made of one program.
const MOST: usize = 64;

/// Runs the pass.
pub fn run(mut module: Module, draft: &mut Draft, room: Room) -> Result<Module, CompileError> {
    let mut effort = region::EFFORT;
    let mut done = false;
    // The loops that are made here hold strips already.
    let given: BTreeSet<String> = module.computations.iter().map(|c| c.name.clone()).collect();
    for _ in 0..MOST {
        let wanted = reachable(&module);
        let mut all = module.computations.iter().enumerate().filter(|(i, c)| wanted[*i] && given.contains(&c.name));
        let Some((index, r)) = all.find_map(|(i, c)| Some((i, region::find(c, room, &mut effort)?))) else { break };
        if !draft.fire("strips") {
            break;
        }
        module = replaced(module, draft, index, (&r, room.tile))?;
        done = true;
    }
    if !done {
        return Ok(module);
    }
    // Strips of one place have a dimension of size 1.
    rewrite(module, draft, &mut |b, n, operands| match alone(b, n, operands) {
        Some(done) => Ok(Some(done)),
        None => squeeze::rule(b, n, operands),
    })
}

/// A product of stacks of one matrix as that of two matrices, so that what is between products has no such dimension either.
fn alone(b: &mut Emit, n: &Node, operands: &[NodeId]) -> Option<NodeId> {
    let Op::Dot { dims, precision } = &n.op else { return None };
    let to = n.shape.as_array()?.clone();
    let stacks = dims.lhs_batch == [0] && dims.rhs_batch == [0] && to.dims.first() == Some(&1);
    if !stacks || !b.draft.fire("squeeze") {
        return None;
    }
    let [x, y] = [operands[0], operands[1]].map(|o| {
        let sizes = b.dims(o)[1..].to_vec();
        b.reshape(o, &sizes)
    });
    let less = |all: &[usize]| all.iter().map(|d| d - 1).collect();
    let (lhs_contracting, rhs_contracting) = (less(&dims.lhs_contracting), less(&dims.rhs_contracting));
    let matrices = DotDims { lhs_contracting, rhs_contracting, ..DotDims::default() };
    let product = b.dot(x, y, matrices, *precision, to.dtype);
    Some(b.reshape(product, &to.dims))
}

/// An array of sizes `dims` with the strips' dimension as (part of) one of its own, numbered `axis`: `step` places of it for
/// each place along the strips' dimension.
struct Split {
    dims: Vec<u64>,
    axis: usize,
    step: u64,
}

fn split(dims: &[u64], at: At, size: u64) -> Split {
    let others = at.others(dims, size);
    let mut all = dims[..at.dim].to_vec();
    if others > 1 {
        all.push(others);
    }
    let axis = all.len();
    // Along lanes, whole rows of them are better told apart.
    let rows = at.dim + 1 == dims.len() && at.inner > 1;
    if rows {
        all.extend([size, at.inner])
    } else {
        all.push(size * at.inner)
    }
    all.extend(&dims[at.dim + 1..]);
    Split { dims: all, axis, step: if rows { 1 } else { at.inner } }
}

fn sizes(comp: &Computation, id: NodeId) -> Vec<u64> {
    comp.node(id).shape.as_array().map(|a| a.dims.clone()).unwrap_or_default()
}

/// The module with a region of a computation as a loop over strips.
fn replaced(
    module: Module,
    draft: &mut Draft,
    index: usize,
    (r, tile): (&Region, (u32, u32)),
) -> Result<Module, CompileError> {
    let comp = module.computations[index].clone();
    let mut behind = vec![false; comp.nodes.len()];
    for id in comp.ids() {
        let uses = |o: &NodeId| r.has(*o) && !r.is_made(&comp, *o) || behind[o.index()];
        behind[id.index()] = comp.node(id).operands.iter().any(uses);
    }
    // What is made of nothing large is made again for users outside.
    let outside: Vec<NodeId> = comp.ids().filter(|id| !r.has(*id) || r.is_made(&comp, *id)).collect();
    let (after, before): (Vec<NodeId>, Vec<NodeId>) = outside.iter().partition(|id| behind[id.index()]);
    let others = |u: &&NodeId| !r.has(**u);
    let used =
        |id: NodeId| comp.root == id || outside.iter().filter(others).any(|u| comp.node(*u).operands.contains(&id));
    let strips = Strips {
        comp: &comp,
        r,
        tile,
        inputs: r.inputs(&comp),
        results: r.members.iter().filter(|&(id, _)| used(id) && !r.is_made(&comp, id)).collect(),
    };
    regroup(module, draft, index, (&before, &after), &mut |b, map, new_ids| strips.build(b, map, new_ids))
}

/// What an input's strips are cut from: an array, how its dimensions are split, and of the input in those the first places
/// and the sizes.
struct Source {
    id: NodeId,
    split: Split,
    first: Vec<u64>,
    part: Vec<u64>,
}

struct Strips<'a> {
    comp: &'a Computation,
    r: &'a Region,
    /// The chip's sublanes and lanes.
    tile: (u32, u32),
    inputs: Vec<(NodeId, Need)>,
    results: Vec<(NodeId, At)>,
}

impl Strips<'_> {
    fn build(&self, b: &mut Emit, map: &mut [Option<NodeId>], new_ids: &[CompId]) -> Result<(), CompileError> {
        let (comp, r) = (self.comp, self.r);
        let Some(&(first, _)) = self.results.first() else { return Ok(()) };
        b.on_behalf_of(comp.node(first));
        let mut state = Vec::new();
        for &(id, at) in &self.results {
            let dtype = comp.node(id).shape.as_array().map(|a| a.dtype);
            let dtype = dtype.ok_or_else(|| CompileError::internal("strips", "a result is no array"))?;
            state.push(b.splat(dtype, &split(&sizes(comp, id), at, r.size).dims, 0.0));
        }
        let made =
            |id: NodeId| map[id.index()].ok_or_else(|| CompileError::internal("strips", "an input comes too late"));
        for &(id, need) in &self.inputs {
            state.push(match need {
                Need::Whole => made(id)?,
                Need::Strip(at) => {
                    let source = self.source(id, at);
                    b.reshape(made(source.id)?, &source.split.dims)
                }
            });
        }
        let done =
            b.counted_loop("strips", r.size / r.width, &state, |b, counter, s| self.strip(b, counter, s, new_ids))?;
        for (&(id, _), &whole) in self.results.iter().zip(&done) {
            map[id.index()] = Some(b.reshape(whole, &sizes(comp, id)));
        }
        Ok(())
    }

    /// What the strips of an input are cut from: of a slice, from the array that it is of, so that it is not made for them.
    fn source(&self, id: NodeId, at: At) -> Source {
        let own = sizes(self.comp, id);
        let plain = |id: NodeId| {
            let split = split(&sizes(self.comp, id), at, self.r.size);
            Source { id, first: vec![0; split.dims.len()], part: split.dims.clone(), split }
        };
        let n = self.comp.node(id);
        let Op::Slice { dims } = &n.op else { return plain(id) };
        let (whole, lanes) = (sizes(self.comp, n.operands[0]), u64::from(self.tile.1));
        // Copies begin at whole tiles.
        let begins = |d: usize| match whole.len() - d {
            1 => lanes,
            2 => region::ROWS,
            _ => 1,
        };
        let cut = |(d, s): (usize, &SliceDim)| s.stride == 1 && s.start.is_multiple_of(begins(d));
        if !dims.iter().enumerate().all(cut) {
            return plain(id);
        }
        let along = &dims[at.dim];
        if (along.start, along.limit) == (0, whole[at.dim]) {
            let source = plain(n.operands[0]);
            let part = split(&own, at, self.r.size).dims;
            let behind = part.len() - own.len();
            let mut first = vec![0; part.len()];
            for (d, s) in dims.iter().enumerate().filter(|(d, _)| *d != at.dim) {
                first[if d < at.dim { d } else { d + behind }] = s.start;
            }
            Source { first, part, ..source }
        } else if at.others(&own, self.r.size) == 1 {
            // Along the strips' dimension: it is not split, and begins further on.
            let split = Split { dims: whole, axis: at.dim, step: at.inner };
            Source { id: n.operands[0], first: dims.iter().map(|s| s.start).collect(), part: own, split }
        } else {
            plain(id)
        }
    }

    /// Where a strip begins along `axis` of an array of `rank` dimensions.
    fn starts(&self, b: &mut Emit, counter: NodeId, (rank, axis): (usize, usize), step: u64) -> Vec<NodeId> {
        let zero = b.index(0);
        let mut starts = vec![zero; rank];
        starts[axis] = b.with(Binary::Mul, counter, (self.r.width * step) as f64);
        starts
    }

    /// One iteration: the next state.
    fn strip(
        &self,
        b: &mut Emit,
        counter: NodeId,
        state: &[NodeId],
        new_ids: &[CompId],
    ) -> Result<Vec<NodeId>, CompileError> {
        let (comp, r) = (self.comp, self.r);
        let cut = (r.size, r.width);
        let mut next = state.to_vec();
        let mut inputs = Vec::new();
        for (&(id, need), &x) in self.inputs.iter().zip(&state[self.results.len()..]) {
            let Need::Strip(at) = need else {
                inputs.push(x);
                continue;
            };
            let Source { first, mut part, split: Split { axis, step, .. }, .. } = self.source(id, at);
            part[axis] = r.width * step;
            let mut starts = self.starts(b, counter, (part.len(), axis), step);
            for (start, &first) in starts.iter_mut().zip(&first).filter(|f| *f.1 > 0) {
                *start = b.with(Binary::Add, *start, first as f64);
            }
            let x = b.dynamic_slice(x, &starts, &part);
            let dims = sizes(comp, id);
            inputs.push(b.reshape(x, &at.cut(&dims, cut)));
        }
        let mut made: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        for (id, at) in r.members.iter() {
            let n = comp.node(id);
            b.on_behalf_of(n);
            let all = needs(comp, n, at, r.size).unwrap_or_default();
            let mut operand = |(o, need): (&NodeId, &Need)| {
                if let Some(number) = region::number(comp, *o) {
                    return Some(b.constant(number.clone()));
                }
                let given = || self.inputs.iter().position(|i| i == &(*o, *need)).map(|i| inputs[i]);
                made.get(o).copied().or_else(given)
            };
            let operands: Option<Vec<NodeId>> = n.operands.iter().zip(&all).map(&mut operand).collect();
            let operands = operands.ok_or_else(|| CompileError::internal("strips", "an operand is missing"))?;
            let x = self.made(b, (id, at), &operands, counter, new_ids);
            made.insert(id, x);
            if let Some(i) = self.results.iter().position(|&(o, _)| o == id) {
                let Split { dims: mut part, axis, step } = split(&sizes(comp, id), at, r.size);
                part[axis] = r.width * step;
                let starts = self.starts(b, counter, (part.len(), axis), step);
                let update = b.reshape(x, &part);
                next[i] = b.dynamic_update_slice(state[i], update, &starts);
            }
        }
        Ok(next)
    }

    /// A member's operation on a strip.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are the same in every strip")]
    fn made(
        &self,
        b: &mut Emit,
        (id, at): (NodeId, At),
        operands: &[NodeId],
        counter: NodeId,
        new_ids: &[CompId],
    ) -> NodeId {
        let n = self.comp.node(id);
        let a = crate::make::array(&n.shape);
        let dims = at.cut(&a.dims, (self.r.size, self.r.width));
        let mut op = n.op.clone();
        op.for_each_called(|c| *c = new_ids[c.index()]);
        match &mut op {
            Op::Slice { dims: cut } => cut[at.dim].limit = dims[at.dim],
            Op::Iota { dim } if *dim == at.dim => {
                let own = b.iota(DType::S32, &dims, *dim);
                let first = b.with(Binary::Mul, counter, (self.r.width * at.inner) as f64);
                let number = b.add(own, first);
                return b.convert(number, a.dtype);
            }
            _ => {}
        }
        b.emit(op, operands, Shape::array(a.dtype, &dims))
    }
}
