//! Dots over a dimension in the middle of an operand: what lies in front of it as batch dimensions.
//!
//! `[O, K, I] x [F, K]` (an image resized along its height, say, or tokens that are mixed) has no canonical form in which the larger
//! operand stays as it is: `K` would have to come first or last. But it is `O` products `[F, K] x [K, I]`, for which the smaller operand is
//! repeated, and their results come with `O` in front, where users mostly want it.

use super::{Parts, cost, cost_of, types};
use crate::edit::Emit;
use systole_hlo::graph::{DotDims, NodeId, Precision};
use systole_isa::DType;

/// A dot as products of an operand's parts with the other operand repeated.
pub struct Repeated {
    /// What is repeated, and the order of its dimensions: batch, free, contracting.
    left: NodeId,
    order: Vec<usize>,
    /// What has its contracting dimensions in the middle.
    right: NodeId,
    /// Sizes of the batch, of what lies in front of the contracting dimensions, of these, and of what lies behind them.
    batch: Vec<u64>,
    outer: u64,
    contracted: Vec<u64>,
    inner: u64,
    /// The result's dimensions in groups that stay together: how many, and the place of each in the new result.
    groups: Vec<u64>,
    turn: Vec<usize>,
}

/// The cheapest such way to a dot's result under a permutation, with what it moves.
pub fn best(b: &Emit, p: &Parts, permutation: &[usize], to: DType) -> Option<(u64, Repeated)> {
    [false, true].into_iter().filter_map(|swapped| way(b, p, swapped, permutation, to)).min_by_key(|w| w.0)
}

fn way(b: &Emit, p: &Parts, swapped: bool, permutation: &[usize], to: DType) -> Option<(u64, Repeated)> {
    let flip = |pairs: &[(usize, usize)]| -> Vec<(usize, usize)> {
        pairs.iter().map(|&(x, y)| if swapped { (y, x) } else { (x, y) }).collect()
    };
    let (left, left_free, right, right_free) =
        if swapped { (p.y, &p.y_free, p.x, &p.x_free) } else { (p.x, &p.x_free, p.y, &p.y_free) };
    let (batch, mut contracting) = (flip(&p.batch), flip(&p.contracting));
    contracting.sort_by_key(|c| c.1);
    let first = contracting.first()?.1;
    let outer = right_free.iter().take_while(|&&d| d < first).count();
    let (front, behind) = right_free.split_at(outer);
    let sizes = |x: NodeId, dims: &[usize]| -> Vec<u64> { dims.iter().map(|&d| b.dims(x)[d]).collect() };
    let count = |x: NodeId, dims: &[usize]| sizes(x, dims).iter().product::<u64>();
    // The right operand as it lies: batch, front, contracting, behind.
    let ((lb, rb), (lk, rk)): ((Vec<_>, Vec<_>), (Vec<_>, Vec<_>)) =
        (batch.into_iter().unzip(), contracting.into_iter().unzip());
    let lies = [&rb[..], front, &rk, behind].concat().windows(2).all(|w| w[0] < w[1]);
    let (o, k, i) = (count(right, front), count(right, &rk), count(right, behind));
    let matrix = matches!(types::plan(b.dtype(p.x), b.dtype(p.y), to, k), types::TypePlan::Matrix { .. });
    // Each product fills a matrix unit, or repeating its weights costs more than moving them once.
    let lanes = u64::from(p.tile.1);
    if !lies || !matrix || o < 2 || i < lanes || 2 * k < lanes || 2 * count(left, left_free) < lanes {
        return None;
    }
    let order = [&lb[..], left_free, &lk].concat();
    // Old dimensions of the result in the order of the new one, by group: batch, front, the left operand's, behind.
    let (nb, nx, ny) = (lb.len(), p.x_free.len(), p.y_free.len());
    let (x, y): (Vec<usize>, Vec<usize>) = ((nb..nb + nx).collect(), (nb + nx..nb + nx + ny).collect());
    let (of_left, of_right) = if swapped { (y, x) } else { (x, y) };
    let new = [&(0..nb).collect::<Vec<_>>()[..], &of_right[..outer], &of_left, &of_right[outer..]].concat();
    let of_old = super::result_sizes(b, p);
    let (groups, turn) = grouped(&new, permutation, &of_old);
    let whole = |x: NodeId| b.dims(x).iter().product::<u64>();
    let repeated = whole(left).saturating_mul(o).saturating_mul(u64::from(b.dtype(left).bits()));
    let moved = cost(b, left, &order, p.tile).saturating_add(repeated);
    let moved = moved.saturating_add(cost_of((&groups, to), &turn, p.tile));
    let (batch, contracted) = (sizes(right, &rb), sizes(right, &rk));
    Some((moved, Repeated { left, order, right, batch, outer: o, contracted, inner: i, groups, turn }))
}

/// Dimensions in the order `new` as groups that `wanted` leaves together: their sizes, and the permutation of groups that `wanted` is.
fn grouped(new: &[usize], wanted: &[usize], sizes: &[u64]) -> (Vec<u64>, Vec<usize>) {
    let place = |d: usize| wanted.iter().position(|&w| w == d).unwrap_or(d);
    let (mut groups, mut at): (Vec<u64>, Vec<usize>) = (Vec::new(), Vec::new());
    for (i, &d) in new.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if place(d) == place(new[i - 1]) + 1 => *group *= sizes[d],
            _ => {
                groups.push(sizes[d]);
                at.push(place(d));
            }
        }
    }
    let mut turn: Vec<usize> = (0..groups.len()).collect();
    turn.sort_by_key(|&g| at[g]);
    (groups, turn)
}

impl Repeated {
    /// The dot's result under the permutation, with these sizes.
    pub fn emit(&self, b: &mut Emit, precision: Precision, to: DType, sizes: &[u64]) -> NodeId {
        let left = b.transpose(self.left, &self.order);
        let own = b.dims(left).to_vec();
        let (nb, nk) = (self.batch.len(), self.contracted.len());
        let map: Vec<usize> = (0..nb).chain(nb + 1..own.len() + 1).collect();
        let left = b.broadcast(left, &map, &[&own[..nb], &[self.outer], &own[nb..]].concat());
        let right = [&self.batch[..], &[self.outer], &self.contracted, &[self.inner]].concat();
        let right = b.reshape(self.right, &right);
        let batch: Vec<usize> = (0..=nb).collect();
        let dims = DotDims {
            lhs_contracting: (own.len() + 1 - nk..own.len() + 1).collect(),
            rhs_contracting: (nb + 1..nb + 1 + nk).collect(),
            lhs_batch: batch.clone(),
            rhs_batch: batch,
        };
        let product = b.dot(left, right, dims, precision, to);
        let product = b.reshape(product, &self.groups);
        let product = b.transpose(product, &self.turn);
        b.reshape(product, sizes)
    }
}
