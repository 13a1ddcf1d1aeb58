//! Sorts of more than vector memory holds: row by row, and long rows as runs that are sorted one by one and merged.
//!
//! Runs are merged by the levels of a bitonic network whose steps between runs are elementwise over the whole array, which
//! streams; what is left of a level is within the runs, and sorts them again. Elements carry their places, by which equal
//! ones keep their order and what fills the last run comes behind everything, unless they are nothing but integers.

use super::sort::one_integer;
use crate::edit::Emit;
use crate::make::one_or_tuple;
use systole_hlo::analysis::Network;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, CompId, Direction, NodeId, Op, PadDim, Shape};
use systole_isa::DType;

/// Vector memory, and rows and lanes of a register.
#[derive(Clone, Copy)]
pub struct Room {
    pub bytes: u64,
    pub sublanes: u64,
    pub lanes: u64,
}

impl Room {
    /// For what is known to fit.
    pub const ENOUGH: Room = Room { bytes: u64::MAX, sublanes: 1, lanes: 1 };

    /// Elements that can be sorted at once, a power of two: their words lie in vector memory as operands, in the network's
    /// array and as results, on the way between them too unless there is only one.
    fn elements(self, words: u64) -> u64 {
        let word = if words == 1 { 16 } else { 32 };
        let most = (self.bytes / (word * words)).max(2 * self.lanes * self.lanes);
        1 << most.ilog2()
    }
}

/// Words of an element: those of all operands, and its place unless that is one of them or a word is all that there is.
fn words(b: &Emit, operands: &[NodeId], body: CompId) -> u64 {
    match operands.iter().map(|&x| b.dtype(x).components() as u64).sum::<u64>() {
        1 => 1,
        n if places_among(b, operands, body).is_some() => n,
        n => n + 1,
    }
}

/// The operand that is each element's place, and which the comparator does not look at.
fn places_among(b: &Emit, operands: &[NodeId], body: CompId) -> Option<usize> {
    let c = &b.draft.computations[body.index()];
    let last = b.rank(operands[0]) - 1;
    let unseen = |i: usize| {
        c.params.chunks(2).nth(i).is_some_and(|p| !c.nodes.iter().any(|n| p.iter().any(|q| n.operands.contains(q))))
    };
    (0..operands.len()).find(|&i| {
        let x = operands[i];
        b.dtype(x) == DType::S32 && matches!(b.op(x), Op::Iota { dim } if *dim == last) && unseen(i)
    })
}

/// The sort along the last dimension of `[n]` or `[rows, n]`; `None` if it fits into vector memory as it is.
pub fn large(b: &mut Emit, operands: &[NodeId], body: CompId, room: Room) -> Result<Option<Vec<NodeId>>, CompileError> {
    let dims = b.dims(operands[0]).to_vec();
    let fits = room.elements(words(b, operands, body));
    let (rows, n) = match dims[..] {
        [n] => (1, n),
        [rows, n] => (rows, n),
        _ => return Ok(None),
    };
    // The network of one of several sequences has so many rows at least.
    let least = if rows == 1 { 1 } else { room.sublanes * room.sublanes };
    let each = n.checked_next_power_of_two().unwrap_or(u64::MAX).max(least);
    if rows.saturating_mul(each) <= fits || n > i32::MAX as u64 / 2 {
        return Ok(None);
    }
    if each > fits {
        return by_runs(b, operands, body, room).map(Some);
    }
    // So many rows at a time; the last ones may be sorted twice.
    let some = (fits / each).clamp(1, rows);
    // Rows as the network has them, where that is what they are: others fill few rows of registers.
    let registers = (room.sublanes, room.lanes);
    let network = Network::choose(some, n, registers);
    let shape = match network.is_full() && network.turns(registers) {
        true => [rows << network.group_bits, network.rows()],
        false => [rows, n],
    };
    let lines = shape[0] / rows;
    let given: Vec<NodeId> = operands.iter().map(|&x| b.reshape(x, &shape)).collect();
    let nothing: Vec<NodeId> = operands.iter().map(|&x| b.splat(b.dtype(x), &shape, 0.0)).collect();
    let place = places_among(b, operands, body);
    let state = [given, nothing].concat();
    let done = b.counted_loop("sort", rows.div_ceil(some), &state, |b, i, s| {
        let zero = b.index(0);
        let at = b.with(Binary::Mul, i, (some * lines) as f64);
        let last = ((rows - some) * lines) as f64;
        let at = if rows.is_multiple_of(some) { at } else { b.with(Binary::Min, at, last) };
        let (given, made) = s.split_at(operands.len());
        let mut part = Vec::new();
        for (k, &x) in given.iter().enumerate() {
            part.push(match place == Some(k) {
                true => b.iota(DType::S32, &[some, n], 1),
                false => {
                    let x = b.dynamic_slice(x, &[at, zero], &[some * lines, shape[1]]);
                    b.reshape(x, &[some, n])
                }
            });
        }
        let sorted = one(b, &part, body, true);
        let mut next = given.to_vec();
        for (&to, x) in made.iter().zip(sorted) {
            let x = b.reshape(x, &[some * lines, shape[1]]);
            next.push(b.dynamic_update_slice(to, x, &[at, zero]));
        }
        Ok(next)
    })?;
    Ok(Some(done[operands.len()..].iter().map(|&x| b.reshape(x, &[rows, n])).collect()))
}

/// A sort of its own along the last dimension; one that need not be stable has a strict total order.
fn one(b: &mut Emit, operands: &[NodeId], body: CompId, stable: bool) -> Vec<NodeId> {
    let shapes: Vec<Shape> = operands.iter().map(|&x| b.shape(x).clone()).collect();
    let op = Op::Sort { dim: b.rank(operands[0]) - 1, stable, body };
    let sorted = b.emit(op, operands, one_or_tuple(shapes));
    b.elements_of(sorted)
}

/// A sort of `[n]` or `[rows, n]` by runs.
fn by_runs(b: &mut Emit, operands: &[NodeId], body: CompId, room: Room) -> Result<Vec<NodeId>, CompileError> {
    let dims = b.dims(operands[0]).to_vec();
    let last = dims.len() - 1;
    let n = dims[last];
    // Equal integers that nothing goes along with are the same in any order; else places are an operand here.
    let alike =
        operands.len() == 1 && n.is_power_of_two() && one_integer(&b.draft.computations[body.index()]).is_some();
    let own = places_among(b, operands, body);
    let carried: u64 = operands.iter().map(|&x| b.dtype(x).components() as u64).sum();
    let run = room.elements(carried + u64::from(!alike && own.is_none())).min(n.next_power_of_two());
    let count = n.div_ceil(run).next_power_of_two();
    let mut full = dims.clone();
    full[last] = count * run;
    let lines = [full.iter().product::<u64>() / room.lanes, room.lanes];
    let mut edges = vec![PadDim::NONE; dims.len()];
    edges[last].high = (count * run - n) as i64;
    let mut arrays: Vec<NodeId> = Vec::new();
    for (i, &x) in operands.iter().enumerate() {
        if own == Some(i) {
            let places = b.iota(DType::S32, &full, last);
            arrays.push(b.reshape(places, &lines));
            continue;
        }
        let fill = b.scalar(b.dtype(x), 0.0);
        let x = b.pad(x, fill, &edges);
        arrays.push(b.reshape(x, &lines));
    }
    let order = if alike {
        body
    } else {
        if own.is_none() {
            let places = b.iota(DType::S32, &full, last);
            arrays.push(b.reshape(places, &lines));
        }
        ordered(b, operands, own, (body, (count * run > n).then_some(n)))?
    };
    let mut arrays = each_run(b, &arrays, order, run, room.lanes)?;
    let mut level = 2;
    while level <= count {
        arrays = between(b, &arrays, order, (level / 2 * run, true), room.lanes)?;
        let mut distance = level / 4;
        while distance > 0 {
            arrays = between(b, &arrays, order, (distance * run, false), room.lanes)?;
            distance /= 2;
        }
        arrays = each_run(b, &arrays, order, run, room.lanes)?;
        level *= 2;
    }
    arrays.truncate(operands.len());
    let cut = |x: NodeId| {
        let whole = b.reshape(x, &full);
        b.slice_dim(whole, last, 0, n, 1)
    };
    Ok(arrays.into_iter().map(cut).collect())
}

/// A strict total order of elements with their places (operand `own`, or behind all of them): the comparator's where it says
/// different things, else the places'; what lies from place `limit` on, if anything fills the last run, comes behind all others.
fn ordered(
    b: &mut Emit,
    operands: &[NodeId],
    own: Option<usize>,
    (body, limit): (CompId, Option<u64>),
) -> Result<CompId, CompileError> {
    let added = own.is_none().then_some(DType::S32);
    let types: Vec<DType> = operands.iter().map(|&x| b.dtype(x)).chain(added).collect();
    b.computation("ordered", |b| {
        let mut params = Vec::new();
        for &t in &types {
            params.push(b.parameter(Shape::array(t, &[])));
            params.push(b.parameter(Shape::array(t, &[])));
        }
        let values = &params[..2 * operands.len()];
        let at = 2 * own.unwrap_or(operands.len());
        let places = &params[at..at + 2];
        let less = b.apply(body, values, &[])?[0];
        let first = b.compare(Direction::Lt, places[0], places[1]);
        let by_value = match one_integer(&b.draft.computations[body.index()]) {
            // Integers are alike if they are equal.
            Some((seen, _)) => {
                let equal = b.compare(Direction::Eq, values[2 * seen], values[2 * seen + 1]);
                let among = b.and(equal, first);
                b.binary(Binary::Or, less, among)
            }
            None => {
                let turned: Vec<NodeId> = values.chunks(2).flat_map(|p| [p[1], p[0]]).collect();
                let more = b.apply(body, &turned, &[])?[0];
                let decided = b.binary(Binary::Xor, less, more);
                b.select(decided, less, first)
            }
        };
        let Some(n) = limit else { return Ok(by_value) };
        // What fills the last run lies behind all places.
        let last = b.binary(Binary::Max, places[0], places[1]);
        let limit = b.index(n as i64);
        let inside = b.compare(Direction::Lt, last, limit);
        Ok(b.select(inside, by_value, first))
    })
}

/// Sorts every run.
fn each_run(b: &mut Emit, arrays: &[NodeId], order: CompId, run: u64, lanes: u64) -> Result<Vec<NodeId>, CompileError> {
    let lines = b.dims(arrays[0])[0];
    let size = run / lanes;
    b.counted_loop("run", lines / size, arrays, |b, i, s| {
        let zero = b.index(0);
        let at = b.with(Binary::Mul, i, size as f64);
        let part: Vec<NodeId> = s
            .iter()
            .map(|&x| {
                let x = b.dynamic_slice(x, &[at, zero], &[size, lanes]);
                b.reshape(x, &[run])
            })
            .collect();
        let sorted = one(b, &part, order, false);
        let back = |(&to, x): (&NodeId, NodeId)| {
            let x = b.reshape(x, &[size, lanes]);
            b.dynamic_update_slice(to, x, &[at, zero])
        };
        Ok(s.iter().zip(sorted).map(back).collect())
    })
}

/// Exchanges elements `distance` apart, or (in the first step of a level) with the mirror image of the block's other half.
fn between(
    b: &mut Emit,
    arrays: &[NodeId],
    order: CompId,
    (distance, mirror): (u64, bool),
    lanes: u64,
) -> Result<Vec<NodeId>, CompileError> {
    let given = b.dims(arrays[0]).to_vec();
    let half = distance / lanes;
    let blocks = given[0] / (2 * half);
    let whole = [blocks, 2, half, lanes];
    let side = [blocks, 1, half, lanes];
    let mut sides = Vec::new();
    for &x in arrays {
        let x = b.reshape(x, &whole);
        let low = b.slice_dim(x, 1, 0, 1, 1);
        let high = b.slice_dim(x, 1, 1, 2, 1);
        let high = if mirror { b.reverse(high, &[2, 3]) } else { high };
        sides.push([low, high]);
    }
    let args: Vec<NodeId> = sides.iter().flat_map(|&[low, high]| [high, low]).collect();
    let swap = b.apply(order, &args, &side)?[0];
    let mut out = Vec::new();
    for [low, high] in sides {
        // The upper half may stay turned around: it is sorted again before anything counts on its order.
        let (first, second) = (b.select(swap, high, low), b.select(swap, low, high));
        let both = b.concatenate(&[first, second], 1);
        out.push(b.reshape(both, &given));
    }
    Ok(out)
}
