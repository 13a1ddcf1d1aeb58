//! Moves that no blocks do, in two steps.
//!
//! A block of a move has whole tiles of lanes of its destination. Where several dimensions lie along them, that may be rows
//! from all over the source, more than vector memory holds. By way of an array that has the widest of these dimensions
//! outermost, either step has small blocks.

use super::Lower;
use super::moving::{Position, side};
use crate::plan::step::{Arg, Use};
use crate::plan::view::Form;
use systole_codegen::emit::blocks::Body;
use systole_codegen::emit::moves::spec::MoveSpec;

impl Lower<'_> {
    /// Appends a move that writes a whole array by way of another one. False if that is no better than the move itself.
    pub fn push_in_steps(&mut self, spec: &MoveSpec, args: &[Arg], (name, op): (&str, u32), results: &[bool]) -> bool {
        let [src, dst @ Arg::Array { usage: Use::Write, .. }] = args else { return false };
        let Some((dims, position)) = between(spec) else { return false };
        let array = format!("{}.turned", self.op_name(op));
        let middle = self.array(&array, spec.dtype, &dims, Form::Lanes);
        let near = side(&middle, &position, spec.sizes.len());
        let first = MoveSpec { dst: near.clone(), ..spec.clone() };
        self.push_body(Body::Move(first), vec![src.clone(), Arg::rows(middle.buf, Use::Write)], name, op, &[false]);
        let second = MoveSpec { src: near, ..spec.clone() };
        self.push_body(Body::Move(second), vec![Arg::rows(middle.buf, Use::Read), dst.clone()], name, op, results);
        true
    }
}

/// The sizes of the array on the way, and where the iteration's dimensions are in it: outermost the widest of those along the
/// destination's lanes, along lanes the narrower ones, between them what else there is, in the destination's order.
fn between(spec: &MoveSpec) -> Option<(Vec<u64>, Position)> {
    let (src, dst) = (&spec.src, &spec.dst);
    let size = |d: usize| u64::from(spec.sizes[d]);
    let (mut along, mut rows): (Vec<usize>, Vec<usize>) = (0..spec.sizes.len()).partition(|&d| dst.lanes[d] != 0);
    along.sort_by_key(|&d| dst.lanes[d]);
    rows.sort_by_key(|&d| std::cmp::Reverse(dst.rows[d]));
    let (&widest, narrow) = along.split_last()?;
    let mut lanes = 1;
    for &d in narrow {
        if dst.lanes[d] != lanes || dst.rows[d] != 0 {
            return None;
        }
        lanes *= size(d) as i64;
    }
    // The source may have that order already.
    let there = src.lanes[widest] == 0 && narrow.iter().all(|&d| src.lanes[d] == dst.lanes[d]);
    if narrow.is_empty() || there || dst.rows[widest] != 0 || rows.iter().any(|&d| dst.rows[d] <= 0) {
        return None;
    }
    let outer = std::iter::once(widest).chain(rows);
    let mut dims: Vec<u64> = Vec::new();
    let mut position = Position::default();
    for d in outer {
        dims.push(size(d));
        position.dims.push((vec![(d, 1)], 0));
    }
    dims.push(lanes as u64);
    position.dims.push((narrow.iter().map(|&d| (d, dst.lanes[d])).collect(), 0));
    Some((dims, position))
}
