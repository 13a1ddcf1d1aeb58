//! Passes between rows: whole registers are compared with each other.

use super::exchange::{Element, Rows, exchange, load, rows_at, store};
use super::{Arrays, SortSpec, Span};
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

/// Trips of a loop from which on it is worth to fill and drain its pipeline for every set of columns.
const LONG: u32 = 16;

/// Where an iteration is: its number within the sequences, and the rows before its set of columns in the network's array and
/// in the operands' own.
pub struct Turn {
    pub i: S,
    pub array: S,
    pub own: S,
}

/// Runs `f` `2^bits` times for every set of columns. If asked for, few times are one loop over all
/// sets; else the times are a loop within that over the sets.
pub fn turns(
    b: &mut KernelBuilder,
    spec: &SortSpec,
    (bits, joined): (u32, bool),
    hints: &LoopHints,
    f: &mut dyn FnMut(&mut KernelBuilder, Turn),
) {
    let strides = [spec.inner().0, spec.plane_rows];
    if joined && spec.planes > 1 && 1 << bits < LONG {
        let n = b.s_var(0);
        b.loop_with(Trips::Static(spec.planes << bits), hints.clone(), |b| {
            let i = b.def_s(Op::SAndI, &[n.into(), Arg((1 << bits) - 1)]);
            let plane = b.def_s(Op::SShrI, &[n.into(), Arg(bits as i32)]);
            let [array, own] = strides.map(|s| b.s_muli(plane, s as i32));
            f(b, Turn { i, array, own });
            b.s_inc(n, 1);
        });
        return;
    }
    let (array, own) = (b.s_var(0), b.s_var(0));
    b.loop_with(Trips::Static(spec.planes), hints.clone(), |b| {
        let i = b.s_var(0);
        b.loop_with(Trips::Static(1 << bits), hints.clone(), |b| {
            f(b, Turn { i, array, own });
            b.s_inc(i, 1);
        });
        b.s_inc(array, strides[0] as i32);
        b.s_inc(own, strides[1] as i32);
    });
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
    let step = b.shape().0.ilog2() + bits;
    let hints = LoopHints::independent(&a.iter().flat_map(|a| a.buffers()).collect::<Vec<_>>());
    // Turns of one register are short enough to be written out.
    turns(b, spec, (spec.row_bits - step, bits != 0), &hints, &mut |b, t| {
        let row = b.def_s(Op::SShlI, &[t.i.into(), Arg(step as i32)]);
        let array = b.s(Op::SAdd, &[t.array, row]);
        let own = b.s(Op::SAdd, &[t.own, row]);
        f(b, row, array, own);
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

/// Loads registers, makes the steps of every `2^bits` of them, and stores them.
fn run(
    b: &mut KernelBuilder,
    spec: &SortSpec,
    a: &Arrays,
    at: &[At],
    bounds: Option<&Bounds>,
    (bits, mirror): (u32, bool),
) {
    let mut e: Vec<Element> = at.iter().map(|p| load(b, a, &p.arrays, p.offset, p.stride)).collect();
    for (e, at) in e.chunks_mut(1 << bits).zip(at.chunks(1 << bits)) {
        steps(b, spec, e, at, bounds, (bits, mirror));
    }
    for (e, p) in e.iter().zip(at) {
        store(b, a, e, &p.arrays, p.offset, p.stride);
    }
}

/// See [`super::Pass::Rows`].
pub fn middle(b: &mut KernelBuilder, spec: &SortSpec, steps: Span) {
    let a = Arrays::new(b, spec);
    let sub = b.shape().0;
    let bounds = Bounds::new(b, spec, 1, steps.mirror);
    // Groups of an iteration lie at known distances from its first one: their addresses cost nothing.
    let Span { mirror, bits, lo, together } = steps;
    let low_bits = lo - sub.ilog2();
    let groups = spec.row_bits - sub.ilog2() - bits;
    let low_counted = low_bits.saturating_sub(together);
    let block_shift = lo + bits + together.saturating_sub(low_bits);
    let half = 1i32 << (lo + bits - 1);
    let hints = LoopHints::independent(&a.buffers());
    turns(b, spec, (groups - together, true), &hints, &mut |b, t| {
        let low = b.def_s(Op::SAndI, &[t.i.into(), Arg((1 << low_counted) - 1)]);
        let low = b.def_s(Op::SShlI, &[low.into(), Arg((sub.ilog2() + together) as i32)]);
        let block = b.def_s(Op::SShrI, &[t.i.into(), Arg(low_counted as i32)]);
        let block = b.def_s(Op::SShlI, &[block.into(), Arg(block_shift as i32)]);
        let rows = |b: &mut KernelBuilder, row: S| {
            let array = b.s(Op::SAdd, &[row, t.array]);
            (row, rows_at(b, &a, array))
        };
        // Registers below the middle from the block's start, those above (of a mirrored block) from its middle down.
        let up = b.s(Op::SAdd, &[block, low]);
        let up = rows(b, up);
        let down = mirror.then(|| {
            let down = b.s(Op::SSub, &[block, low]);
            rows(b, down)
        });
        let mut at = Vec::new();
        for j in 0..1u32 << together {
            let own_low = ((j & ((1 << low_bits) - 1)) * sub) as i32;
            let own_block = ((j >> low_bits) << (lo + bits)) as i32;
            for n in 0..1i32 << bits {
                let (first, offset, stride) = match &down {
                    Some(d) if n << lo >= half => (d, (n << lo) + (1 << lo) - 1 - own_low, -1),
                    _ => (&up, (n << lo) + own_low, 1),
                };
                let offset = own_block + offset;
                at.push(At { row: first.0, arrays: first.1.clone(), offset, stride });
            }
        }
        run(b, spec, &a, &at, bounds.as_ref(), (bits, mirror));
    });
}
