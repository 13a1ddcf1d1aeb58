//! Counting through nested dimensions with scalar registers.
//!
//! - [`Odometer`] branches: cheap in its innermost level, for the steps of a kernel.
//! - [`Walk`] selects: a fixed few scalar operations and no branch, for row blocks inside a loop that is pipelined.

use crate::kernel::{KernelBuilder, S};
use systole_isa::Op;

/// A level of an [`Odometer`]: for each variable, what it gains from one index to the next, and additionally on reaching
/// the last index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Level<K> {
    pub kind: K,
    pub count: u32,
    pub delta: Vec<i32>,
    pub last: Vec<i32>,
}

/// Nested counters, innermost level first, with variables that follow them.
pub(super) struct Odometer<K> {
    pub vars: Vec<S>,
    levels: Vec<Level<K>>,
    counters: Vec<S>,
}

impl<K: Copy + PartialEq> Odometer<K> {
    /// An odometer at its first index; `vars` hold their first values. Levels of one index are dropped.
    pub fn new(b: &mut KernelBuilder, levels: Vec<Level<K>>, vars: Vec<S>) -> Odometer<K> {
        let levels: Vec<_> = levels.into_iter().filter(|l| l.count > 1).collect();
        let counters = levels.iter().map(|l| b.s_var(l.count as i32)).collect();
        Odometer { vars, levels, counters }
    }

    /// Indices that the level has left, this one included (`None`: it has only one).
    pub fn left(&self, kind: K) -> Option<S> {
        self.levels.iter().position(|l| l.kind == kind).map(|i| self.counters[i])
    }

    /// What variable `v` has gained at the last index of the levels inside level `i`.
    fn inside(&self, i: usize, v: usize) -> i32 {
        self.levels[..i].iter().map(|l| (l.count as i32 - 1) * l.delta[v] + l.last[v]).sum()
    }

    /// Steps to the next index. `hook` appends what else happens when a level moves on (levels inside it are at their
    /// first index then). Behind the last index comes the first one, without a hook.
    pub fn advance(&self, b: &mut KernelBuilder, hook: &dyn Fn(&mut KernelBuilder, K)) {
        self.advance_level(b, 0, hook);
    }

    fn gain(&self, b: &mut KernelBuilder, gains: impl Iterator<Item = i32>) {
        for (&v, d) in self.vars.iter().zip(gains) {
            if d != 0 {
                b.s_inc(v, d);
            }
        }
    }

    fn advance_level(&self, b: &mut KernelBuilder, i: usize, hook: &dyn Fn(&mut KernelBuilder, K)) {
        let Some(level) = self.levels.get(i) else {
            return self.gain(b, (0..self.vars.len()).map(|v| -self.inside(i, v)));
        };
        let c = self.counters[i];
        b.s_inc(c, -1);
        b.if_else(
            c,
            |b| {
                self.gain(b, (0..self.vars.len()).map(|v| level.delta[v] - self.inside(i, v)));
                if level.last.iter().any(|&d| d != 0) {
                    let more = b.s_addi(c, -1);
                    b.unless(more, |b| self.gain(b, level.last.iter().copied()));
                }
                hook(b, level.kind);
            },
            |b| {
                b.set_s(c, Op::SLi, &[(level.count as i32).into()]);
                self.advance_level(b, i + 1, hook);
            },
        );
    }
}

/// A walk through a slab's row blocks: variables that all move alike.
pub(super) struct Walk {
    pub vars: Vec<S>,
    /// (count, delta), innermost first.
    levels: Vec<(u32, i32)>,
    counters: Vec<S>,
}

impl Walk {
    /// A walk of `dims` (count, delta), outermost first. Dimensions that follow each other are one, except for the
    /// innermost if its position matters (`keep_inner`).
    pub fn new(b: &mut KernelBuilder, dims: &[(u32, i32)], vars: Vec<S>, keep_inner: bool) -> Walk {
        let mut levels: Vec<(u32, i32)> = Vec::new();
        for &(count, delta) in dims.iter().rev() {
            let fixed = keep_inner && levels.len() <= 1;
            match levels.last_mut() {
                Some(l) if !fixed && l.0 as i32 * l.1 == delta => l.0 *= count,
                last if count > 1 || (fixed && last.is_none()) => levels.push((count, delta)),
                _ => {}
            }
        }
        if levels.is_empty() {
            levels.push((1, 0));
        }
        let counted = if keep_inner { levels.len() } else { levels.len() - 1 };
        let counters = levels[..counted].iter().map(|l| b.s_var(l.0 as i32)).collect();
        Walk { vars, levels, counters }
    }

    /// Blocks of a line that are left, this one included, if the walk keeps count of them.
    pub fn line_left(&self) -> Option<S> {
        self.counters.first().copied()
    }

    /// What every variable gains from block to block, if that is always the same.
    pub fn stride(&self) -> Option<i32> {
        self.counters.is_empty().then(|| self.levels[0].1)
    }

    /// Moves on by `n` blocks, as [`Walk::advance`] does; for walks with a [stride](Walk::stride).
    pub fn advance_by(&self, b: &mut KernelBuilder, n: u32) {
        for &v in &self.vars {
            b.s_inc(v, self.levels[0].1 * n as i32);
        }
    }

    /// Moves to the next block. After the last one the counters are as at the first; the variables are to be set again.
    pub fn advance(&self, b: &mut KernelBuilder) {
        if self.counters.is_empty() {
            return self.advance_by(b, 1);
        }
        let mut gain = None;
        let mut wrapped = None;
        let mut inside = 0;
        for (i, &(count, delta)) in self.levels.iter().enumerate() {
            let step = b.s_imm(delta - inside);
            gain = Some(match (wrapped, gain) {
                (Some(w), Some(g)) => b.def_s(Op::SSel, &[S::into(w), step.into(), S::into(g)]),
                _ => step,
            });
            if let Some(&c) = self.counters.get(i) {
                match wrapped {
                    None => b.s_inc(c, -1),
                    Some(w) => b.set_s(c, Op::SSub, &[c.into(), w.into()]),
                }
                let done = b.def_s(Op::SEqI, &[c.into(), 0.into()]);
                let full = b.s_imm(count as i32);
                b.set_s(c, Op::SSel, &[done.into(), full.into(), c.into()]);
                wrapped = Some(done);
            }
            inside += (count as i32 - 1) * delta;
        }
        let gain = gain.expect("a walk has a level");
        for &v in &self.vars {
            b.set_s(v, Op::SAdd, &[v.into(), gain.into()]);
        }
    }
}
