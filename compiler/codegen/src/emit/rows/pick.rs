//! Elements picked by index: gathers within rows by permutations of lanes.

use crate::emit::loops::spec::{Access, LaneMap};
use crate::kernel::{BufferRef, Kernel, KernelBuilder, LoopHints, M, MemFormat, S, StoreFormat, Trips};
use serde::{Deserialize, Serialize};
use systole_isa::{ChipConfig, DType, Op};

/// Elements of a table's rows picked by an array of indices (s32, lane numbers of a table row that need not be in one tile):
/// `out[r, i] = table[r, indices[r, i]]`. The indices and the result are walked tile of lanes by tile of lanes, their only outer
/// dimension, along which the table stays where it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PickSpec {
    /// Rows of the indices and the result, and tiles of lanes of a row.
    pub rows: u32,
    pub columns: u32,
    /// Tiles of lanes of a table row.
    pub tiles: u32,
    /// The table; where its row step is 0 all rows pick from its only one.
    pub table: Access,
    pub indices: Access,
    pub out: Access,
}

/// Cycles of a permutation of a register: two units, four cycles each.
pub const PERMUTATION_CYCLES: f64 = 2.0;

/// How words of an element type are moved without being changed.
fn formats(dtype: DType) -> (MemFormat, StoreFormat) {
    match dtype.storage_bits() {
        8 => (MemFormat::U8, StoreFormat::B8),
        16 => (MemFormat::U16, StoreFormat::B16),
        _ => (MemFormat::W32, StoreFormat::W32),
    }
}

/// Element rows from one tile of lanes to the next.
fn tile_rows(a: &Access) -> i32 {
    match a.lane {
        LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => tile_rows as i32,
        LaneMap::Replicated | LaneMap::Indexed { .. } => 0,
    }
}

/// The kernel. Parameters: table, indices, result (element rows).
pub fn pick_kernel(s: &PickSpec, chip: &ChipConfig) -> Kernel {
    let mut b = KernelBuilder::new("pick", chip);
    let rows: [S; 3] = std::array::from_fn(|_| b.param());
    let args: Vec<(S, BufferRef)> = rows.into_iter().map(|row| (row, b.buffer())).collect();
    emit_pick(&mut b, s, &args);
    b.finish()
}

/// Appends the code of a spec. `args`: first element row and buffer of the table, the indices, the result.
pub fn emit_pick(b: &mut KernelBuilder, s: &PickSpec, args: &[(S, BufferRef)]) {
    let &[(table, from), (indices, index), (out, to)] = args else { return };
    let (sub, lanes) = b.shape();
    let along = |a: &Access| a.outer[0] as i32;
    let (load, store) = formats(s.table.dtype);
    let hints = LoopHints::independent(&[from, index, to]);
    let row = b.s_var(0);
    b.loop_static(s.rows.div_ceil(sub), |b| {
        let first = |b: &mut KernelBuilder, base: S, a: &Access| {
            let ahead = b.s_muli(row, a.row as i32);
            let at = b.s(Op::SAdd, &[base, ahead]);
            b.s_addi(at, a.offset as i32)
        };
        let from_row = first(b, table, &s.table);
        let (index_at, to_at) = (first(b, indices, &s.indices), first(b, out, &s.out));
        let (index_at, to_at) = (b.s_copy(index_at), b.s_copy(to_at));
        b.loop_static(s.columns, |b| {
            let i = b.load(MemFormat::W32, index_at, 0, s.indices.row as i32, index);
            let tile_of = b.sar(i, lanes.trailing_zeros() as i32);
            let found: Vec<_> = (0..s.table.dtype.components()).map(|_| b.v_var(0)).collect();
            let tile = b.s_copy(from_row);
            let number = b.s_var(0);
            b.loop_with(Trips::Static(s.tiles), hints.clone(), |b| {
                let here = b.splat(number);
                let hit = b.cmp(Op::VEqI, tile_of, here);
                for (c, &f) in found.iter().enumerate() {
                    let offset = c as i32 * s.table.component_rows as i32;
                    let v = b.load(load, tile, offset, s.table.row as i32, from);
                    let v = b.def_v(Op::XPermLane, &[v.into(), i.into()]);
                    b.set_v(f, Op::VSel, &[hit.into(), v.into(), f.into()]);
                }
                b.s_inc(number, 1);
                b.s_inc(tile, tile_rows(&s.table));
            });
            for (c, &f) in found.iter().enumerate() {
                b.store(store, f, to_at, c as i32 * s.out.component_rows as i32, s.out.row as i32, M::ALL, to);
            }
            b.s_inc(index_at, along(&s.indices));
            b.s_inc(to_at, along(&s.out));
        });
        b.s_inc(row, sub as i32);
    });
}
