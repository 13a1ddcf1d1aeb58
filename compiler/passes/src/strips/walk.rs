//! Where one dimension goes: which part of an operation's operands a strip of its result needs, and the other way round.

use systole_hlo::graph::{Computation, DotDims, Node, Op, SliceDim};

/// Where the dimension that is cut into strips is in an array: dimension `dim` is `[others, size, inner]` in row-major order,
/// `size` the strips' dimension, whose size is that of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    pub dim: usize,
    pub inner: u64,
}

impl At {
    /// Elements from one place along the strips' dimension to the next.
    fn stride(self, dims: &[u64]) -> u64 {
        self.inner * dims[self.dim + 1..].iter().product::<u64>()
    }

    /// Whether the dimension has `size` places here.
    fn fits(self, dims: &[u64], size: u64) -> bool {
        dims.get(self.dim).is_some_and(|d| d.is_multiple_of(size * self.inner))
    }

    /// Places of `dim` above the strips' dimension.
    pub fn others(self, dims: &[u64], size: u64) -> u64 {
        dims[self.dim] / (size * self.inner)
    }

    /// The array's sizes where `width` of `size` places are left.
    pub fn cut(self, dims: &[u64], (size, width): (u64, u64)) -> Vec<u64> {
        let mut dims = dims.to_vec();
        dims[self.dim] = dims[self.dim] / size * width;
        dims
    }
}

/// What a strip of a result needs of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// All of it, the same for every strip.
    Whole,
    /// Its strip.
    Strip(At),
}

fn dims_of<'a>(comp: &'a Computation, n: &Node, operand: usize) -> Option<&'a [u64]> {
    comp.node(*n.operands.get(operand)?).shape.as_array().map(|a| a.dims.as_slice())
}

/// The place in `to` of a dimension that is at `at` of `from`, both the same elements in row-major order.
fn reshaped(from: &[u64], to: &[u64], at: At, size: u64) -> Option<At> {
    let stride = at.stride(from);
    let mut below = 1;
    for dim in (0..to.len()).rev() {
        if stride.is_multiple_of(below) {
            let place = At { dim, inner: stride / below };
            if to[dim] >= size * place.inner && place.fits(to, size) {
                return Some(place);
            }
        }
        below *= to[dim];
    }
    None
}

fn is_whole(d: &SliceDim, size: u64) -> bool {
    (d.start, d.limit, d.stride) == (0, size, 1)
}

/// Dimensions of an operand that are neither batch nor contracted.
fn free(rank: usize, batch: &[usize], contracting: &[usize]) -> Vec<usize> {
    (0..rank).filter(|d| !batch.contains(d) && !contracting.contains(d)).collect()
}

/// What a strip of a node's result needs of each operand; `None` where strips of it cannot be made.
#[allow(clippy::wildcard_enum_match_arm, reason = "an operation without a rule is not cut in strips")]
pub fn needs(comp: &Computation, n: &Node, at: At, size: u64) -> Option<Vec<Need>> {
    let own = &n.shape.as_array()?.dims;
    if !at.fits(own, size) {
        return None;
    }
    let same = |i: usize| -> Option<Need> {
        let dims = dims_of(comp, n, i)?;
        if dims.is_empty() { Some(Need::Whole) } else { (dims.len() == own.len()).then_some(Need::Strip(at)) }
    };
    let rest_whole = |first: Need| -> Vec<Need> {
        (0..n.operands.len()).map(|i| if i == 0 { first } else { Need::Whole }).collect()
    };
    match &n.op {
        op if op.is_elementwise() => (0..n.operands.len()).map(same).collect(),
        Op::Iota { dim } => (*dim != at.dim || at.others(own, size) == 1).then(Vec::new),
        Op::Broadcast { dims } => {
            let from = dims.iter().position(|&d| d == at.dim);
            Some(vec![from.map_or(Need::Whole, |dim| Need::Strip(At { dim, ..at }))])
        }
        Op::Transpose { permutation } => Some(vec![Need::Strip(At { dim: permutation[at.dim], ..at })]),
        Op::Reshape => reshaped(own, dims_of(comp, n, 0)?, at, size).map(|a| vec![Need::Strip(a)]),
        Op::Slice { dims } => {
            let from = dims_of(comp, n, 0)?;
            is_whole(&dims[at.dim], from[at.dim]).then(|| vec![Need::Strip(at)])
        }
        Op::Pad { dims } => {
            let p = dims[at.dim];
            ((p.low, p.high, p.interior) == (0, 0, 0)).then(|| rest_whole(Need::Strip(at)))
        }
        Op::Concatenate { dim } => (*dim != at.dim).then(|| vec![Need::Strip(at); n.operands.len()]),
        Op::Reverse { dims } => (!dims.contains(&at.dim)).then(|| vec![Need::Strip(at)]),
        Op::Reduce { dims, .. } if n.operands.len() == 2 => {
            let rank = dims_of(comp, n, 0)?.len();
            let kept = free(rank, dims, &[]);
            Some(rest_whole(Need::Strip(At { dim: *kept.get(at.dim)?, ..at })))
        }
        Op::ReduceWindow { window, .. } if n.operands.len() == 2 => {
            let w = &window[at.dim];
            let plain = w.size == 1 && w.stride == 1 && (w.pad_low, w.pad_high, w.base_dilation) == (0, 0, 1);
            plain.then(|| rest_whole(Need::Strip(at)))
        }
        Op::Dot { dims, .. } => dot(comp, n, dims, at),
        // Images of a batch do not see each other.
        Op::Convolution(c) => {
            let images = at.dim == c.dims.output.batch && c.batch_groups == 1;
            images.then(|| rest_whole(Need::Strip(At { dim: c.dims.input.batch, ..at })))
        }
        _ => None,
    }
}

fn dot(comp: &Computation, n: &Node, d: &DotDims, at: At) -> Option<Vec<Need>> {
    let batch = d.lhs_batch.len();
    let left = free(dims_of(comp, n, 0)?.len(), &d.lhs_batch, &d.lhs_contracting);
    let right = free(dims_of(comp, n, 1)?.len(), &d.rhs_batch, &d.rhs_contracting);
    let strip = |dim: usize| Need::Strip(At { dim, ..at });
    if at.dim < batch {
        return Some(vec![strip(d.lhs_batch[at.dim]), strip(d.rhs_batch[at.dim])]);
    }
    match left.get(at.dim - batch) {
        Some(&dim) => Some(vec![strip(dim), Need::Whole]),
        None => Some(vec![Need::Whole, strip(*right.get(at.dim - batch - left.len())?)]),
    }
}

/// Where the dimension is in a node's result, given that it is at `at` of an operand.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are cut like their result")]
pub fn follows(comp: &Computation, n: &Node, operand: usize, at: At, size: u64) -> Option<At> {
    let own = &n.shape.as_array()?.dims;
    let candidates: Vec<At> = match &n.op {
        Op::Broadcast { dims } => vec![At { dim: *dims.get(at.dim)?, ..at }],
        Op::Transpose { permutation } => {
            vec![At { dim: permutation.iter().position(|&p| p == at.dim)?, ..at }]
        }
        Op::Reshape => vec![reshaped(dims_of(comp, n, 0)?, own, at, size)?],
        Op::Convolution(c) => vec![At { dim: c.dims.output.batch, ..at }],
        Op::Reduce { .. } | Op::Dot { .. } => (0..own.len()).map(|dim| At { dim, ..at }).collect(),
        _ => vec![at],
    };
    let wanted = |a: &At| needs(comp, n, *a, size).is_some_and(|all| all.get(operand) == Some(&Need::Strip(at)));
    candidates.into_iter().find(wanted)
}

/// Elements that a product sums for one of its results; nothing for other operations, and for windows over channels apart, which
/// vector units do.
#[allow(clippy::wildcard_enum_match_arm, reason = "the question is for products alone")]
pub fn contracted(comp: &Computation, n: &Node) -> Option<u64> {
    match &n.op {
        Op::Dot { dims, .. } => {
            let left = dims_of(comp, n, 0)?;
            Some(dims.lhs_contracting.iter().map(|&d| left[d]).product())
        }
        Op::Convolution(c) if c.feature_groups == 1 => {
            let kernel = dims_of(comp, n, 1)?;
            Some(kernel.iter().product::<u64>() / kernel[c.dims.kernel.output].max(1))
        }
        _ => None,
    }
}
