//! Passes across lanes: a register is compared with its own lanes in another order.

use super::exchange::{Element, before, load, rows_at, store};
use super::rows::{group_lane, turns};
use super::{Arrays, SortSpec};
use crate::kernel::{Arg, KernelBuilder, LoopHints, M, S, V};
use systole_isa::Op;

/// Lanes whose number has bit `bit`.
fn lane_bit(b: &mut KernelBuilder, bit: u32) -> M {
    let lane = b.lane();
    let x = b.and(lane, 1 << bit);
    b.test(Op::VNeI, x, 0)
}

/// The lanes at distance `xor`.
fn partner(b: &mut KernelBuilder, xor: u32) -> V {
    let lane = b.lane();
    b.xor(lane, xor as i32)
}

fn permuted(b: &mut KernelBuilder, e: &Element, order: V) -> Element {
    e.iter().map(|&v| b.v(Op::XPermLane, &[v, order])).collect()
}

/// One step within a register: `(order of the partners, lanes that hold the larger, places of the larger in row 0)`.
struct Step {
    order: V,
    upper: M,
    place: Option<V>,
}

/// See [`super::Pass::Lanes`].
pub fn level(b: &mut KernelBuilder, spec: &SortSpec, level: u32) {
    let a = Arrays::new(b, spec);
    let sub = b.shape().0;
    let rows = 1i32 << spec.row_bits;
    let mirror = mirror_step(b, spec, level);
    let steps: Vec<[Step; 2]> = (0..level - 1)
        .rev()
        .map(|d| {
            let (order, upper) = (partner(b, 1 << d), lane_bit(b, d));
            let lane = b.lane();
            let lane = b.or(lane, 1 << d);
            let sides = [1, -1].map(|sign| (!spec.full()).then(|| place(b, spec, lane, sign)));
            sides.map(|place| Step { order, upper, place })
        })
        .collect();
    let hints = LoopHints::independent(&a.buffers());
    let sub_bits = sub.ilog2();
    turns(b, spec, (spec.row_bits - sub_bits - 1, true), &hints, &mut |b, t| {
        let low = b.def_s(Op::SShlI, &[t.i.into(), Arg(sub_bits as i32)]);
        let last = b.s_imm(rows - 1);
        let high = b.s(Op::SSub, &[last, low]);
        let at = [low, high].map(|r| {
            let row = b.s(Op::SAdd, &[t.array, r]);
            rows_at(b, &a, row)
        });
        let mut x = load(b, &a, &at[0], 0, 1);
        let mut y = load(b, &a, &at[1], 0, -1);
        let limits = (!spec.full()).then(|| [low, high].map(|r| limit(b, spec, r)));
        mirror_exchange(b, spec, &mirror, limits, &mut x, &mut y);
        for [up, down] in &steps {
            within(b, spec, up, limits.map(|l| l[0]), &mut x);
            within(b, spec, down, limits.map(|l| l[1]), &mut y);
        }
        store(b, &a, &x, &at[0], 0, 1);
        store(b, &a, &y, &at[1], 0, -1);
    });
}

/// Place, in row 0, of the element in lane number `lane`, plus (`sign` 1) or less (-1) the sublane.
fn place(b: &mut KernelBuilder, spec: &SortSpec, lane: V, sign: i32) -> V {
    let lane = b.and(lane, (1 << spec.group_bits) - 1);
    let base = b.muli(lane, 1 << spec.row_bits);
    let s = b.sublane();
    if sign > 0 { b.addi(base, s) } else { b.subi(base, s) }
}

/// What a place in row 0 must be below for an element of row `row`.
fn limit(b: &mut KernelBuilder, spec: &SortSpec, row: S) -> V {
    let count = b.s_imm(spec.count as i32);
    let s = b.s(Op::SSub, &[count, row]);
    b.splat(s)
}

/// The mirror step: order, lanes whose element of the lower register is the larger, and the larger one's place there
/// (lanes of the lower register, lanes of the upper one).
struct Mirror {
    order: V,
    upper: M,
    place: Option<[V; 2]>,
}

fn mirror_step(b: &mut KernelBuilder, spec: &SortSpec, level: u32) -> Mirror {
    let order = partner(b, (1 << level) - 1);
    let upper = lane_bit(b, level - 1);
    let places = (!spec.full()).then(|| {
        let own = group_lane(b, spec, 1 << spec.row_bits);
        let s = b.sublane();
        [b.addi(own, s), place(b, spec, order, -1)]
    });
    Mirror { order, upper, place: places }
}

fn mirror_exchange(
    b: &mut KernelBuilder,
    spec: &SortSpec,
    step: &Mirror,
    limits: Option<[V; 2]>,
    x: &mut Element,
    y: &mut Element,
) {
    let p = permuted(b, y, step.order);
    let m = before(b, spec, &p, x);
    let mut m = b.m_xor(m, step.upper);
    if let (Some(places), Some(limits)) = (step.place, limits) {
        let place = b.select(step.upper, places[0], places[1]);
        let limit = b.select(step.upper, limits[0], limits[1]);
        let valid = b.cmp(Op::VLtS, place, limit);
        m = b.m_and(m, valid);
    }
    for ((x, y), p) in x.iter_mut().zip(y).zip(p) {
        let other = b.select(m, *x, p);
        *x = b.select(m, p, *x);
        *y = b.v(Op::XPermLane, &[other, step.order]);
    }
}

fn within(b: &mut KernelBuilder, spec: &SortSpec, step: &Step, limit: Option<V>, x: &mut Element) {
    let p = permuted(b, x, step.order);
    let m = before(b, spec, &p, x);
    let mut m = b.m_xor(m, step.upper);
    if let (Some(place), Some(limit)) = (step.place, limit) {
        let valid = b.cmp(Op::VLtS, place, limit);
        m = b.m_and(m, valid);
    }
    for (x, p) in x.iter_mut().zip(p) {
        *x = b.select(m, p, *x);
    }
}
