//! Merging of iteration dimensions: fewer, longer loops.

use super::spec::{Access, Expr, ExprOp, Index, Input, LaneMap, LoopSpec, ReduceSpec};
use smallvec::SmallVec;

type OnAffine<'f> = dyn FnMut(&mut SmallVec<[i64; 4]>, &mut i64, Option<&mut i64>) + 'f;

fn access(a: &mut Access, f: &mut OnAffine) {
    match &mut a.lane {
        LaneMap::Tile { tile_rows } | LaneMap::Shifted { tile_rows, .. } => {
            f(&mut a.outer, &mut a.row, Some(tile_rows));
        }
        LaneMap::Replicated => f(&mut a.outer, &mut a.row, None),
        LaneMap::Indexed { index: Index { outer, row, .. }, .. } => {
            f(&mut a.outer, &mut a.row, None);
            f(outer, row, None);
        }
    }
}

fn operands(inputs: &mut [Input], expr: &mut Expr, f: &mut OnAffine) {
    for i in inputs {
        if let Input::Array(a) = i {
            access(a, f);
        }
    }
    for n in &mut expr.nodes {
        if let ExprOp::Index(i) = &mut n.op {
            f(&mut i.outer, &mut i.row, None);
        }
    }
}

/// A spec whose outer dimensions are merged.
trait Nest {
    fn outer(&mut self) -> &mut Vec<u32>;

    /// Hands on everything that is affine in the iteration indices.
    fn each_affine(&mut self, f: &mut OnAffine);

    /// Outer dimension `i` goes.
    fn goes(&mut self, i: usize);

    /// Drops outer dimension `i`, whose index is 0 or part of another one.
    fn remove(&mut self, i: usize) {
        self.outer().remove(i);
        self.goes(i);
        self.each_affine(&mut |outer, _, _| {
            outer.remove(i);
        });
    }

    /// Drops outer dimensions of size 1 and merges neighbours that everything walks in one stride, innermost first, where `may` says
    /// that dimension `i` may go with the one before it.
    fn merge_outer(&mut self, may: impl Fn(&Self, usize) -> bool) {
        while let Some(i) = self.outer().iter().position(|&s| s == 1) {
            self.remove(i);
        }
        let mut i = self.outer().len();
        while i >= 2 {
            i -= 1;
            let size = self.outer()[i];
            let mut ok = may(self, i);
            self.each_affine(&mut |outer, _, _| ok &= outer[i - 1] == outer[i] * i64::from(size));
            if ok {
                self.outer()[i - 1] *= size;
                self.each_affine(&mut |outer, _, _| outer[i - 1] = outer[i]);
                self.remove(i);
            }
        }
    }
}

impl Nest for LoopSpec {
    fn outer(&mut self) -> &mut Vec<u32> {
        &mut self.outer
    }

    fn each_affine(&mut self, f: &mut OnAffine) {
        operands(&mut self.inputs, &mut self.expr, f);
        self.outputs.iter_mut().for_each(|o| access(&mut o.access, f));
    }

    fn goes(&mut self, _: usize) {}
}

impl Nest for ReduceSpec {
    fn outer(&mut self) -> &mut Vec<u32> {
        &mut self.outer
    }

    fn each_affine(&mut self, f: &mut OnAffine) {
        operands(&mut self.inputs, &mut self.expr, f);
        self.outputs.iter_mut().for_each(|o| access(o, f));
    }

    fn goes(&mut self, i: usize) {
        self.apart &= i > 0;
        self.kept_outer -= u32::from(i < self.kept_outer as usize);
    }
}

/// Merges neighbouring outer dimensions of a reduction that are both kept or both reduced, and the last of the rows' kind
/// into the rows (whole registers of rows only).
pub fn merge_reduce(spec: &mut ReduceSpec, lanes: u32) {
    columns_to_rows(spec, lanes);
    spec.merge_outer(|spec, i| i != spec.kept_outer as usize && !(spec.apart && i == 1));
    let last = if spec.reduce_rows { spec.outer.len() } else { spec.kept_outer as usize };
    let apart = spec.apart && last == 1;
    if last == 0 || apart || (spec.reduce_rows && last == spec.kept_outer as usize) {
        return;
    }
    let (i, rows) = (last - 1, spec.rows as i64);
    let mut ok = true;
    spec.each_affine(&mut |outer, row, _| ok &= outer[i] == *row * rows);
    if ok {
        spec.rows *= spec.outer[i];
        spec.remove(i);
    }
}

/// Drops outer dimensions of size 1 and merges neighbours that every operand walks in one stride: outer with outer, and
/// the innermost outer with the rows (only where `rows` needs no padding, or every array is padded alike, which the
/// caller has made so). Columns become rows (one flat run) when all operands agree on that too.
pub fn merge(spec: &mut LoopSpec, lanes: u32) {
    merge_rows(spec);
    flatten_columns(spec, lanes);
}

/// [`merge`] of all dimensions but the columns.
pub fn merge_rows(spec: &mut LoopSpec) {
    spec.merge_outer(|_, _| true);
    // The last outer dimension into the rows.
    if let Some(&size) = spec.outer.last() {
        let rows = spec.rows as i64;
        let mut ok = true;
        spec.each_affine(&mut |outer, row, _| ok &= outer.last() == Some(&(*row * rows)));
        if ok {
            spec.rows *= size;
            spec.outer.pop();
            spec.each_affine(&mut |outer, _, _| {
                outer.pop();
            });
        }
    }
}

/// A reduction of one row over many tiles of lanes takes the tiles as rows.
fn columns_to_rows(spec: &mut ReduceSpec, lanes: u32) {
    let tiles = spec.columns.div_ceil(lanes);
    let whole = tiles > 1 && spec.columns.is_multiple_of(lanes);
    let plain = |a: &Access| matches!(a.lane, LaneMap::Tile { .. } | LaneMap::Replicated);
    let arrays = spec.inputs.iter().all(|i| !matches!(i, Input::Array(a) if !plain(a)));
    if spec.rows != 1
        || spec.reduce_rows
        || !spec.reduce_columns
        || !whole
        || !arrays
        || !spec.expr.reductions.is_empty()
    {
        return;
    }
    for i in &mut spec.inputs {
        if let Input::Array(Access { row, lane: LaneMap::Tile { tile_rows }, .. }) = i {
            *row = std::mem::take(tile_rows);
        }
    }
    for n in &mut spec.expr.nodes {
        if let ExprOp::Index(i) = &mut n.op {
            i.row = i.column * lanes as i64;
        }
    }
    (spec.rows, spec.columns, spec.reduce_rows) = (tiles, lanes, true);
}

/// Where there is one row, the longest outer dimension lies along sublanes instead.
pub fn fill_rows(spec: &mut LoopSpec, sublanes: u32) {
    /// Element rows, in registers of rows, that the last register may reach beyond the last row.
    const REACH: i64 = 4;
    let Some(d) = (0..spec.outer.len()).max_by_key(|&d| (spec.outer[d], d)).filter(|_| spec.rows == 1) else { return };
    let exact = spec.outer[d].is_multiple_of(sublanes);
    let mut ok = true;
    spec.each_affine(&mut |outer, _, _| ok &= exact || outer[d].abs() <= REACH);
    if !ok {
        return;
    }
    spec.rows = spec.outer.remove(d);
    spec.each_affine(&mut |outer, row, _| *row = outer.remove(d));
}

/// Planes that follow each other like further rows become rows: columns shrink to one tile.
fn flatten_columns(spec: &mut LoopSpec, lanes: u32) {
    let tiles = spec.columns.div_ceil(lanes);
    if tiles <= 1 || !spec.outer.is_empty() || !spec.expr.reductions.is_empty() || spec.is_shifted() {
        return;
    }
    let has_column_index =
        spec.expr.nodes.iter().any(|n| matches!(&n.op, ExprOp::Index(i) if i.column != 0 || i.row != 0));
    if has_column_index {
        return;
    }
    // Every array must step from plane to plane as far as from row to row times the rows of a plane.
    let mut plane: Option<i64> = None;
    let mut ok = true;
    spec.each_affine(&mut |_, row, tile| match tile {
        Some(t) if *row != 0 && *t % *row == 0 => {
            let p = *t / *row;
            ok &= *plane.get_or_insert(p) == p;
        }
        Some(_) => ok = false,
        None => ok &= *row == 0,
    });
    let Some(plane) = plane.filter(|&p| ok && p >= spec.rows as i64 && p * 4 <= spec.rows as i64 * 5) else { return };
    let rows = (tiles as i64 - 1) * plane + spec.rows as i64;
    if let Ok(rows) = u32::try_from(rows) {
        spec.rows = rows;
        spec.columns = lanes;
    }
}
