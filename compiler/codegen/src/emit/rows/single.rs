//! Gathers of single elements, one after the other, from tables of one dimension in vector memory.
//!
//! Permutations of lanes ([`super::pick`]) ask every register of a table for every register of results: for large tables and
//! many indices that is more than a turn of one row for each element. Indices go to scalar memory a chunk at a time, the next
//! chunk's while this one's elements are fetched.

use super::windows::{Chunk, SEMAPHORES, Windows};
use super::{CHUNK, Far, RowsSpec};
use crate::kernel::{KernelBuilder, KernelCode, LoopHints, MemFormat, Needs, S, StoreFormat, Trips, V};
use systole_isa::{ChipConfig, DmaDesc, DmaDim, Op, Space};

/// Rows of results that are made together: their elements are in the same lane, each in a sublane of its own, and one permutation brings
/// all there.
const TOGETHER: u32 = 4;

/// Cycles of an element: its index comes from scalar memory, and the scalar unit finds its row.
pub const ELEMENT_CYCLES: f64 = 2.0;

struct Singles<'a> {
    w: Windows<'a>,
    lanes: u32,
    sublanes: u32,
}

/// The kernel. Parameters as of [`Windows::new`]: the table, its indices, picked elements.
pub fn singles_kernel(s: &RowsSpec, far: Far, chip: &ChipConfig) -> KernelCode {
    let mut b = KernelBuilder::new("gather", chip);
    let w = Windows::new(&mut b, s, CHUNK, far, chip);
    let k = Singles { w, lanes: chip.core.lanes, sublanes: chip.core.sublanes };
    // Arrays fill whole rows: what lies behind the last index is kept within the table.
    let last = (s.count % CHUNK).next_multiple_of(k.lanes);
    k.w.kernel(b, &k, last, singles_needs(s, far, chip))
}

/// What the kernel needs.
pub fn singles_needs(s: &RowsSpec, far: Far, chip: &ChipConfig) -> Needs {
    let half = (CHUNK / chip.core.lanes).div_ceil(s.packing()) * s.dtype.components() as u32;
    Needs { scratch_rows: if far.rows { 2 * half } else { 0 }, semaphores: SEMAPHORES }
}

impl Chunk for Singles<'_> {
    fn row_of(&self, b: &mut KernelBuilder, first: S) -> S {
        b.def_s(Op::SShrI, &[first.into(), (self.lanes.trailing_zeros() as i32).into()])
    }

    fn window(&self, half: u32) -> u32 {
        half * (CHUNK / self.lanes).next_multiple_of(self.w.s.packing()) * self.w.s.dtype.components() as u32
    }

    fn out_desc(&self, count: u32) -> DmaDesc {
        let (s, bytes) = (self.w.s, self.lanes * 4);
        let [src_stride, dst_stride] =
            [CHUNK / self.lanes, s.rows_component].map(|rows| i64::from(rows / s.packing() * bytes));
        let component = DmaDim { count: s.dtype.components() as u32, src_stride, dst_stride };
        DmaDesc { src: Space::Vmem, dst: Space::Hbm, chunk: self.out_rows(count) * bytes, dims: vec![component] }
    }

    fn make(&self, b: &mut KernelBuilder, half: u32, first: S, count: u32, last: bool) {
        let rows = count / self.lanes;
        let word = b.s_var(self.w.words(half) as i32);
        let row = self.row_of(b, first);
        let row = match self.w.far {
            Some(_) => b.s_addi(self.w.out.0, self.window(half) as i32),
            None => b.s(Op::SAdd, &[self.w.out.0, row]),
        };
        let row = b.s_copy(row);
        let together = TOGETHER.min(self.sublanes);
        for (trips, size) in [(rows / together, together), (rows % together, 1)] {
            b.loop_static(trips, |b| {
                self.rows(b, (word, row), size, last);
                b.s_inc(word, (size * self.lanes) as i32);
                b.s_inc(row, size as i32);
            });
        }
    }
}

impl Singles<'_> {
    /// Word rows of so many results.
    fn out_rows(&self, count: u32) -> u32 {
        (count / self.lanes).div_ceil(self.w.s.packing())
    }

    /// `size` rows of results from scalar word `word` on; `unknown`: some indices may be anything.
    fn rows(&self, b: &mut KernelBuilder, (word, row): (S, S), size: u32, unknown: bool) {
        let (s, shift) = (self.w.s, self.lanes.trailing_zeros() as i32);
        let (load, store) = match s.dtype.storage_bits() {
            8 => (MemFormat::U8, StoreFormat::B8),
            16 => (MemFormat::U16, StoreFormat::B16),
            _ => (MemFormat::W32, StoreFormat::W32),
        };
        let components = s.dtype.components() as u32;
        let found: Vec<_> = (0..components).map(|_| b.v_var(0)).collect();
        let (at, lane) = (b.s_copy(word), b.s_var(0));
        let last = unknown.then(|| b.s_imm((s.table_component * self.lanes) as i32 - 1));
        b.loop_with(Trips::Static(self.lanes), LoopHints::independent(&[self.w.table.1]), |b| {
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
                let from = b.s(Op::SAdd, &[self.w.table.0, from]);
                let at = b.splat(i);
                order = Some(order.map_or(at, |all| b.select(own, at, all)));
                for c in 0..components {
                    let v = b.load(load, from, (c * s.table_component) as i32, 0, self.w.table.1);
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
        let component = if self.w.far.is_some() { CHUNK / self.lanes } else { s.rows_component };
        for (c, &f) in found.iter().enumerate() {
            b.store(store, f, row, (c as u32 * component) as i32, 1, made, self.w.out.1);
        }
    }
}
