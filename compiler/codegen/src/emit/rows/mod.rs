//! Kernels that pick rows by index: gathers from HBM, scatters into vector memory.
//!
//! Indices go to scalar memory a chunk at a time; each names a row. A gather copies its rows by DMA, all of a chunk in
//! flight at once; a scatter combines row after row, in order.

mod pick;

pub use pick::{PickSpec, pick_kernel, scatter_elements_kernel};

use crate::emit::loops::eval::emit_body;
use crate::emit::loops::spec::Body;
use crate::emit::memory::{self, Place};
use crate::kernel::build_units::DmaArgs;
use crate::kernel::{BufferRef, Kernel, KernelBuilder, M, MemFormat, S, StoreFormat};
use systole_isa::{ChipConfig, DType, DmaDesc, DmaDim, Op, Space};

/// Most indices handled at a time.
pub const CHUNK: u32 = 512;

/// Indices handled at a time where each needs `rows` word rows of scratch: a sixteenth of vector memory at most.
fn chunk(rows: u32, chip: &ChipConfig) -> u32 {
    let memory = chip.vmem.bytes / 16 / (chip.core.lanes as u64 * 4);
    (memory / rows.max(1) as u64).clamp(8, CHUNK as u64) as u32
}

/// A table of rows `[R, W]` and the array of picked rows `[n, W]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowsSpec {
    pub dtype: DType,
    /// Number of indices.
    pub count: u32,
    /// Planes of a row (`W` over lanes), and the element rows of a plane in the table and in the picked array.
    pub planes: u32,
    pub table_plane: u32,
    pub rows_plane: u32,
    /// Element rows of a component in both.
    pub table_component: u32,
    pub rows_component: u32,
    /// First word of scalar memory for [`CHUNK`] indices.
    pub smem: u32,
}

/// A kernel with its descriptors (semaphores 0 and 1).
pub struct RowsKernel {
    pub kernel: Kernel,
    pub descs: Vec<DmaDesc>,
    pub scratch_rows: u32,
}

impl RowsSpec {
    fn packing(&self) -> u32 {
        self.dtype.packing() as u32
    }
}

/// Copies `count` indices from number `first` on into scalar memory.
fn fetch(b: &mut KernelBuilder, s: &RowsSpec, indices: S, first: S, desc: u32, bytes: i32, buf: BufferRef) {
    let offset = b.def_s(Op::SShlI, &[first.into(), 2.into()]);
    let dst = b.s_imm(s.smem as i32);
    let args = DmaArgs { desc, src: indices, src_offset: offset, dst, dst_offset: S::ZERO, sem: 1 };
    let touched = [buf, BufferRef::SCALAR_MEMORY];
    b.dma_start(args, &touched, &touched);
    b.dma_wait(1, bytes, &touched, &touched);
}

/// Runs `f` for every chunk: number of its indices (constant), index of the first (register), descriptor of its fetch.
fn chunks(
    b: &mut KernelBuilder,
    s: &RowsSpec,
    (descs, chunk): (&mut Vec<DmaDesc>, u32),
    f: &mut dyn FnMut(&mut KernelBuilder, u32, S, u32),
) {
    let mut desc = |count: u32| {
        descs.push(DmaDesc::contiguous(Space::Vmem, Space::Smem, count * 4));
        descs.len() as u32 - 1
    };
    let (full, rest) = (s.count / chunk, s.count % chunk);
    let first = b.s_var(0);
    if full > 0 {
        let d = desc(chunk);
        b.loop_static(full, |b| {
            f(b, chunk, first, d);
            b.s_inc(first, chunk as i32);
        });
    }
    if rest > 0 {
        let d = desc(rest);
        f(b, rest, first, d);
    }
}

/// Gathers rows of a table in HBM. Parameters: table (granules), indices (word rows), picked rows (element rows), scratch.
pub fn gather_kernel(s: &RowsSpec, chip: &ChipConfig) -> RowsKernel {
    let mut b = KernelBuilder::new("gather", chip);
    let (table, indices, out, scratch) = (b.param(), b.param(), b.param(), b.param());
    let (landing, target, other) = (b.buffer(), b.buffer(), b.buffer());
    let row_bytes = chip.core.lanes * 4;
    let p = s.packing();
    let mut descs = vec![DmaDesc {
        src: Space::Hbm,
        dst: Space::Vmem,
        chunk: row_bytes,
        dims: vec![DmaDim {
            count: s.planes,
            src_stride: (s.table_plane / p) as i64 * row_bytes as i64,
            dst_stride: row_bytes as i64,
        }],
    }];
    let components = s.dtype.components() as u32;
    let slab = s.planes * components;
    let sub = chip.core.sublanes;
    let chunk = chunk(slab, chip);
    chunks(&mut b, s, (&mut descs, chunk), &mut |b, count, first, desc| {
        fetch(b, s, indices, first, desc, count as i32 * 4, other);
        let word = b.s_var(s.smem as i32);
        let dst = b.s_copy(scratch);
        b.loop_static(count, |b| {
            let i = b.smem_load(word, 0);
            let row = b.def_s(Op::SShrI, &[i.into(), (p.trailing_zeros() as i32).into()]);
            let offset = b.s_muli(row, row_bytes as i32);
            for c in 0..components {
                let offset = b.s_addi(offset, (c * (s.table_component / p) * row_bytes) as i32);
                let args = DmaArgs { desc: 0, src: table, src_offset: offset, dst, dst_offset: S::ZERO, sem: 0 };
                b.dma_start(args, &[], &[landing]);
                b.s_inc(dst, s.planes as i32);
            }
            b.s_inc(word, 1);
        });
        b.dma_wait(0, (count * slab * row_bytes) as i32, &[], &[landing]);
        let word = b.s_var(s.smem as i32);
        let src = b.s_muli(scratch, p as i32);
        let dst = b.s(Op::SAdd, &[out, first]);
        b.loop_static(count, |b| {
            let i = b.smem_load(word, 0);
            let part = b.def_s(Op::SAndI, &[i.into(), (p as i32 - 1).into()]);
            let at = b.s(Op::SAdd, &[src, part]);
            copy_row(b, s, sub, (at, landing), (dst, target));
            b.s_inc(word, 1);
            b.s_inc(src, (slab * p) as i32);
            b.s_inc(dst, 1);
        });
    });
    RowsKernel { kernel: b.finish(), descs, scratch_rows: chunk * slab }
}

/// One landed row (planes `packing` element rows apart) into its place.
fn copy_row(b: &mut KernelBuilder, s: &RowsSpec, sub: u32, src: (S, BufferRef), dst: (S, BufferRef)) {
    let p = s.packing();
    let (load, store) = match s.dtype.storage_bits() {
        8 => (MemFormat::U8, StoreFormat::B8),
        16 => (MemFormat::U16, StoreFormat::B16),
        _ => (MemFormat::W32, StoreFormat::W32),
    };
    for c in 0..s.dtype.components() as u32 {
        let mut plane = 0;
        while plane < s.planes {
            let v = b.load(load, src.0, ((c * s.planes + plane) * p) as i32, p as i32, src.1);
            let mask = b.sublanes_below((s.planes - plane).min(sub));
            let at = c * s.rows_component + plane * s.rows_plane;
            b.store(store, v, dst.0, at as i32, s.rows_plane as i32, mask, dst.1);
            plane += sub;
        }
    }
}

/// An index of a scatter, and what it names.
struct Update<'a> {
    tables: &'a [(S, BufferRef)],
    updates: &'a [(S, BufferRef)],
    /// The index; the place that it names in the tables (a skipped one reads place 0), and that of the update.
    index: S,
    place: S,
    at: S,
    /// Nothing where the index is skipped.
    taken: M,
}

/// A kernel that runs `f` for every index of a scatter, in order; negative indices are skipped. Parameters: indices (word
/// rows), each table, each array of updates (element rows).
fn scatter(s: &[RowsSpec], chip: &ChipConfig, f: &dyn Fn(&mut KernelBuilder, &Update<'_>)) -> RowsKernel {
    let mut b = KernelBuilder::new("scatter", chip);
    let indices = b.param();
    let tables: Vec<(S, BufferRef)> = s.iter().map(|_| (b.param(), b.buffer())).collect();
    let updates: Vec<(S, BufferRef)> = s.iter().map(|_| (b.param(), b.buffer())).collect();
    let other = b.buffer();
    let mut descs = Vec::new();
    let lead = &s[0];
    chunks(&mut b, lead, (&mut descs, CHUNK), &mut |b, count, first, desc| {
        fetch(b, lead, indices, first, desc, count as i32 * 4, other);
        let word = b.s_var(lead.smem as i32);
        let at = b.s_copy(first);
        b.loop_static(count, |b| {
            let index = b.smem_load(word, 0);
            let place = b.s(Op::SMax, &[index, S::ZERO]);
            let (number, zero) = (b.splat(index), b.v_imm(0));
            let taken = b.cmp(Op::VLeS, zero, number);
            f(b, &Update { tables: &tables, updates: &updates, index, place, at, taken });
            b.s_inc(word, 1);
            b.s_inc(at, 1);
        });
    });
    RowsKernel { kernel: b.finish(), descs, scratch_rows: 0 }
}

/// The [`scatter`] that combines rows of updates into tables in vector memory.
pub fn scatter_kernel(s: &[RowsSpec], body: &Body, chip: &ChipConfig) -> RowsKernel {
    let (sub, planes) = (chip.core.sublanes, s[0].planes);
    scatter(s, chip, &|b, u| {
        let mut plane = 0;
        while plane < planes {
            // What does not fill a register goes plane by plane: rows behind an array may belong to a copy.
            let n = if planes - plane < sub { 1 } else { sub };
            combine(b, s, body, (u.tables, u.place), (u.updates, u.at), (plane, n, u.taken));
            plane += n;
        }
    })
}

type Rows<'a> = (&'a [(S, BufferRef)], S);

/// Table row `tables.1` = body(table row, update row `updates.1`) for up to a register of planes.
fn combine(
    b: &mut KernelBuilder,
    s: &[RowsSpec],
    body: &Body,
    tables: Rows,
    updates: Rows,
    (plane, count, taken): (u32, u32, M),
) {
    let place = |b: &mut KernelBuilder, rows: Rows, n: usize, step: u32, component: u32| Place {
        base: b.s(Op::SAdd, &[rows.0[n].0, rows.1]),
        offset: (plane * step) as i32,
        stride: if count == 1 { 0 } else { step as i32 },
        buf: rows.0[n].1,
        component_rows: component as i32,
    };
    let mut old = Vec::new();
    let mut new = Vec::new();
    for (n, r) in s.iter().enumerate() {
        let at = place(b, tables, n, r.table_plane, r.table_component);
        old.push(memory::load_value(b, r.dtype, at));
        let at = place(b, updates, n, r.rows_plane, r.rows_component);
        new.push(memory::load_value(b, r.dtype, at));
    }
    let result = emit_body(b, body, &old, &new);
    for (n, r) in s.iter().enumerate() {
        let at = place(b, tables, n, r.table_plane, r.table_component);
        let mask = b.sublanes_below(count);
        let mask = b.m_and(mask, taken);
        memory::store_value(b, &result[n], at, mask);
    }
}
