//! Gathers by the scalar unit, a chunk of indices at a time: what those of single elements and of rows have in common.
//!
//! Indices go to scalar memory in halves, the next chunk's while this one's results are made; results that belong in HBM are made
//! in two windows in turns, and copied from there.

use super::{Far, RowsSpec, fetch};
use crate::emit::hbm::HbmUnit;
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, KernelBuilder, KernelCode, Needs, S};
use systole_isa::{ChipConfig, DmaDesc, Op, Space};

/// Semaphores: indices by half of their words, results that go to HBM by window.
const OUT: u32 = 2;
pub const SEMAPHORES: u32 = 4;

/// The arrays of a gather, and how it goes through its indices.
pub struct Windows<'a> {
    pub s: &'a RowsSpec,
    /// Indices of a chunk.
    pub chunk: u32,
    pub table: (S, BufferRef),
    indices: (S, BufferRef),
    /// Where results are made: their array, or two windows on their way to HBM.
    pub out: (S, BufferRef),
    pub far: Option<HbmUnit>,
    /// Where indices are.
    src: Space,
}

/// What is done with a chunk.
pub trait Chunk {
    /// Makes the results of `count` indices, the first of which is number `first`; `last`: of what whole chunks leave.
    fn make(&self, b: &mut KernelBuilder, half: u32, first: S, count: u32, last: bool);

    /// The element row of the results in HBM where those of index number `first` are.
    fn row_of(&self, b: &mut KernelBuilder, first: S) -> S;

    /// First element row of a window.
    fn window(&self, half: u32) -> u32;

    /// The copy of the results of so many indices to HBM.
    fn out_desc(&self, count: u32) -> DmaDesc;
}

impl<'a> Windows<'a> {
    /// Declares the parameters: table (element rows), indices (granules if far, else word rows), results (granules if far, else
    /// element rows); scratch if they are far.
    pub fn new(b: &mut KernelBuilder, s: &'a RowsSpec, chunk: u32, far: Far, chip: &ChipConfig) -> Windows<'a> {
        let params: [S; 3] = std::array::from_fn(|_| b.param());
        let [table, indices, mut out] = params.map(|p| (p, b.buffer()));
        let results = far.rows.then(|| HbmUnit::new(out.0, out.1, s.dtype, chip));
        if far.rows {
            let scratch = b.param();
            out = (if s.packing() == 1 { scratch } else { b.s_muli(scratch, s.packing() as i32) }, b.buffer());
        }
        let src = if far.indices { Space::Hbm } else { Space::Vmem };
        Windows { s, chunk, table, indices, out, far: results, src }
    }

    /// First word of scalar memory of a half.
    pub fn words(&self, half: u32) -> u32 {
        self.s.smem + half * self.chunk
    }

    /// All chunks, and `last` indices behind the whole ones.
    pub fn kernel(&self, mut b: KernelBuilder, k: &impl Chunk, last: u32, needs: Needs) -> KernelCode {
        let counts = [self.chunk, last];
        let mut descs = counts.map(|n| DmaDesc::contiguous(self.src, Space::Smem, n * 4)).to_vec();
        descs.extend(counts.map(|n| k.out_desc(n)));
        let full = self.s.count / self.chunk;
        let first = b.s_var(self.s.first as i32);
        if full > 0 {
            let (left, done) = (b.s_var(full as i32), b.s_var(0));
            self.bring(&mut b, 0, 0, first);
            let step = |b: &mut KernelBuilder, half: u32| {
                b.s_inc(left, -1);
                self.arrived(b, half, self.chunk);
                b.if_(left, |b| {
                    let next = b.s_addi(first, self.chunk as i32);
                    self.bring(b, 0, 1 - half, next);
                });
                if self.far.is_some() {
                    let young = b.def_s(Op::SLtI, &[done.into(), 2.into()]);
                    b.unless(young, |b| self.taken(b, k, half, self.chunk));
                }
                k.make(b, half, first, self.chunk, false);
                self.take(b, k, half, first, 2);
                b.s_inc(first, self.chunk as i32);
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
                self.taken(&mut b, k, half, self.chunk);
            }
        }
        if last > 0 {
            self.bring(&mut b, 1, 0, first);
            self.arrived(&mut b, 0, last);
            k.make(&mut b, 0, first, last, true);
            self.take(&mut b, k, 0, first, 3);
            self.taken(&mut b, k, 0, last);
        }
        KernelCode::copying(b.finish(), descs, needs)
    }

    fn bring(&self, b: &mut KernelBuilder, desc: u32, half: u32, first: S) {
        fetch(b, self.indices, (first, self.words(half)), desc, half);
    }

    fn arrived(&self, b: &mut KernelBuilder, half: u32, count: u32) {
        let touched = [self.indices.1, BufferRef::SCALAR_MEMORY];
        b.dma_wait(half, count as i32 * 4, &touched, &touched);
    }

    /// Takes a window's results, the first of which is number `first`, to HBM if they belong there.
    fn take(&self, b: &mut KernelBuilder, k: &impl Chunk, half: u32, first: S, desc: u32) {
        let Some(unit) = self.far else { return };
        let row = k.row_of(b, first);
        let at = unit.units_of(b, row);
        let (dst, dst_offset) = unit.place(b, at, 0);
        let from = b.s_addi(self.out.0, k.window(half) as i32);
        let src = match self.s.packing() {
            1 => from,
            p => b.def_s(Op::SShrI, &[from.into(), (p.trailing_zeros() as i32).into()]),
        };
        let args = DmaArgs { desc, src, src_offset: S::ZERO, dst, dst_offset, sem: OUT + half };
        b.dma_start(args, &[self.out.1], &[unit.buf]);
    }

    /// Waits until a window's results of `count` indices are in HBM.
    fn taken(&self, b: &mut KernelBuilder, k: &impl Chunk, half: u32, count: u32) {
        let Some(unit) = self.far else { return };
        let bytes = k.out_desc(count).bytes();
        b.dma_wait(OUT + half, bytes as i32, &[self.out.1], &[unit.buf, self.out.1]);
    }
}
