//! The k largest elements of rows.
//!
//! Of long rows few parts can hold one of the k largest elements: those whose own largest elements are among the k largest of
//! all parts'. They are found first, and only their elements are sorted.

use super::keys::turn;
use super::runs::Room;
use super::sort;
use crate::edit::Emit;
use systole_hlo::error::CompileError;
use systole_hlo::graph::{Binary, Direction, NodeId, Op, Order, Shape};
use systole_isa::DType;

/// Elements of a part.
const PART: u64 = 128;
/// Where there are several rows, each has a multiple of so many parts: those of all rows one after the other lie as those of each.
const SUBLANES: u64 = 8;
/// Parts are chosen among at least this many for each that is chosen.
const WORTH: u64 = 4;

/// The `k` largest (or smallest) elements of the last dimension in order, with their places; of equal ones the first.
pub fn lower(b: &mut Emit, x: NodeId, k: u64, largest: bool, room: Room) -> Result<NodeId, CompileError> {
    let dims = b.dims(x).to_vec();
    let last = dims.len() - 1;
    let n = dims[last];
    let dtype = b.dtype(x);
    let simple = matches!(dtype, DType::F32 | DType::BF16 | DType::F16 | DType::S32);
    if !simple || k == 0 || n < WORTH * PART * k {
        let places = b.iota(DType::S32, &dims, last);
        let (values, places) = first(b, x, places, (k, largest), room)?;
        return Ok(b.tuple(&[values, places]));
    }
    let rows: u64 = dims[..last].iter().product();
    let flat = b.reshape(x, &[rows, n]);
    // Integers whose order is the elements', the largest first.
    let key = if dtype.is_float() { turn(b, flat, dtype, false) } else { flat };
    let key = if largest { key } else { b.not(key) };
    let (key, places) = selected(b, key, k, room)?;
    let key = if largest { key } else { b.not(key) };
    let values = if dtype.is_float() { turn(b, key, dtype, true) } else { key };
    let out = [&dims[..last], &[k]].concat();
    let (values, places) = (b.reshape(values, &out), b.reshape(places, &out));
    Ok(b.tuple(&[values, places]))
}

/// The first `k` of all elements, sorted, and what `places` says of them.
fn first(
    b: &mut Emit,
    x: NodeId,
    places: NodeId,
    (k, largest): (u64, bool),
    room: Room,
) -> Result<(NodeId, NodeId), CompileError> {
    let dtype = b.dtype(x);
    let last = b.rank(x) - 1;
    let direction = if largest { Direction::Gt } else { Direction::Lt };
    let order = if dtype.is_float() { Order::Total } else { Order::Partial };
    let body = b.computation("top_k", |b| {
        let scalar = Shape::array(dtype, &[]);
        let index = Shape::array(DType::S32, &[]);
        let (p, q) = (b.parameter(scalar.clone()), b.parameter(scalar));
        b.parameter(index.clone());
        b.parameter(index);
        Ok(b.raw(Op::Compare { direction, order }, &[p, q], Shape::array(DType::Pred, &[])))
    })?;
    let sorted = sort::lower(b, last, body, &[x, places], room)?;
    let parts = b.elements_of(sorted);
    Ok((b.slice_dim(parts[0], last, 0, k, 1), b.slice_dim(parts[1], last, 0, k, 1)))
}

/// The `k` largest of each row of integers, with their places.
fn selected(b: &mut Emit, key: NodeId, k: u64, room: Room) -> Result<(NodeId, NodeId), CompileError> {
    let (rows, n) = (b.dims(key)[0], b.dims(key)[1]);
    if n < WORTH * PART * k {
        let places = b.iota(DType::S32, &[rows, n], 1);
        return first(b, key, places, (k, true), room);
    }
    let dtype = b.dtype(key);
    let parts = n.div_ceil(PART).next_multiple_of(if rows > 1 { SUBLANES } else { 1 });
    let least = b.bits(dtype, 1u64 << (dtype.bits() - 1));
    let key = b.pad_dim(key, least, 1, (0, (parts * PART - n) as i64));
    let table = b.reshape(key, &[rows * parts, PART]);
    let split = b.reshape(key, &[rows, parts, PART]);
    let low = -f64::from(2f32).powi(dtype.bits() as i32 - 1);
    let most = if rows * parts >= SUBLANES * PART {
        // One element of many parts after the other: that leaves the maxima along lanes, where reducing rows would not.
        let mut all = b.transpose(split, &[2, 0, 1]);
        let mut left = PART;
        while left > 1 {
            left /= 2;
            let (one, other) = (b.slice_dim(all, 0, 0, left, 1), b.slice_dim(all, 0, left, 2 * left, 1));
            all = b.binary(Binary::Max, one, other);
        }
        b.reshape(all, &[rows, parts])
    } else {
        b.reduce(split, Binary::Max, low, &[2])
    };
    // Parts with equal maxima: the first ones hold the first of equal elements.
    let (_, chosen) = selected(b, most, k, room)?;
    // In order of their places, so that equal elements stay in order.
    let ascending = b.computation("ascending", |b| {
        let index = Shape::array(DType::S32, &[]);
        let (p, q) = (b.parameter(index.clone()), b.parameter(index));
        let less = Op::Compare { direction: Direction::Lt, order: Order::Partial };
        Ok(b.raw(less, &[p, q], Shape::array(DType::Pred, &[])))
    })?;
    let chosen = sort::lower(b, 1, ascending, &[chosen], room)?;
    let own = b.iota(DType::S32, &[rows, k], 0);
    let own = b.with(Binary::Mul, own, parts as f64);
    let index = b.add(own, chosen);
    let index = b.reshape(index, &[rows * k]);
    let found = b.gather_rows(table, index, false);
    let found = b.reshape(found, &[rows, k * PART]);
    let all = [rows, k, PART];
    let first_of = b.with(Binary::Mul, chosen, PART as f64);
    let place = b.broadcast(first_of, &[0, 1], &all);
    let lane = b.iota(DType::S32, &all, 2);
    let place = b.add(place, lane);
    let place = b.reshape(place, &[rows, k * PART]);
    first(b, found, place, (k, true), room)
}
