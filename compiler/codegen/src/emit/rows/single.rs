//! Gathers of single elements, one after the other, from tables of one dimension in vector memory.
//!
//! Permutations of lanes ([`super::pick`]) ask every register of a table for every register of results: for large tables and
//! many indices that is more than a turn of one row for each element. Indices go to scalar memory a chunk at a time, the next
//! chunk's while this one's elements are fetched.

use super::{CHUNK, Far, RowsKernel, RowsSpec, fetch};
use crate::emit::hbm::HbmUnit;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, LoopHints, MemFormat, S, StoreFormat, Trips, V};
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Op, Space};

/// Semaphores: indices by half of their words, results that go to HBM by half of their window.
const OUT: u32 = 2;
const SEMAPHORES: u32 = 4;
/// Rows of results that are made together: their elements are in the same lane, each in a sublane of its own, and one permutation brings
/// all there.
const TOGETHER: u32 = 4;

/// Cycles of an element: its index comes from scalar memory, and the scalar unit finds its row.
pub const ELEMENT_CYCLES: f64 = 2.0;

struct Singles<'a> {
    s: &'a RowsSpec,
    lanes: u32,
    sublanes: u32,
    table: (S, BufferRef),
    indices: (S, BufferRef),
    /// Where results are made: their array, or a window of two halves on their way to HBM.
    out: (S, BufferRef),
    far: Option<HbmUnit>,
}

/// The kernel. Parameters: table (element rows), indices (granules if far, else word rows), picked elements (granules if far, else element
/// rows); scratch if they are far.
pub fn singles_kernel(s: &RowsSpec, far: Far, chip: &ChipConfig) -> RowsKernel {
    let mut b = KernelBuilder::new("gather", chip);
    let params: [S; 3] = std::array::from_fn(|_| b.param());
    let [table, indices, mut out] = params.map(|p| (p, b.buffer()));
    let results = far.rows.then(|| HbmUnit::new(out.0, out.1, s.dtype, chip));
    if far.rows {
        let scratch = b.param();
        out = (if s.packing() == 1 { scratch } else { b.s_muli(scratch, s.packing() as i32) }, b.buffer());
    }
    let k = Singles { s, lanes: chip.core.lanes, sublanes: chip.core.sublanes, table, indices, out, far: results };
    let src = if far.indices { Space::Hbm } else { Space::Vmem };
    let (full, rest) = (s.count / CHUNK, s.count % CHUNK);
    // Arrays fill whole rows: what lies behind the last index is kept within the table.
    let last = rest.next_multiple_of(k.lanes);
    let mut descs = [CHUNK, last].map(|n| DmaDesc::contiguous(src, Space::Smem, n * 4)).to_vec();
    descs.extend([CHUNK, last].map(|n| k.out_desc(n)));
    let first = b.s_var(s.first as i32);
    if full > 0 {
        let (left, done) = (b.s_var(full as i32), b.s_var(0));
        k.bring(&mut b, 0, 0, first);
        let step = |b: &mut KernelBuilder, half: u32| {
            b.s_inc(left, -1);
            k.arrived(b, half, CHUNK);
            b.if_(left, |b| {
                let next = b.s_addi(first, CHUNK as i32);
                k.bring(b, 0, 1 - half, next);
            });
            if k.far.is_some() {
                let young = b.def_s(Op::SLtI, &[done.into(), 2.into()]);
                b.if_else(young, |_| {}, |b| k.taken(b, half, CHUNK));
            }
            k.chunk(b, half, first, CHUNK, false);
            k.take(b, half, first, 2);
            b.s_inc(first, CHUNK as i32);
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
            k.taken(&mut b, half, CHUNK);
        }
    }
    if rest > 0 {
        k.bring(&mut b, 1, 0, first);
        k.arrived(&mut b, 0, last);
        k.chunk(&mut b, 0, first, last, true);
        k.take(&mut b, 0, first, 3);
        k.taken(&mut b, 0, last);
    }
    RowsKernel { kernel: b.finish(), scratch_rows: singles_needs(s, far, chip).0, descs, semaphores: SEMAPHORES }
}

/// Word rows of scratch memory and semaphores of the kernel.
pub fn singles_needs(s: &RowsSpec, far: Far, chip: &ChipConfig) -> (u32, u32) {
    let half = (CHUNK / chip.core.lanes).div_ceil(s.packing()) * s.dtype.components() as u32;
    (if far.rows { 2 * half } else { 0 }, SEMAPHORES)
}

impl Singles<'_> {
    /// First word of scalar memory of a half.
    fn words(&self, half: u32) -> u32 {
        self.s.smem + half * CHUNK
    }

    fn bring(&self, b: &mut KernelBuilder, desc: u32, half: u32, first: S) {
        fetch(b, self.indices, (first, self.words(half)), desc, half);
    }

    fn arrived(&self, b: &mut KernelBuilder, half: u32, count: u32) {
        let touched = [self.indices.1, BufferRef::SCALAR_MEMORY];
        b.dma_wait(half, count as i32 * 4, &touched, &touched);
    }

    /// First element row of a half of the window of results.
    fn window(&self, half: u32) -> u32 {
        half * (CHUNK / self.lanes).next_multiple_of(self.s.packing()) * self.s.dtype.components() as u32
    }

    /// Word rows of so many results.
    fn out_rows(&self, count: u32) -> u32 {
        (count / self.lanes).div_ceil(self.s.packing())
    }

    /// The copy of so many results to HBM.
    fn out_desc(&self, count: u32) -> DmaDesc {
        let (s, bytes) = (self.s, self.lanes * 4);
        let [src_stride, dst_stride] =
            [CHUNK / self.lanes, s.rows_component].map(|rows| i64::from(rows / s.packing() * bytes));
        let component = DmaDim { count: s.dtype.components() as u32, src_stride, dst_stride };
        DmaDesc { src: Space::Vmem, dst: Space::Hbm, chunk: self.out_rows(count) * bytes, dims: vec![component] }
    }

    /// Takes a half's results, the first of which is number `first`, to HBM if they belong there.
    fn take(&self, b: &mut KernelBuilder, half: u32, first: S, desc: u32) {
        let Some(unit) = self.far else { return };
        let row = b.def_s(Op::SShrI, &[first.into(), (self.lanes.trailing_zeros() as i32).into()]);
        let at = unit.units_of(b, row);
        let (dst, dst_offset) = unit.place(b, at, 0);
        let from = b.s_addi(self.out.0, self.window(half) as i32);
        let src = match self.s.packing() {
            1 => from,
            p => b.def_s(Op::SShrI, &[from.into(), (p.trailing_zeros() as i32).into()]),
        };
        let args = DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset, sem: OUT + half };
        b.dma_start(args, &[self.out.1], &[unit.buf]);
    }

    /// Waits until a half's `count` results are in HBM.
    fn taken(&self, b: &mut KernelBuilder, half: u32, count: u32) {
        let Some(unit) = self.far else { return };
        let bytes = self.out_rows(count) * self.s.dtype.components() as u32 * self.lanes * 4;
        b.dma_wait(OUT + half, bytes as i32, &[self.out.1], &[unit.buf, self.out.1]);
    }

    /// The elements of `count` indices, whole rows of them, the first of which is number `first`; `unknown`: some may be
    /// anything.
    fn chunk(&self, b: &mut KernelBuilder, half: u32, first: S, count: u32, unknown: bool) {
        let rows = count / self.lanes;
        let word = b.s_var(self.words(half) as i32);
        let row = b.def_s(Op::SShrI, &[first.into(), (self.lanes.trailing_zeros() as i32).into()]);
        let row = match self.far {
            Some(_) => b.s_addi(self.out.0, self.window(half) as i32),
            None => b.s(Op::SAdd, &[self.out.0, row]),
        };
        let row = b.s_copy(row);
        let together = TOGETHER.min(self.sublanes);
        for (trips, size) in [(rows / together, together), (rows % together, 1)] {
            b.loop_static(trips, |b| {
                self.rows(b, (word, row), size, unknown);
                b.s_inc(word, (size * self.lanes) as i32);
                b.s_inc(row, size as i32);
            });
        }
    }

    /// `size` rows of results from scalar word `word` on.
    fn rows(&self, b: &mut KernelBuilder, (word, row): (S, S), size: u32, unknown: bool) {
        let (s, shift) = (self.s, self.lanes.trailing_zeros() as i32);
        let (load, store) = match s.dtype.storage_bits() {
            8 => (MemFormat::U8, StoreFormat::B8),
            16 => (MemFormat::U16, StoreFormat::B16),
            _ => (MemFormat::W32, StoreFormat::W32),
        };
        let components = s.dtype.components() as u32;
        let found: Vec<_> = (0..components).map(|_| b.v_var(0)).collect();
        let (at, lane) = (b.s_copy(word), b.s_var(0));
        let last = unknown.then(|| b.s_imm((s.table_component * self.lanes) as i32 - 1));
        b.loop_with(Trips::Static(self.lanes), LoopHints::independent(&[self.table.1]), |b| {
            let (here, number) = (b.splat(lane), b.lane());
            let mask = b.cmp(Op::VEqI, number, here);
            // By component the rows of all elements, a sublane each, and the lanes that these are in.
            let mut rows: Vec<V> = Vec::new();
            let mut order = None;
            for r in 0..size {
                let own = b.sublane_is(r);
                let i = b.smem_load(at, (r * self.lanes) as i32);
                let i = match last {
                    Some(last) => {
                        let i = b.s(Op::SMax, &[i, S::ZERO]);
                        b.s(Op::SMin, &[i, last])
                    }
                    None => i,
                };
                let from = b.def_s(Op::SShrI, &[i.into(), shift.into()]);
                let from = b.s(Op::SAdd, &[self.table.0, from]);
                let at = b.splat(i);
                order = Some(order.map_or(at, |all| b.select(own, at, all)));
                for c in 0..components {
                    let v = b.load(load, from, (c * s.table_component) as i32, 0, self.table.1);
                    match rows.get_mut(c as usize) {
                        Some(all) => *all = b.select(own, v, *all),
                        None => rows.push(v),
                    }
                }
            }
            let order = order.expect("some rows are made together");
            for (&f, all) in found.iter().zip(rows) {
                let v = b.v(Op::XPermLane, &[all, order]);
                b.set_v(f, Op::VSel, &[mask.into(), v.into(), f.into()]);
            }
            b.s_inc(at, 1);
            b.s_inc(lane, 1);
        });
        let made = b.sublanes_below(size);
        let component = if self.far.is_some() { CHUNK / self.lanes } else { s.rows_component };
        for (c, &f) in found.iter().enumerate() {
            b.store(store, f, row, (c as u32 * component) as i32, 1, made, self.out.1);
        }
    }
}
