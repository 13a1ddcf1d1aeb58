//! Gathers of rows from a table in vector memory, one after the other.
//!
//! A copy of its own for every row ([`super::gather`]) waits for HBM with all that may be under way; a row that is in vector
//! memory already is found by the scalar unit, loaded and stored. Indices go to scalar memory a chunk at a time, the next chunk's
//! while this one's rows are moved; results that belong in HBM are made in two windows in turns.

use super::windows::{Chunk, SEMAPHORES, Windows};
use super::{Far, RowsSpec, chunk};
use crate::kernel::{KernelBuilder, KernelCode, LoopHints, MemFormat, Needs, S, StoreFormat, Trips};
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Op, Space};

/// Rows that a turn of the loop moves: counters cost little beside so many.
const UNROLLED: u32 = 8;
/// Registers that a turn of the loop moves at most.
const REGISTERS: u32 = 32;

struct Near<'a> {
    w: Windows<'a>,
    sublanes: u32,
    row_bytes: u32,
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
pub fn near_needs(s: &RowsSpec, far: Far, chip: &ChipConfig) -> Needs {
    let windows = 2 * s.slab() * rows_of(s, far, chip) / s.packing();
    Needs { scratch_rows: if far.rows { windows } else { 0 }, semaphores: SEMAPHORES }
}

/// The kernel. Parameters as of [`Windows::new`]: the table, its indices, picked rows.
pub fn near_kernel(s: &RowsSpec, far: Far, chip: &ChipConfig) -> KernelCode {
    let mut b = KernelBuilder::new("gather", chip);
    let w = Windows::new(&mut b, s, rows_of(s, far, chip), far, chip);
    let k = Near { w, sublanes: chip.core.sublanes, row_bytes: chip.core.lanes * 4 };
    k.w.kernel(b, &k, s.count % k.w.chunk, near_needs(s, far, chip))
}

impl Chunk for Near<'_> {
    fn row_of(&self, _: &mut KernelBuilder, first: S) -> S {
        first
    }

    fn window(&self, half: u32) -> u32 {
        half * self.w.chunk * self.w.s.slab()
    }

    fn out_desc(&self, count: u32) -> DmaDesc {
        let (s, p, bytes) = (self.w.s, self.w.s.packing(), i64::from(self.row_bytes));
        let dim = |count: u32, near: u32, far: u32| DmaDim {
            count,
            src_stride: i64::from(near / p) * bytes,
            dst_stride: i64::from(far / p) * bytes,
        };
        let components = dim(s.dtype.components() as u32, self.w.chunk * s.planes, s.rows_component);
        let dims = vec![components, dim(s.planes, self.w.chunk, s.rows_plane)];
        DmaDesc { src: Space::Vmem, dst: Space::Hbm, chunk: count.div_ceil(p) * self.row_bytes, dims }
    }

    fn make(&self, b: &mut KernelBuilder, half: u32, first: S, count: u32, _: bool) {
        let (s, table, out) = (self.w.s, self.w.table, self.w.out);
        let parts = s.parts(self.sublanes);
        let (load, store) = match s.dtype.storage_bits() {
            8 => (MemFormat::U8, StoreFormat::B8),
            16 => (MemFormat::U16, StoreFormat::B16),
            _ => (MemFormat::W32, StoreFormat::W32),
        };
        let (plane_rows, component_rows, at) = match self.w.far {
            Some(_) => (self.w.chunk, self.w.chunk * s.planes, b.s_addi(out.0, self.window(half) as i32)),
            None => (s.rows_plane, s.rows_component, b.s(Op::SAdd, &[out.0, first])),
        };
        let (word, at) = (b.s_var(self.w.words(half) as i32), b.s_copy(at));
        let components = s.dtype.components() as u32;
        let together = (REGISTERS / (parts.len() as u32 * components)).clamp(1, UNROLLED);
        for (trips, size) in [(count / together, together), (count % together, 1)] {
            b.loop_with(Trips::Static(trips), LoopHints::independent(&[table.1, out.1]), |b| {
                for r in 0..size {
                    let i = b.smem_load(word, r as i32);
                    let from = b.s(Op::SAdd, &[table.0, i]);
                    for c in 0..components {
                        for &(plane, n) in &parts {
                            let stride = |step: u32| if n == 1 { 0 } else { step as i32 };
                            let offset = c * s.table_component + plane * s.table_plane;
                            let v = b.load(load, from, offset as i32, stride(s.table_plane), table.1);
                            let offset = r + c * component_rows + plane * plane_rows;
                            let mask = b.sublanes_below(n);
                            b.store(store, v, at, offset as i32, stride(plane_rows), mask, out.1);
                        }
                    }
                }
                b.s_inc(word, size as i32);
                b.s_inc(at, size as i32);
            });
        }
    }
}
