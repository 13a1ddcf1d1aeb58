//! Operands whose lanes are not where the columns are: shifted, or in other planes.

use super::eval::{map_words, select_mask};
use super::row::{At, Context, Memo, TURNED};
use super::spec::{ExprId, Index};
use crate::emit::memory::Place;
use crate::emit::value::Value;
use crate::kernel::{KernelBuilder, S};
use systole_isa::Op;

/// Whether the rows of a register may have their lanes in two planes: of an index that does not begin at a whole register of rows.
pub(super) fn crosses(index: &Index, sublanes: u32) -> bool {
    index.row != 0 && index.offset % (index.row * i64::from(sublanes)) != 0
}

impl Context<'_> {
    /// Input `i`, which is node `id`, `by` lanes further: two tiles with their lanes turned, each where it belongs. The second one is
    /// the first of the tile behind.
    pub(super) fn load_shifted(
        &self,
        b: &mut KernelBuilder,
        at: &At,
        (id, i, by): (ExprId, usize, u32),
        tile: u32,
        memo: &mut Memo,
    ) -> Value {
        let by = by % self.lanes;
        let mut turned = |b: &mut KernelBuilder, tile: u32| match memo.get(&(id, tile | TURNED)) {
            Some(v) => *v,
            None => {
                let v = self.load(b, at, i, tile);
                let v = map_words(b, &v, |b, w| b.rot_lane(w, (self.lanes - by) as i32));
                memo.insert((id, tile | TURNED), v);
                v
            }
        };
        let own = turned(b, tile);
        // Behind the last column is nothing that anybody wants.
        if tile + 1 >= self.spec.columns.saturating_add(by).div_ceil(self.lanes) {
            return own;
        }
        let behind = turned(b, tile + 1);
        let mask = b.lanes_below(self.lanes - by);
        select_mask(b, mask, &own, &behind)
    }

    /// An operand's place in the plane of lane position `l + more`, which is a constant if there is no register for it.
    pub(super) fn plane(
        &self,
        b: &mut KernelBuilder,
        place: Place,
        (l, constant, more): (Option<S>, i64, i64),
        plane_rows: i64,
    ) -> Place {
        let shift = self.lanes.trailing_zeros() as i32;
        match l {
            None => Place { offset: place.offset + (((constant + more) >> shift) * plane_rows) as i32, ..place },
            Some(l) => {
                let l = if more == 0 { l } else { b.s_addi(l, more as i32) };
                let plane = b.def_s(Op::SSarI, &[l.into(), shift.into()]);
                let rows = b.s_muli(plane, plane_rows as i32);
                Place { base: b.s(Op::SAdd, &[place.base, rows]), ..place }
            }
        }
    }
}
