//! Gathers and scatters.

use super::{Kind, Rule, Sizes, combiner, free};
use systole_hlo::graph::{Binary, Gather, Module, Scatter};

/// Dimensions of the operand in order, without collapsed (inserted) and batching ones.
fn window_dims(rank: usize, collapsed: &[usize], batching: &[usize]) -> Vec<usize> {
    free(rank, collapsed, batching)
}

pub(super) fn gather(s: &Sizes<'_>, g: &Gather) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    let (operand, indices, out) = (s.ins[0], s.ins[1], s.outs[0]);
    // Result dimensions that are no offsets follow the indices' dimensions but the vector's, in order.
    let batch: Vec<usize> = (0..out.len()).filter(|d| !g.map.window.contains(d)).collect();
    let index_dims: Vec<usize> = (0..indices.len()).filter(|d| *d != g.map.vector).collect();
    for (&o, &i) in batch.iter().zip(&index_dims) {
        let mut places = vec![(1, i), (2, o)];
        places.extend(g.map.batching.along(i).map(|d| (0, d)));
        r.link(Kind::Pass, indices[i], &places);
    }
    let windows = window_dims(operand.len(), &g.map.collapsed, &g.map.batching.operand);
    for (&o, &d) in g.map.window.iter().zip(&windows) {
        if g.slice_sizes[d] == operand[d] {
            r.link(Kind::Pass, operand[d], &[(0, d), (2, o)]);
        }
    }
    // Rows that a device does not have are zeros in its part of the sum.
    for &d in g.map.collapsed.iter().filter(|d| g.map.start.contains(d)) {
        r.link(Kind::Reduce, operand[d], &[(0, d)]);
    }
    r
}

/// n operands, indices, n updates, n results.
pub(super) fn scatter(s: &Sizes<'_>, c: &Scatter, module: &Module) -> Rule {
    let mut r = Rule::new(&s.ins, &s.outs);
    let n = s.outs.len();
    let (operand, indices, update) = (s.ins[0], s.ins[n], s.ins[n + 1]);
    let operands = |d: usize| (0..n).map(move |t| (t, d)).chain((0..n).map(move |t| (2 * n + 1 + t, d)));
    let updates = |d: usize| (0..n).map(move |t| (n + 1 + t, d));
    let batch: Vec<usize> = (0..update.len()).filter(|d| !c.map.window.contains(d)).collect();
    let index_dims: Vec<usize> = (0..indices.len()).filter(|d| *d != c.map.vector).collect();
    let sums = n == 1 && combiner(module, c.body) == Some(Binary::Add);
    for (&u, &i) in batch.iter().zip(&index_dims) {
        let both = std::iter::once((n, i)).chain(updates(u));
        match c.map.batching.along(i) {
            Some(d) => {
                let places = both.chain(operands(d));
                r.link(Kind::Pass, indices[i], &places.collect::<Vec<_>>());
            }
            None if sums => r.link(Kind::Reduce, indices[i], &both.collect::<Vec<_>>()),
            None => {}
        }
    }
    let windows = window_dims(operand.len(), &c.map.collapsed, &c.map.batching.operand);
    for (&u, &d) in c.map.window.iter().zip(&windows) {
        if update[u] == operand[d] {
            r.link(Kind::Pass, operand[d], &operands(d).chain(updates(u)).collect::<Vec<_>>());
        }
    }
    // Each device drops what is not in its part.
    for &d in c.map.collapsed.iter().filter(|d| c.map.start.contains(d)) {
        r.link(Kind::Pass, operand[d], &operands(d).collect::<Vec<_>>());
    }
    r
}
