//! Affine registers: addresses and indices that step with the loops.

use super::spec::Index;
use crate::kernel::{KernelBuilder, S};
use smallvec::SmallVec;

/// A scalar register that holds an affine function of the iteration indices at the current place of the loop nest.
#[derive(Clone, Debug)]
pub struct Affine {
    pub reg: S,
    pub outer: SmallVec<[i64; 4]>,
    pub row: i64,
    /// Constant part that is not in the register.
    pub offset: i64,
}

impl Affine {
    /// From an operand's base register.
    pub fn pointer(base: S, outer: &[i64], row: i64, offset: i64) -> Affine {
        Affine { reg: base, outer: outer.into(), row, offset }
    }

    /// An index function, starting at zero or at a register's value.
    pub fn index(i: &Index, start: Option<S>) -> Affine {
        Affine { reg: start.unwrap_or(S::ZERO), outer: i.outer.clone(), row: i.row, offset: i.offset }
    }

    /// Whether the register changes in outer dimension `d` or one inside it, or with the rows.
    fn moves_from(&self, d: usize) -> bool {
        self.row != 0 || self.outer[d.min(self.outer.len())..].iter().any(|&c| c != 0)
    }

    /// A register of its own to step at level `d` (the old one stays as the enclosing level has it).
    pub fn fork(&self, b: &mut KernelBuilder, d: usize) -> Affine {
        let mut a = self.clone();
        if self.moves_from(d) {
            a.reg = b.s_copy(self.reg);
        }
        a
    }
}

/// Steps every register by its coefficient.
pub fn step(b: &mut KernelBuilder, regs: &[Affine], coefficient: impl Fn(&Affine) -> i64) {
    for a in regs {
        let c = coefficient(a);
        if c != 0 {
            b.s_inc(a.reg, c as i32);
        }
    }
}

/// Runs `f` for every point of the outer dimensions from level `d` on, with registers stepped.
pub fn nest(
    b: &mut KernelBuilder,
    sizes: &[u32],
    d: usize,
    regs: &[Affine],
    f: &mut dyn FnMut(&mut KernelBuilder, &[Affine]),
) {
    if d == sizes.len() {
        return f(b, regs);
    }
    if sizes[d] == 1 {
        return nest(b, sizes, d + 1, regs, f);
    }
    let own: Vec<Affine> = regs.iter().map(|a| a.fork(b, d)).collect();
    b.loop_static(sizes[d], |b| {
        nest(b, sizes, d + 1, &own, f);
        step(b, &own, |a| a.outer[d]);
    });
}
