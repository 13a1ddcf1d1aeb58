//! Scatters of few places: updates that follow each other are combined in copies of the table, and the copies with it at the end.
//!
//! An update waits until the one before it is stored, since both may name one place: so long that the scalar unit could have found
//! several other places. Where the order of the updates does not matter, as many copies of the table as fit take them in turns,
//! and none waits for its neighbour. The copies begin with what changes nothing, and have a row in front for updates that are
//! skipped (place -1). Of single elements, one permutation spreads those of all copies over the lanes, a sublane each.

use super::{Area, Scatter, ScatterSpec};
use crate::emit::loops::eval::{each_alone, emit_body, simple_body};
use crate::emit::memory::{self, Place};
use crate::emit::value::Value;
use crate::kernel::{BufferRef, KernelBuilder, M, S, StoreFormat, V};
use systole_hlo::graph::Binary;
use systole_isa::{ChipConfig, DType, Op};

/// Copies of a table at most, and the fewest that are worth their way.
const COPIES: [u32; 2] = [8, 4];
/// Part of vector memory that they may take.
const SHARE: u64 = 4;
/// Cycles that an update need not wait, and those of a register of a copy that is cleared and combined.
const SAVED: u64 = 3;
const PASSED: u64 = 4;
/// Cycles of an update at least: the scalar unit finds its place.
const LEAST: f64 = 2.0;
/// Registers of a row up to which its own latency is not hidden already.
const MOST_PARTS: u32 = 4;

/// Copies of a table.
pub(super) struct Copies {
    /// Row 0 of the first.
    base: S,
    /// Rows from one to the next, and from plane to plane of one.
    step: u32,
    plane: u32,
    bufs: Vec<BufferRef>,
    /// Of single elements: for each sublane, its lanes' numbers; -1 elsewhere.
    lanes: Vec<V>,
}

/// The word that changes nothing.
#[allow(clippy::wildcard_enum_match_arm, reason = "no other operation has its order free")]
pub(super) fn neutral(op: Binary, dtype: DType) -> Option<i32> {
    let float = |x: f32| Some(x.to_bits() as i32);
    match (op, dtype) {
        // Zero of either sign stays what it is.
        (Binary::Add, DType::F32) => float(-0.0),
        (Binary::Mul, DType::F32) => float(1.0),
        (Binary::Max, DType::F32) => float(f32::NEG_INFINITY),
        (Binary::Min, DType::F32) => float(f32::INFINITY),
        (Binary::Mul, DType::S32 | DType::U32) => Some(1),
        (Binary::Max, DType::S32) => Some(i32::MIN),
        (Binary::Min, DType::S32) => Some(i32::MAX),
        (Binary::Add | Binary::Or | Binary::Xor, DType::S32 | DType::U32) | (Binary::Max, DType::U32) => Some(0),
        (Binary::And, DType::S32 | DType::U32) | (Binary::Min, DType::U32) => Some(-1),
        _ => None,
    }
}

impl ScatterSpec {
    /// Estimated cycles of updates that are combined in copies.
    #[must_use]
    pub fn copies_cycles(&self, chip: &ChipConfig) -> f64 {
        let interval = f64::from(chip.timing.get(Op::SLd.info().class).interval);
        f64::from(self.specs[0].count) * (interval / f64::from(chip.core.scalar_slots.max(1))).max(LEAST)
    }

    /// Element rows of a plane of a part of the result: the table's, whole registers.
    #[must_use]
    pub fn copies_plane(&self, chip: &ChipConfig) -> u32 {
        self.rows.next_multiple_of(chip.core.sublanes)
    }

    /// Whether updates may be combined in so many copies: one table in vector memory, of words, and an order that does not matter.
    #[must_use]
    pub fn can_have_copies(&self, copies: u32) -> bool {
        copies == 0 || self.block == 0 && self.order_free().is_some() && COPIES.contains(&copies)
    }

    /// Where the order of updates does not matter, the word of the only table's type that changes nothing.
    pub(super) fn order_free(&self) -> Option<i32> {
        let op = simple_body(&self.body).filter(|_| each_alone(&self.body))?;
        let [r] = &self.specs[..] else { return None };
        neutral(op, r.dtype)
    }

    /// As many copies of the table as are worth it, with `room` bytes beside it; 0: none.
    #[must_use]
    pub fn copies_within(&self, room: u64, chip: &ChipConfig) -> u32 {
        let (r, sublanes) = (&self.specs[0], chip.core.sublanes);
        let parts = r.planes / sublanes + r.planes % sublanes;
        if parts > MOST_PARTS {
            return 0;
        }
        let room = room.min(chip.vmem.bytes / SHARE);
        let rows = u64::from(self.copy_rows(chip));
        let worth = |copies: u32| {
            let rows = u64::from(copies) * rows;
            let passed = rows.div_ceil(u64::from(sublanes)) * PASSED;
            rows * u64::from(chip.core.lanes) * 4 <= room && passed <= u64::from(r.count) * SAVED
        };
        COPIES.into_iter().find(|&c| self.can_have_copies(c) && worth(c)).unwrap_or(0)
    }

    /// Rows of a copy: one in front of every plane, whole registers.
    pub(super) fn copy_rows(&self, chip: &ChipConfig) -> u32 {
        let planes = if self.elements { 1 } else { self.specs[0].planes };
        (1 + planes * (self.rows + 1)).next_multiple_of(chip.core.sublanes)
    }
}

impl Copies {
    /// Those of a scatter, from row `first` on.
    pub(super) fn new(b: &mut KernelBuilder, s: &ScatterSpec, first: S, chip: &ChipConfig) -> Copies {
        let base = b.s_addi(first, 1);
        let bufs = (0..s.copies).map(|_| b.buffer()).collect();
        let turns = if s.elements { s.copies.min(chip.core.sublanes) } else { 0 };
        let lanes = (0..turns)
            .map(|u| {
                let (lane, own) = (b.lane(), b.sublane_is(u));
                b.sel(own, lane, -1)
            })
            .collect();
        Copies { base, step: s.copy_rows(chip), plane: s.rows + 1, bufs, lanes }
    }

    /// The first copy, as a table.
    pub(super) fn first(&self) -> Area {
        Area { base: self.base, buf: self.bufs[0], plane: self.plane, component: 0 }
    }
}

impl Scatter<'_> {
    fn body_of(&self, b: &mut KernelBuilder, old: Value, new: Value) -> Value {
        emit_body(b, &self.s.body, &[old], &[new])[0]
    }

    /// Fills the copies with what changes nothing.
    pub(super) fn clear(&self, b: &mut KernelBuilder, c: &Copies) {
        let word = simple_body(&self.s.body).and_then(|op| neutral(op, self.s.specs[0].dtype));
        let none = b.v_imm(word.expect("copies are made where something is neutral"));
        let row = b.s_addi(c.base, -1);
        let row = b.s_copy(row);
        b.loop_static(c.step / self.sublanes, |b| {
            for (u, &buf) in c.bufs.iter().enumerate() {
                b.store(StoreFormat::W32, none, row, (u as u32 * c.step) as i32, 1, M::ALL, buf);
            }
            b.s_inc(row, self.sublanes as i32);
        });
    }

    /// Combines a chunk's updates, the first of which is number `first`, in the copies.
    pub(super) fn combine_in_copies(&self, b: &mut KernelBuilder, c: &Copies, half: u32, (first, count): (S, u32)) {
        let word = b.s_var((self.s.specs[0].smem + half * self.chunk) as i32);
        let at = if self.s.far.rows { b.s_var(0) } else { b.s_copy(first) };
        let copies = c.bufs.len() as u32;
        for (trips, size) in [(count / copies, copies), (count % copies, 1)] {
            b.loop_static(trips, |b| {
                let updates = self.updates[0].1[half as usize];
                if self.s.elements {
                    self.elements_in_copies(b, c, (word, at, size), updates);
                } else {
                    self.rows_in_copies(b, c, (word, at, size), updates);
                }
                b.s_inc(word, size as i32);
                b.s_inc(at, size as i32);
            });
        }
    }

    /// Elements `at` to `at + size`, which are in one row.
    fn elements_in_copies(&self, b: &mut KernelBuilder, c: &Copies, (word, at, size): (S, S, u32), updates: Area) {
        let dtype = self.s.specs[0].dtype;
        let shift = self.lanes.trailing_zeros() as i32;
        let row_of = |b: &mut KernelBuilder, base: S, place: S| {
            let row = b.def_s(Op::SSarI, &[place.into(), shift.into()]);
            b.s(Op::SAdd, &[base, row])
        };
        let place = |base: S, offset: u32, buf: BufferRef| Place {
            base,
            offset: offset as i32,
            stride: 0,
            buf,
            component_rows: 0,
        };
        let from = row_of(b, updates.base, at);
        let row = memory::load_value(b, dtype, place(from, 0, updates.buf));
        let (first, sublane) = (b.splat(at), b.sublane());
        let mut new = row;
        for u in 0..size {
            let own = u % self.sublanes;
            if own == 0 {
                // The next elements, a sublane each, in all lanes.
                let order = b.v(Op::VAddI, &[sublane, first]);
                let order = b.addi(order, u as i32);
                new = Value::word(dtype, b.v(Op::XPermLane, &[row.v(), order]));
            }
            let index = b.smem_load(word, u as i32);
            let to = row_of(b, c.base, index);
            let number = b.splat(index);
            let lane = b.and(number, self.lanes as i32 - 1);
            let mask = b.cmp(Op::VEqI, lane, c.lanes[own as usize]);
            let place = place(to, u * c.step, c.bufs[u as usize]);
            let old = memory::load_value(b, dtype, place);
            let made = self.body_of(b, old, new);
            memory::store_value(b, &made, place, mask);
        }
    }

    /// Rows `at` to `at + size`.
    fn rows_in_copies(&self, b: &mut KernelBuilder, c: &Copies, (word, at, size): (S, S, u32), updates: Area) {
        let spec = &self.s.specs[0];
        let from = b.s(Op::SAdd, &[updates.base, at]);
        let parts = self.parts();
        for u in 0..size {
            let index = b.smem_load(word, u as i32);
            let to = b.s(Op::SAdd, &[c.base, index]);
            for &(plane, n) in &parts {
                let place = |base: S, offset: u32, step: u32, buf: BufferRef| Place {
                    base,
                    offset: (offset + plane * step) as i32,
                    stride: if n == 1 { 0 } else { step as i32 },
                    buf,
                    component_rows: 0,
                };
                let to = place(to, u * c.step, c.plane, c.bufs[u as usize]);
                let old = memory::load_value(b, spec.dtype, to);
                let new = memory::load_value(b, spec.dtype, place(from, u, updates.plane, updates.buf));
                let made = self.body_of(b, old, new);
                let mask = b.sublanes_below(n);
                memory::store_value(b, &made, to, mask);
            }
        }
    }

    /// Combines the table, or the first copy, with its copies.
    pub(super) fn join(&self, b: &mut KernelBuilder, c: &Copies) {
        let dtype = self.s.specs[0].dtype;
        let table = self.tables[0].1;
        let planes = if self.s.elements { 1 } else { self.s.specs[0].planes };
        let (to, from) = (b.s_copy(table.base), b.s_copy(c.base));
        let rows = self.s.rows;
        b.loop_static(planes, |b| {
            let (at, other) = (b.s_copy(to), b.s_copy(from));
            for (trips, n) in [(rows / self.sublanes, self.sublanes), (1, rows % self.sublanes)] {
                if n == 0 {
                    continue;
                }
                b.loop_static(trips, |b| {
                    let place = |base: S, offset: u32, buf: BufferRef| Place {
                        base,
                        offset: offset as i32,
                        stride: 1,
                        buf,
                        component_rows: 0,
                    };
                    let mut sum = memory::load_value(b, dtype, place(at, 0, table.buf));
                    for (u, &buf) in c.bufs.iter().enumerate().skip(usize::from(self.s.part)) {
                        let part = memory::load_value(b, dtype, place(other, u as u32 * c.step, buf));
                        sum = self.body_of(b, sum, part);
                    }
                    let mask = b.sublanes_below(n);
                    memory::store_value(b, &sum, place(at, 0, table.buf), mask);
                    b.s_inc(at, n as i32);
                    b.s_inc(other, n as i32);
                });
            }
            b.s_inc(to, table.plane as i32);
            b.s_inc(from, c.plane as i32);
        });
    }
}
