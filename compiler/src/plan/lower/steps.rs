//! Moves that no blocks do, in two steps.
//!
//! A block of a move has whole tiles of lanes of its destination. Where several dimensions lie along them, that may be rows
//! from all over the source, more than vector memory holds. By way of an array that has the widest of these dimensions
//! outermost, either step has small blocks. Where several lie along the source's lanes, a row of it may be parts of all of the
//! destination: what is along lanes becomes rows first.

use super::Lower;
use super::bodies::Streamed;
use super::moving::{Position, side};
use crate::plan::step::{Arg, Use};
use crate::plan::view::Form;
use systole_codegen::emit::blocks::{Body, alike, divisible, parted};
use systole_codegen::emit::moves;
use systole_codegen::emit::moves::spec::MoveSpec;

impl Lower<'_> {
    /// Appends a move that writes a whole array by way of another one. False if that is no better than the move itself.
    pub fn push_in_steps(&mut self, spec: &MoveSpec, args: &[Arg], (name, op): (&str, u32), results: &[bool]) -> bool {
        let [src, dst @ Arg::Array { usage: Use::Write, .. }] = args else { return false };
        let mut merged = spec.clone();
        moves::flatten(&mut merged, self.chip.core.lanes);
        let (spec, (dims, position)) = match (between(spec), columns(&merged)) {
            (Some(way), _) => (spec, way),
            (None, Some(way)) => (&merged, way),
            (None, None) => return false,
        };
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

impl Lower<'_> {
    /// Appends a body whose blocks cannot be written without what is around them, or would be too large but for what they leave over:
    /// blocks that keep what is there, whole blocks and the rest of a move one after the other, or a move in parts that begin at the
    /// same lane each. False if there are none.
    pub(super) fn push_in_parts(&mut self, body: &Body, args: &[Arg], how: Streamed<'_>) -> bool {
        let chip = self.chip;
        let kept: Vec<Arg> = args.iter().map(|a| written(a, Use::Update)).collect();
        if args.iter().any(|a| matches!(a, Arg::Array { usage: Use::Write, .. })) {
            let mut bodies = std::iter::once(body.clone()).chain(parted(body, chip));
            if bodies.any(|b| self.push_blocks(&b, &kept, how)) {
                return true;
            }
            let before: Vec<Arg> = args.iter().map(|a| written(a, Use::First)).collect();
            for (first, rest) in divisible(body, chip) {
                let mut bodies = parted(&first, chip).into_iter().chain([first]);
                if bodies.any(|b| self.push_blocks(&b, &before, how)) {
                    self.push_body(rest, kept, how.name, how.op, &[false]);
                    return true;
                }
            }
        }
        // Each part keeps what the others have written.
        alike(body, chip).into_iter().any(|parts| {
            let before = self.steps.len();
            let done = parts.iter().all(|part| {
                let mut bodies = std::iter::once(part.clone()).chain(parted(part, chip));
                bodies.any(|b| self.push_blocks(&b, &kept, how))
            });
            if !done {
                self.steps.truncate(before);
            }
            done
        })
    }
}

/// An argument that is written whole as one that is written in another way.
fn written(arg: &Arg, now: Use) -> Arg {
    match arg.clone() {
        Arg::Array { buf, usage: Use::Write, unit, offset, dynamic } => {
            Arg::Array { buf, usage: now, unit, offset, dynamic }
        }
        other @ (Arg::Array { .. }
        | Arg::Scalar(_)
        | Arg::Sum(_)
        | Arg::Linear { .. }
        | Arg::Const(_)
        | Arg::Scratch) => other,
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

/// As [`between`], where several dimensions share the source's lanes and lie apart in the destination: what is along lanes becomes
/// rows, one behind the other, and the source's innermost rows stand along lanes.
fn columns(spec: &MoveSpec) -> Option<(Vec<u64>, Position)> {
    let src = &spec.src;
    let (mut along, mut rows): (Vec<usize>, Vec<usize>) = (0..spec.sizes.len()).partition(|&d| src.lanes[d] != 0);
    if along.len() < 2 || along.iter().any(|&d| src.lanes[d] < 0 || src.rows[d] != 0) || src.dynamic_lane {
        return None;
    }
    along.sort_by_key(|&d| src.lanes[d]);
    rows.sort_by_key(|&d| std::cmp::Reverse(src.rows[d]));
    let least = src.lanes[along[0]];
    let mut run = 1;
    for &d in &along {
        if src.lanes[d] != run * least {
            return None;
        }
        run *= i64::from(spec.sizes[d]);
    }
    let lane = rows.pop().filter(|&lane| src.rows[lane] > 0 && rows.iter().all(|&d| src.rows[d] > 0))?;
    let mut dims: Vec<u64> = rows.iter().map(|&d| u64::from(spec.sizes[d])).collect();
    dims.extend([run as u64, u64::from(spec.sizes[lane])]);
    let mut places: Vec<_> = rows.iter().map(|&d| (vec![(d, 1)], 0)).collect();
    places.push((along.iter().map(|&d| (d, src.lanes[d] / least)).collect(), 0));
    places.push((vec![(lane, 1)], 0));
    Some((dims, Position { dims: places }))
}
