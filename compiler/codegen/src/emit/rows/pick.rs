//! Kernels that pick elements by index: gathers within rows by permutations of lanes.

use crate::emit::operand::Ops;
use crate::kernel::{Kernel, KernelBuilder, LoopHints, MemFormat, StoreFormat, Trips};
use serde::{Deserialize, Serialize};
use systole_isa::{ChipConfig, DType, Op};

/// Elements of a table's rows picked by an array of indices: `out[r, i] = table[r, indices[r, i]]`. A table of one row
/// serves all rows; then rows are any rows of the indices.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PickSpec {
    pub dtype: DType,
    /// Blocks of a register's rows, and planes of the indices and the result, with their element rows.
    pub blocks: u32,
    pub planes: u32,
    pub plane: u32,
    /// Tiles of lanes of a table row, and element rows from one to the next.
    pub tiles: u32,
    pub tile: u32,
    /// Whether all rows pick from the same table row.
    pub shared: bool,
    /// Element rows of a component in the table and in the result.
    pub table_component: u32,
    pub out_component: u32,
}

/// How words of an element type are moved without being changed.
fn formats(dtype: DType) -> (MemFormat, StoreFormat) {
    match dtype.storage_bits() {
        8 => (MemFormat::U8, StoreFormat::B8),
        16 => (MemFormat::U16, StoreFormat::B16),
        _ => (MemFormat::W32, StoreFormat::W32),
    }
}

/// The kernel. Parameters: table, indices, result (element rows).
pub fn pick_kernel(s: &PickSpec, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("pick", chip);
    let (table, indices, out) = (b.param(), b.param(), b.param());
    let (from, index, to) = (b.buffer(), b.buffer(), b.buffer());
    let (sub, lanes) = b.shape();
    let (load, store) = formats(s.dtype);
    let words = s.dtype.components();
    let hints = LoopHints::independent(&[from, index, to]);
    let row = b.s_var(0);
    b.loop_static(s.blocks, |b| {
        let at = b.s_copy(row);
        b.loop_static(s.planes, |b| {
            let place = b.s(Op::SAdd, &[indices, at]);
            let i = b.load(MemFormat::W32, place, 0, 1, index);
            let tile_of = b.sar(i, lanes.trailing_zeros() as i32);
            let found: Vec<_> = (0..words).map(|_| b.v_var(0)).collect();
            let tile = if s.shared { b.s_copy(table) } else { b.s(Op::SAdd, &[table, row]) };
            let number = b.s_var(0);
            b.loop_with(Trips::Static(s.tiles), hints.clone(), |b| {
                let here = b.splat(number);
                let hit = b.cmp(Op::VEqI, tile_of, here);
                for (c, &f) in found.iter().enumerate() {
                    let offset = c as i32 * s.table_component as i32;
                    let v = b.load(load, tile, offset, !s.shared as i32, from);
                    let v = b.def_v(Op::XPermLane, &[v.into(), i.into()]);
                    b.set_v(f, Op::VSel, &[hit.into(), v.into(), f.into()]);
                }
                b.s_inc(number, 1);
                b.s_inc(tile, s.tile as i32);
            });
            let place = b.s(Op::SAdd, &[out, at]);
            for (c, &f) in found.iter().enumerate() {
                b.store(store, f, place, c as i32 * s.out_component as i32, 1, crate::kernel::M::ALL, to);
            }
            b.s_inc(at, s.plane as i32);
        });
        b.s_inc(row, sub as i32);
    });
    b.finish()
}
