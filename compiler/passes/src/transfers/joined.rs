//! Operations on arrays as they lie: with their last dimensions joined.
//!
//! An operation that does not care which of its elements are neighbours, on the reshape of an array that takes much less memory, is
//! done on that array, and its result reshaped: elementwise operations, broadcasts of what lies along the joined dimensions,
//! and what takes or puts down parts along the others. So a reshape moves towards the program's results, where it meets the one that
//! their layout needs, or to the first operation that wants its dimensions as they are.

use super::super::edit::{Draft, Emit, rewrite};
use super::super::make::{array, whole};
use super::groups;
use std::collections::BTreeSet;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Module, Node, NodeId, Op, Shape};
use systole_isa::Layout;

/// The array behind a reshape is used if it takes this factor less memory.
const WORTH: u64 = 2;

/// What loops carry joined: numbers of their bodies, and of elements of their states.
pub type States = BTreeSet<(usize, usize)>;

/// Lets operations work on arrays as they lie in the entry, and in the states of loops.
///
/// # Errors
/// Too large a program.
pub fn run(module: Module, draft: &mut Draft, states: States, tile: (u32, u32)) -> Result<Module, CompileError> {
    let mut joined = Joined { entry: module.entry.index(), states, tile, done: BTreeSet::new() };
    rewrite(module, draft, &mut |b, n, x| Ok(joined.rule(b, n, x)))
}

/// The rule while it goes over a module.
pub(super) struct Joined {
    /// The number of the entry computation.
    entry: usize,
    /// What bodies of loops take and give joined.
    states: States,
    /// Sublanes and lanes.
    tile: (u32, u32),
    /// What was done on joined arrays: numbers of computations, and nodes.
    done: BTreeSet<(usize, NodeId)>,
}

impl Joined {
    /// The node on joined arrays, reshaped to its own shape. Only what comes from the entry's parameters and from joined states is.
    fn rule(&mut self, b: &mut Emit, n: &Node, operands: &[NodeId]) -> Option<NodeId> {
        let at = b.place().0;
        if at != self.entry && !self.states.iter().any(|s| s.0 == at) {
            return None;
        }
        let new = on_joined(b, n, operands, self)?;
        if *b.op(new) == Op::Reshape {
            self.done.insert((at, b.operand(new, 0)));
        }
        Some(new)
    }

    /// The array that `x` is a reshape of, if it lies joined and that takes much less memory.
    #[allow(clippy::wildcard_enum_match_arm, reason = "only what comes from outside lies as it is given")]
    pub(super) fn source(&self, b: &Emit, x: NodeId) -> Option<(NodeId, Vec<u64>)> {
        if *b.op(x) != Op::Reshape {
            return None;
        }
        let from = b.operand(x, 0);
        let at = b.place().0;
        let given = match b.op(from) {
            Op::Parameter { .. } => at == self.entry,
            Op::GetTupleElement { index } => {
                matches!(b.op(b.operand(from, 0)), Op::Parameter { .. }) && self.states.contains(&(at, *index))
            }
            _ => false,
        };
        let lies = given || self.done.contains(&(at, from)) || self.is_packed(b, from);
        let bytes = |dims: &[u64]| Layout::row_major(b.dtype(x), dims, self.tile.0, self.tile.1).bytes();
        let dims = b.dims(from).to_vec();
        (lies && bytes(&dims).checked_mul(WORTH)? <= bytes(b.dims(x))).then_some((from, dims))
    }

    /// Whether rows of lanes are what updates of narrower rows were added up in.
    fn is_packed(&self, b: &Emit, x: NodeId) -> bool {
        let splat = |x: NodeId| matches!(b.op(x), Op::Broadcast { dims } if dims.is_empty());
        matches!(b.op(x), Op::Scatter(_)) && b.dims(x).get(1) == Some(&u64::from(self.tile.1)) && splat(b.operand(x, 0))
    }

    /// What a reshape that joins the last dimensions was made of: the array, its sizes, and how many dimensions are before the
    /// joined ones.
    fn behind(&self, b: &Emit, x: NodeId) -> Option<(NodeId, Vec<u64>, usize)> {
        let (from, joined) = self.source(b, x)?;
        let kept = joined.len() - 1;
        let own = b.dims(x);
        (kept <= own.len() && joined[..kept] == own[..kept]).then_some((from, joined, kept))
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "every other operation cares where its elements are")]
fn on_joined(b: &mut Emit, n: &Node, operands: &[NodeId], lies: &Joined) -> Option<NodeId> {
    let own = n.shape.as_array()?;
    if own.dynamic.contains(&true) {
        return None;
    }
    match &n.op {
        op if op.is_elementwise() => elementwise(b, n, operands, lies),
        Op::Transpose { .. } => groups::product(b, n, operands, lies),
        Op::Slice { dims } => {
            let (x, joined, kept) = lies.behind(b, *operands.first()?)?;
            let from = b.dims(operands[0]).to_vec();
            let rest = whole(&from);
            (dims[kept..] == rest[kept..]).then_some(())?;
            let last = *joined.last()?;
            let mut cut = dims[..kept].to_vec();
            cut.extend(whole(&[last]));
            b.draft.fire("joined-slice").then_some(())?;
            let part = b.slice(x, &cut);
            Some(b.reshape(part, &own.dims))
        }
        Op::Reverse { dims } => {
            let (x, _, kept) = lies.behind(b, *operands.first()?)?;
            let outside = dims.iter().all(|&d| d < kept);
            (outside && b.draft.fire("joined-reverse")).then_some(())?;
            let turned = b.reverse(x, dims);
            Some(b.reshape(turned, &own.dims))
        }
        Op::DynamicSlice { sizes } => {
            let (x, joined, kept) = lies.behind(b, *operands.first()?)?;
            let from = b.dims(operands[0]).to_vec();
            let fits = sizes[kept..] == from[kept..] && operands.len() == from.len() + 1;
            (fits && b.draft.fire("joined-slice")).then_some(())?;
            let starts = starts(b, &operands[1..], kept);
            let mut sizes = sizes[..kept].to_vec();
            sizes.push(*joined.last()?);
            let part = b.dynamic_slice(x, &starts, &sizes);
            Some(b.reshape(part, &own.dims))
        }
        Op::DynamicUpdateSlice => {
            let (x, joined, kept) = lies.behind(b, *operands.first()?)?;
            let update = b.dims(*operands.get(1)?).to_vec();
            let fits = update[kept..] == own.dims[kept..] && operands.len() == own.rank() + 2;
            (fits && b.draft.fire("joined-update")).then_some(())?;
            let starts = starts(b, &operands[2..], kept);
            let mut dims = update[..kept].to_vec();
            dims.push(*joined.last()?);
            let part = b.reshape(operands[1], &dims);
            let done = b.dynamic_update_slice(x, part, &starts);
            Some(b.reshape(done, &own.dims))
        }
        _ => None,
    }
}

/// Where parts begin: in the kept dimensions as before, in the joined one at its beginning, where the clamped starts of whole
/// dimensions are.
fn starts(b: &mut Emit, starts: &[NodeId], kept: usize) -> Vec<NodeId> {
    let zero = match starts.first() {
        Some(&s) => {
            let dtype = b.dtype(s);
            b.bits(dtype, 0)
        }
        None => b.index(0),
    };
    starts[..kept].iter().copied().chain([zero]).collect()
}

#[allow(clippy::wildcard_enum_match_arm, reason = "any other operand would have to be moved")]
fn elementwise(b: &mut Emit, n: &Node, operands: &[NodeId], lies: &Joined) -> Option<NodeId> {
    let own = array(&n.shape);
    let found: Vec<Vec<u64>> =
        operands.iter().filter(|&&x| b.dims(x) == own.dims).filter_map(|&x| Some(lies.source(b, x)?.1)).collect();
    // Rows of lanes last: where operands lie in two forms, it is the parameters' and results' one that is kept.
    let lanes = u64::from(lies.tile.1);
    let joined = found.iter().find(|d| d.last() != Some(&lanes)).or(found.first())?.clone();
    // All or none: what is not joined would have to be moved. From one joined form to another one costs little beside that.
    let moves = |b: &Emit, x: NodeId| match b.op(x) {
        _ if b.rank(x) == 0 => true,
        Op::Reshape => b.dims(x) == own.dims && (b.dims(b.operand(x, 0)) == joined || lies.source(b, x).is_some()),
        Op::Constant(_) => true,
        Op::Broadcast { dims } => spread(&own.dims, &joined, dims, b.dims(b.operand(x, 0))).is_some(),
        _ => false,
    };
    if !operands.iter().all(|&x| moves(b, x)) || !b.draft.fire("joined-elementwise") {
        return None;
    }
    let moved: Vec<NodeId> = operands.iter().map(|&x| move_one(b, x, (&own.dims, &joined))).collect();
    let done = b.emit(n.op.clone(), &moved, Shape::array(own.dtype, &joined));
    Some(b.reshape(done, &own.dims))
}

/// An operand in the joined form.
fn move_one(b: &mut Emit, x: NodeId, (own, joined): (&[u64], &[u64])) -> NodeId {
    if b.rank(x) == 0 {
        return x;
    }
    if let Op::Broadcast { dims } = b.op(x).clone() {
        let from = b.operand(x, 0);
        let sizes = b.dims(from).to_vec();
        match spread(own, joined, &dims, &sizes) {
            Some(Spread::Before(map)) => return b.broadcast(from, &map, joined),
            Some(Spread::Along { repeat }) => {
                let last = joined.len() - 1;
                let period: u64 = sizes.iter().product();
                let flat = b.reshape(from, &[period]);
                let again = b.broadcast(flat, &[1], &[repeat, period]);
                let row = b.reshape(again, &[repeat * period]);
                return b.broadcast(row, &[last], joined);
            }
            None => {}
        }
    }
    b.reshape(x, joined)
}

/// A broadcast in the joined form.
enum Spread {
    /// Along the joined dimensions: the map of those before them.
    Before(Vec<usize>),
    /// What lies along the last dimensions, again and again.
    Along { repeat: u64 },
}

fn spread(own: &[u64], joined: &[u64], map: &[usize], sizes: &[u64]) -> Option<Spread> {
    let kept = joined.len() - 1;
    let last = *joined.last()?;
    let before = map.iter().max().map_or(0, |&d| d + 1);
    if before <= kept && own.get(..before) == joined.get(..before) {
        return Some(Spread::Before(map.to_vec()));
    }
    let first = own.len() - map.len().min(own.len());
    let trailing = map.iter().copied().eq(first..own.len()) && sizes == &own[first..];
    let period: u64 = sizes.iter().product();
    (trailing && period > 0 && last.is_multiple_of(period)).then(|| Spread::Along { repeat: last / period })
}
