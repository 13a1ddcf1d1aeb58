//! Runs of neighbouring lanes whose positions are only known at run time.

use super::choose::Roles;
use super::walk::Sides;
use crate::kernel::{KernelBuilder, M, S};
use systole_isa::Op;

/// A destination tile: source tiles with their rotation and the lanes taken from them, and the lanes that are written.
pub struct DynamicTile {
    /// Row offset of the source tile, rotation, lanes.
    pub pieces: Vec<(S, S, Option<M>)>,
    /// Row offset of the destination tile.
    pub to: S,
    pub mask: M,
}

/// Position `start + offset` as tile number and lane.
fn split(b: &mut KernelBuilder, start: S, offset: i64) -> (S, S) {
    let lanes = b.shape().1 as i32;
    let p = b.s_addi(start, offset as i32);
    let tile = b.def_s(Op::SSarI, &[p.into(), (lanes.trailing_zeros() as i32).into()]);
    let lane = b.def_s(Op::SAndI, &[p.into(), (lanes - 1).into()]);
    (tile, lane)
}

/// The tiles of a run.
pub struct Run {
    pub first: Vec<DynamicTile>,
    /// A tile that stands for so many that follow each other, and for those before the last ones.
    pub middle: Option<(DynamicTile, u32)>,
    pub last: Vec<DynamicTile>,
}

/// Runs of more tiles have most of them in a loop.
const UNROLLED_TILES: i64 = 8;

/// The tiles of a run (both sides step by one lane). One of the sides, or both, start at a register.
pub fn dynamic(b: &mut KernelBuilder, sides: &Sides<'_>, roles: &Roles) -> Run {
    let lanes = b.shape().1 as i64;
    let n = roles.lane.size as i64;
    let zero = b.s_var(0);
    let src = sides.src.start.unwrap_or(zero);
    let dst = sides.dst.start.unwrap_or(zero);
    let (dst_tile, dst_lane) = split(b, dst, sides.dst.lane);
    let (last_dst, _) = split(b, dst, sides.dst.lane + n - 1);
    let (last_src, _) = split(b, src, sides.src.lane + n - 1);
    let (first_src, _) = split(b, src, sides.src.lane);
    let (sp, dp) = (sides.spec.src.plane_rows as i32, sides.spec.dst.plane_rows as i32);
    let count = (n - 1) / lanes + if n > 1 || sides.dst.start.is_some() { 2 } else { 1 };
    let lane = b.lane();
    let tile = |b: &mut KernelBuilder, j: i64| {
        // Lane 0 of the tile is element `first` of the run (maybe negative).
        let first = b.s(Op::SSub, &[zero, dst_lane]);
        let first = b.s_addi(first, (j * lanes) as i32);
        let first_v = b.splat(first);
        let element = b.v(Op::VAddI, &[lane, first_v]);
        let (none, all) = (b.v_imm(0), b.v_imm(n as i32));
        let low = b.cmp(Op::VLeS, none, element);
        let high = b.cmp(Op::VLtS, element, all);
        let mask = b.m_and(low, high);
        // Its source position, and the two source tiles that it may lie in, kept inside the run.
        let position = b.s(Op::SAdd, &[src, first]);
        let (tile, at) = split(b, position, sides.src.lane);
        let turn = b.s(Op::SSub, &[zero, at]);
        let boundary = b.s_imm(lanes as i32);
        let boundary = b.s(Op::SSub, &[boundary, at]);
        let boundary_v = b.splat(boundary);
        let second = b.cmp(Op::VLeS, boundary_v, lane);
        let clamp = |b: &mut KernelBuilder, t: S| {
            let t = b.s(Op::SMax, &[t, first_src]);
            b.s(Op::SMin, &[t, last_src])
        };
        let t0 = clamp(b, tile);
        let next = b.s_addi(tile, 1);
        let t1 = clamp(b, next);
        let to = b.s_addi(dst_tile, j as i32);
        let to = b.s(Op::SMin, &[to, last_dst]);
        let rows = |b: &mut KernelBuilder, t: S, plane: i32| b.s_muli(t, plane);
        let pieces = vec![(rows(b, t0, sp), turn, None), (rows(b, t1, sp), turn, Some(second))];
        DynamicTile { pieces, to: rows(b, to, dp), mask }
    };
    if count <= UNROLLED_TILES {
        return Run { first: (0..count).map(|j| tile(b, j)).collect(), middle: None, last: Vec::new() };
    }
    // All tiles but the first and the last two are whole, and so are the source tiles that they lie in: each is its neighbour
    // one tile further on both sides.
    let first = vec![tile(b, 0)];
    let middle = Some((tile(b, 1), (count - 3) as u32));
    Run { first, middle, last: vec![tile(b, count - 2), tile(b, count - 1)] }
}
