//! `pieces`: a collective and the operations around it computed in pieces, so that the links carry one piece while the
//! units compute another.
//!
//! A product whose operand is gathered waits for all of it, and a sum over devices waits for all of a product, though most of
//! both needs only a part of the other. Where nothing else is left to hide a collective behind, what shares a dimension
//! with it ([`region`]) is computed for one part of that dimension after the other. Data flow says the rest: exchanges are
//! hidden behind what does not need them. Results are those of the whole, element by element.

pub mod cost;
mod region;

use crate::edit::{Draft, Emit, rewrite};
use crate::options::PassOptions;
use cost::Costs;
use region::{Cut, Region, grow, is_free, operand_cuts};
use rustc_hash::{FxHashMap, FxHashSet};
use systole_hlo::analysis::uses::uses;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{CollectiveKind, Computation, Module, Node, NodeId, Op, Shape};

type Result<T> = std::result::Result<T, CompileError>;

/// Numbers of pieces that are considered.
const PIECES: [u64; 3] = [2, 4, 8];
/// Nodes of a computation up to which regions are looked for: beyond, the search would take longer than it is worth.
const MOST_NODES: usize = 1 << 14;

/// A node that is computed in pieces: their number, its cut and those of its operands.
struct Piecewise {
    pieces: u64,
    cut: Cut,
    operands: Vec<(NodeId, Option<Cut>)>,
}

/// Runs the pass.
pub fn run(module: Module, draft: &mut Draft, o: &PassOptions) -> Result<Module> {
    if o.asked.pod.devices() <= 1 {
        return Ok(module);
    }
    let mut chosen: FxHashMap<(usize, NodeId), Piecewise> = FxHashMap::default();
    for (index, c) in module.computations.iter().enumerate() {
        choose(c, o, draft, &mut |id, p| {
            chosen.insert((index, id), p);
        });
    }
    if chosen.is_empty() {
        return Ok(module);
    }
    let mut maker = Maker { made: FxHashMap::default(), channel: module.last_channel() };
    rewrite(module, draft, &mut |b, n, operands| {
        let Some(p) = chosen.get(&b.place()) else { return Ok(None) };
        Ok(Some(maker.node(b, n, operands, p)))
    })
}

/// Chooses regions of a computation, the largest collectives first.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for collectives alone")]
fn choose(c: &Computation, o: &PassOptions, draft: &mut Draft, found: &mut dyn FnMut(NodeId, Piecewise)) {
    let is_collective = |id: &NodeId| match &c.node(*id).op {
        Op::Collective { kind, .. } => matches!(
            kind,
            CollectiveKind::AllReduce { .. } | CollectiveKind::AllGather { .. } | CollectiveKind::ReduceScatter { .. }
        ),
        _ => false,
    };
    let mut seeds: Vec<NodeId> = c.ids().filter(is_collective).collect();
    if seeds.is_empty() || c.nodes.len() > MOST_NODES {
        return;
    }
    let users = uses(c);
    let costs = Costs::new(c, &users, o);
    seeds.sort_by(|a, b| costs.collective(*b).total_cmp(&costs.collective(*a)).then(a.cmp(b)));
    let mut taken: FxHashSet<NodeId> = FxHashSet::default();
    for seed in seeds {
        if taken.contains(&seed) {
            continue;
        }
        let mut best: Option<(f64, u64, Region)> = None;
        for cut in cuts(c, seed) {
            for pieces in PIECES {
                let free = |id: NodeId| taken.contains(&id);
                let Some(region) = grow(c, &users, (seed, cut), pieces, &free) else { continue };
                let Some(gain) = costs.gain(&region, pieces) else { continue };
                if best.as_ref().is_none_or(|b| gain > b.0) {
                    best = Some((gain, pieces, region));
                }
            }
        }
        let Some((_, pieces, region)) = best.filter(|_| draft.fire("pieces")) else { continue };
        for (id, cut) in region {
            taken.insert(id);
            let operands = c.node(id).operands.iter().copied().zip(operand_cuts(c, id, cut).unwrap_or_default());
            found(id, Piecewise { pieces, cut, operands: operands.collect() });
        }
    }
}

/// The cuts of a collective's result that pieces of it can have: along any dimension, and of what is gathered the same part
/// of what every device contributes.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for collectives alone")]
fn cuts(c: &Computation, id: NodeId) -> Vec<Cut> {
    let n = c.node(id);
    let (Shape::Array(result), [operand]) = (&n.shape, &n.operands[..]) else { return Vec::new() };
    let Some(from) = c.node(*operand).shape.as_array() else { return Vec::new() };
    let outer = |dim: usize| match &n.op {
        Op::Collective { kind: CollectiveKind::AllGather { dim: along }, .. } if *along == dim => {
            result.dims[dim] / from.dims[dim].max(1)
        }
        _ => 1,
    };
    (0..result.dims.len()).map(|dim| Cut { dim, outer: outer(dim) }).collect()
}

/// Makes the pieces.
struct Maker {
    /// Pieces of nodes by the old node's place, and how they are cut.
    made: FxHashMap<(usize, NodeId), (Cut, Vec<NodeId>)>,
    /// The last channel that a collective has.
    channel: u64,
}

impl Maker {
    /// All pieces of a node, and the whole for who wants that.
    fn node(&mut self, b: &mut Emit, n: &Node, operands: &[NodeId], p: &Piecewise) -> NodeId {
        let (index, id) = b.place();
        let Shape::Array(whole) = &n.shape else { return operands[0] };
        let mut dims = whole.dims.clone();
        dims[p.cut.dim] /= p.pieces;
        let mut all = Vec::new();
        for j in 0..p.pieces {
            let mut args = Vec::new();
            for (&(old, cut), &new) in p.operands.iter().zip(operands) {
                args.push(match (cut, self.made.get(&(index, old))) {
                    (None, _) => new,
                    (Some(cut), Some((known, pieces))) if *known == cut => pieces[j as usize],
                    (Some(cut), _) => piece(b, new, cut, (j, p.pieces)),
                });
            }
            let op = self.op(&n.op, p, j, &dims);
            all.push(b.emit(op, &args, Shape::array(whole.dtype, &dims)));
        }
        let cuts: Vec<Option<Cut>> = p.operands.iter().map(|o| o.1).collect();
        let joined = match is_free(&cuts) {
            true => b.emit(n.op.clone(), operands, n.shape.clone()),
            false => join(b, &all, p.cut),
        };
        self.made.insert((index, id), (p.cut, all));
        joined
    }

    /// The operation of a piece.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the question is for collectives alone")]
    fn op(&mut self, op: &Op, p: &Piecewise, number: u64, dims: &[u64]) -> Op {
        let mut op = op.clone();
        match &mut op {
            Op::Slice { dims: all } => all[p.cut.dim].limit = dims[p.cut.dim],
            Op::Collective { devices, .. } if number > 0 => {
                self.channel += 1;
                devices.channel = devices.channel.map(|_| self.channel);
            }
            _ => {}
        }
        op
    }
}

/// The dimensions of an array with the cut one as outer and inner.
fn apart(dims: &[u64], cut: Cut) -> Vec<u64> {
    let mut apart = dims.to_vec();
    apart[cut.dim] /= cut.outer;
    apart.insert(cut.dim, cut.outer);
    apart
}

/// Piece `number` of so many of an array.
fn piece(b: &mut Emit, x: NodeId, cut: Cut, (number, pieces): (u64, u64)) -> NodeId {
    let dims = b.dims(x).to_vec();
    let size = dims[cut.dim] / cut.outer / pieces;
    if cut.outer == 1 {
        return b.slice_dim(x, cut.dim, number * size, (number + 1) * size, 1);
    }
    let x = b.reshape(x, &apart(&dims, cut));
    let x = b.slice_dim(x, cut.dim + 1, number * size, (number + 1) * size, 1);
    let mut dims = dims;
    dims[cut.dim] /= pieces;
    b.reshape(x, &dims)
}

/// The whole array of its pieces.
fn join(b: &mut Emit, pieces: &[NodeId], cut: Cut) -> NodeId {
    if cut.outer == 1 {
        return b.concatenate(pieces, cut.dim);
    }
    let dims = b.dims(pieces[0]).to_vec();
    let parts: Vec<NodeId> = pieces.iter().map(|&p| b.reshape(p, &apart(&dims, cut))).collect();
    let all = b.concatenate(&parts, cut.dim + 1);
    let mut dims = dims;
    dims[cut.dim] *= pieces.len() as u64;
    b.reshape(all, &dims)
}
