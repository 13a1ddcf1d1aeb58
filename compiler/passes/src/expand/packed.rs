//! Tables of narrow rows, several of which lie in a row of lanes.
//!
//! Embeddings of 16 or 32 features, `[R,W]`, take eight times or four times the memory that they need once every row has a row of lanes of its
//! own. Parameters lie together as they come (`[R*W/128,128]`), and so may what updates are added to: then rows of lanes are taken by
//! number, of which one part is kept, and updates are spread over such rows, with what changes nothing beside them.

use crate::edit::Emit;
use crate::simplify::{combiner, identity};
use systole_hlo::graph::{Binary, CompId, Direction, NodeId, Op};
use systole_isa::{DType, Layout};

/// Rows of a table in a row of lanes at most: each costs a selection.
const MOST_PARTS: u64 = 16;
/// Rows of their own take at least this factor more memory.
const WORTH: u64 = 3;
/// Bytes that are saved at least where updates go.
const SAVES: u64 = 1 << 24;

/// Bytes of a table that are given rows of their own in the time that it takes to take a row out of a row of lanes: three cycles or so.
const TAKEN: u64 = 1 << 12;

/// Rows of `width` elements, `parts` of which lie in a row of lanes.
#[derive(Clone, Copy)]
struct Packed {
    rows: u64,
    width: u64,
    parts: u64,
    /// Bytes as rows of their own.
    apart: u64,
}

impl Packed {
    /// How a table of rows would lie together, if it is large and worth that.
    fn of(b: &Emit, table: NodeId, (sublanes, lanes): (u32, u32)) -> Option<Packed> {
        let &[rows, width] = b.dims(table) else { return None };
        let lanes_ = u64::from(lanes);
        let fits = width > 0 && width < lanes_ && lanes_.is_multiple_of(width) && (rows * width).is_multiple_of(lanes_);
        if !fits || b.dtype(table).bits() != 32 || lanes_ / width > MOST_PARTS {
            return None;
        }
        let bytes = |dims: &[u64]| Layout::row_major(b.dtype(table), dims, sublanes, lanes).bytes();
        let (apart, together) = (bytes(&[rows, width]), bytes(&[rows * width / lanes_, lanes_]));
        let pays = together.saturating_mul(WORTH) <= apart && apart - together >= SAVES;
        pays.then_some(Packed { rows, width, parts: lanes_ / width, apart })
    }

    fn together(self, b: &mut Emit, table: NodeId) -> NodeId {
        b.reshape(table, &[self.rows / self.parts, self.width * self.parts])
    }

    /// The row of lanes of each row, and its part there.
    fn places(self, b: &mut Emit, row: NodeId) -> (NodeId, NodeId) {
        (b.with(Binary::Div, row, self.parts as f64), b.with(Binary::Rem, row, self.parts as f64))
    }
}

/// Whether an array comes from outside as it is.
fn is_given(b: &Emit, x: NodeId) -> bool {
    let from = if *b.op(x) == Op::Reshape { b.operand(x, 0) } else { x };
    matches!(b.op(from), Op::Parameter { .. })
}

/// Rows of a table that comes from outside, `[n, W]`, where it is more work to give each a row of its own than to take them out of
/// rows of lanes.
pub fn gathered(b: &mut Emit, table: NodeId, row: NodeId, tile: (u32, u32)) -> Option<NodeId> {
    let n = b.elements(row);
    let pays = |p: &Packed| p.apart > n.saturating_mul(TAKEN) && is_given(b, table);
    let p = Packed::of(b, table, tile).filter(pays)?;
    if !b.draft.fire("gather-packed") {
        return None;
    }
    let (line, part) = p.places(b, row);
    let lines = p.together(b, table);
    let lines = b.gather_rows(lines, line, false);
    let part = b.broadcast(part, &[0], &[n, p.width]);
    let mut found = b.slice_dim(lines, 1, 0, p.width, 1);
    for k in 1..p.parts {
        let own = b.slice_dim(lines, 1, k * p.width, (k + 1) * p.width, 1);
        let number = b.scalar(DType::S32, k as f64);
        let number = b.broadcast(number, &[], &[n, p.width]);
        let hit = b.compare(Direction::Eq, part, number);
        found = b.select(hit, own, found);
    }
    Some(found)
}

/// A table in rows of lanes, and what rows (negative: skipped) and updates `[n, W]` of it become there.
pub struct Spread {
    pub table: NodeId,
    pub row: NodeId,
    pub update: NodeId,
}

/// The same of updates that are combined with the rows of a table that comes from outside or is the same everywhere.
pub fn scattered(
    b: &mut Emit,
    (table, row, update): (NodeId, NodeId, NodeId),
    body: CompId,
    tile: (u32, u32),
) -> Option<Spread> {
    let splat = matches!(b.op(table), Op::Broadcast { dims } if dims.is_empty());
    let n = b.elements(row);
    // To spread a row costs less, and the table is made, updated and read.
    let pays = |p: &Packed| p.apart > n.saturating_mul(TAKEN / 4) && (splat || is_given(b, table));
    let p = Packed::of(b, table, tile).filter(pays)?;
    let (op, dtype) = (combiner(b, body)?, b.dtype(table));
    // A negative zero, unlike a positive one, changes no zero.
    let neutral = if op == Binary::Add && dtype.is_float() { -0.0 } else { identity(op, dtype)? };
    if !b.draft.fire("scatter-packed") {
        return None;
    }
    let all = p.width * p.parts;
    let (line, part) = p.places(b, row);
    let zero = b.splat(DType::S32, &[n], 0.0);
    let skipped = b.compare(Direction::Lt, row, zero);
    let line = b.select(skipped, row, line);
    let copies = b.concatenate(&vec![update; p.parts as usize], 1);
    let part = b.broadcast(part, &[0], &[n, all]);
    let lane = b.iota(DType::S32, &[n, all], 1);
    let own = b.with(Binary::Div, lane, p.width as f64);
    let hit = b.compare(Direction::Eq, own, part);
    let nothing = b.splat(dtype, &[n, all], neutral);
    let update = b.select(hit, copies, nothing);
    Some(Spread { table: p.together(b, table), row: line, update })
}
