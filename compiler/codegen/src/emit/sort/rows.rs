//! Passes between rows: whole registers are compared with each other.

use super::exchange::{Element, Rows, exchange, load, moved, rows_at, store};
use super::{Arrays, SortSpec};
use crate::emit::operand::Ops;
use crate::kernel::{Arg, KernelBuilder, LoopHints, M, S, Trips, V};
use systole_isa::Op;

/// Which places a kernel's registers hold, for the mask of exchanges with places that hold nothing.
struct Bounds {
    /// Place in its sequence of a lane's element in row 0, plus the rows of the sublane: ascending and (in mirrored
    /// registers) descending.
    up: V,
    down: Option<V>,
    count: V,
}

/// Number of each lane in its group, times `scale`.
pub fn group_lane(b: &mut KernelBuilder, spec: &SortSpec, scale: u32) -> V {
    let lane = b.lane();
    let lane = b.and(lane, (1 << spec.group_bits) - 1);
    b.muli(lane, scale as i32)
}

impl Bounds {
    fn new(b: &mut KernelBuilder, spec: &SortSpec, stride: i32, mirror: bool) -> Option<Bounds> {
        if spec.full() {
            return None;
        }
        let base = group_lane(b, spec, 1 << spec.row_bits);
        let sub = b.sublane();
        let sub = b.muli(sub, stride);
        Some(Bounds {
            up: b.addi(base, sub),
            down: mirror.then(|| b.subi(base, sub)),
            count: b.v_imm(spec.count as i32),
        })
    }

    /// Lanes whose element of the register at `row + offset` is one.
    fn mask(&self, b: &mut KernelBuilder, row: S, offset: i32, down: bool) -> M {
        let row = b.s_addi(row, offset);
        let row = b.splat(row);
        let first = if down { self.down.unwrap_or(self.up) } else { self.up };
        let place = b.addi(first, row);
        b.cmp(Op::VLtS, place, self.count)
    }
}

/// A register of a pass: its row within the sequence (where [`Bounds`] ask for it) and in the arrays, both with an offset,
/// and the distance of its sublanes' rows.
#[derive(Clone)]
struct At {
    row: S,
    arrays: Rows,
    offset: i32,
    stride: i32,
}

/// Makes the steps of a pass on its registers: the mirror step first (if `mirror`), then distances `2^(bits-1)`.. or
/// `2^(bits-2)`.. to 1, in registers.
fn steps(
    b: &mut KernelBuilder,
    spec: &SortSpec,
    e: &mut [Element],
    at: &[At],
    bounds: Option<&Bounds>,
    (bits, mirror): (u32, bool),
) {
    let mut step = |b: &mut KernelBuilder, x: usize, y: usize| {
        let valid = bounds.map(|m| m.mask(b, at[y].row, at[y].offset, at[y].stride < 0));
        let (low, high) = e.split_at_mut(y);
        exchange(b, spec, &mut low[x], &mut high[0], valid);
    };
    let n = 1usize << bits;
    if mirror {
        for x in 0..n {
            // Within blocks of all registers.
            let y = x ^ (n - 1);
            if x < y {
                step(b, x, y);
            }
        }
    }
    for d in (0..bits - mirror as u32).rev() {
        for x in 0..n {
            let y = x | 1 << d;
            if x != y {
                step(b, x, y);
            }
        }
    }
}

/// Runs `f` for all blocks of `2^bits` registers of all planes: row within the sequences, in the network's array, and in
/// the operands' own. The sublanes lie along the bits above.
fn blocks(
    b: &mut KernelBuilder,
    spec: &SortSpec,
    a: &[&Arrays],
    bits: u32,
    f: &mut dyn FnMut(&mut KernelBuilder, S, S, S),
) {
    let step = b.shape().0 << bits;
    let hints = LoopHints::independent(&a.iter().flat_map(|a| a.buffers()).collect::<Vec<_>>());
    let (plane, own) = (b.s_var(0), b.s_var(0));
    b.loop_static(spec.planes, |b| {
        let row = b.s_var(0);
        let (array, outside) = (b.s_copy(plane), b.s_copy(own));
        b.loop_with(Trips::Static((1 << spec.row_bits) / step), hints.clone(), |b| {
            f(b, row, array, outside);
            b.s_inc(row, step as i32);
            b.s_inc(array, step as i32);
            b.s_inc(outside, step as i32);
        });
        b.s_inc(plane, spec.inner().0 as i32);
        b.s_inc(own, spec.plane_rows as i32);
    });
}

/// See [`super::Pass::First`].
pub fn first(b: &mut KernelBuilder, spec: &SortSpec, bits: u32) {
    let stride = 1i32 << bits;
    let unplaced = SortSpec { places: None, ..spec.clone() };
    let from = Arrays::outside(b, &unplaced, &vec![true; spec.dtypes.len()]);
    let to = Arrays::new(b, spec);
    let bounds = Bounds::new(b, spec, stride, false);
    let places = spec.places.map(|p| {
        let base = group_lane(b, spec, p.lane);
        let sub = b.sublane();
        let sub = b.muli(sub, stride * p.row as i32);
        (b.addi(base, sub), p.row as i32)
    });
    blocks(b, spec, &[&from, &to], bits, &mut |b, row, array, outside| {
        let mut e = Vec::new();
        let mut at = Vec::new();
        let (source, target) = (rows_at(b, &from, outside), rows_at(b, &to, array));
        for t in 0..1 << bits {
            let mut x = load(b, &from, &source, t, stride);
            if let Some((base, scale)) = places {
                let s = b.s_muli(row, scale);
                let s = b.s_addi(s, t * scale);
                let s = b.splat(s);
                x.push(b.addi(base, s));
            }
            e.push(x);
            at.push(At { row, arrays: target.clone(), offset: t, stride });
        }
        for level in 1..=bits {
            for (e, at) in e.chunks_mut(1 << level).zip(at.chunks(1 << level)) {
                steps(b, spec, e, at, bounds.as_ref(), (level, true));
            }
        }
        for (e, at) in e.iter().zip(&at) {
            store(b, &to, e, &at.arrays, at.offset, at.stride);
        }
    });
}

/// See [`super::Pass::Last`].
pub fn last(b: &mut KernelBuilder, spec: &SortSpec, bits: u32) {
    let stride = 1i32 << bits;
    let a = Arrays::new(b, spec);
    let bounds = Bounds::new(b, spec, stride, false);
    blocks(b, spec, &[&a], bits, &mut |b, row, array, _| {
        let arrays = rows_at(b, &a, array);
        let at: Vec<At> = (0..1 << bits).map(|offset| At { row, arrays: arrays.clone(), offset, stride }).collect();
        run(b, spec, &a, &at, bounds.as_ref(), (bits, false));
    });
}

/// See [`super::Pass::Out`].
pub fn out(b: &mut KernelBuilder, spec: &SortSpec) {
    let from = Arrays::new(b, spec);
    let to = Arrays::outside(b, spec, &spec.results);
    let mut wanted = Vec::new();
    for (w, word) in super::exchange::words(spec).iter().enumerate() {
        if spec.results[word.operand] {
            wanted.push(from.words[w]);
        }
    }
    let from = Arrays { words: wanted, ..from };
    blocks(b, spec, &[&from, &to], 0, &mut |b, _, array, outside| {
        let (source, target) = (rows_at(b, &from, array), rows_at(b, &to, outside));
        let e = load(b, &from, &source, 0, 1);
        store(b, &to, &e, &target, 0, 1);
    });
}

fn run(
    b: &mut KernelBuilder,
    spec: &SortSpec,
    a: &Arrays,
    at: &[At],
    bounds: Option<&Bounds>,
    (bits, mirror): (u32, bool),
) {
    let mut e: Vec<Element> = at.iter().map(|p| load(b, a, &p.arrays, p.offset, p.stride)).collect();
    steps(b, spec, &mut e, at, bounds, (bits, mirror));
    for (e, p) in e.iter().zip(at) {
        store(b, a, e, &p.arrays, p.offset, p.stride);
    }
}

/// See [`super::Pass::Rows`].
pub fn middle(b: &mut KernelBuilder, spec: &SortSpec, mirror: bool, bits: u32) {
    let a = Arrays::new(b, spec);
    let lo = b.param();
    let sub = b.shape().0;
    let sub_bits = sub.ilog2() as i32;
    let bounds = Bounds::new(b, spec, 1, mirror);
    // Distance of registers, rows below it less the sublanes, and the bits of the counter that are rows below.
    let one = b.s_var(1);
    let step = b.s(Op::SShl, &[one, lo]);
    let high = b.s_addi(lo, bits as i32);
    let low_bits = b.s_addi(lo, -sub_bits);
    let low_mask = b.s(Op::SShl, &[one, low_bits]);
    let low_mask = b.s_addi(low_mask, -1);
    let last = b.s_addi(step, -1);
    let half = b.def_s(Op::SShlI, &[step.into(), Arg(bits as i32 - 1)]);
    let hints = LoopHints::independent(&a.buffers());
    let plane = b.s_var(0);
    b.loop_static(spec.planes, |b| {
        let i = b.s_var(0);
        b.loop_with(Trips::Static((1 << spec.row_bits) / (sub << bits)), hints.clone(), |b| {
            let low = b.s(Op::SAnd, &[i, low_mask]);
            let low = b.def_s(Op::SShlI, &[low.into(), Arg(sub_bits)]);
            let block = b.s(Op::SShr, &[i, low_bits]);
            let block = b.s(Op::SShl, &[block, high]);
            let mut at = Vec::new();
            let n = 1 << bits;
            // Registers below the middle from the block's start, those above (of a mirrored block) from its middle.
            let up = b.s(Op::SAdd, &[block, low]);
            ascend(b, &a, (up, plane), step, if mirror { n / 2 } else { n }, (1, bounds.is_some()), &mut at);
            if mirror {
                let down = b.s(Op::SSub, &[last, low]);
                let down = b.s(Op::SAdd, &[block, down]);
                let down = b.s(Op::SAdd, &[down, half]);
                ascend(b, &a, (down, plane), step, n / 2, (-1, bounds.is_some()), &mut at);
            }
            run(b, spec, &a, &at, bounds.as_ref(), (bits, mirror));
            b.s_inc(i, 1);
        });
        b.s_inc(plane, spec.inner().0 as i32);
    });
}

/// Appends `n` registers, `step` rows apart from `row` in the plane on; `bounded`: with their rows in the sequence.
fn ascend(
    b: &mut KernelBuilder,
    a: &Arrays,
    (mut row, plane): (S, S),
    step: S,
    n: usize,
    (stride, bounded): (i32, bool),
    at: &mut Vec<At>,
) {
    let array = b.s(Op::SAdd, &[row, plane]);
    let mut arrays = rows_at(b, a, array);
    for t in 0..n {
        if t > 0 {
            arrays = moved(b, &arrays, step);
            row = if bounded { b.s(Op::SAdd, &[row, step]) } else { row };
        }
        at.push(At { row, arrays: arrays.clone(), offset: 0, stride });
    }
}
