//! Gathers of rows from a table in HBM.
//!
//! Indices come to scalar memory a chunk at a time, the next chunk's while this one's rows are asked for; the rows of a chunk
//! are copied all at once, and once half of them are asked for those of the chunk before are put where they belong. Rows of 32-bit
//! words land in place; narrower ones share words with their neighbours and are put there by the vector unit. Slabs of several
//! dimensions are whole words, whatever they hold.

use super::{Far, RowsSpec, chunk, fetch};
use crate::emit::hbm::HbmUnit;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, KernelCode, MemFormat, Needs, S, StoreFormat};
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Op, Space};

/// Semaphores: rows by set of windows, indices, results by set.
const ROWS: u32 = 0;
const FETCH: u32 = 2;
const OUT: u32 = 3;
pub(super) const SEMAPHORES: u32 = 5;

struct Gather<'a> {
    s: &'a RowsSpec,
    far: Far,
    chunk: u32,
    sublanes: u32,
    row_bytes: u32,
    /// Word rows of a chunk's landed rows, and of a chunk's results (0: they are one, or lie in the result's array).
    landing: u32,
    result: u32,
    indices: (S, BufferRef),
    table: HbmUnit,
    out: (S, HbmUnit, BufferRef),
    scratch: S,
    /// Buffers of both sets of windows.
    landed: [BufferRef; 2],
    made: [BufferRef; 2],
    /// Descriptors: a row, a chunk of indices, a chunk of results.
    row: u32,
    descs: Vec<DmaDesc>,
}

/// Indices of a chunk, and word rows of a chunk's landed rows and of its results.
fn windows(s: &RowsSpec, far: Far, chip: &ChipConfig) -> (u32, u32, u32) {
    let (p, slab) = (s.packing(), s.slab());
    let chunk = chunk(2 * slab, chip);
    match p {
        1 => (chunk, if far.rows { chunk * slab } else { 0 }, 0),
        // Registers that read a narrow row reach beyond it: not into what is on its way to the other set.
        _ => (chunk, chunk * slab + chip.core.sublanes, if far.rows { chunk * slab / p } else { 0 }),
    }
}

/// Word rows of scratch memory and semaphores of the kernel.
pub fn gather_needs(s: &RowsSpec, far: Far, chip: &ChipConfig) -> Needs {
    let (_, landing, result) = windows(s, far, chip);
    Needs { scratch_rows: 2 * (landing + result), semaphores: SEMAPHORES }
}

/// The kernel. Parameters: table (granules), indices (granules if far, else word rows), picked rows (granules if far, else element
/// rows), scratch.
pub fn gather_kernel(s: &RowsSpec, far: Far, chip: &ChipConfig) -> KernelCode {
    let mut b = KernelBuilder::new("gather", chip);
    let (table, indices, out, scratch) = (b.param(), b.param(), b.param(), b.param());
    let (from, index, to) = (b.buffer(), b.buffer(), b.buffer());
    let (chunk, landing, result) = windows(s, far, chip);
    let mut g = Gather {
        s,
        far,
        chunk,
        sublanes: chip.core.sublanes,
        row_bytes: chip.core.lanes * 4,
        landing,
        result,
        indices: (indices, index),
        table: HbmUnit::new(table, from, s.dtype, chip),
        out: (out, HbmUnit::new(out, to, s.dtype, chip), to),
        scratch,
        landed: [b.buffer(), b.buffer()],
        made: [b.buffer(), b.buffer()],
        row: 0,
        descs: Vec::new(),
    };
    g.row = g.row_desc();
    g.emit(&mut b);
    KernelCode::copying(b.finish(), g.descs, gather_needs(s, far, chip))
}

impl Gather<'_> {
    fn desc(&mut self, d: DmaDesc) -> u32 {
        self.descs.push(d);
        self.descs.len() as u32 - 1
    }

    /// Whether rows land where they belong.
    fn in_place(&self) -> bool {
        self.s.packing() == 1
    }

    /// Word rows between the planes of a landed row.
    fn apart(&self) -> u32 {
        match (self.in_place(), self.far.rows) {
            (true, true) => self.chunk * self.s.height,
            (true, false) => self.s.rows_plane,
            (false, _) => 1,
        }
    }

    fn row_desc(&mut self) -> u32 {
        let bytes = i64::from(self.row_bytes);
        if self.s.joined(self.s.table_plane) {
            let chunk = self.row_words() * self.row_bytes;
            return self.desc(DmaDesc { src: Space::Hbm, dst: Space::Vmem, chunk, dims: Vec::new() });
        }
        let plane = DmaDim {
            count: self.s.planes,
            src_stride: i64::from(self.s.table_plane / self.s.packing()) * bytes,
            dst_stride: i64::from(self.apart()) * bytes,
        };
        let chunk = self.s.height * self.row_bytes;
        self.desc(DmaDesc { src: Space::Hbm, dst: Space::Vmem, chunk, dims: vec![plane] })
    }

    /// Word rows that are brought for a row.
    fn row_words(&self) -> u32 {
        self.s.word_rows(1, self.s.table_plane)
    }

    /// The copy of `count` rows of results to HBM.
    fn out_desc(&mut self, count: u32) -> u32 {
        let (s, p, bytes) = (self.s, self.s.packing(), i64::from(self.row_bytes));
        let window = i64::from(self.chunk / p * s.height) * bytes;
        let mut dims = vec![DmaDim {
            count: s.dtype.components() as u32,
            src_stride: window * i64::from(s.planes),
            dst_stride: i64::from(s.rows_component / p) * bytes,
        }];
        let mut chunk = count.div_ceil(p) * s.height;
        if s.joined(s.rows_plane) {
            chunk = s.planes.div_ceil(p);
        } else {
            let dst_stride = i64::from(s.rows_plane / p) * bytes;
            dims.push(DmaDim { count: s.planes, src_stride: window, dst_stride });
        }
        self.desc(DmaDesc { src: Space::Vmem, dst: Space::Hbm, chunk: chunk * self.row_bytes, dims })
    }

    fn index_desc(&mut self, count: u32) -> u32 {
        let src = if self.far.indices { Space::Hbm } else { Space::Vmem };
        self.desc(DmaDesc::contiguous(src, Space::Smem, count * 4))
    }

    fn emit(&mut self, b: &mut KernelBuilder) {
        let (full, rest) = (self.s.count / self.chunk, self.s.count % self.chunk);
        let first = b.s_var(self.s.first as i32);
        if full > 0 {
            let indices = self.index_desc(self.chunk);
            let results = if self.far.rows { self.out_desc(self.chunk) } else { 0 };
            let (left, done) = (b.s_var(full as i32), b.s_var(0));
            self.fetch(b, indices, 0, first);
            let step = |b: &mut KernelBuilder, set: u32| {
                self.chunk_of(b, set, (indices, results), (first, left, done));
            };
            if full >= 2 {
                b.loop_static(full / 2, |b| {
                    step(b, 0);
                    step(b, 1);
                });
            }
            if full % 2 == 1 {
                step(b, 0);
            }
            let last = (full - 1) % 2;
            let before = b.s_addi(first, -(self.chunk as i32));
            self.settle(b, last, self.chunk, before);
            self.send(b, last, results, before);
            if self.far.rows {
                for set in [1 - last, last].into_iter().skip((full < 2) as usize) {
                    self.wait_out(b, set, self.chunk);
                }
            }
        }
        if rest > 0 {
            let indices = self.index_desc(rest);
            let results = if self.far.rows { self.out_desc(rest) } else { 0 };
            self.fetch(b, indices, 0, first);
            self.wait_indices(b, rest);
            self.ask(b, 0, (0, rest), first);
            self.settle(b, 0, rest, first);
            self.send(b, 0, results, first);
            if self.far.rows {
                self.wait_out(b, 0, rest);
            }
        }
    }

    /// A whole chunk: its rows are asked for, and the chunk before is finished.
    fn chunk_of(&self, b: &mut KernelBuilder, set: u32, descs: (u32, u32), (first, left, done): (S, S, S)) {
        let chunk = self.chunk;
        b.s_inc(left, -1);
        self.wait_indices(b, chunk);
        if self.far.rows {
            let young = b.def_s(Op::SLtI, &[done.into(), 2.into()]);
            b.unless(young, |b| self.wait_out(b, set, chunk));
        }
        // Rows on their way, there or back, have half of a chunk's turn at least.
        let half = chunk / 2;
        self.ask(b, set, (0, half), first);
        b.if_(done, |b| {
            let first = b.s_addi(first, -(chunk as i32));
            self.settle(b, 1 - set, chunk, first);
        });
        // The indices of the chunk before are not needed any more.
        b.if_(left, |b| {
            let next = b.s_addi(first, chunk as i32);
            self.fetch(b, descs.0, 1 - set, next);
        });
        b.if_(done, |b| {
            let first = b.s_addi(first, -(chunk as i32));
            self.send(b, 1 - set, descs.1, first);
        });
        self.ask(b, set, (half, chunk - half), first);
        b.s_inc(first, chunk as i32);
        b.s_inc(done, 1);
    }

    /// The place of a row by its number, in rows of one register.
    fn slabs(&self, b: &mut KernelBuilder, number: S) -> S {
        if self.s.height == 1 { number } else { b.s_muli(number, self.s.height as i32) }
    }

    fn fetch(&self, b: &mut KernelBuilder, desc: u32, half: u32, first: S) {
        let to = self.s.smem + half * self.chunk;
        fetch(b, self.indices, (first, to), desc, FETCH);
    }

    fn wait_indices(&self, b: &mut KernelBuilder, count: u32) {
        let touched = [self.indices.1, BufferRef::SCALAR_MEMORY];
        b.dma_wait(FETCH, count as i32 * 4, &touched, &touched);
    }

    /// First word row of a set's landed rows, and of its results.
    fn window(&self, b: &mut KernelBuilder, set: u32) -> (S, S) {
        let landed = b.s_addi(self.scratch, (set * self.landing) as i32);
        let made = b.s_addi(self.scratch, (2 * self.landing + set * self.result) as i32);
        (landed, made)
    }

    /// Starts the copies of a chunk's rows from number `start` on.
    fn ask(&self, b: &mut KernelBuilder, set: u32, (start, count): (u32, u32), first: S) {
        let s = self.s;
        let direct = self.in_place() && !self.far.rows;
        let word = b.s_var((s.smem + set * self.chunk + start) as i32);
        let to = if direct {
            let first = self.slabs(b, first);
            b.s(Op::SAdd, &[self.out.0, first])
        } else {
            self.window(b, set).0
        };
        let step = if self.in_place() { s.height } else { s.planes * s.dtype.components() as u32 };
        let dst = if start == 0 { b.s_copy(to) } else { b.s_addi(to, (start * step) as i32) };
        let buf = if direct { self.out.2 } else { self.landed[set as usize] };
        let component = match (self.in_place(), direct) {
            (true, true) => s.rows_component,
            (true, false) => s.planes * s.height * self.chunk,
            (false, _) => s.planes,
        };
        b.loop_static(count, |b| {
            let i = b.smem_load(word, 0);
            let i = self.slabs(b, i);
            let at = self.table.units_of(b, i);
            for c in 0..s.dtype.components() as u32 {
                let (src, src_offset) = self.table.place(b, at, self.table.units((c * s.table_component) as i32));
                let dst = if c == 0 { dst } else { b.s_addi(dst, (c * component) as i32) };
                let args = DmaArgs { desc: self.row, src, src_offset, dst, dst_offset: S::ZERO, sem: ROWS + set };
                b.dma_start(args, &[], &[buf]);
            }
            b.s_inc(word, 1);
            b.s_inc(dst, step as i32);
        });
    }

    /// Puts a chunk's rows where they belong in vector memory once they are there.
    fn settle(&self, b: &mut KernelBuilder, set: u32, count: u32, first: S) {
        let s = self.s;
        let slab = s.planes * s.dtype.components() as u32;
        let direct = self.in_place() && !self.far.rows;
        let landed = if direct { self.out.2 } else { self.landed[set as usize] };
        b.dma_wait(ROWS + set, (count * self.row_words() * self.row_bytes) as i32, &[], &[landed]);
        let (window, made) = self.window(b, set);
        if !self.in_place() {
            let p = s.packing() as i32;
            let word = b.s_var((s.smem + set * self.chunk) as i32);
            let src = b.s_muli(window, p);
            let at = if self.far.rows { b.s_muli(made, p) } else { b.s(Op::SAdd, &[self.out.0, first]) };
            let dst = b.s_copy(at);
            let (target, plane, component) = match self.far.rows {
                true if s.joined(s.rows_plane) => (self.made[set as usize], s.rows_plane, s.planes * self.chunk),
                true => (self.made[set as usize], self.chunk, s.planes * self.chunk),
                false => (self.out.2, s.rows_plane, s.rows_component),
            };
            b.loop_static(count, |b| {
                let i = b.smem_load(word, 0);
                let part = b.def_s(Op::SAndI, &[i.into(), (p - 1).into()]);
                let from = b.s(Op::SAdd, &[src, part]);
                self.copy_row(b, (from, landed), (dst, target), (plane, component));
                b.s_inc(word, 1);
                b.s_inc(src, slab as i32 * p);
                b.s_inc(dst, 1);
            });
        }
    }

    /// Starts the copy of a chunk's rows to HBM if they belong there.
    fn send(&self, b: &mut KernelBuilder, set: u32, results: u32, first: S) {
        let (window, made) = self.window(b, set);
        if self.far.rows {
            let landed = self.landed[set as usize];
            let (src, buf) = if self.in_place() { (window, landed) } else { (made, self.made[set as usize]) };
            let first = self.slabs(b, first);
            let at = self.out.1.units_of(b, first);
            let (dst, dst_offset) = self.out.1.place(b, at, 0);
            let args = DmaArgs { desc: results, src, src_offset: S::ZERO, dst, dst_offset, sem: OUT + set };
            b.dma_start(args, &[buf], &[self.out.2]);
        }
    }

    fn wait_out(&self, b: &mut KernelBuilder, set: u32, count: u32) {
        let bytes = self.s.word_rows(count, self.s.rows_plane) * self.row_bytes;
        let buf = if self.in_place() { self.landed[set as usize] } else { self.made[set as usize] };
        b.dma_wait(OUT + set, bytes as i32, &[buf], &[self.out.2, buf]);
    }

    /// One landed row (planes `packing` element rows apart) into its place.
    fn copy_row(&self, b: &mut KernelBuilder, src: (S, BufferRef), dst: (S, BufferRef), (step, component): (u32, u32)) {
        let s = self.s;
        let p = s.packing();
        let from = if s.joined(s.table_plane) { 1 } else { p };
        let (load, store) = match s.dtype.storage_bits() {
            8 => (MemFormat::U8, StoreFormat::B8),
            16 => (MemFormat::U16, StoreFormat::B16),
            _ => (MemFormat::W32, StoreFormat::W32),
        };
        for c in 0..s.dtype.components() as u32 {
            let mut plane = 0;
            while plane < s.planes {
                let v = b.load(load, src.0, ((c * s.planes + plane) * from) as i32, from as i32, src.1);
                let mask = b.sublanes_below((s.planes - plane).min(self.sublanes));
                b.store(store, v, dst.0, (c * component + plane * step) as i32, step as i32, mask, dst.1);
                plane += self.sublanes;
            }
        }
    }
}
