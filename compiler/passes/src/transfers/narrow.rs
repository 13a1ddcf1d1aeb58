//! `narrow-rows`: arrays of narrow rows to and from full lanes, through columns.
//!
//! `[N,A]` with a small `A` has its elements at other lanes than the same elements in rows of lanes (`[N*A/128,128]`), and neither
//! walks the other's lanes in steps of one. Both do it with a third form: whole groups of rows are along lanes, and what was a
//! row's lanes are rows. So
//! a reshape becomes a transpose into that form, a view of its rows under other sizes, and a transpose out of it; both transposes
//! move full registers. A transpose before or behind the reshape is part of the second one, and costs nothing.
//!
//! ```text
//! [R,128] = [G,K,128] --transpose--> [K,128,G] = [128,A,G] --transpose--> [A,G,128] = [A,N]
//! ```

use super::super::edit::Emit;
use std::collections::BTreeMap;
use systole_hlo::graph::{ArrayShape, Computation, Node, NodeId, Op};
use systole_isa::{DType, Layout};

/// The factor of memory that full lanes save at least.
const LESS: u64 = 2;
/// Bytes that they save at least.
const SAVES: u64 = 1 << 18;
/// Rows of so many elements that divide the lanes are moved by few rotations.
const FEW: u64 = 32;
/// Least size of a dimension that stands along lanes on the way between images and their interleaved channels.
const BATCH: u64 = 32;
/// The most elements apart, times elements of their row, at which neighbours are gathered from a row while it is split.
const PIECES: u64 = 128 * 128;

/// Whether elements of dimension `p` of `to`, a part of rows of `last` elements, lie so far apart that each register of a run along
/// `p` would be put together of too many pieces of the row.
pub fn far_apart(last: u64, to: &[u64], p: usize) -> bool {
    let step: u64 = to[p + 1..].iter().product();
    step > 1 && step * to[p] <= last && step * last > PIECES
}

/// Where an array's narrow rows begin: its dimensions from `first` on are `row` elements together, fewer than the lanes; there
/// are `rows` such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrow {
    pub first: usize,
    pub rows: u64,
    pub row: u64,
}

/// The most trailing dimensions that are narrow together.
fn narrow(dims: &[u64], lanes: u64) -> Option<Narrow> {
    let (mut first, mut row) = (dims.len(), 1);
    while first > 0 && row * dims[first - 1] < lanes {
        first -= 1;
        row *= dims[first];
    }
    let rows = dims[..first].iter().product();
    (first > 0 && first < dims.len() && row > 1 && rows > 0).then_some(Narrow { first, rows, row })
}

/// Whether an array of these sizes is nothing but full rows of lanes, one behind the other.
fn is_full(dims: &[u64], lanes: u64) -> bool {
    match dims {
        [n] => n % lanes == 0,
        [1, rest @ ..] => is_full(rest, lanes),
        [.., last] => *last == lanes,
        [] => false,
    }
}

fn bytes(dtype: DType, dims: &[u64], tile: (u32, u32)) -> u64 {
    Layout::row_major(dtype, dims, tile.0, tile.1).bytes()
}

/// Whether the one form takes much more memory than the other.
fn wastes(dtype: DType, wide: &[u64], compact: &[u64], tile: (u32, u32)) -> bool {
    let (wide, compact) = (bytes(dtype, wide, tile), bytes(dtype, compact, tile));
    compact * LESS <= wide && wide - compact >= SAVES
}

/// The narrow rows of `wide`, where `compact` has the same elements in full rows of lanes.
fn behind(dtype: DType, wide: &[u64], compact: &[u64], tile: (u32, u32)) -> Option<Narrow> {
    let lanes = u64::from(tile.1);
    let fits = dtype.storage_bits() >= 8 && is_full(compact, lanes) && wastes(dtype, wide, compact, tile);
    narrow(wide, lanes).filter(|_| fits)
}

/// The dimension of `wide` that stands along lanes where a reshape between it and `compact` comes with a transpose and is cheap:
/// the last before its narrow rows.
pub fn turned_by(dtype: DType, wide: &[u64], compact: &[u64], tile: (u32, u32)) -> Option<usize> {
    let lanes = u64::from(tile.1);
    if let Some(lead) = parted(wide, compact, lanes).filter(|_| wastes(dtype, wide, compact, tile)) {
        return Some(lead - 1);
    }
    if let Some(n) = behind(dtype, wide, compact, tile) {
        return (n.rows.is_multiple_of(lanes) && n.rows > lanes).then(|| n.first - 1);
    }
    joined(wide, compact).filter(|_| wastes(dtype, wide, compact, tile)).map(|w| w - 1)
}

/// As [`turned_by`], of a reshape in a computation: the dimension, and whether the operand is the compact one.
pub fn reshape_turned_by(comp: &Computation, n: &Node, tile: (u32, u32)) -> Option<(usize, bool)> {
    let whole = |a: &&ArrayShape| !a.dynamic.contains(&true);
    let to = n.shape.as_array().filter(whole).filter(|_| n.op == Op::Reshape)?;
    let from = comp.node(n.operands[0]).shape.as_array().filter(whole)?;
    let spread =
        || spread(&to.dims, &from.dims).filter(|_| wastes(to.dtype, &to.dims, &from.dims, tile)).map(|w| w - 1);
    let unpacks = turned_by(to.dtype, &to.dims, &from.dims, tile).or_else(spread).map(|d| (d, true));
    unpacks.or_else(|| turned_by(to.dtype, &from.dims, &to.dims, tile).map(|d| (d, false)))
}

/// Where `compact` is `wide` with its last two dimensions as one: the last dimension's number.
fn joined(wide: &[u64], compact: &[u64]) -> Option<usize> {
    let last = wide.len().checked_sub(1).filter(|&l| l >= 2)?;
    let together = compact.len() == last && compact[..last - 1] == wide[..last - 1];
    (together && compact[last - 1] == wide[last - 1] * wide[last]).then_some(last)
}

/// Where `compact` is `wide` with several of its narrow rows beside each other: the last dimension's number.
fn spread(wide: &[u64], compact: &[u64]) -> Option<usize> {
    let last =
        wide.len().checked_sub(1).filter(|&l| l >= 2 && compact.len() == l + 1 && compact[..l - 1] == wide[..l - 1])?;
    let whole = compact[last] > wide[last] && compact[last].is_multiple_of(wide[last].max(1));
    (whole && compact[last - 1] * compact[last] == wide[last - 1] * wide[last]).then_some(last)
}

/// Where rows of `compact` are a long dimension of `wide` and several behind it that are few together: the number of the long one.
fn parts(wide: &[u64], compact: &[u64]) -> Option<usize> {
    let row = *compact.last()?;
    let along = (1..wide.len().checked_sub(2)?).find(|&d| wide[d..].iter().product::<u64>() == row)?;
    let few = wide[along + 1..].iter().product::<u64>() <= FEW;
    (few && wide[along] > FEW).then_some(along)
}

/// Where `compact` is `wide` with its last dimensions, of which the first are few, as one behind a long dimension: the number of
/// the first of them, and the last of them is narrow. That they are parts of a row matters to nobody while the long dimension is along lanes.
fn parted(wide: &[u64], compact: &[u64], lanes: u64) -> Option<usize> {
    let lead = compact.len().checked_sub(1).filter(|&l| l >= 1 && wide.len() > l + 1)?;
    let together = compact[..lead] == wide[..lead] && compact[lead] == wide[lead..].iter().product::<u64>();
    let narrow = wide.last().is_some_and(|&n| n <= FEW);
    (together && narrow && wide[lead] < BATCH && wide[lead - 1] >= lanes && compact[lead] >= lanes).then_some(lead)
}

/// Whether a transpose leaves what comes before narrow rows in order along lanes, in whole registers.
fn stands(at: Narrow, permutation: &[usize], lanes: u64) -> bool {
    permutation.last() == Some(&(at.first - 1)) && at.rows.is_multiple_of(lanes) && at.rows > lanes
}

/// `[group, row, G]` of full rows of lanes: the elements of so many narrow rows, a column each for every such group.
fn columns(b: &mut Emit, x: NodeId, (at, group): (Narrow, u64), lanes: u64) -> NodeId {
    let (groups, full) = (at.rows / group, group * at.row / lanes);
    let cut = b.reshape(x, &[groups, full, lanes]);
    let columns = b.transpose(cut, &[1, 2, 0]);
    b.reshape(columns, &[group, at.row, groups])
}

/// The transpose of the reshape of full rows into `dims`, where it [`stands`].
fn turned_rows(b: &mut Emit, x: NodeId, (dims, at): (&[u64], Narrow), permutation: &[usize], lanes: u64) -> NodeId {
    let columns = columns(b, x, (at, lanes), lanes);
    let turned = b.transpose(columns, &[1, 2, 0]);
    let order: Vec<usize> = (at.first..dims.len()).chain(0..at.first).collect();
    let sizes: Vec<u64> = order.iter().map(|&d| dims[d]).collect();
    let whole = b.reshape(turned, &sizes);
    let rest: Vec<usize> = permutation.iter().filter_map(|p| order.iter().position(|o| o == p)).collect();
    b.transpose(whole, &rest)
}

/// The transpose of a reshape of a compact array into narrow rows, which [`turned_by`] says is cheap.
pub fn unpacked_turned(b: &mut Emit, x: NodeId, dims: &[u64], permutation: &[usize], tile: (u32, u32)) -> NodeId {
    let lanes = u64::from(tile.1);
    if let Some(lead) = parted(dims, b.dims(x), lanes).filter(|l| permutation.last() == Some(&(l - 1))) {
        let order: Vec<usize> = (0..lead - 1).chain([lead, lead - 1]).collect();
        let turned = b.transpose(x, &order);
        // The dimensions as they lie now.
        let now: Vec<usize> = (0..lead - 1).chain(lead..dims.len()).chain([lead - 1]).collect();
        let sizes: Vec<u64> = now.iter().map(|&d| dims[d]).collect();
        let split = b.reshape(turned, &sizes);
        let rest: Vec<usize> = permutation.iter().filter_map(|p| now.iter().position(|d| d == p)).collect();
        return b.transpose(split, &rest);
    }
    match behind(b.dtype(x), dims, b.dims(x), tile).filter(|at| stands(*at, permutation, lanes)) {
        Some(at) => turned_rows(b, x, (dims, at), permutation, lanes),
        None => {
            let wide = b.reshape(x, dims);
            b.transpose(wide, permutation)
        }
    }
}

/// Where a reshape puts the last dimensions of `wide` together, of which the last is narrow, behind others that may be regrouped: the number
/// of the first of them, and the sizes with nothing else put together.
pub fn merged(wide: &[u64], to: &[u64]) -> Option<(usize, Vec<u64>)> {
    let row = *to.last()?;
    let lead = (1..wide.len().checked_sub(1)?).find(|&l| wide[l..].iter().product::<u64>() == row)?;
    let narrow = wide.last().is_some_and(|&n| n <= FEW);
    narrow.then(|| (lead, [&wide[..lead], &[row]].concat()))
}

/// A reshape that puts parts of rows together which a transpose brought back, as the transpose of what is put together before.
pub fn packed_turned(b: &mut Emit, x: NodeId, own: &ArrayShape, tile: (u32, u32)) -> Option<NodeId> {
    let Op::Transpose { permutation } = b.op(x).clone() else { return None };
    let wide = b.dims(x).to_vec();
    let lanes = u64::from(tile.1);
    let wasted = wastes(own.dtype, &wide, &own.dims, tile);
    let lead = parted(&wide, &own.dims, lanes).filter(|_| wasted);
    // Registers hold parts of the same row where they are neither along lanes nor below each other.
    let apart = |lead: usize| permutation[lead..].iter().all(|&d| d + 2 < permutation.len());
    let beside = |lead: usize| permutation[lead..].windows(2).all(|w| w[1] == w[0] + 1);
    let merged = || merged(&wide, &own.dims).map(|m| m.0).filter(|_| wasted);
    let lead = lead.or_else(|| merged().filter(|&l| apart(l) || !beside(l)))?;
    let (parts, y) = (&permutation[lead..], b.operand(x, 0));
    let (&first, &last) = (parts.first()?, parts.last()?);
    if last + 1 == permutation.len() {
        return None;
    }
    if !beside(lead) {
        return gathered_parts(b, y, (&permutation, lead), own);
    }
    let sizes = b.dims(y).to_vec();
    let row = sizes[first..=last].iter().product();
    let merged = [&sizes[..first], &[row], &sizes[last + 1..]].concat();
    let place = |d: usize| if d > last { d - (last - first) } else { d };
    let order: Vec<usize> = permutation[..lead].iter().map(|&d| place(d)).chain([first]).collect();
    let together = b.reshape(y, &merged);
    let back = b.transpose(together, &order);
    Some(b.reshape(back, &own.dims))
}

/// As [`packed_turned`], of parts that do not follow each other: rows are brought below each other first, with what is along lanes in place.
fn gathered_parts(b: &mut Emit, y: NodeId, (permutation, lead): (&[usize], usize), own: &ArrayShape) -> Option<NodeId> {
    let (leading, parts) = permutation.split_at(lead);
    let along = permutation.len() - 1;
    let outside: Vec<usize> = leading.iter().copied().filter(|&d| d != along).collect();
    (outside.len() < leading.len()).then_some(())?;
    let y = b.transpose(y, &[&outside, parts, &[along]].concat());
    let row = *own.dims.last()?;
    let sizes = [&b.dims(y)[..outside.len()], &[row, *b.dims(y).last()?]].concat();
    let together = b.reshape(y, &sizes);
    let place = |d: &usize| outside.iter().position(|o| o == d).unwrap_or(outside.len() + 1);
    let order: Vec<usize> = leading.iter().map(place).chain([outside.len()]).collect();
    let back = b.transpose(together, &order);
    Some(b.reshape(back, &own.dims))
}

/// The pass while it goes over a module.
pub struct NarrowRows {
    /// Sublanes and lanes.
    tile: (u32, u32),
    /// What was reshaped into narrow rows, by computation and result: transposes of those start from it.
    unpacked: BTreeMap<(usize, NodeId), NodeId>,
}

impl NarrowRows {
    pub fn new(tile: (u32, u32)) -> NarrowRows {
        NarrowRows { tile, unpacked: BTreeMap::new() }
    }

    /// A reshape, or a transpose of one, through columns.
    pub fn rule(&mut self, b: &mut Emit, n: &Node, operands: &[NodeId]) -> Option<NodeId> {
        let own = n.shape.as_array().filter(|a| !a.dynamic.contains(&true))?;
        if let Op::Transpose { permutation } = &n.op {
            return self.unpack_turned(b, permutation, operands[0]);
        }
        let x = *operands.first().filter(|_| n.op == Op::Reshape)?;
        if b.shape(x).as_array().is_none_or(|a| a.dynamic.contains(&true)) {
            return None;
        }
        let from = b.dims(x).to_vec();
        if let Some(at) = behind(own.dtype, &own.dims, &from, self.tile) {
            return self.unpack(b, x, (own, at));
        }
        if let Some(at) = behind(own.dtype, &from, &own.dims, self.tile) {
            return self.pack(b, x, (own, at));
        }
        self.interleave(b, x, own)
    }

    fn lanes(&self) -> u64 {
        u64::from(self.tile.1)
    }

    /// Whether rows of `row` elements are better not moved by themselves.
    fn pays(&self, row: u64) -> bool {
        row < FEW || !self.lanes().is_multiple_of(row)
    }

    /// Rows whose elements fill whole rows of lanes.
    fn group(&self, row: u64) -> u64 {
        let (mut a, mut b) = (self.lanes(), row);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        self.lanes() / a
    }

    /// Narrow rows in their own order.
    fn unpack(&mut self, b: &mut Emit, x: NodeId, (own, at): (&ArrayShape, Narrow)) -> Option<NodeId> {
        let group = self.group(at.row);
        let fits = at.rows.is_multiple_of(group) && at.rows / group > 1 && self.pays(at.row);
        (fits && b.draft.fire("narrow-unpack")).then_some(())?;
        let columns = columns(b, x, (at, group), self.lanes());
        let rows = b.transpose(columns, &[2, 0, 1]);
        let done = b.reshape(rows, &own.dims);
        self.unpacked.insert((b.place().0, done), x);
        Some(done)
    }

    /// Narrow rows turned so that there is one row for each of their elements.
    fn unpack_turned(&self, b: &mut Emit, permutation: &[usize], operand: NodeId) -> Option<NodeId> {
        let known = self.unpacked.get(&(b.place().0, operand)).copied();
        let x = known.or_else(|| (*b.op(operand) == Op::Reshape).then(|| b.operand(operand, 0)))?;
        let dims = b.dims(operand).to_vec();
        if let Some(last) = joined(&dims, b.dims(x)).or_else(|| spread(&dims, b.dims(x))) {
            return self.part(b, x, (&dims, last), permutation);
        }
        if let Some(along) = parts(&dims, b.dims(x)).filter(|along| permutation.last() == Some(along)) {
            return self.parts(b, x, (&dims, along), permutation);
        }
        let at = behind(b.dtype(x), &dims, b.dims(x), self.tile)?;
        let whole = stands(at, permutation, self.lanes());
        (whole && b.draft.fire("narrow-unpack-turned"))
            .then(|| turned_rows(b, x, (&dims, at), permutation, self.lanes()))
    }

    /// Rows `[.., W * A]` as `[.., W, parts of A..]`, turned so that `W` stands along lanes: as rows of `A`, whose parts are rows then.
    fn parts(&self, b: &mut Emit, x: NodeId, (dims, along): (&[u64], usize), permutation: &[usize]) -> Option<NodeId> {
        let (rows, row) = (dims[..along].iter().product(), dims[along + 1..].iter().product());
        let whole = b.reshape(x, &[rows, dims[along] * row]);
        let planes = self.part(b, whole, (&[rows, dims[along], row], 2), &[2, 0, 1])?;
        let order: Vec<usize> = (along + 1..dims.len()).chain(0..=along).collect();
        let sizes: Vec<u64> = order.iter().map(|&d| dims[d]).collect();
        let planes = b.reshape(planes, &sizes);
        let turned: Vec<usize> = permutation.iter().filter_map(|p| order.iter().position(|o| o == p)).collect();
        Some(b.transpose(planes, &turned))
    }

    /// Full rows of lanes of narrow rows, or of what those are a transpose of.
    fn pack(&self, b: &mut Emit, x: NodeId, (own, at): (&ArrayShape, Narrow)) -> Option<NodeId> {
        let rank = b.rank(x);
        let permutation = if let Op::Transpose { permutation } = b.op(x) { Some(permutation.clone()) } else { None };
        let whole = at.rows.is_multiple_of(self.lanes()) && at.rows > self.lanes();
        let turned = permutation.filter(|p| whole && p[at.first - 1] == rank - 1);
        let (columns, group) = match turned {
            Some(p) => {
                let group = self.lanes();
                b.draft.fire("narrow-pack-turned").then_some(())?;
                let order: Vec<usize> = p[at.first..].iter().chain(&p[..at.first]).copied().collect();
                let source = b.operand(x, 0);
                let rows = b.transpose(source, &order);
                let cut = b.reshape(rows, &[at.row, at.rows / group, group]);
                (b.transpose(cut, &[2, 0, 1]), group)
            }
            None => {
                let group = self.group(at.row);
                let fits = at.rows.is_multiple_of(group) && at.rows / group > 1 && self.pays(at.row);
                (fits && b.draft.fire("narrow-pack")).then_some(())?;
                let cut = b.reshape(x, &[at.rows / group, group, at.row]);
                (b.transpose(cut, &[1, 2, 0]), group)
            }
        };
        let full = group * at.row / self.lanes();
        let columns = b.reshape(columns, &[full, self.lanes(), at.rows / group]);
        let done = b.transpose(columns, &[2, 0, 1]);
        Some(b.reshape(done, &own.dims))
    }

    /// `[..,W*A]`, or this in rows of several `A`, as `[..,W,A]` and turned so that `W` stands along lanes: planes of elements that lie beside each other. As in
    /// [`NarrowRows::interleave`], a third dimension is along lanes on the way.
    fn part(&self, b: &mut Emit, x: NodeId, (dims, last): (&[u64], usize), permutation: &[usize]) -> Option<NodeId> {
        let dtype = b.dtype(x);
        let lies = |d: usize| permutation.iter().position(|&p| p == d).unwrap_or(0);
        // Of the others, the one that is next to the lanes where it will do.
        let others = |d: &usize| *d < last - 1 && dims[*d] >= BATCH;
        let batch = (0..dims.len()).filter(others).max_by_key(|&d| (lies(d) + 2 == dims.len(), dims[d]))?;
        let fits = dtype.storage_bits() >= 8
            && lies(last - 1) + 1 == dims.len()
            && dims[last] * LESS <= self.lanes()
            && far_apart(dims[last - 1] * dims[last], dims, last - 1)
            && wastes(dtype, dims, b.dims(x), self.tile);
        (fits && b.draft.fire("narrow-part")).then_some(())?;
        let rest: Vec<usize> = (0..last - 1).filter(|&d| d != batch).collect();
        let order: Vec<usize> = rest.iter().copied().chain(last - 1..b.rank(x)).chain([batch]).collect();
        let columns = b.transpose(x, &order);
        let order: Vec<usize> = rest.iter().copied().chain([last - 1, last, batch]).collect();
        let sizes: Vec<u64> = order.iter().map(|&d| dims[d]).collect();
        let columns = b.reshape(columns, &sizes);
        let turned: Vec<usize> = permutation.iter().filter_map(|p| order.iter().position(|o| o == p)).collect();
        Some(b.transpose(columns, &turned))
    }

    /// `[..,W*A]` of a transpose whose operand has `W` along lanes: planes put beside each other element by element. A third
    /// dimension is along lanes on the way.
    fn interleave(&self, b: &mut Emit, x: NodeId, own: &ArrayShape) -> Option<NodeId> {
        let Op::Transpose { permutation } = b.op(x).clone() else { return None };
        let dims = b.dims(x).to_vec();
        let last = joined(&dims, &own.dims)?;
        let source = b.operand(x, 0);
        // Of the others, the one that is next to the lanes where it will do.
        let others = |d: &usize| *d < last - 1 && dims[*d] >= BATCH;
        let lies = |d: usize| permutation[d];
        let batch = (0..dims.len()).filter(others).max_by_key(|&d| (lies(d) + 2 == dims.len(), dims[d]))?;
        let fits = own.dtype.storage_bits() >= 8
            && lies(last - 1) + 1 == dims.len()
            && dims[last] * LESS <= self.lanes()
            && wastes(own.dtype, &dims, &own.dims, self.tile);
        (fits && b.draft.fire("narrow-interleave")).then_some(())?;
        let rest: Vec<usize> = (0..last - 1).filter(|&d| d != batch).collect();
        let order: Vec<usize> = rest.iter().copied().chain([last - 1, last, batch]).collect();
        let from: Vec<usize> = order.iter().map(|&d| lies(d)).collect();
        let columns = b.transpose(source, &from);
        let mut sizes: Vec<u64> = rest.iter().map(|&d| dims[d]).collect();
        sizes.extend([dims[last - 1] * dims[last], dims[batch]]);
        let columns = b.reshape(columns, &sizes);
        let back: Vec<usize> = (0..last - 1)
            .map(|d| rest.iter().position(|&r| r == d).unwrap_or(rest.len() + 1))
            .chain([rest.len()])
            .collect();
        Some(b.transpose(columns, &back))
    }
}
