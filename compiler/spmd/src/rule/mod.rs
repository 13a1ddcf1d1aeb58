//! What every operation means to shardings: its dimensions as factors.
//!
//! An operation is an einsum with sizes: dimensions of operands and results that share a *factor* are divided alike. A
//! dimension may be several factors (a reshape splits and joins), major before minor. Propagation and resolution look at
//! rules only, never at the operation. What a factor's division costs is its kind.

mod index;
mod window;

use crate::ir::{Kind as NodeKind, Node, Program, ValueId};
use index::{gather, scatter};
use systole_hlo::graph::{Binary, CollectiveKind, CompId, Conv, DotDims, Module, Op, SliceDim};
use window::is_trivial;
pub use window::{Edges, edges};

/// What it costs to divide a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nothing.
    Pass,
    /// Devices hold parts of a sum (or of another reduction) afterwards.
    Reduce,
    /// Neighbours exchange the edges of their parts.
    Halo,
    /// It cannot be divided: whoever is, is gathered.
    Whole,
}

/// A factor of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    /// What parts must divide: the dimension's size, or what the sizes of an operand and a result have in common.
    pub size: u64,
    pub kind: Kind,
    /// Most parts: those at least as long as the edges that neighbours exchange.
    pub most: u64,
}

/// How hard it is pushed: the round in which the operation takes part in propagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Round {
    /// Elementwise operations, reshapes, edges of data flow.
    Elementwise,
    /// Dynamic slices: first forwards.
    Slice,
    /// Broadcasts: backwards before forwards.
    Broadcast,
    /// Everything else.
    Other,
}

/// An operation's factors, and which make up each dimension of its operands and results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub factors: Vec<Factor>,
    /// Operands, then results: by dimension, the factors from major to minor.
    pub tensors: Vec<Vec<Vec<usize>>>,
    /// Number of operands.
    pub operands: usize,
}

impl Rule {
    fn new(operands: &[&[u64]], results: &[&[u64]]) -> Rule {
        let tensors = operands.iter().chain(results).map(|d| vec![Vec::new(); d.len()]).collect();
        Rule { factors: Vec::new(), tensors, operands: operands.len() }
    }

    /// A factor of these dimensions, each `(tensor, dimension)`.
    fn link(&mut self, kind: Kind, size: u64, dims: &[(usize, usize)]) {
        let f = self.factors.len();
        self.factors.push(Factor { size, kind, most: u64::MAX });
        for &(t, d) in dims {
            self.tensors[t][d].push(f);
        }
    }

    /// Where a factor stands: `(tensor, dimension)`.
    pub fn places(&self, f: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let of = move |(t, dims): (usize, &Vec<Vec<usize>>)| {
            let found = dims.iter().enumerate().filter(|(_, l)| l.contains(&f)).map(|(d, _)| (t, d));
            found.collect::<Vec<_>>()
        };
        self.tensors.iter().enumerate().flat_map(of)
    }
}

/// A reduction that devices can do together.
pub fn combiner(module: &Module, body: CompId) -> Option<Binary> {
    let c = module.computation(body);
    let [x, y] = c.params[..] else { return None };
    let mut root = c.node(c.root);
    // Annotations of scalars stand around it.
    while let (Op::CustomCall { .. } | Op::Copy, [o]) = (&root.op, &root.operands[..]) {
        if !matches!(root.op, Op::Copy) && crate::import::annotation_of(&root.op).is_none() {
            return None;
        }
        root = c.node(*o);
    }
    let Op::Binary(op) = root.op else { return None };
    let both = root.operands == [x, y] || root.operands == [y, x];
    let known = matches!(op, Binary::Add | Binary::Mul | Binary::Max | Binary::Min | Binary::And | Binary::Or);
    (both && known).then_some(op)
}

/// Whether a slice keeps a dimension of that size whole.
fn keeps(s: &SliceDim, size: u64) -> bool {
    s.start == 0 && s.limit == size && s.stride == 1
}

/// The sizes of a node's operands and results.
struct Sizes<'a> {
    ins: Vec<&'a [u64]>,
    outs: Vec<&'a [u64]>,
}

/// The rule of a node.
pub fn rule(node: &Node, module: &Module, program: &Program) -> Rule {
    let dims = |v: &ValueId| program.value(*v).dims();
    let inputs = node.inputs();
    let s = Sizes { ins: inputs.iter().map(dims).collect(), outs: node.results.iter().map(dims).collect() };
    let mut r = match &node.kind {
        NodeKind::Constrain => each_to_each(&s),
        NodeKind::ToLocal(_) | NodeKind::ToGlobal(_) => boundary(&s),
        // Edges have rules of their own; see `edges`.
        NodeKind::While { .. } | NodeKind::Conditional { .. } => Rule::new(&s.ins, &s.outs),
        NodeKind::Op(op) => of_op(op, module, &s),
    };
    close(&mut r, &s);
    r
}

/// Dimensions without a factor get one that is theirs alone and cannot be divided.
fn close(r: &mut Rule, s: &Sizes<'_>) {
    let all: Vec<&[u64]> = s.ins.iter().chain(&s.outs).copied().collect();
    for (t, dims) in all.iter().enumerate() {
        for (d, &n) in dims.iter().enumerate() {
            if r.tensors[t][d].is_empty() && n != 1 {
                r.link(Kind::Whole, n, &[(t, d)]);
            }
        }
    }
}

/// Every operand and result of the same sizes; scalars stand for all elements.
fn elementwise(s: &Sizes<'_>) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    let Some(out) = s.outs.first() else { return r };
    let all: Vec<&[u64]> = s.ins.iter().chain(&s.outs).copied().collect();
    for (d, &n) in out.iter().enumerate() {
        let places: Vec<(usize, usize)> =
            (0..all.len()).filter(|&t| all[t].len() == out.len() && all[t][d] == n).map(|t| (t, d)).collect();
        r.link(Kind::Pass, n, &places);
    }
    r
}

/// Operand `i` is result `i`.
fn each_to_each(s: &Sizes<'_>) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    for (i, dims) in s.ins.iter().enumerate().filter(|(i, d)| s.outs.get(*i) == Some(*d)) {
        for (d, &n) in dims.iter().enumerate() {
            r.link(Kind::Pass, n, &[(i, d), (s.ins.len() + i, d)]);
        }
    }
    r
}

/// Between a whole array and its part: what is manual is the major factor of the whole one.
fn boundary(s: &Sizes<'_>) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    for d in 0..s.ins[0].len() {
        let (x, y) = (s.ins[0][d], s.outs[0][d]);
        let (whole, local) = if x >= y { (0, 1) } else { (1, 0) };
        let (large, small) = (x.max(y), x.min(y));
        if small > 0 && large > small {
            r.link(Kind::Pass, large / small, &[(whole, d)]);
        }
        r.link(Kind::Pass, small, &[(whole, d), (local, d)]);
    }
    r
}

/// The first operand's dimensions as the first result's, those that `pass` says; the rest cannot be divided. Other operands
/// and results of the same sizes go along.
fn alike(s: &Sizes<'_>, pass: impl Fn(usize) -> bool) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    let all: Vec<&[u64]> = s.ins.iter().chain(&s.outs).copied().collect();
    let rank = s.ins.first().map_or(0, |d| d.len());
    for d in (0..rank).filter(|&d| pass(d)) {
        let n = s.ins[0][d];
        let fits = |t: &usize| all[*t].len() == rank && all[*t][d] == n;
        let places: Vec<(usize, usize)> = (0..all.len()).filter(fits).map(|t| (t, d)).collect();
        r.link(Kind::Pass, n, &places);
    }
    r
}

fn of_op(op: &Op, module: &Module, s: &Sizes<'_>) -> Rule {
    match op {
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare { .. }
        | Op::Select
        | Op::Clamp
        | Op::Convert
        | Op::ReducePrecision { .. }
        | Op::StochasticConvert
        | Op::Map { .. }
        | Op::Copy => elementwise(s),
        Op::OptBarrier | Op::Domain => each_to_each(s),
        Op::BitcastConvert => match s.ins[0] == s.outs[0] {
            true => elementwise(s),
            false => {
                let rank = s.ins[0].len().min(s.outs[0].len());
                leading(s, rank)
            }
        },
        Op::Constant(_) | Op::Iota { .. } => {
            let mut r = Rule::new(&s.ins, &s.outs);
            s.outs[0].iter().enumerate().for_each(|(d, &n)| r.link(Kind::Pass, n, &[(0, d)]));
            r
        }
        Op::Broadcast { dims } => broadcast(s, dims),
        Op::Reshape => reshape(s),
        Op::Transpose { permutation } => {
            let mut r = Rule::new(&s.ins, &s.outs);
            permutation.iter().enumerate().for_each(|(d, &p)| r.link(Kind::Pass, s.outs[0][d], &[(0, p), (1, d)]));
            r
        }
        Op::Reverse { dims } => alike(s, |d| !dims.contains(&d)),
        Op::Slice { dims } => alike(s, |d| keeps(&dims[d], s.ins[0][d])),
        Op::Concatenate { dim } => alike(s, |d| d != *dim),
        Op::Pad { dims } => alike(s, |d| dims[d].low == 0 && dims[d].high == 0 && dims[d].interior == 0),
        Op::DynamicSlice { sizes } => alike(s, |d| sizes[d] == s.ins[0][d]),
        Op::DynamicUpdateSlice => alike(s, |d| s.ins[1][d] == s.ins[0][d]),
        Op::Gather(g) => gather(s, g),
        Op::Scatter(c) => scatter(s, c, module),
        Op::Dot { dims, .. } => dot(s, dims),
        Op::Convolution(c) => convolution(s, c),
        Op::Reduce { dims, .. } => reduce(s, dims),
        Op::ReduceWindow { window, .. } => {
            let n = s.outs.len();
            let mut r = Rule::new(&s.ins, &s.outs);
            for (d, w) in window.iter().enumerate() {
                let places: Vec<(usize, usize)> = (0..n).chain(s.ins.len()..s.ins.len() + n).map(|t| (t, d)).collect();
                match is_trivial(w) {
                    true => r.link(Kind::Pass, s.ins[0][d], &places),
                    false => r.window(w, (s.ins[0][d], s.outs[0][d]), &places),
                }
            }
            r
        }
        Op::SelectAndScatter { window, .. } => alike(s, |d| is_trivial(&window[d])),
        Op::Sort { dim, .. } => alike(s, |d| d != *dim),
        Op::TopK { .. } => {
            let last = s.ins[0].len().saturating_sub(1);
            alike(s, |d| d != last)
        }
        Op::Cholesky { .. } => {
            let rank = s.ins[0].len();
            alike(s, |d| d + 2 < rank)
        }
        Op::TriangularSolve { left, .. } => {
            let rank = s.ins[0].len();
            let mut r = alike(s, |d| d + 2 < rank);
            let free = if *left { rank - 1 } else { rank - 2 };
            r.link(Kind::Pass, s.ins[1][free], &[(1, free), (2, free)]);
            r
        }
        Op::Fft { lengths, .. } => {
            let rank = s.ins[0].len();
            alike(s, |d| d + lengths.len() < rank)
        }
        Op::CustomCall { target, .. } => custom_call(target, s),
        Op::Collective { kind, .. } => collective(kind, s),
        Op::AddDependency => alike(s, |_| true),
        // One array of random bits for all devices; states are the same everywhere.
        Op::Rng { .. } | Op::RngBitGenerator { .. } | Op::RngGetAndUpdateState { .. } => Rule::new(&s.ins, &s.outs),
        // Regions, tuples and calls, which are no nodes, stand here too.
        Op::Bitcast
        | Op::DynamicReshape
        | Op::RaggedDot { .. }
        | Op::ScaledDot { .. }
        | Op::Scan { .. }
        | Op::BatchNormTraining { .. }
        | Op::BatchNormInference { .. }
        | Op::BatchNormGrad { .. }
        | Op::GetDimensionSize { .. }
        | Op::SetDimensionSize { .. }
        | Op::AfterAll
        | Op::ReplicaId
        | Op::PartitionId
        | Op::Send { .. }
        | Op::SendDone { .. }
        | Op::Recv { .. }
        | Op::RecvDone { .. }
        | Op::Infeed { .. }
        | Op::Outfeed { .. }
        | Op::Parameter { .. }
        | Op::Tuple
        | Op::GetTupleElement { .. }
        | Op::Call { .. }
        | Op::Fusion { .. }
        | Op::While { .. }
        | Op::Conditional { .. }
        | Op::AsyncStart { .. }
        | Op::AsyncUpdate
        | Op::AsyncDone
        | Op::CopyStart
        | Op::CopyDone => Rule::new(&s.ins, &s.outs),
    }
}

/// The first `rank` dimensions pass.
fn leading(s: &Sizes<'_>, rank: usize) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    for d in (0..rank).filter(|&d| s.ins[0][d] == s.outs[0][d]) {
        r.link(Kind::Pass, s.ins[0][d], &[(0, d), (1, d)]);
    }
    r
}

fn broadcast(s: &Sizes<'_>, dims: &[usize]) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    for (d, &n) in s.outs[0].iter().enumerate() {
        match dims.iter().position(|x| *x == d) {
            Some(from) if s.ins[0][from] == n => r.link(Kind::Pass, n, &[(0, from), (1, d)]),
            _ => r.link(Kind::Pass, n, &[(1, d)]),
        }
    }
    r
}

/// Walks both shapes from the major end: what divides both is a common factor.
fn reshape(s: &Sizes<'_>) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    let (x, y) = (s.ins[0], s.outs[0]);
    if x.iter().chain(y).any(|&n| n == 0) {
        return r;
    }
    let (mut i, mut j) = (0, 0);
    let (mut a, mut b) = (1, 1);
    loop {
        while a == 1 && i < x.len() {
            a = x[i];
            i += 1;
        }
        while b == 1 && j < y.len() {
            b = y[j];
            j += 1;
        }
        if a == 1 || b == 1 {
            return r;
        }
        let common = gcd(a, b);
        if common > 1 {
            r.link(Kind::Pass, common, &[(0, i - 1), (1, j - 1)]);
            a /= common;
            b /= common;
            continue;
        }
        // What is left until both have as many elements again belongs together in no simpler way.
        r.link(Kind::Whole, a, &[(0, i - 1)]);
        r.link(Kind::Whole, b, &[(1, j - 1)]);
        let (mut m, mut n) = (a, b);
        while m != n {
            if m < n && i < x.len() {
                m *= x[i];
                r.link(Kind::Whole, x[i], &[(0, i)]);
                i += 1;
            } else if j < y.len() {
                n *= y[j];
                r.link(Kind::Whole, y[j], &[(1, j)]);
                j += 1;
            } else {
                return r;
            }
        }
        (a, b) = (1, 1);
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Dimensions of an operand that are neither in `a` nor in `b`.
fn free(rank: usize, a: &[usize], b: &[usize]) -> Vec<usize> {
    (0..rank).filter(|d| !a.contains(d) && !b.contains(d)).collect()
}

fn dot(s: &Sizes<'_>, dims: &DotDims) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    let mut out = 0;
    for (&l, &c) in dims.lhs_batch.iter().zip(&dims.rhs_batch) {
        r.link(Kind::Pass, s.ins[0][l], &[(0, l), (1, c), (2, out)]);
        out += 1;
    }
    for (t, batch, contracting) in
        [(0, &dims.lhs_batch, &dims.lhs_contracting), (1, &dims.rhs_batch, &dims.rhs_contracting)]
    {
        for d in free(s.ins[t].len(), batch, contracting) {
            r.link(Kind::Pass, s.ins[t][d], &[(t, d), (2, out)]);
            out += 1;
        }
    }
    for (&l, &c) in dims.lhs_contracting.iter().zip(&dims.rhs_contracting) {
        r.link(Kind::Reduce, s.ins[0][l], &[(0, l), (1, c)]);
    }
    r
}

fn convolution(s: &Sizes<'_>, c: &Conv) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    let d = &c.dims;
    if c.batch_groups == 1 {
        r.link(Kind::Pass, s.ins[0][d.input.batch], &[(0, d.input.batch), (2, d.output.batch)]);
    }
    if c.batch_groups == 1 && c.feature_groups == 1 {
        r.link(Kind::Pass, s.ins[1][d.kernel.output], &[(1, d.kernel.output), (2, d.output.feature)]);
        r.link(Kind::Reduce, s.ins[0][d.input.feature], &[(0, d.input.feature), (1, d.kernel.input)]);
    }
    for (i, w) in c.window.iter().enumerate() {
        let (from, to) = (s.ins[0][d.input.spatial[i]], s.outs[0][d.output.spatial[i]]);
        let places = [(0, d.input.spatial[i]), (2, d.output.spatial[i])];
        match is_trivial(w) {
            true => r.link(Kind::Pass, from, &places),
            false => r.window(w, (from, to), &places),
        }
    }
    r
}

/// n operands, n initial values, n results.
fn reduce(s: &Sizes<'_>, dims: &[usize]) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    let n = s.outs.len();
    let mut out = 0;
    for (d, &size) in s.ins[0].iter().enumerate() {
        let operands = (0..n).map(|t| (t, d));
        if dims.contains(&d) {
            r.link(Kind::Reduce, size, &operands.collect::<Vec<_>>());
        } else {
            r.link(Kind::Pass, size, &operands.chain((0..n).map(|t| (2 * n + t, out))).collect::<Vec<_>>());
            out += 1;
        }
    }
    r
}

/// Calls whose meaning is known; of the others nothing can be divided.
fn custom_call(target: &str, s: &Sizes<'_>) -> Rule {
    let elementwise_call = target.starts_with("mhlo.") && target != "mhlo.topk" || target.starts_with("chlo.");
    let identity =
        matches!(target, "annotate_device_placement" | "LayoutConstraint" | "MoveToHost" | "MoveToDevice" | "Barrier");
    let same = s.outs.len() == 1 && s.ins.iter().all(|d| *d == s.outs[0]);
    match target {
        "TopK" | "mhlo.topk" if !s.ins.is_empty() => {
            let last = s.ins[0].len().saturating_sub(1);
            alike(s, |d| d != last)
        }
        _ if (elementwise_call || identity) && same => elementwise(s),
        _ => Rule::new(&s.ins, &s.outs),
    }
}

/// Collectives of a manual computation, along atoms that are not the partitioner's.
fn collective(kind: &CollectiveKind, s: &Sizes<'_>) -> Rule {
    match kind {
        CollectiveKind::AllReduce { .. }
        | CollectiveKind::Permute { .. }
        | CollectiveKind::Broadcast
        | CollectiveKind::Reduce { .. }
        | CollectiveKind::AllToAll { dim: None } => each_to_each(s),
        CollectiveKind::AllGather { dim }
        | CollectiveKind::ReduceScatter { dim, .. }
        | CollectiveKind::AllToAll { dim: Some(dim) } => {
            let mut r = Rule::new(&s.ins, &s.outs);
            for (i, dims) in s.ins.iter().enumerate().filter(|(i, _)| *i < s.outs.len()) {
                for (d, &n) in dims.iter().enumerate().filter(|(d, _)| d != dim) {
                    r.link(Kind::Pass, n, &[(i, d), (s.ins.len() + i, d)]);
                }
            }
            r
        }
        CollectiveKind::RaggedAllToAll => Rule::new(&s.ins, &s.outs),
    }
}

/// Whether the first operand has as many elements as the result.
fn same_size(node: &Node, program: &Program) -> bool {
    let elements = |v: &ValueId| program.value(*v).dims().iter().product::<u64>();
    node.inputs().first().map(elements) == node.results.first().map(elements)
}

/// When a node takes part in propagation.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "the order of propagation is a preference: what is not listed waits for a later round"
)]
pub fn round(node: &Node, program: &Program) -> Round {
    match &node.kind {
        NodeKind::Op(op) => match op {
            Op::Dot { .. } | Op::Reduce { .. } | Op::Gather(_) | Op::Scatter(_) | Op::Convolution(_) => Round::Other,
            Op::DynamicSlice { .. } | Op::DynamicUpdateSlice => Round::Slice,
            // One that adds dimensions of size 1 alone is a reshape.
            Op::Broadcast { .. } if same_size(node, program) => Round::Elementwise,
            Op::Broadcast { .. } => Round::Broadcast,
            Op::Copy | Op::OptBarrier | Op::Reshape | Op::Transpose { .. } => Round::Elementwise,
            op if op.is_elementwise() => Round::Elementwise,
            _ => Round::Other,
        },
        NodeKind::While { .. }
        | NodeKind::Conditional { .. }
        | NodeKind::Constrain
        | NodeKind::ToLocal(_)
        | NodeKind::ToGlobal(_) => Round::Elementwise,
    }
}
