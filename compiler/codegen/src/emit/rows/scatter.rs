//! Scatters of rows, or of single elements, into tables.
//!
//! Indices, and updates in HBM, come a chunk at a time, the next chunk's while this one's updates are combined, one after the
//! other. Tables lie in vector memory and are updated there, or are made block by block: a block of rows is brought, every index
//! that names one of them is combined, and the block is taken away. Around a block are rows that nobody reads: updates of other
//! blocks go there, so that none has to be asked whether it counts. Tables of many blocks stay where they are ([`in_place`]).

mod combine;
mod copies;
mod in_place;

use self::copies::Copies;
pub use self::in_place::{chunk as in_place_chunk, key_words as in_place_words, part_plane as in_place_plane};
use super::{CHUNK, Far, RowsSpec, chunk, fetch};
use crate::emit::hbm::HbmUnit;
use crate::emit::loops::spec::Body;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, KernelCode, Needs, S};
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
    /// What is made is a part of the result in HBM, which begins with what changes nothing: in copies, or without any [`in_place`].
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub part: bool,
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
    /// Whether there are rows around blocks that nobody reads.
    around: bool,
    /// Rows of a window for a block.
    window: u32,
    indices: (S, BufferRef),
    /// By table: in HBM, and as it is walked.
    tables: Vec<(Option<Table>, Area)>,
    /// By table: in HBM, and as both halves are walked.
    updates: Vec<(Option<HbmUnit>, [Area; 2])>,
    copies: Option<Copies>,
    /// Where a part of the result goes.
    part: Option<HbmUnit>,
    descs: Vec<DmaDesc>,
}

/// The kernel; indices of -1 are skipped. Parameters: indices (granules if far, else word rows); of tables in HBM what each was
/// (granules); each table (granules if in HBM, else element rows); each array of updates (granules if far, else element rows);
/// scratch.
pub fn scatter_kernel(s: &ScatterSpec, chip: &ChipConfig) -> KernelCode {
    if s.in_place() {
        return in_place::in_place_kernel(s, chip);
    }
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
    let near_tables: Vec<S> = s.specs.iter().filter(|_| !blocks && !s.part).map(|_| b.param()).collect();
    let part = s.part.then(|| hbm(&mut b, &s.specs[0]));
    let far_updates: Vec<Option<HbmUnit>> = s.specs.iter().map(|r| s.far.rows.then(|| hbm(&mut b, r))).collect();
    let near_updates: Vec<S> = s.specs.iter().filter(|_| !s.far.rows).map(|_| b.param()).collect();
    let scratch = b.param();
    let mut at = 0;
    let mut window = |b: &mut KernelBuilder, r: &RowsSpec, (before, rows): (u32, u32), far: u32| {
        at += before;
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
            // A part lies in the first of its copies.
            None if s.part => Area { base: scratch, buf: b.buffer(), plane: 0, component: 0 },
            None => window(&mut b, r, (s.around(chip), s.window_rows(chip)), r.table_plane),
        };
        let table = from[i].zip(far_tables[i]).map(|(from, to)| Table { from, to });
        tables.push((table, area));
        let areas = match near_updates.get(i) {
            Some(&base) => {
                let all = Area { base, buf: b.buffer(), plane: r.rows_plane, component: r.rows_component };
                [all, all]
            }
            None => [(); 2].map(|()| window(&mut b, r, (0, chunk_rows), r.rows_plane)),
        };
        updates.push((far_updates[i], areas));
    }
    let needs = s.needs(chip);
    let copies = (s.copies > 0).then(|| {
        let first = b.s_addi(scratch, at as i32);
        Copies::new(&mut b, s, first, chip)
    });
    if let Some(c) = copies.as_ref().filter(|_| s.part) {
        tables[0].1 = c.first();
    }
    let (lanes, sublanes) = (chip.core.lanes, chip.core.sublanes);
    let around = s.around(chip) > 0;
    let window = s.window_rows(chip);
    let mut k = Scatter {
        s,
        chunk,
        lanes,
        sublanes,
        row_bytes,
        around,
        window,
        indices,
        tables,
        updates,
        copies,
        part,
        descs: Vec::new(),
    };
    k.emit(&mut b);
    KernelCode::copying(b.finish(), k.descs, needs)
}

impl ScatterSpec {
    /// Whether a part of the result is made where it is in HBM.
    #[must_use]
    pub fn in_place(&self) -> bool {
        self.part && self.copies == 0
    }

    /// What the kernel needs.
    pub fn needs(&self, chip: &ChipConfig) -> Needs {
        if self.in_place() {
            let scratch_rows = self.in_place_rows(chip) + chip.core.sublanes;
            return Needs { scratch_rows, semaphores: in_place::SEMAPHORES };
        }
        let chunk = self.chunk(chip);
        let chunk_rows = if self.elements { chunk / chip.core.lanes } else { chunk };
        let window = |r: &RowsSpec, rows: u32| rows / r.packing() * r.slab();
        let halves = |r: &RowsSpec| if self.far.rows { 2 * window(r, chunk_rows) } else { 0 };
        let copies = if self.copies > 0 { self.copies * self.copy_rows(chip) } else { 0 };
        let blocks = |r: &RowsSpec| self.around(chip) + window(r, self.window_rows(chip));
        let all: u32 = self.specs.iter().map(|r| blocks(r) + halves(r)).sum::<u32>() + copies;
        // Registers reach beyond the last window.
        Needs { scratch_rows: if all > 0 { all + 4 * chip.core.sublanes } else { 0 }, semaphores: SEMAPHORES }
    }

    /// Rows in front of each table's blocks that nobody reads, and as many behind each of their planes; 0: updates are asked whether they count.
    fn around(&self, chip: &ChipConfig) -> u32 {
        let alone = self.block > 0 && self.specs.iter().all(|r| !r.joined(r.table_plane));
        // Whole registers of rows of the narrowest type.
        if alone { 4 * chip.core.sublanes } else { 0 }
    }

    /// Rows of a window for a block, with what lies behind it.
    fn window_rows(&self, chip: &ChipConfig) -> u32 {
        if self.block == 0 { 0 } else { self.block + self.around(chip) }
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
            if let Some(part) = self.part {
                self.take_away(b, part);
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
            (self.rows_desc(r, rows, far, self.window, false), self.rows_desc(r, rows, far, self.window, true))
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
        let first = b.s_var(self.s.specs[0].first as i32);
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

    /// Takes the part of the result that the first copy has become to HBM.
    fn take_away(&mut self, b: &mut KernelBuilder, part: HbmUnit) {
        let (r, bytes, table) = (&self.s.specs[0], self.row_bytes, self.tables[0].1);
        let planes = if self.s.elements { 1 } else { r.planes };
        let [src_stride, dst_stride] = [table.plane, r.table_plane].map(|rows| i64::from(rows * bytes));
        let plane = DmaDim { count: planes, src_stride, dst_stride };
        let chunk = self.s.rows * bytes;
        let desc = self.desc(DmaDesc { src: Space::Vmem, dst: Space::Hbm, chunk, dims: vec![plane] });
        let (dst, dst_offset) = part.place(b, S::ZERO, 0);
        let args = DmaArgs { desc, src: table.base, src_offset: S::ZERO, dst, dst_offset, sem: BLOCKS };
        b.dma_start(args, &[table.buf], &[part.buf]);
        b.dma_wait(BLOCKS, (planes * chunk) as i32, &[table.buf], &[part.buf]);
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
}
