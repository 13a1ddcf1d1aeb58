//! `whole-rows`: rows of several narrow dimensions, taken by number, as one dimension.
//!
//! Features in heads, `[N,H,D]`, that lie together (`[N,H*D]`) are split by a reshape before their rows are gathered: what is gathered,
//! and all that is computed of it, then takes a register for every few of its elements. So rows are gathered, worked on and scattered
//! together, and split behind that; what is reduced along the last dimension is turned first, so that rows stand along lanes. What is the same along the last dimension (a weight for every head, `[E,H]`) is chosen for every
//! element of the rows by its place.

use super::edit::Emit;
use std::collections::BTreeSet;
use systole_hlo::graph::{CompId, Direction, Gather, IndexMap, Node, NodeId, Op, Scatter, Shape};
use systole_isa::{DType, Layout};

/// Rows together take at least this factor less memory.
const WORTH: u64 = 4;
/// Bytes that they save at least.
const SAVES: u64 = 1 << 20;
/// Columns that are put beside each other at most.
const COLUMNS: u64 = 16;

/// The rule while it goes over a module.
pub struct WholeRows {
    /// Sublanes and lanes.
    tile: (u32, u32),
    /// What was done on whole rows, by computation.
    done: BTreeSet<(usize, NodeId)>,
}

/// An array `x` and the one that it is a reshape of: with the dimensions from `first` on as one.
struct Rows {
    from: NodeId,
    first: usize,
}

impl WholeRows {
    pub fn new(tile: (u32, u32)) -> WholeRows {
        WholeRows { tile, done: BTreeSet::new() }
    }

    /// The node on whole rows, split into its own shape.
    #[allow(clippy::wildcard_enum_match_arm, reason = "every other operation keeps its dimensions")]
    pub fn rule(&mut self, b: &mut Emit, n: &Node, operands: &[NodeId]) -> Option<NodeId> {
        let own = n.shape.as_array().filter(|a| !a.dynamic.contains(&true))?;
        if let Op::Reduce { dims, body } = &n.op {
            return self.reduced(b, operands, (dims, *body), &own.dims);
        }
        let done = match &n.op {
            Op::Gather(g) => self.gathered(b, g, operands, &own.dims)?,
            Op::Scatter(s) => self.scattered(b, s, operands, &own.dims)?,
            op if op.is_elementwise() => self.elementwise(b, n, operands)?,
            _ => return None,
        };
        self.done.insert((b.place().0, done));
        Some(b.reshape(done, &own.dims))
    }

    /// The rows that `x` is split from, if they take much less memory.
    fn rows(&self, b: &Emit, x: NodeId) -> Option<Rows> {
        let dims = b.dims(x).to_vec();
        let from = (*b.op(x) == Op::Reshape).then(|| b.operand(x, 0))?;
        let first = b.rank(from).checked_sub(1).filter(|&f| f >= 1 && f + 2 <= dims.len())?;
        let together = b.dims(from)[..first] == dims[..first];
        (together && self.saves(b, x, b.dims(from))).then_some(Rows { from, first })
    }

    fn saves(&self, b: &Emit, x: NodeId, rows: &[u64]) -> bool {
        let bytes = |dims: &[u64]| Layout::row_major(b.dtype(x), dims, self.tile.0, self.tile.1).bytes();
        let (own, whole) = (bytes(b.dims(x)), bytes(rows));
        whole.saturating_mul(WORTH) <= own && own - whole >= SAVES
    }

    /// Rows of a table.
    fn gathered(&self, b: &mut Emit, g: &Gather, operands: &[NodeId], own: &[u64]) -> Option<NodeId> {
        let &[table, indices] = operands else { return None };
        let rows = self.rows(b, table).filter(|r| r.first == 1)?;
        let (from, row) = (rows.from, b.dims(rows.from)[1]);
        let kept = own.len() - g.map.window.len();
        let whole = g.slice_sizes[1..] == b.dims(table)[1..] && g.map.window.iter().copied().eq(kept..own.len());
        let plain = g.map.collapsed == [0] && g.map.start == [0] && g.map.batching.is_empty();
        (whole && plain && b.draft.fire("whole-rows-gathered")).then_some(())?;
        let to = [&own[..kept], &[row]].concat();
        let g = Gather {
            map: IndexMap { window: vec![kept], ..g.map.clone() },
            slice_sizes: vec![g.slice_sizes[0], row],
            ..g.clone()
        };
        let shape = Shape::array(b.dtype(from), &to);
        Some(b.emit(Op::Gather(g), &[from, indices], shape))
    }

    /// Updates of rows of an array that is the same everywhere, or split from rows.
    fn scattered(&self, b: &mut Emit, s: &Scatter, operands: &[NodeId], own: &[u64]) -> Option<NodeId> {
        let &[into, indices, updates] = operands else { return None };
        let rows = self.rows(b, updates)?;
        let row = *b.dims(rows.from).last()?;
        let whole = own[1..].iter().product::<u64>() == row && b.dims(updates)[rows.first..] == own[1..];
        let plain = s.map.collapsed == [0]
            && s.map.start == [0]
            && s.map.batching.is_empty()
            && s.map.window.iter().copied().eq(rows.first..b.rank(updates));
        let to = [own[0], row];
        let free = self.is_splat(b, into) || *b.op(into) == Op::Reshape && *b.dims(b.operand(into, 0)) == to;
        (whole && plain && free && b.draft.fire("whole-rows-scattered")).then_some(())?;
        let s = Scatter { map: IndexMap { window: vec![rows.first], ..s.map.clone() }, ..s.clone() };
        let into = b.reshape(into, &to);
        let shape = Shape::array(b.dtype(into), &to);
        Some(b.emit(Op::Scatter(s), &[into, indices, rows.from], shape))
    }

    fn is_splat(&self, b: &Emit, x: NodeId) -> bool {
        matches!(b.op(x), Op::Broadcast { dims } if dims.is_empty())
    }

    /// A reduction along the last dimensions of what was made on whole rows, turned: columns are left.
    fn reduced(
        &self,
        b: &mut Emit,
        operands: &[NodeId],
        (dims, body): (&[usize], CompId),
        own: &[u64],
    ) -> Option<NodeId> {
        let &[x, init] = operands else { return None };
        let rows = self.rows(b, x).filter(|r| self.done.contains(&(b.place().0, r.from)))?;
        let (first, from) = (rows.first, rows.from);
        let count: u64 = own.get(first..)?.iter().product();
        let last = dims.iter().copied().eq(own.len()..b.rank(x));
        let several = (2..=COLUMNS).contains(&count);
        (last && several && b.draft.fire("whole-rows-reduced")).then_some(())?;
        // Rows along lanes: whole registers are combined.
        let sizes = b.dims(from).to_vec();
        let order: Vec<usize> = (0..first - 1).chain([first, first - 1]).collect();
        let turned = b.transpose(from, &order);
        let parts = [&sizes[..first - 1], &[count, sizes[first] / count, sizes[first - 1]]].concat();
        let parts = b.reshape(turned, &parts);
        let done = b.reduce_by(&[parts], &[init], &[first], body);
        let columns = b.transpose(done, &order);
        Some(b.reshape(columns, own))
    }

    /// An elementwise operation on rows that others were made on whole, and what may be put beside them.
    fn elementwise(&self, b: &mut Emit, n: &Node, operands: &[NodeId]) -> Option<NodeId> {
        let own = n.shape.as_array()?;
        let is_done = |b: &Emit, r: &Rows| self.done.contains(&(b.place().0, r.from));
        let found = |&x: &NodeId| self.rows(b, x).filter(|r| b.dims(x) == own.dims && is_done(b, r));
        let rows = operands.iter().find_map(found)?;
        let whole = b.dims(rows.from).to_vec();
        let beside = operands.iter().map(|&x| beside(b, x, (&own.dims, &whole))).collect::<Option<Vec<_>>>()?;
        b.draft.fire("whole-rows-elementwise").then_some(())?;
        let moved: Vec<NodeId> =
            operands.iter().zip(beside).map(|(&x, how)| moved(b, x, &how, (&own.dims, &whole))).collect();
        Some(b.emit(n.op.clone(), &moved, Shape::array(own.dtype, &whole)))
    }
}

/// How an operand comes to lie in whole rows.
enum Beside {
    /// It is the same everywhere.
    Scalar,
    /// It is split from such rows.
    Split,
    /// A broadcast along the dimensions before rows, or none; its map.
    Before(Vec<usize>),
    /// A broadcast of one row.
    Row,
    /// A broadcast of so many columns along the rest of rows.
    Columns(u64),
}

#[allow(clippy::wildcard_enum_match_arm, reason = "any other operand would have to be moved")]
fn beside(b: &Emit, x: NodeId, (own, whole): (&[u64], &[u64])) -> Option<Beside> {
    if b.rank(x) == 0 {
        return Some(Beside::Scalar);
    }
    let first = whole.len() - 1;
    match b.op(x) {
        Op::Reshape if b.dims(x) == own && b.dims(b.operand(x, 0)) == whole => Some(Beside::Split),
        Op::Broadcast { dims } => {
            let from = b.dims(b.operand(x, 0));
            let full = dims.iter().zip(from).all(|(&d, &n)| own[d] == n);
            let ascending = dims.windows(2).all(|w| w[0] < w[1]);
            let columns = dims.get(first..).unwrap_or_default();
            if !full || !ascending {
                None
            } else if dims.iter().all(|&d| d < first) {
                Some(Beside::Before(dims.clone()))
            } else if dims.iter().all(|&d| d >= first) {
                Some(Beside::Row)
            } else if dims[..first.min(dims.len())].iter().copied().eq(0..first)
                && columns.iter().copied().eq(first..first + columns.len())
            {
                let count = columns.iter().map(|&d| own[d]).product();
                Some(Beside::Columns(count)).filter(|_| count <= COLUMNS)
            } else {
                None
            }
        }
        _ => None,
    }
}

fn moved(b: &mut Emit, x: NodeId, how: &Beside, (own, whole): (&[u64], &[u64])) -> NodeId {
    let first = whole.len() - 1;
    match how {
        Beside::Scalar => x,
        Beside::Split => b.operand(x, 0),
        Beside::Before(map) => {
            let from = b.operand(x, 0);
            b.broadcast(from, map, whole)
        }
        Beside::Row => {
            let (from, map) = source(b, x);
            let map: Vec<usize> = map.iter().map(|d| d - first).collect();
            let split = b.broadcast(from, &map, &own[first..]);
            let row = b.reshape(split, &whole[first..]);
            b.broadcast(row, &[first], whole)
        }
        Beside::Columns(count) => {
            let (from, _) = source(b, x);
            let sizes = [&own[..first], &[*count]].concat();
            let columns = b.reshape(from, &sizes);
            let width = whole[first] / count;
            let map: Vec<usize> = (0..first).collect();
            let lane = b.iota(DType::S32, whole, first);
            // Each along all of a row, chosen by its place: one loop makes it with what it is for.
            let along = |b: &mut Emit, i: u64| {
                let column = b.slice_dim(columns, first, i, i + 1, 1);
                let column = b.reshape(column, &own[..first]);
                b.broadcast(column, &map, whole)
            };
            let mut all = along(b, count - 1);
            for i in (0..count - 1).rev() {
                let column = along(b, i);
                let end = b.splat(DType::S32, whole, ((i + 1) * width) as f64);
                let before = b.compare(Direction::Lt, lane, end);
                all = b.select(before, column, all);
            }
            all
        }
    }
}

/// What a broadcast is of, and its map.
#[allow(clippy::wildcard_enum_match_arm, reason = "asked of broadcasts alone; anything else is a broadcast of itself")]
fn source(b: &Emit, x: NodeId) -> (NodeId, Vec<usize>) {
    match b.op(x) {
        Op::Broadcast { dims } => (b.operand(x, 0), dims.clone()),
        _ => (x, (0..b.rank(x)).collect()),
    }
}
