//! Updates of a chunk combined with tables, some at a time: the rows of a group are read before any is written.
//!
//! An update may name the same place as one before it in its group: then it finds what that one has made. Where the order of
//! updates does not matter, those that meet are made one before their place is read, so that nothing but the sum waits for the table.

use super::{Area, RowsSpec, Scatter};
use crate::emit::loops::eval::{emit_body, map_words, select_mask};
use crate::emit::loops::spec::{Body, ExprOp};
use crate::emit::memory::{self, Place};
use crate::emit::value::Value;
use crate::kernel::{KernelBuilder, M, S, V};
use systole_isa::Op;

/// Updates that are combined together: their rows are read before any is written, so that they wait for each other in registers
/// and not in memory.
const GROUP: u32 = 4;
/// Registers of a row that are read before any is written.
const PARTS: usize = 4;

/// What the indices of a block are made places with.
struct Places {
    /// What is taken off an index.
    low: Option<S>,
    /// How many places there are; 0: all of the table.
    end: u32,
    /// The places around the block's that nobody reads: before it and behind it.
    around: Option<(S, S)>,
    /// By table: what makes a row of a place, if it is none already.
    bases: Vec<Option<S>>,
}

/// An update: the place that it names in a table (any that there is if it is not taken).
struct Update {
    place: S,
    /// The place in every lane, as it was given.
    number: V,
    /// Whether it counts; without, it does, or its place is one that nobody reads.
    taken: Option<M>,
}

/// What an update finds and brings.
struct Loaded {
    /// What of the table's row changes.
    mask: M,
    /// By table.
    places: Vec<Place>,
    old: Vec<Value>,
    new: Vec<Value>,
}

impl Loaded {
    fn new(mask: M) -> Loaded {
        Loaded { mask, places: Vec::new(), old: Vec::new(), new: Vec::new() }
    }
}

/// For every update of a group, where its table row is one that an update before it has changed, by number of that one.
type Meetings = Vec<Vec<M>>;

impl Scatter<'_> {
    /// Combines a chunk's updates, the first of which is number `first`.
    pub(super) fn combine_all(&self, b: &mut KernelBuilder, half: u32, first: S, count: u32, (low, rows): (S, u32)) {
        if let Some(c) = &self.copies {
            return self.combine_in_copies(b, c, half, (first, count));
        }
        let word = b.s_var((self.s.specs[0].smem + half * self.chunk) as i32);
        let at = if self.s.far.rows { b.s_var(0) } else { b.s_copy(first) };
        let lanes = if self.s.elements { self.lanes } else { 1 };
        let low = if rows > 0 && lanes > 1 { b.s_muli(low, lanes as i32) } else { low };
        let places = self.places(b, (low, rows * lanes));
        // Narrow types are rounded on their way to memory.
        let wide = |r: &RowsSpec| r.dtype.bits() == 32 * r.dtype.components() as u32;
        let group = if self.s.specs.iter().all(wide) { GROUP } else { 1 };
        for (trips, size) in [(count / group, group), (count % group, 1)] {
            b.loop_static(trips, |b| {
                let all: Vec<Update> = (0..size as i32).map(|i| self.update(b, (word, i), &places)).collect();
                if self.s.elements {
                    self.elements(b, half, &all, at);
                } else {
                    self.rows(b, half, &all, (at, &places));
                }
                b.s_inc(word, size as i32);
                b.s_inc(at, size as i32);
            });
        }
    }

    /// The places of a block whose table has `end` of them from `low` on (0: of all of it).
    fn places(&self, b: &mut KernelBuilder, (low, end): (S, u32)) -> Places {
        let bases: Vec<S> = self.tables.iter().map(|t| t.1.base).collect();
        if !self.around {
            let bases = bases.into_iter().map(Some).collect();
            return Places { low: (end > 0).then_some(low), end, around: None, bases };
        }
        if self.s.elements {
            let around = Some((b.s_imm(-1), b.s_imm(end as i32)));
            return Places { low: Some(low), end, around, bases: bases.into_iter().map(Some).collect() };
        }
        // Rows of the first table; those of the others are so much further.
        let first = bases[0];
        let low = b.s(Op::SSub, &[low, first]);
        let around = Some((b.s_addi(first, -1), b.s_addi(first, end as i32)));
        let others = bases[1..].iter().map(|&base| Some(b.s(Op::SSub, &[base, first]))).collect::<Vec<_>>();
        Places { low: Some(low), end, around, bases: [vec![None], others].concat() }
    }

    /// The `i`th update from scalar word `word` on.
    fn update(&self, b: &mut KernelBuilder, (word, i): (S, i32), places: &Places) -> Update {
        let index = b.smem_load(word, i);
        let index = places.low.map_or(index, |low| b.s(Op::SSub, &[index, low]));
        let number = b.splat(index);
        if let Some((before, behind)) = places.around {
            let place = b.s(Op::SMax, &[index, before]);
            return Update { place: b.s(Op::SMin, &[place, behind]), number, taken: None };
        }
        let place = b.s(Op::SMax, &[index, S::ZERO]);
        let zero = b.v_imm(0);
        let taken = b.cmp(Op::VLeS, zero, number);
        if places.end == 0 {
            return Update { place, number, taken: Some(taken) };
        }
        let last = b.s_imm(places.end as i32 - 1);
        let place = b.s(Op::SMin, &[place, last]);
        let end = b.v_imm(places.end as i32);
        let below = b.cmp(Op::VLtS, number, end);
        Update { place, number, taken: Some(b.m_and(taken, below)) }
    }

    /// The planes of a row by registers: the first of each, and how many there are.
    pub(super) fn parts(&self) -> Vec<(u32, u32)> {
        let planes = self.s.specs[0].planes;
        let mut parts = Vec::new();
        let mut plane = 0;
        while plane < planes {
            // What does not fill a register goes plane by plane: rows behind an array may belong to a copy.
            let n = if planes - plane < self.sublanes { 1 } else { self.sublanes };
            parts.push((plane, n));
            plane += n;
        }
        parts
    }

    /// Whether an update is combined with what it finds, and does not just take its place.
    fn reads_table(&self) -> bool {
        let Body { nodes, roots } = &self.s.body;
        let of_table =
            |id: &u32| matches!(nodes[*id as usize].op, ExprOp::Param(i) if (i as usize) < self.s.specs.len());
        nodes.iter().flat_map(|n| &n.args).chain(roots).any(of_table)
    }

    /// Which updates meet which: by rows of the table, and what of these those before have changed.
    fn meetings(&self, b: &mut KernelBuilder, rows: &[V], masks: &[Option<M>]) -> Meetings {
        let reads = self.reads_table();
        let mut all = Vec::new();
        for (i, &row) in rows.iter().enumerate() {
            let mut meets = Vec::new();
            for (&other, mask) in rows[..i].iter().zip(masks).filter(|_| reads) {
                let same = b.cmp(Op::VEqI, row, other);
                meets.push(mask.map_or(same, |m| b.m_and(same, m)));
            }
            all.push(meets);
        }
        all
    }

    /// Table rows = body(table rows, update rows), one after the other.
    fn rows(&self, b: &mut KernelBuilder, half: u32, all: &[Update], (at, places): (S, &Places)) {
        let (parts, reads) = (self.parts(), self.reads_table());
        let numbers: Vec<V> = all.iter().map(|u| u.number).collect();
        let taken: Vec<Option<M>> = all.iter().map(|u| u.taken).collect();
        let meetings = self.meetings(b, &numbers, &taken);
        let of = |a: &Area, (base, i): (S, i32), (plane, n): (u32, u32)| Place {
            base,
            offset: (plane * a.plane) as i32 + i,
            stride: if n == 1 { 0 } else { a.plane as i32 },
            buf: a.buf,
            component_rows: a.component as i32,
        };
        let areas: Vec<Area> = self.updates.iter().map(|u| u.1[half as usize]).collect();
        let from: Vec<S> = areas.iter().map(|a| b.s(Op::SAdd, &[a.base, at])).collect();
        let mut to: Vec<Vec<S>> = Vec::new();
        for u in all {
            let one = places.bases.iter().map(|base| base.map_or(u.place, |base| b.s(Op::SAdd, &[base, u.place])));
            to.push(one.collect());
        }
        // Parts do not meet: those of all rows are read before any is written.
        for parts in parts.chunks(PARTS) {
            let mut stores = Vec::new();
            for &part in parts {
                let mask = b.sublanes_below(part.1);
                let mut group = Vec::new();
                for (i, (u, to)) in all.iter().zip(&to).enumerate() {
                    let mut one = Loaded::new(u.taken.map_or(mask, |taken| b.m_and(mask, taken)));
                    for (k, r) in self.s.specs.iter().enumerate() {
                        let t = of(&self.tables[k].1, (to[k], 0), part);
                        one.places.push(t);
                        let new = memory::load_value(b, r.dtype, of(&areas[k], (from[k], i as i32), part));
                        one.old.push(if reads { memory::load_value(b, r.dtype, t) } else { new });
                        one.new.push(new);
                    }
                    group.push(one);
                }
                stores.extend(self.combined(b, group, &meetings));
            }
            stores.iter().for_each(|(value, place, mask)| memory::store_value(b, value, *place, *mask));
        }
    }

    /// Table elements = body(table elements, updates), one after the other.
    fn elements(&self, b: &mut KernelBuilder, half: u32, all: &[Update], first: S) {
        let lanes = self.lanes;
        let shift = lanes.trailing_zeros() as i32;
        let reads = self.reads_table();
        let (mut group, mut rows) = (Vec::new(), Vec::new());
        for (i, u) in all.iter().enumerate() {
            let at = if i == 0 { first } else { b.s_addi(first, i as i32) };
            let row = b.def_s(Op::SSarI, &[u.place.into(), shift.into()]);
            let from = b.def_s(Op::SShrI, &[at.into(), shift.into()]);
            let turn = b.s(Op::SSub, &[u.place, at]);
            let turn = b.def_s(Op::SAndI, &[turn.into(), (lanes as i32 - 1).into()]);
            let lane_number = b.def_s(Op::SAndI, &[u.place.into(), (lanes as i32 - 1).into()]);
            let lane = b.lane();
            let wanted = b.splat(lane_number);
            let here = b.cmp(Op::VEqI, lane, wanted);
            let mask = u.taken.map_or(here, |taken| b.m_and(taken, here));
            let one = b.sublanes_below(1);
            let mut one = Loaded::new(b.m_and(mask, one));
            rows.push(b.splat(row));
            let of = |b: &mut KernelBuilder, a: &Area, row: S| Place {
                base: b.s(Op::SAdd, &[a.base, row]),
                offset: 0,
                stride: 0,
                buf: a.buf,
                component_rows: a.component as i32,
            };
            for (r, ((_, table), (_, updates))) in self.s.specs.iter().zip(self.tables.iter().zip(&self.updates)) {
                let t = of(b, table, row);
                one.places.push(t);
                let u = of(b, &updates[half as usize], from);
                let v = memory::load_value(b, r.dtype, u);
                let new = map_words(b, &v, |b, w| b.rot_lane_s(w, turn));
                // Without a load, updates wait for nothing.
                one.old.push(if reads { memory::load_value(b, r.dtype, t) } else { new });
                one.new.push(new);
            }
            group.push(one);
        }
        let masks: Vec<Option<M>> = group.iter().map(|one: &Loaded| Some(one.mask)).collect();
        let meetings = self.meetings(b, &rows, &masks);
        let stores = self.combined(b, group, &meetings);
        stores.iter().for_each(|(value, place, mask)| memory::store_value(b, value, *place, *mask));
    }

    /// What is stored where, in order: what an update of the group has made of a row is what the next one finds there.
    fn combined(&self, b: &mut KernelBuilder, mut group: Vec<Loaded>, meetings: &Meetings) -> Vec<(Value, Place, M)> {
        let free = self.s.order_free();
        if let Some(none) = free {
            self.gather_up(b, &mut group, meetings, none);
        }
        let mut made: Vec<Vec<Value>> = Vec::new();
        for (own, meets) in group.iter_mut().zip(meetings) {
            for (&same, values) in meets.iter().zip(&made).filter(|_| free.is_none()) {
                for (old, new) in own.old.iter_mut().zip(values) {
                    *old = select_mask(b, same, new, old);
                }
            }
            made.push(emit_body(b, &self.s.body, &own.old, &own.new));
        }
        let stored = |(one, values): (Loaded, Vec<Value>)| {
            values.into_iter().zip(one.places).map(move |(v, place)| (v, place, one.mask))
        };
        group.into_iter().zip(made).flat_map(stored).collect()
    }

    /// Makes each update one with those before it that it meets, which waits for no table; `none` changes nothing.
    fn gather_up(&self, b: &mut KernelBuilder, group: &mut [Loaded], meetings: &Meetings, none: i32) {
        for (i, meets) in meetings.iter().enumerate() {
            let (before, rest) = group.split_at_mut(i);
            let dtype = self.s.specs[0].dtype;
            // The last that is met has met all the others.
            let mut met = Value::word(dtype, b.v_imm(none));
            for (&same, other) in meets.iter().zip(before.iter()) {
                met = select_mask(b, same, &other.new[0], &met);
            }
            if !meets.is_empty() {
                let own = &mut rest[0].new;
                *own = emit_body(b, &self.s.body, &[met], own);
            }
        }
    }
}
