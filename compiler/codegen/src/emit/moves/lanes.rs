//! Moves whose destination lanes are source lanes.

use super::choose::Roles;
use super::walk::{Sides, each, nest, stepping};
use crate::kernel::{KernelBuilder, M, S, V};
use systole_isa::Op;

/// Most tiles of a run that are unrolled.
const UNROLLED_TILES: i64 = 8;
/// Row loops of fewer blocks are unrolled into the loop around them.
pub(super) const SHORT_ROWS: u32 = 4;

/// Emits the whole move.
pub fn emit(b: &mut KernelBuilder, bases: &Sides<'_>, roles: &Roles) {
    each(b, bases, roles, &mut |b, sides| {
        let work = Tiles::new(b, sides, roles);
        for part in &work {
            part.run(b, sides, roles);
        }
    });
}

/// How one destination tile is put together from source tiles: registers that do not change in the loops.
#[derive(Clone)]
struct Recipe {
    /// Source tile number (relative to the part's), how its lanes move, and which lanes are taken from it.
    pieces: Vec<(Tile, Shuffle, Taken)>,
    /// Destination tile.
    to: Tile,
    /// Lanes that are written; `None`: those of the pieces, of which none has all.
    mask: Option<M>,
}

/// Lanes that are taken from a piece.
#[derive(Clone, Copy)]
enum Taken {
    All,
    Of(M),
    /// Those where a register has a number: many pieces have no masks that are held through the loops, but make them where they are used.
    Where(V, i64),
}

/// A tile by number, constant or in a register as the tile's row offset.
#[derive(Clone, Copy)]
enum Tile {
    Number(i64),
    Rows(S),
}

#[derive(Clone, Copy)]
enum Shuffle {
    None,
    Rotate(i64),
    RotateBy(S),
    Permute(V),
}

/// Some destination tiles, repeated `count` times with both sides stepping.
struct Tiles {
    recipes: Vec<Recipe>,
    count: u32,
    /// Tiles that each side steps from one repetition to the next, and where they start.
    steps: (i64, i64),
    start: (i64, i64),
}

impl Tiles {
    fn new(b: &mut KernelBuilder, sides: &Sides<'_>, roles: &Roles) -> Vec<Tiles> {
        let once = |recipes| Tiles { recipes, count: 1, steps: (0, 0), start: (0, 0) };
        if sides.src.start.is_some() || sides.dst.start.is_some() {
            let run = super::across::dynamic(b, sides, roles);
            let all = |tiles: Vec<_>| tiles.into_iter().map(Recipe::from).collect();
            let mut parts = vec![once(all(run.first))];
            if let Some((tile, count)) = run.middle {
                parts.push(Tiles { recipes: all(vec![tile]), count, steps: (1, 1), start: (0, 0) });
            }
            parts.push(once(all(run.last)));
            return parts;
        }
        let lanes = b.shape().1 as i64;
        let l = roles.lane;
        let (n, k) = (l.size as i64, l.step.dst.lane.max(1));
        let first = sides.dst.lane.div_euclid(lanes);
        let last = (sides.dst.lane + (n - 1) * k).div_euclid(lanes);
        if last - first < UNROLLED_TILES {
            let recipes = (first..=last).filter_map(|t| Recipe::new(b, sides, roles, t)).collect();
            return vec![once(recipes)];
        }
        // Interior tiles repeat every k tiles, with the source k * src_lane / k tiles further.
        let unit = k;
        let step = l.step.src.lane;
        let units = (last - first - 1) / unit;
        let interior: Vec<Recipe> =
            (first + 1..first + 1 + unit).filter_map(|t| Recipe::new(b, sides, roles, t)).collect();
        let mut parts = vec![once(Recipe::new(b, sides, roles, first).into_iter().collect())];
        parts.push(Tiles { recipes: interior, count: units as u32, steps: (step, unit), start: (0, 0) });
        let rest = first + 1 + units * unit..=last;
        parts.push(once(rest.filter_map(|t| Recipe::new(b, sides, roles, t)).collect()));
        parts
    }

    fn run(&self, b: &mut KernelBuilder, sides: &Sides<'_>, roles: &Roles) {
        let (sp, dp) = (sides.spec.src.plane_rows, sides.spec.dst.plane_rows);
        let steps = (self.steps.0 * sp, self.steps.1 * dp);
        debug_assert_eq!(self.start, (0, 0));
        // The longest loop goes inside.
        let rows = roles.sub.size / b.shape().0;
        if self.count > rows.max(roles.outer.last().map_or(0, |a| a.size)) {
            nest(b, sides, &roles.outer, &mut |b, s| {
                self.rows(b, s, roles, &mut |b, s, at| {
                    stepping(b, s, self.count, steps, &mut |b, s| self.block(b, s, roles, at));
                });
            });
        } else {
            stepping(b, sides, self.count, steps, &mut |b, s| {
                nest(b, s, &roles.outer, &mut |b, s| {
                    self.rows(b, s, roles, &mut |b, s, at| self.block(b, s, roles, at));
                });
            });
        }
    }

    /// The blocks of rows along sublanes; `f` gets the first row of the block and the mask of its rows.
    fn rows(
        &self,
        b: &mut KernelBuilder,
        sides: &Sides<'_>,
        roles: &Roles,
        f: &mut dyn FnMut(&mut KernelBuilder, &Sides<'_>, &Block),
    ) {
        let sub = b.shape().0;
        let a = roles.sub;
        let whole = Block { src: 0, dst: 0, stride: (a.step.src.row, a.step.dst.row), mask: M::ALL };
        if a.size < sub {
            let reach = (sub - a.size) as i64 * a.step.src.row.abs();
            if a.size > 1 && a.step.src.row >= 0 && reach <= sub as i64 * 4 {
                let mask = b.sublanes_below(a.size);
                return f(b, sides, &Block { mask, ..whole });
            }
            let mask = b.sublanes_below(1);
            for i in 0..a.size as i64 {
                let at = Block { src: i * a.step.src.row, dst: i * a.step.dst.row, stride: (0, a.step.dst.row), mask };
                f(b, sides, &at);
            }
            return;
        }
        let blocks = a.size / sub;
        let step = (a.step.src.row * sub as i64, a.step.dst.row * sub as i64);
        if blocks < SHORT_ROWS {
            for i in 0..blocks as i64 {
                f(b, sides, &Block { src: i * step.0, dst: i * step.1, ..whole });
            }
        } else {
            stepping(b, sides, blocks, step, &mut |b, s| f(b, s, &whole));
        }
        if !a.size.is_multiple_of(sub) {
            // The last rows, some of them again.
            let at = (a.size - sub) as i64;
            f(b, sides, &Block { src: at * a.step.src.row, dst: at * a.step.dst.row, ..whole });
        }
    }

    fn block(&self, b: &mut KernelBuilder, sides: &Sides<'_>, _: &Roles, at: &Block) {
        let mut loaded: Vec<(Option<i64>, V)> = Vec::new();
        for r in &self.recipes {
            let (mut v, mut written): (Option<V>, Option<M>) = (None, None);
            for (tile, shuffle, lanes) in &r.pieces {
                let piece = match tile {
                    Tile::Number(t) => match loaded.iter().find(|l| l.0 == Some(*t)) {
                        Some(l) => l.1,
                        None => {
                            let offset = at.src + t * sides.spec.src.plane_rows;
                            let x = sides.load(b, sides.src.rows, offset, at.stride.0);
                            loaded.push((Some(*t), x));
                            x
                        }
                    },
                    Tile::Rows(s) => {
                        let base = b.s(Op::SAdd, &[sides.src.rows, *s]);
                        sides.load(b, base, at.src, at.stride.0)
                    }
                };
                let piece = match *shuffle {
                    Shuffle::None => piece,
                    Shuffle::Rotate(n) => b.rot_lane(piece, n as i32),
                    Shuffle::RotateBy(s) => b.rot_lane_s(piece, s),
                    Shuffle::Permute(idx) => b.def_v(Op::XPermLane, &[piece.into(), idx.into()]),
                };
                let taken = match *lanes {
                    Taken::All => None,
                    Taken::Of(m) => Some(m),
                    Taken::Where(x, number) => {
                        let number = b.v_var(number as i32);
                        Some(b.cmp(Op::VEqI, x, number))
                    }
                };
                written = match (written, taken) {
                    (Some(all), Some(m)) if r.mask.is_none() => Some(b.m(Op::MOr, &[all, m])),
                    (all, m) => all.or(m),
                };
                v = Some(match (v, taken) {
                    (Some(v), Some(m)) => b.select(m, piece, v),
                    (Some(_) | None, _) => piece,
                });
            }
            let (Some(v), Some(mask)) = (v, r.mask.or(written)) else { continue };
            let mask = match (mask == M::ALL, at.mask == M::ALL) {
                (true, _) => at.mask,
                (_, true) => mask,
                _ => b.m_and(mask, at.mask),
            };
            let (base, offset) = match r.to {
                Tile::Number(t) => (sides.dst.rows, at.dst + t * sides.spec.dst.plane_rows),
                Tile::Rows(s) => (b.s(Op::SAdd, &[sides.dst.rows, s]), at.dst),
            };
            sides.store(b, v, base, (offset, at.stride.1), mask);
        }
    }
}

/// A block of rows: offsets of its first row on both sides, strides, and the rows that exist.
struct Block {
    src: i64,
    dst: i64,
    stride: (i64, i64),
    mask: M,
}

impl From<Option<M>> for Taken {
    fn from(m: Option<M>) -> Taken {
        m.map_or(Taken::All, Taken::Of)
    }
}

impl From<super::across::DynamicTile> for Recipe {
    fn from(d: super::across::DynamicTile) -> Recipe {
        Recipe {
            pieces: d
                .pieces
                .into_iter()
                .map(|(t, s, m)| (Tile::Rows(t), Shuffle::RotateBy(s), Taken::from(m)))
                .collect(),
            to: Tile::Rows(d.to),
            mask: Some(d.mask),
        }
    }
}

impl Recipe {
    /// Destination tile `t` at constant lane positions; `None` if nothing of the run is in it.
    fn new(b: &mut KernelBuilder, sides: &Sides<'_>, roles: &Roles, t: i64) -> Option<Recipe> {
        let lanes = b.shape().1 as i64;
        let l = roles.lane;
        let (n, k, c) = (l.size as i64, l.step.dst.lane.max(1), l.step.src.lane);
        // Elements of the run whose destination is in the tile.
        let from = (t * lanes - sides.dst.lane).max(0);
        let first = from.div_euclid(k) + (from.rem_euclid(k) != 0) as i64;
        let last = (((t + 1) * lanes - 1 - sides.dst.lane).div_euclid(k)).min(n - 1);
        if first > last {
            return None;
        }
        let place = |i: i64| sides.dst.lane + i * k - t * lanes;
        let source = |i: i64| sides.src.lane + i * c;
        let to = Tile::Number(t);
        let (a, z) = (place(first), place(last));
        let [vectors, masks] = b.across.2;
        // The tile of an element of the source, and the turn that brings it to its lane.
        let turned = |i: i64| {
            let turn = (place(i) - source(i)).rem_euclid(lanes);
            (source(i).div_euclid(lanes), if turn == 0 { Shuffle::None } else { Shuffle::Rotate(turn) })
        };
        // Elements far from each other are turned one by one: a permutation for every tile of a run would take all registers.
        if !sides.spec.src.replicated && k > i64::from(vectors) {
            let lane = b.lane();
            let one = |i: i64| {
                let (tile, shuffle) = turned(i);
                (Tile::Number(tile), shuffle, Taken::Where(lane, place(i)))
            };
            return Some(Recipe { pieces: (first..=last).map(one).collect(), to, mask: None });
        }
        let dense = k == 1;
        let mask = if dense { range_mask(b, a, z + 1) } else { stepped_mask(b, a, z, k) };
        if sides.spec.src.replicated {
            return Some(Recipe { pieces: vec![(Tile::Number(0), Shuffle::None, Taken::All)], to, mask: Some(mask) });
        }
        if dense && (c == 1 || n == 1) {
            let s = source(first);
            let (tile, shuffle) = turned(first);
            let mut pieces = vec![(Tile::Number(tile), shuffle, Taken::All)];
            if source(last).div_euclid(lanes) != tile {
                let boundary = a + lanes - s.rem_euclid(lanes);
                let m = range_mask(b, boundary, lanes);
                pieces.push((Tile::Number(tile + 1), shuffle, Taken::Of(m)));
            }
            return Some(Recipe { pieces, to, mask: Some(mask) });
        }
        // Any step: a permutation of each source tile in reach.
        let lane = b.lane();
        let from_first = b.v_imm(a as i32);
        let mut i = b.v(Op::VSubI, &[lane, from_first]);
        if k != 1 {
            let k = b.v_imm(k as i32);
            i = b.v(Op::VDivS, &[i, k]);
        }
        let c_v = b.v_imm(c as i32);
        let base = b.v_imm(source(first) as i32);
        let scaled = b.v(Op::VMulI, &[i, c_v]);
        let position = b.v(Op::VAddI, &[scaled, base]);
        let shift = b.v_imm(lanes.trailing_zeros() as i32);
        let tile_of = b.v(Op::VSar, &[position, shift]);
        let mut tiles: Vec<i64> = (first..=last).map(|i| source(i).div_euclid(lanes)).collect();
        tiles.dedup();
        let many = tiles.len() > masks as usize;
        let mut pieces = Vec::new();
        for tile in tiles {
            let taken = if pieces.is_empty() {
                Taken::All
            } else if many {
                Taken::Where(tile_of, tile)
            } else {
                let number = b.v_imm(tile as i32);
                Taken::Of(b.cmp(Op::VEqI, tile_of, number))
            };
            pieces.push((Tile::Number(tile), Shuffle::Permute(position), taken));
        }
        Some(Recipe { pieces, to, mask: Some(mask) })
    }
}

/// Lanes `a..z`.
pub fn range_mask(b: &mut KernelBuilder, a: i64, z: i64) -> M {
    let lanes = b.shape().1;
    let below = b.lanes_below(z.clamp(0, lanes as i64) as u32);
    if a <= 0 {
        return below;
    }
    let before = b.lanes_below(a as u32);
    // Not before a, and before z.
    let after = b.m_not(before);
    if below == M::ALL { after } else { b.m_and(after, below) }
}

/// Lanes `a, a + k, .. z`.
fn stepped_mask(b: &mut KernelBuilder, a: i64, z: i64, k: i64) -> M {
    let lane = b.lane();
    let first = b.v_imm(a as i32);
    let k = b.v_imm(k as i32);
    let zero = b.v_imm(0);
    let d = b.v(Op::VSubI, &[lane, first]);
    let r = b.v(Op::VRemS, &[d, k]);
    let on = b.cmp(Op::VEqI, r, zero);
    let range = range_mask(b, a, z + 1);
    if range == M::ALL { on } else { b.m_and(on, range) }
}
