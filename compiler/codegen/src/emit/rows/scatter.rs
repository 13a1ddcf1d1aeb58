//! Scatters of rows, or of single elements, into tables.
//!
//! Indices, and updates in HBM, come a chunk at a time, the next chunk's while this one's updates are combined, one after the
//! other. Tables lie in vector memory and are updated there, or are made block by block: a block of rows is brought, every index
//! that names one of them is combined, and the block is taken away.

mod copies;

use self::copies::Copies;
use super::{CHUNK, Far, RowsKernel, RowsSpec, chunk, fetch};
use crate::emit::hbm::HbmUnit;
use crate::emit::loops::eval::{emit_body, map_words, select_mask};
use crate::emit::loops::spec::{Body, ExprOp};
use crate::emit::memory::{self, Place};
use crate::emit::value::Value;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, M, S, V};
use serde::{Deserialize, Serialize};
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Op, Space};

/// Semaphores: indices and updates by half of their windows, blocks of tables.
const FETCH: u32 = 0;
const UPDATES: u32 = 2;
const BLOCKS: u32 = 4;
const SEMAPHORES: u32 = 5;

/// A scatter of `specs` (tables with their updates).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScatterSpec {
    pub specs: Vec<RowsSpec>,
    /// Single elements of arrays of one dimension; element `i` is in row `i / lanes`.
    pub elements: bool,
    pub body: Body,
    pub far: Far,
    /// Element rows of a table.
    pub rows: u32,
    /// Element rows of a block of tables in HBM; 0: tables lie in vector memory.
    pub block: u32,
    /// The first and the end of the blocks that a core does; without, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<(u32, u32)>,
    /// Copies of the only table in which updates are combined in turns; 0: none.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub copies: u32,
}

/// A part of memory that a table or updates are walked in.
#[derive(Clone, Copy)]
struct Area {
    /// First element row.
    base: S,
    buf: BufferRef,
    /// Element rows from plane to plane and from component to component.
    plane: u32,
    component: u32,
}

/// Updates that are combined together: their rows are read before any is written, so that they wait for each other in registers
/// and not in memory.
const GROUP: u32 = 4;
/// Registers of a row that are read before any is written.
const PARTS: usize = 4;

/// An update: the place that it names in a table (any that there is if it is not taken), its own number.
struct Update {
    place: S,
    at: S,
    /// The place in every lane, as it was given.
    number: V,
    taken: M,
}

/// What an update finds and brings.
struct Loaded {
    /// The table's row in every lane.
    row: V,
    /// What of it changes.
    mask: M,
    /// By table.
    places: Vec<Place>,
    old: Vec<Value>,
    new: Vec<Value>,
}

impl Loaded {
    fn new(row: V, mask: M) -> Loaded {
        Loaded { row, mask, places: Vec::new(), old: Vec::new(), new: Vec::new() }
    }
}

struct Table {
    /// Where blocks come from and where they go.
    from: HbmUnit,
    to: HbmUnit,
}

struct Scatter<'a> {
    s: &'a ScatterSpec,
    chunk: u32,
    lanes: u32,
    sublanes: u32,
    row_bytes: u32,
    indices: (S, BufferRef),
    /// By table: in HBM, and as it is walked.
    tables: Vec<(Option<Table>, Area)>,
    /// By table: in HBM, and as both halves are walked.
    updates: Vec<(Option<HbmUnit>, [Area; 2])>,
    copies: Option<Copies>,
    descs: Vec<DmaDesc>,
}

/// The kernel; indices of -1 are skipped. Parameters: indices (granules if far, else word rows); of tables in HBM what each was
/// (granules); each table (granules if in HBM, else element rows); each array of updates (granules if far, else element rows);
/// scratch.
pub fn scatter_kernel(s: &ScatterSpec, chip: &ChipConfig) -> RowsKernel {
    let mut b = KernelBuilder::new("scatter", chip);
    let row_bytes = chip.core.lanes * 4;
    let indices = (b.param(), b.buffer());
    let hbm = |b: &mut KernelBuilder, r: &RowsSpec| {
        let base = b.param();
        HbmUnit::new(base, b.buffer(), r.dtype, chip)
    };
    let blocks = s.block > 0;
    let from: Vec<Option<HbmUnit>> = s.specs.iter().map(|r| blocks.then(|| hbm(&mut b, r))).collect();
    let far_tables: Vec<Option<HbmUnit>> = s.specs.iter().map(|r| blocks.then(|| hbm(&mut b, r))).collect();
    let near_tables: Vec<S> = s.specs.iter().filter(|_| !blocks).map(|_| b.param()).collect();
    let far_updates: Vec<Option<HbmUnit>> = s.specs.iter().map(|r| s.far.rows.then(|| hbm(&mut b, r))).collect();
    let near_updates: Vec<S> = s.specs.iter().filter(|_| !s.far.rows).map(|_| b.param()).collect();
    let scratch = b.param();
    let mut at = 0;
    let mut window = |b: &mut KernelBuilder, r: &RowsSpec, rows: u32, far: u32| {
        let p = r.packing();
        let first = b.s_addi(scratch, at as i32);
        let base = if p == 1 { first } else { b.s_muli(first, p as i32) };
        at += rows / p * r.planes * r.dtype.components() as u32;
        let plane = if r.joined(far) { far } else { rows };
        Area { base, buf: b.buffer(), plane, component: rows * r.planes }
    };
    let chunk = s.chunk(chip);
    let chunk_rows = if s.elements { chunk / chip.core.lanes } else { chunk };
    let mut tables = Vec::new();
    let mut updates = Vec::new();
    for (i, r) in s.specs.iter().enumerate() {
        let area = match near_tables.get(i) {
            Some(&base) => Area { base, buf: b.buffer(), plane: r.table_plane, component: r.table_component },
            None => window(&mut b, r, s.block, r.table_plane),
        };
        let table = from[i].zip(far_tables[i]).map(|(from, to)| Table { from, to });
        tables.push((table, area));
        let areas = match near_updates.get(i) {
            Some(&base) => {
                let all = Area { base, buf: b.buffer(), plane: r.rows_plane, component: r.rows_component };
                [all, all]
            }
            None => [(); 2].map(|()| window(&mut b, r, chunk_rows, r.rows_plane)),
        };
        updates.push((far_updates[i], areas));
    }
    let scratch_rows = s.needs(chip).0;
    let copies = (s.copies > 0).then(|| {
        let first = b.s_addi(scratch, at as i32);
        Copies::new(&mut b, s, first, chip)
    });
    let (lanes, sublanes) = (chip.core.lanes, chip.core.sublanes);
    let mut k = Scatter { s, chunk, lanes, sublanes, row_bytes, indices, tables, updates, copies, descs: Vec::new() };
    k.emit(&mut b);
    RowsKernel { kernel: b.finish(), scratch_rows, descs: k.descs, semaphores: SEMAPHORES }
}

impl ScatterSpec {
    /// Word rows of scratch memory and semaphores of the kernel.
    pub fn needs(&self, chip: &ChipConfig) -> (u32, u32) {
        let chunk = self.chunk(chip);
        let chunk_rows = if self.elements { chunk / chip.core.lanes } else { chunk };
        let window = |r: &RowsSpec, rows: u32| rows / r.packing() * r.slab();
        let halves = |r: &RowsSpec| if self.far.rows { 2 * window(r, chunk_rows) } else { 0 };
        let copies = if self.copies > 0 { self.copies * self.copy_rows(chip) } else { 0 };
        let all: u32 = self.specs.iter().map(|r| window(r, self.block) + halves(r)).sum::<u32>() + copies;
        // Registers reach beyond the last window.
        (if all > 0 { all + 4 * chip.core.sublanes } else { 0 }, SEMAPHORES)
    }

    /// Indices of a chunk: updates of both halves take a part of vector memory at most.
    fn chunk(&self, chip: &ChipConfig) -> u32 {
        match self.elements {
            true => CHUNK,
            false => chunk(2 * self.specs.iter().map(|r| r.planes * r.dtype.components() as u32).sum::<u32>(), chip),
        }
    }
}

impl Scatter<'_> {
    fn desc(&mut self, d: DmaDesc) -> u32 {
        self.descs.push(d);
        self.descs.len() as u32 - 1
    }

    /// The copy of `rows` element rows between HBM (planes and components `far` rows apart) and a window of `window` rows.
    fn rows_desc(&mut self, r: &RowsSpec, rows: u32, far: (u32, u32), window: u32, out: bool) -> u32 {
        let (p, bytes) = (r.packing(), i64::from(self.row_bytes));
        let dim = |count: u32, far: u32, near: u32| {
            let (far, near) = (i64::from(far / p) * bytes, i64::from(near / p) * bytes);
            let (src_stride, dst_stride) = if out { (near, far) } else { (far, near) };
            DmaDim { count, src_stride, dst_stride }
        };
        let mut dims = vec![dim(r.dtype.components() as u32, far.1, window * r.planes)];
        let mut chunk = rows.div_ceil(p);
        if r.joined(far.0) {
            chunk = r.planes.div_ceil(p);
        } else {
            dims.push(dim(r.planes, far.0, window));
        }
        let (src, dst) = if out { (Space::Vmem, Space::Hbm) } else { (Space::Hbm, Space::Vmem) };
        self.desc(DmaDesc { src, dst, chunk: chunk * self.row_bytes, dims })
    }

    fn emit(&mut self, b: &mut KernelBuilder) {
        if self.s.block == 0 {
            let first = S::ZERO;
            if let Some(c) = &self.copies {
                self.clear(b, c);
            }
            self.indices(b, (first, 0));
            if let Some(c) = &self.copies {
                self.join(b, c);
            }
            return;
        }
        let block = self.s.block;
        let (from, end) = self.s.share.unwrap_or((0, self.s.rows.div_ceil(block)));
        let (begin, end) = (from * block, (end * block).min(self.s.rows));
        let (full, rest) = (end.saturating_sub(begin) / block, end.saturating_sub(begin) % block);
        let first = b.s_var(begin as i32);
        if full > 0 {
            let copies = self.block_descs(block);
            b.loop_static(full, |b| {
                self.block(b, first, block, &copies);
                b.s_inc(first, block as i32);
            });
        }
        if rest > 0 {
            let copies = self.block_descs(rest);
            self.block(b, first, rest, &copies);
        }
    }

    fn block_descs(&mut self, rows: u32) -> Vec<(u32, u32)> {
        let s = self.s;
        let one = |r: &RowsSpec| {
            let far = (r.table_plane, r.table_component);
            (self.rows_desc(r, rows, far, s.block, false), self.rows_desc(r, rows, far, s.block, true))
        };
        s.specs.iter().map(one).collect()
    }

    /// Brings the tables' `rows` element rows from number `first` on, combines what names them, and takes them away.
    fn block(&mut self, b: &mut KernelBuilder, first: S, rows: u32, copies: &[(u32, u32)]) {
        self.move_block(b, first, rows, copies, false);
        self.indices(b, (first, rows));
        self.move_block(b, first, rows, copies, true);
    }

    fn move_block(&self, b: &mut KernelBuilder, first: S, rows: u32, copies: &[(u32, u32)], out: bool) {
        let mut bytes = 0;
        let mut near = Vec::new();
        let mut far = Vec::new();
        for (((table, area), r), descs) in self.tables.iter().zip(&self.s.specs).zip(copies) {
            let Some(t) = table else { continue };
            let unit = if out { t.to } else { t.from };
            let at = unit.units_of(b, first);
            let (place, offset) = unit.place(b, at, 0);
            let shift = r.packing().trailing_zeros() as i32;
            let row = if shift == 0 { area.base } else { b.def_s(Op::SShrI, &[area.base.into(), shift.into()]) };
            let (src, src_offset, dst, dst_offset) =
                if out { (row, S::ZERO, place, offset) } else { (place, offset, row, S::ZERO) };
            let desc = if out { descs.1 } else { descs.0 };
            let (reads, writes) = if out { (area.buf, unit.buf) } else { (unit.buf, area.buf) };
            b.dma_start(DmaArgs { desc, src, src_offset, dst, dst_offset, sem: BLOCKS }, &[reads], &[writes]);
            near.push(area.buf);
            far.push(unit.buf);
            bytes += r.word_rows(rows, r.table_plane) * self.row_bytes;
        }
        let (reads, writes) = if out { (&near, &far) } else { (&far, &near) };
        b.dma_wait(BLOCKS, bytes as i32, reads, writes);
    }

    /// Every index, in order; `block`: those of so many rows from a first one on (0: of all).
    fn indices(&mut self, b: &mut KernelBuilder, block: (S, u32)) {
        let count = self.s.specs[0].count;
        let (full, rest) = (count / self.chunk, count % self.chunk);
        let first = b.s_var(0);
        if full > 0 {
            let descs = self.chunk_descs(self.chunk);
            let left = b.s_var(full as i32);
            self.bring(b, &descs, 0, first);
            if full >= 2 {
                b.loop_static(full / 2, |b| {
                    for half in [0, 1] {
                        self.chunk(b, &descs, half, (first, left), block);
                    }
                });
            }
            if full % 2 == 1 {
                self.chunk(b, &descs, 0, (first, left), block);
            }
        }
        if rest > 0 {
            let descs = self.chunk_descs(rest);
            self.bring(b, &descs, 0, first);
            self.arrived(b, 0, rest);
            self.combine_all(b, 0, first, rest, block);
        }
    }

    /// Descriptors of a chunk's copies: indices, then updates in HBM.
    fn chunk_descs(&mut self, count: u32) -> Vec<u32> {
        let s = self.s;
        let src = if s.far.indices { Space::Hbm } else { Space::Vmem };
        let mut all = vec![self.desc(DmaDesc::contiguous(src, Space::Smem, count * 4))];
        if s.far.rows {
            let rows = self.rows_of(count);
            for r in &s.specs {
                let far = (r.rows_plane, r.rows_component);
                all.push(self.rows_desc(r, rows, far, self.rows_of(self.chunk), false));
            }
        }
        all
    }

    /// Element rows of so many updates.
    fn rows_of(&self, count: u32) -> u32 {
        if self.s.elements { count.div_ceil(self.lanes) } else { count }
    }

    fn chunk(&self, b: &mut KernelBuilder, descs: &[u32], half: u32, (first, left): (S, S), block: (S, u32)) {
        b.s_inc(left, -1);
        self.arrived(b, half, self.chunk);
        b.if_(left, |b| {
            let next = b.s_addi(first, self.chunk as i32);
            self.bring(b, descs, 1 - half, next);
        });
        self.combine_all(b, half, first, self.chunk, block);
        b.s_inc(first, self.chunk as i32);
    }

    /// Starts the copies of the chunk from number `first` on.
    fn bring(&self, b: &mut KernelBuilder, descs: &[u32], half: u32, first: S) {
        let to = self.s.specs[0].smem + half * self.chunk;
        fetch(b, self.indices, (first, to), descs[0], FETCH + half);
        for (((unit, areas), r), &desc) in self.updates.iter().zip(&self.s.specs).zip(&descs[1..]) {
            let Some(unit) = unit else { continue };
            let row = match self.s.elements {
                true => b.def_s(Op::SShrI, &[first.into(), (self.lanes.trailing_zeros() as i32).into()]),
                false => first,
            };
            let at = unit.units_of(b, row);
            let (src, src_offset) = unit.place(b, at, 0);
            let area = &areas[half as usize];
            let shift = r.packing().trailing_zeros() as i32;
            let dst = if shift == 0 { area.base } else { b.def_s(Op::SShrI, &[area.base.into(), shift.into()]) };
            let args = DmaArgs { desc, src, src_offset, dst, dst_offset: S::ZERO, sem: UPDATES + half };
            b.dma_start(args, &[unit.buf], &[area.buf]);
        }
    }

    fn arrived(&self, b: &mut KernelBuilder, half: u32, count: u32) {
        let touched = [self.indices.1, BufferRef::SCALAR_MEMORY];
        b.dma_wait(FETCH + half, count as i32 * 4, &touched, &touched);
        if self.s.far.rows {
            let rows = self.rows_of(count);
            let bytes: u32 = self.s.specs.iter().map(|r| r.word_rows(rows, r.rows_plane) * self.row_bytes).sum();
            let (hbm, near): (Vec<BufferRef>, Vec<BufferRef>) = (self.updates.iter())
                .filter_map(|(unit, areas)| unit.map(|u| (u.buf, areas[half as usize].buf)))
                .unzip();
            b.dma_wait(UPDATES + half, bytes as i32, &hbm, &near);
        }
    }

    /// Combines a chunk's updates, the first of which is number `first`.
    fn combine_all(&self, b: &mut KernelBuilder, half: u32, first: S, count: u32, (low, rows): (S, u32)) {
        if let Some(c) = &self.copies {
            return self.combine_in_copies(b, c, half, (first, count));
        }
        let word = b.s_var((self.s.specs[0].smem + half * self.chunk) as i32);
        let at = if self.s.far.rows { b.s_var(0) } else { b.s_copy(first) };
        let lanes = if self.s.elements { self.lanes } else { 1 };
        let low = if rows > 0 && lanes > 1 { b.s_muli(low, lanes as i32) } else { low };
        // Narrow types are rounded on their way to memory.
        let wide = |r: &RowsSpec| r.dtype.bits() == 32 * r.dtype.components() as u32;
        let group = if self.s.specs.iter().all(wide) { GROUP } else { 1 };
        for (trips, size) in [(count / group, group), (count % group, 1)] {
            b.loop_static(trips, |b| {
                let all: Vec<Update> =
                    (0..size as i32).map(|i| self.update(b, (word, at, i), (low, rows * lanes))).collect();
                if self.s.elements {
                    self.elements(b, half, &all);
                } else {
                    self.rows(b, half, &all);
                }
                b.s_inc(word, size as i32);
                b.s_inc(at, size as i32);
            });
        }
    }

    /// The `i`th update from scalar word `word` on, which is number `at` of its array: of a block, where its table has `end` places
    /// from `low` on (0: of all of it).
    fn update(&self, b: &mut KernelBuilder, (word, at, i): (S, S, i32), (low, end): (S, u32)) -> Update {
        let index = b.smem_load(word, i);
        let index = if end > 0 { b.s(Op::SSub, &[index, low]) } else { index };
        let place = b.s(Op::SMax, &[index, S::ZERO]);
        let (number, zero) = (b.splat(index), b.v_imm(0));
        let taken = b.cmp(Op::VLeS, zero, number);
        let at = if i == 0 { at } else { b.s_addi(at, i) };
        if end == 0 {
            return Update { place, at, number, taken };
        }
        let last = b.s_imm(end as i32 - 1);
        let place = b.s(Op::SMin, &[place, last]);
        let end = b.v_imm(end as i32);
        let below = b.cmp(Op::VLtS, number, end);
        Update { place, at, number, taken: b.m_and(taken, below) }
    }

    /// The planes of a row by registers: the first of each, and how many there are.
    fn parts(&self) -> Vec<(u32, u32)> {
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

    /// Table rows = body(table rows, update rows), one after the other.
    fn rows(&self, b: &mut KernelBuilder, half: u32, all: &[Update]) {
        let (parts, reads) = (self.parts(), self.reads_table());
        let of = |b: &mut KernelBuilder, a: &Area, row: S, (plane, n): (u32, u32)| Place {
            base: b.s(Op::SAdd, &[a.base, row]),
            offset: (plane * a.plane) as i32,
            stride: if n == 1 { 0 } else { a.plane as i32 },
            buf: a.buf,
            component_rows: a.component as i32,
        };
        // Parts do not meet: those of all rows are read before any is written.
        for parts in parts.chunks(PARTS) {
            let mut stores = Vec::new();
            for &part in parts {
                let mask = b.sublanes_below(part.1);
                let mut group = Vec::new();
                for u in all {
                    let mut one = Loaded::new(u.number, b.m_and(mask, u.taken));
                    for (r, ((_, table), (_, updates))) in
                        self.s.specs.iter().zip(self.tables.iter().zip(&self.updates))
                    {
                        let t = of(b, table, u.place, part);
                        one.places.push(t);
                        let from = of(b, &updates[half as usize], u.at, part);
                        let new = memory::load_value(b, r.dtype, from);
                        one.old.push(if reads { memory::load_value(b, r.dtype, t) } else { new });
                        one.new.push(new);
                    }
                    group.push(one);
                }
                stores.extend(self.combined(b, group));
            }
            stores.iter().for_each(|(value, place, mask)| memory::store_value(b, value, *place, *mask));
        }
    }

    /// Table elements = body(table elements, updates), one after the other.
    fn elements(&self, b: &mut KernelBuilder, half: u32, all: &[Update]) {
        let lanes = self.lanes;
        let shift = lanes.trailing_zeros() as i32;
        let reads = self.reads_table();
        let mut group = Vec::new();
        for u in all {
            let row = b.def_s(Op::SShrI, &[u.place.into(), shift.into()]);
            let from = b.def_s(Op::SShrI, &[u.at.into(), shift.into()]);
            let turn = b.s(Op::SSub, &[u.place, u.at]);
            let turn = b.def_s(Op::SAndI, &[turn.into(), (lanes as i32 - 1).into()]);
            let lane_number = b.def_s(Op::SAndI, &[u.place.into(), (lanes as i32 - 1).into()]);
            let lane = b.lane();
            let wanted = b.splat(lane_number);
            let here = b.cmp(Op::VEqI, lane, wanted);
            let mask = b.m_and(u.taken, here);
            let one = b.sublanes_below(1);
            let mask = b.m_and(mask, one);
            let mut one = Loaded::new(b.splat(row), mask);
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
        let stores = self.combined(b, group);
        stores.iter().for_each(|(value, place, mask)| memory::store_value(b, value, *place, *mask));
    }

    /// What is stored where, in order: what an update of the group has made of a row is what the next one finds there.
    fn combined(&self, b: &mut KernelBuilder, mut group: Vec<Loaded>) -> Vec<(Value, Place, M)> {
        let mut made: Vec<Vec<Value>> = Vec::new();
        let reads = self.reads_table();
        for i in 0..group.len() {
            let (before, rest) = group.split_at_mut(i);
            let own = &mut rest[0];
            for (other, values) in before.iter().zip(&made).filter(|_| reads) {
                let same = b.cmp(Op::VEqI, own.row, other.row);
                let same = b.m_and(same, other.mask);
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
}
