//! Gathers of rows from a table in vector memory, one after the other.
//!
//! A copy of its own for every row ([`super::gather`]) waits for HBM with all that may be under way; a row that is in vector
//! memory already is found by the scalar unit, loaded and stored. Indices go to scalar memory a chunk at a time, the next chunk's
//! while this one's rows are moved; results that belong in HBM are made in two windows in turns.

use super::{Far, RowsKernel, RowsSpec, chunk, fetch};
use crate::emit::hbm::HbmUnit;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, LoopHints, MemFormat, S, StoreFormat, Trips};
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Op, Space};

/// Semaphores: indices by half of their words, results that go to HBM by window.
const OUT: u32 = 2;
const SEMAPHORES: u32 = 4;
/// Rows that a turn of the loop moves: counters cost little beside so many.
const UNROLLED: u32 = 8;
/// Registers that a turn of the loop moves at most.
const REGISTERS: u32 = 32;

struct Near<'a> {
    s: &'a RowsSpec,
    chunk: u32,
    sublanes: u32,
    row_bytes: u32,
    table: (S, BufferRef),
    indices: (S, BufferRef),
    /// Where rows are put: their array, or two windows on their way to HBM.
    out: (S, BufferRef),
    far: Option<HbmUnit>,
}

impl RowsSpec {
    /// Whether rows of a table in vector memory can be moved one after the other: planes have words of their own.
    #[must_use]
    pub fn can_be_near(&self) -> bool {
        !self.joined(self.table_plane) && !self.joined(self.rows_plane)
    }

    /// Estimated cycles of the rows of a table in vector memory.
    #[must_use]
    pub fn near_cycles(&self, chip: &ChipConfig) -> f64 {
        let interval = |op: Op| f64::from(chip.timing.get(op.info().class).interval.max(1));
        let core = &chip.core;
        let moved = f64::from(self.parts(core.sublanes).len() as u32 * self.dtype.components() as u32);
        // A word of scalar memory and a place found for every row.
        let found = interval(Op::SLd).max(2.0 / f64::from(core.scalar_slots.max(1)));
        let loads = moved / f64::from(core.vload_slots.max(1));
        f64::from(self.count) * found.max(loads).max(moved / f64::from(core.vstore_slots.max(1)))
    }

    /// Estimated cycles of the rows of a table in HBM, a copy each.
    #[must_use]
    pub fn far_cycles(&self, chip: &ChipConfig) -> f64 {
        let latency = chip.hbm_latency_cycles() as f64 + f64::from(chip.dma.descriptor_cycles);
        let copies = f64::from(self.dtype.components() as u32) * latency / f64::from(chip.dma.in_flight.max(1));
        let bytes = f64::from(self.word_rows(1, self.table_plane)) * chip.row_bytes() as f64;
        f64::from(self.count) * copies.max(bytes / chip.hbm_bytes_per_cycle())
    }

    /// A row by the registers that move it: first plane and number of planes, all sublanes or one.
    fn parts(&self, sublanes: u32) -> Vec<(u32, u32)> {
        let whole = self.planes / sublanes * sublanes;
        let full = (0..whole).step_by(sublanes as usize).map(|plane| (plane, sublanes));
        full.chain((whole..self.planes).map(|plane| (plane, 1))).collect()
    }
}

/// Rows of a chunk.
fn rows_of(s: &RowsSpec, far: Far, chip: &ChipConfig) -> u32 {
    chunk(if far.rows { 2 * s.slab() } else { 1 }, chip)
}

/// Word rows of scratch memory and semaphores of the kernel.
pub fn near_needs(s: &RowsSpec, far: Far, chip: &ChipConfig) -> (u32, u32) {
    (if far.rows { 2 * s.slab() * rows_of(s, far, chip) / s.packing() } else { 0 }, SEMAPHORES)
}

/// The kernel. Parameters: table (element rows), indices (granules if far, else word rows), picked rows (granules if far, else element
/// rows); scratch if they are far.
pub fn near_kernel(s: &RowsSpec, far: Far, chip: &ChipConfig) -> RowsKernel {
    let mut b = KernelBuilder::new("gather", chip);
    let params: [S; 3] = std::array::from_fn(|_| b.param());
    let [table, indices, mut out] = params.map(|p| (p, b.buffer()));
    let results = far.rows.then(|| HbmUnit::new(out.0, out.1, s.dtype, chip));
    if far.rows {
        let scratch = b.param();
        out = (if s.packing() == 1 { scratch } else { b.s_muli(scratch, s.packing() as i32) }, b.buffer());
    }
    let k = Near {
        s,
        chunk: rows_of(s, far, chip),
        sublanes: chip.core.sublanes,
        row_bytes: chip.core.lanes * 4,
        table,
        indices,
        out,
        far: results,
    };
    let (full, rest) = (s.count / k.chunk, s.count % k.chunk);
    let src = if far.indices { Space::Hbm } else { Space::Vmem };
    let mut descs = [k.chunk, rest].map(|n| DmaDesc::contiguous(src, Space::Smem, n * 4)).to_vec();
    descs.extend([k.chunk, rest].map(|n| k.out_desc(n)));
    let first = b.s_var(s.first as i32);
    if full > 0 {
        let (left, done) = (b.s_var(full as i32), b.s_var(0));
        k.bring(&mut b, 0, 0, first);
        let step = |b: &mut KernelBuilder, half: u32| {
            b.s_inc(left, -1);
            k.arrived(b, half, k.chunk);
            b.if_(left, |b| {
                let next = b.s_addi(first, k.chunk as i32);
                k.bring(b, 0, 1 - half, next);
            });
            if k.far.is_some() {
                let young = b.def_s(Op::SLtI, &[done.into(), 2.into()]);
                b.if_else(young, |_| {}, |b| k.taken(b, half, k.chunk));
            }
            k.rows(b, half, first, k.chunk);
            k.take(b, half, first, 2);
            b.s_inc(first, k.chunk as i32);
            b.s_inc(done, 1);
        };
        b.loop_static(full / 2, |b| {
            step(b, 0);
            step(b, 1);
        });
        if full % 2 == 1 {
            step(&mut b, 0);
        }
        for half in 0..full.min(2) {
            k.taken(&mut b, half, k.chunk);
        }
    }
    if rest > 0 {
        k.bring(&mut b, 1, 0, first);
        k.arrived(&mut b, 0, rest);
        k.rows(&mut b, 0, first, rest);
        k.take(&mut b, 0, first, 3);
        k.taken(&mut b, 0, rest);
    }
    let (scratch_rows, semaphores) = near_needs(s, far, chip);
    RowsKernel { kernel: b.finish(), scratch_rows, descs, semaphores }
}

impl Near<'_> {
    /// First word of scalar memory of a half.
    fn words(&self, half: u32) -> u32 {
        self.s.smem + half * self.chunk
    }

    fn bring(&self, b: &mut KernelBuilder, desc: u32, half: u32, first: S) {
        fetch(b, self.indices, (first, self.words(half)), desc, half);
    }

    fn arrived(&self, b: &mut KernelBuilder, half: u32, count: u32) {
        let touched = [self.indices.1, BufferRef::SCALAR_MEMORY];
        b.dma_wait(half, count as i32 * 4, &touched, &touched);
    }

    /// Element rows from one window of results to the next.
    fn window(&self) -> u32 {
        self.chunk * self.s.slab()
    }

    /// The copy of so many rows to HBM.
    fn out_desc(&self, count: u32) -> DmaDesc {
        let (s, p, bytes) = (self.s, self.s.packing(), i64::from(self.row_bytes));
        let dim = |count: u32, near: u32, far: u32| DmaDim {
            count,
            src_stride: i64::from(near / p) * bytes,
            dst_stride: i64::from(far / p) * bytes,
        };
        let components = dim(s.dtype.components() as u32, self.chunk * s.planes, s.rows_component);
        let dims = vec![components, dim(s.planes, self.chunk, s.rows_plane)];
        DmaDesc { src: Space::Vmem, dst: Space::Hbm, chunk: count.div_ceil(p) * self.row_bytes, dims }
    }

    /// Takes a window's rows, the first of which is number `first`, to HBM if they belong there.
    fn take(&self, b: &mut KernelBuilder, half: u32, first: S, desc: u32) {
        let Some(unit) = self.far else { return };
        let at = unit.units_of(b, first);
        let (dst, dst_offset) = unit.place(b, at, 0);
        let from = b.s_addi(self.out.0, (half * self.window()) as i32);
        let src = match self.s.packing() {
            1 => from,
            p => b.def_s(Op::SShrI, &[from.into(), (p.trailing_zeros() as i32).into()]),
        };
        let args = DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset, sem: OUT + half };
        b.dma_start(args, &[self.out.1], &[unit.buf]);
    }

    /// Waits until a window's `count` rows are in HBM.
    fn taken(&self, b: &mut KernelBuilder, half: u32, count: u32) {
        let Some(unit) = self.far else { return };
        let bytes = self.s.word_rows(count, self.s.rows_plane) * self.row_bytes;
        b.dma_wait(OUT + half, bytes as i32, &[self.out.1], &[unit.buf, self.out.1]);
    }

    /// The rows of `count` indices, the first of which is number `first`.
    fn rows(&self, b: &mut KernelBuilder, half: u32, first: S, count: u32) {
        let s = self.s;
        let parts = s.parts(self.sublanes);
        let (load, store) = match s.dtype.storage_bits() {
            8 => (MemFormat::U8, StoreFormat::B8),
            16 => (MemFormat::U16, StoreFormat::B16),
            _ => (MemFormat::W32, StoreFormat::W32),
        };
        let (plane_rows, component_rows, at) = match self.far {
            Some(_) => (self.chunk, self.chunk * s.planes, b.s_addi(self.out.0, (half * self.window()) as i32)),
            None => (s.rows_plane, s.rows_component, b.s(Op::SAdd, &[self.out.0, first])),
        };
        let (word, at) = (b.s_var(self.words(half) as i32), b.s_copy(at));
        let components = s.dtype.components() as u32;
        let together = (REGISTERS / (parts.len() as u32 * components)).clamp(1, UNROLLED);
        for (trips, size) in [(count / together, together), (count % together, 1)] {
            b.loop_with(Trips::Static(trips), LoopHints::independent(&[self.table.1, self.out.1]), |b| {
                for r in 0..size {
                    let i = b.smem_load(word, r as i32);
                    let from = b.s(Op::SAdd, &[self.table.0, i]);
                    for c in 0..components {
                        for &(plane, n) in &parts {
                            let stride = |step: u32| if n == 1 { 0 } else { step as i32 };
                            let offset = c * s.table_component + plane * s.table_plane;
                            let v = b.load(load, from, offset as i32, stride(s.table_plane), self.table.1);
                            let offset = r + c * component_rows + plane * plane_rows;
                            let mask = b.sublanes_below(n);
                            b.store(store, v, at, offset as i32, stride(plane_rows), mask, self.out.1);
                        }
                    }
                }
                b.s_inc(word, size as i32);
                b.s_inc(at, size as i32);
            });
        }
    }
}
