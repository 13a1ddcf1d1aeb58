//! Transforms of many signals beside each other, `[batch, numbers, signals]`, the signals along lanes.
//!
//! Both steps of a length `n = m * q` contract rows, so that lanes stay where they are, and what turns numbers between the steps is
//! part of one step's table: the first one's here has a table for each `c`, that of half a spectrum one for each `e`.

use super::table::{Conjugate, Pair, Rows, Wanted, each, root};
use super::{MAX_BUTTERFLY, MAX_DIRECT, parts};
use crate::dot::ROW_GROUP;
use crate::edit::Emit;
use systole_hlo::graph::number::element_bytes;
use systole_hlo::graph::{DotDims, Literal, NodeId, Op, Precision};
use systole_isa::DType;

/// Arrays of numbers between steps that vector memory holds at a time: what a step reads and writes.
const HELD: u64 = 2;

/// The chip's lanes and bytes of vector memory.
#[derive(Clone, Copy)]
pub struct Room {
    pub lanes: u64,
    pub bytes: u64,
}

/// How an array becomes `[batch, numbers, signals]`.
pub struct Columns {
    /// Its dimension of the numbers.
    d: usize,
    /// Its dimensions in that order, and how many of them are the batch.
    order: Vec<usize>,
    batch: usize,
}

impl Columns {
    /// The columns of transforms of length `n` of dimension `d`, if they are done this way: on matrix units, with signals that fill
    /// lanes and steps that fill rows. Where vector memory holds what signals as many as lanes are between steps, rows of few signals
    /// at a time need fewer passes over it.
    pub fn of(b: &Emit, x: NodeId, (d, n): (usize, u64), room: Room) -> Option<Columns> {
        let whole = |k: u64| k.is_multiple_of(ROW_GROUP) && k <= MAX_DIRECT;
        let steps = parts(n).is_some_and(|(m, q)| m > MAX_BUTTERFLY && whole(m) && whole(q));
        let dims = b.dims(x);
        let lanes = room.lanes;
        let between = n * lanes * 2 * (DType::F32.bits() as u64 / 8);
        if !steps || b.dtype(x) != DType::F32 || dims.contains(&0) || between <= room.bytes / HELD {
            return None;
        }
        // Others in the order in which they lie where a transpose hides that.
        let mut others: Vec<usize> = (0..dims.len()).filter(|&i| i != d).collect();
        if let Op::Transpose { permutation } = b.op(x) {
            others.sort_by_key(|&i| permutation[i]);
        }
        let signals = |from: usize| others[from..].iter().map(|&i| dims[i]).product::<u64>();
        // The last dimension alone, or all of them.
        let batch =
            [others.len().saturating_sub(1), 0].into_iter().find(|&from| signals(from).is_multiple_of(lanes))?;
        let order = others[..batch].iter().copied().chain([d]).chain(others[batch..].iter().copied()).collect();
        Some(Columns { d, order, batch })
    }

    /// Does something to `[batch, n, signals]`; the numbers may be several dimensions afterwards.
    pub fn done(&self, b: &mut Emit, p: Pair, f: &mut dyn FnMut(&mut Emit, Pair) -> Pair) -> Pair {
        let (d, batch, rank) = (self.d, self.batch, self.order.len());
        let mut sizes: Vec<u64> = self.order.iter().map(|&i| b.dims(p.re)[i]).collect();
        let product = |d: &[u64]| d.iter().product::<u64>();
        let columns = [product(&sizes[..batch]), sizes[batch], product(&sizes[batch + 1..])];
        let x = each(b, p, &mut |b, x| {
            let x = b.transpose(x, &self.order);
            b.reshape(x, &columns)
        });
        let x = f(b, x);
        let numbers = b.dims(x.re)[1..b.rank(x.re) - 1].to_vec();
        sizes.splice(batch..=batch, numbers.iter().copied());
        // The numbers' dimensions stand where `d` stood.
        let place = |i: usize| {
            let at = self.order.iter().position(|&o| o == i).expect("an order has all dimensions");
            let more = if at > batch { numbers.len() - 1 } else { 0 };
            at + more..at + more + if i == d { numbers.len() } else { 1 }
        };
        let back: Vec<usize> = (0..rank).flat_map(place).collect();
        each(b, x, &mut |b, x| {
            let x = b.reshape(x, &sizes);
            let x = b.transpose(x, &back);
            let mut merged = b.dims(x).to_vec();
            merged.splice(d..d + numbers.len(), [product(&numbers)]);
            b.reshape(x, &merged)
        })
    }
}

/// Products `[batch, t, results, signals]` of `[batch, t, numbers, signals]` with tables `[t, results, numbers]`, or with one for all.
fn products(b: &mut Emit, t: NodeId, x: NodeId) -> NodeId {
    let [batch, count] = [b.dims(x)[0], b.dims(x)[1]];
    let rank = b.rank(t);
    let all = [&[batch, count][..], &b.dims(t)[rank - 2..]].concat();
    let map: Vec<usize> = (4 - rank..4).collect();
    let (part, t) = (b.dtype(x), b.broadcast(t, &map, &all));
    let dims =
        DotDims { lhs_contracting: vec![3], rhs_contracting: vec![2], lhs_batch: vec![0, 1], rhs_batch: vec![0, 1] };
    b.dot(t, x, dims, Precision::Highest, part)
}

/// Transforms of length `n`, `[batch, bins.., signals]`, of the first numbers of signals that are zero behind these.
pub fn transform(b: &mut Emit, p: Pair, n: u64, (sign, wanted): (f64, Wanted)) -> Pair {
    let (m, q) = parts(n).expect("a length that has columns splits");
    let half = wanted == Wanted::Half && p.im.is_none();
    let h = if half { m / 2 + 1 } else { m };
    let x = first_step(b, p, (m, q), (h, sign));
    if half {
        // The bins of blocks, and of blocks from the last on, whose conjugates are those of the first ones.
        let blocks = n / 2 / m + 1;
        let own = (0..blocks).map(|f| (f, false));
        let rows: Vec<(u64, bool)> = own.chain((0..blocks).map(|f| (q - 1 - f, true))).collect();
        let x = second_step(b, x, q, &rows, sign);
        return each(b, x, &mut |b, x| joined(b, x, (m, h), n / 2));
    }
    let all: Vec<(u64, bool)> = (0..q).map(|f| (f, false)).collect();
    let x = second_step(b, x, q, &all, sign);
    let p = each(b, x, &mut |b, x| b.transpose(x, &[0, 2, 1, 3]));
    if wanted == Wanted::All {
        return p;
    }
    let p = each(b, p, &mut |b, x| {
        let [batch, signals] = [b.dims(x)[0], b.dims(x)[3]];
        b.reshape(x, &[batch, n, signals])
    });
    wanted.cut(b, p, 1, n)
}

/// The first step, of element `a * q + c` over `a`, turned: `[batch, e, real and imaginary parts of c, signals]`, some more `e` than
/// `h` where these do not fill registers.
fn first_step(b: &mut Emit, p: Pair, (m, q): (u64, u64), (h, sign): (u64, f64)) -> NodeId {
    let part = b.dtype(p.re);
    let [batch, have, signals] = [b.dims(p.re)[0], b.dims(p.re)[1], b.dims(p.re)[2]];
    let (ins, wide) = (have.div_ceil(q), h.next_multiple_of(ROW_GROUP).min(m));
    let whole = |b: &mut Emit, x: NodeId| {
        let zero = b.scalar(part, 0.0);
        let x = b.pad_dim(x, zero, 1, (0, (ins * q - have) as i64));
        b.reshape(x, &[batch, ins, q, signals])
    };
    let mut x = vec![whole(b, p.re)];
    x.extend(p.im.map(|i| whole(b, i)));
    let x = b.concatenate(&x, 1);
    let x = b.transpose(x, &[0, 2, 1, 3]);
    let rows = Rows { results: wide, numbers: ins, complex: p.im.is_some() };
    let t = rows.tables(b, part, (q, Conjugate::Result), &|c, e, a| (root(e, a * q + c, m * q, sign), false));
    let x = products(b, t, x);
    let x = b.reshape(x, &[batch, q, 2, wide, signals]);
    let x = b.transpose(x, &[0, 3, 2, 1, 4]);
    b.reshape(x, &[batch, wide, 2 * q, signals])
}

/// The second step, over `c`: `[batch, e, f, signals]` for the `f` of `rows`, conjugated or not.
fn second_step(b: &mut Emit, x: NodeId, q: u64, rows: &[(u64, bool)], sign: f64) -> Pair {
    let part = b.dtype(x);
    let results = rows.len() as u64;
    let table = Rows { results, numbers: q, complex: true };
    let t = table.tables(b, part, (1, Conjugate::Result), &|_, i, c| {
        let (f, conjugate) = rows[i as usize];
        (root(f, c, q, sign), conjugate)
    });
    let t = b.reshape(t, &[2 * results, 2 * q]);
    let out = products(b, t, x);
    let re = b.slice_dim(out, 2, 0, results, 1);
    Pair { re, im: Some(b.slice_dim(out, 2, results, 2 * results, 1)) }
}

/// The bins `0..=half` of real signals, `[batch, bins, signals]`, of rows `[batch, e, f, signals]` of the bins whose `e` is below `h`,
/// and of those whose conjugates the others are, of the last `f` first, conjugated.
fn joined(b: &mut Emit, x: NodeId, (m, h): (u64, u64), half: u64) -> NodeId {
    let [batch, rows, signals] = [b.dims(x)[0], b.dims(x)[2], b.dims(x)[3]];
    let blocks = rows / 2;
    let own = b.slice_dim(x, 1, 0, h, 1);
    let own = b.slice_dim(own, 2, 0, blocks, 1);
    let other = b.slice_dim(x, 1, 1, m - h + 1, 1);
    let other = b.slice_dim(other, 2, blocks, rows, 1);
    let other = b.reverse(other, &[1]);
    let turned = [own, other].map(|x| b.transpose(x, &[0, 2, 1, 3]));
    let all = b.concatenate(&turned, 2);
    let all = b.reshape(all, &[batch, blocks * m, signals]);
    b.slice_dim(all, 1, 0, half + 1, 1)
}

/// The real signals of length `n = m * q`, `[batch, m, q, signals]`, both even, scaled by `scale`, of the first half of their spectrum,
/// `[batch, n / 2 + 1, signals]`.
///
/// Bin `e + m * f`, element `a * q + c`. The first step, over `f`, is done for `e` up to `m / 2` only: its results for other `e` are
/// the conjugates of those for `m - e`, so that the second step, over `e`, counts them twice.
pub fn from_half(b: &mut Emit, p: Pair, n: u64, scale: f64) -> NodeId {
    let (m, q) = parts(n).expect("a length that has columns splits");
    let part = b.dtype(p.re);
    let [batch, signals] = [b.dims(p.re)[0], b.dims(p.re)[2]];
    let (h, half) = (m / 2 + 1, n / 2);
    // Bins of block f, and those whose conjugates are the bins of block q - 1 - f.
    let blocks = |b: &mut Emit, x: NodeId| -> [NodeId; 2] {
        let own = b.slice_dim(x, 1, 0, half, 1);
        let own = b.reshape(own, &[batch, q / 2, m, signals]);
        let other = b.slice_dim(x, 1, 1, half + 1, 1);
        let other = b.reshape(other, &[batch, q / 2, m, signals]);
        let other = b.slice_dim(other, 2, m - h, m, 1);
        let both = [b.slice_dim(own, 2, 0, h, 1), b.reverse(other, &[2])];
        both.map(|x| b.transpose(x, &[0, 2, 1, 3]))
    };
    let mut all = blocks(b, p.re).to_vec();
    if let Some(im) = p.im {
        all.extend(blocks(b, im));
    }
    let x = b.concatenate(&all, 2);
    // The imaginary part of a conjugate is turned the other way.
    let bin = |e: u64, f: u64| if f < q / 2 { (e + m * f, false) } else { (e + m * (q - 1 - (f - q / 2)), true) };
    let rows = Rows { results: q, numbers: q, complex: p.im.is_some() };
    let t = rows.tables(b, part, (h, Conjugate::Number), &|e, c, f| {
        let (bin, conjugate) = bin(e, f);
        (root(c, bin, n, 1.0), conjugate)
    });
    let x = products(b, t, x);
    let re = b.slice_dim(x, 2, 0, q, 1);
    let im = b.slice_dim(x, 2, q, 2 * q, 1);
    let im = b.slice_dim(im, 1, 1, h - 1, 1);
    let turned = [re, im].map(|x| b.transpose(x, &[0, 2, 1, 3]));
    let x = b.concatenate(&turned, 2);
    let t = last_table(b, part, m, scale);
    let x = products(b, t, x);
    b.transpose(x, &[0, 2, 1, 3])
}

/// The table `[m, m]` from real parts for `e` in `0..=m / 2` and imaginary ones but for the first and the last `e`, whose sines are
/// zero, to the numbers of a real signal, times `scale`.
pub(super) fn last_table(b: &mut Emit, part: DType, m: u64, scale: f64) -> NodeId {
    let h = m / 2 + 1;
    let mut bytes = Vec::new();
    for a in 0..m {
        for j in 0..m {
            let e = if j < h { j } else { j - h + 1 };
            let weight = if e == 0 || e == m / 2 { scale } else { 2.0 * scale };
            let angle = root(a, e, m, 1.0);
            let value = if j < h { angle.cos() } else { -angle.sin() };
            bytes.extend(element_bytes(part, weight * value));
        }
    }
    b.constant(Literal::new(part, &[m, m], bytes))
}
