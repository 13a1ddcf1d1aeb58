//! Short forms of instructions that take constants as operands, on [`KernelBuilder`].
//!
//! An operand is a register or a number; a number becomes a pooled constant register of the kernel.

use crate::kernel::{KernelBuilder, M, P, V};
use systole_isa::Op;

/// A vector operand: a register, an f32 constant or a 32-bit integer constant.
#[derive(Clone, Copy, Debug)]
pub enum Vec32 {
    Reg(V),
    Const(i32),
}

impl From<V> for Vec32 {
    fn from(v: V) -> Vec32 {
        Vec32::Reg(v)
    }
}
impl From<f32> for Vec32 {
    fn from(v: f32) -> Vec32 {
        Vec32::Const(v.to_bits() as i32)
    }
}
impl From<i32> for Vec32 {
    fn from(v: i32) -> Vec32 {
        Vec32::Const(v)
    }
}
impl From<u32> for Vec32 {
    fn from(v: u32) -> Vec32 {
        Vec32::Const(v as i32)
    }
}

/// A pair operand: a register pair or an f64 constant.
#[derive(Clone, Copy, Debug)]
pub enum Vec64 {
    Reg(P),
    Const(f64),
}

impl From<P> for Vec64 {
    fn from(p: P) -> Vec64 {
        Vec64::Reg(p)
    }
}
impl From<f64> for Vec64 {
    fn from(v: f64) -> Vec64 {
        Vec64::Const(v)
    }
}

/// The short forms.
#[rustfmt::skip]
pub trait Ops {
    /// The register of an operand.
    fn reg(&mut self, a: impl Into<Vec32>) -> V;
    /// The register pair of an operand.
    fn preg(&mut self, a: impl Into<Vec64>) -> P;
    /// A vector operation of one, two or three vector operands.
    fn v1(&mut self, op: Op, a: impl Into<Vec32>) -> V;
    fn v2(&mut self, op: Op, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V;
    fn v3(&mut self, op: Op, a: impl Into<Vec32>, b: impl Into<Vec32>, c: impl Into<Vec32>) -> V;
    /// A comparison of two vectors.
    fn test(&mut self, op: Op, a: impl Into<Vec32>, b: impl Into<Vec32>) -> M;
    /// a where the mask is set, else b.
    fn sel(&mut self, m: M, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V;
    /// A pair operation of one, two or three pair operands.
    fn p1(&mut self, op: Op, a: impl Into<Vec64>) -> P;
    fn p2(&mut self, op: Op, a: impl Into<Vec64>, b: impl Into<Vec64>) -> P;
    fn p3(&mut self, op: Op, a: impl Into<Vec64>, b: impl Into<Vec64>, c: impl Into<Vec64>) -> P;
    /// A comparison of two pairs.
    fn ptest(&mut self, op: Op, a: impl Into<Vec64>, b: impl Into<Vec64>) -> M;
    /// a where the mask is set, else b, of pairs.
    fn psel(&mut self, m: M, a: impl Into<Vec64>, b: impl Into<Vec64>) -> P;

    fn add(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VAddF, a, b) }
    fn sub(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VSubF, a, b) }
    fn mul(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VMulF, a, b) }
    fn div(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VDivF, a, b) }
    fn fma(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>, c: impl Into<Vec32>) -> V { self.v3(Op::VFmaF, a, b, c) }
    fn addi(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VAddI, a, b) }
    fn subi(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VSubI, a, b) }
    fn muli(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VMulI, a, b) }
    fn and(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VAnd, a, b) }
    fn or(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VOr, a, b) }
    fn xor(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VXor, a, b) }
    fn shl(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VShl, a, b) }
    fn shr(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VShr, a, b) }
    fn sar(&mut self, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V { self.v2(Op::VSar, a, b) }
    fn addd(&mut self, a: impl Into<Vec64>, b: impl Into<Vec64>) -> P { self.p2(Op::PAddD, a, b) }
    fn subd(&mut self, a: impl Into<Vec64>, b: impl Into<Vec64>) -> P { self.p2(Op::PSubD, a, b) }
    fn muld(&mut self, a: impl Into<Vec64>, b: impl Into<Vec64>) -> P { self.p2(Op::PMulD, a, b) }
    fn divd(&mut self, a: impl Into<Vec64>, b: impl Into<Vec64>) -> P { self.p2(Op::PDivD, a, b) }
    fn fmad(&mut self, a: impl Into<Vec64>, b: impl Into<Vec64>, c: impl Into<Vec64>) -> P { self.p3(Op::PFmaD, a, b, c) }

    /// c0 + c1 x + c2 x^2 + .. by Horner's rule in f32.
    fn poly(&mut self, x: V, c: &[f32]) -> V;
    /// c0 + c1 x + c2 x^2 + .. by Horner's rule in f64.
    fn polyd(&mut self, x: P, c: &[f64]) -> P;
}

impl Ops for KernelBuilder {
    fn reg(&mut self, a: impl Into<Vec32>) -> V {
        match a.into() {
            Vec32::Reg(v) => v,
            Vec32::Const(c) => self.v_imm(c),
        }
    }

    fn preg(&mut self, a: impl Into<Vec64>) -> P {
        match a.into() {
            Vec64::Reg(p) => p,
            Vec64::Const(c) => self.p_f64(c),
        }
    }

    fn v1(&mut self, op: Op, a: impl Into<Vec32>) -> V {
        let a = self.reg(a);
        self.v(op, &[a])
    }

    fn v2(&mut self, op: Op, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V {
        let (a, b) = (self.reg(a), self.reg(b));
        self.v(op, &[a, b])
    }

    fn v3(&mut self, op: Op, a: impl Into<Vec32>, b: impl Into<Vec32>, c: impl Into<Vec32>) -> V {
        let (a, b, c) = (self.reg(a), self.reg(b), self.reg(c));
        self.v(op, &[a, b, c])
    }

    fn test(&mut self, op: Op, a: impl Into<Vec32>, b: impl Into<Vec32>) -> M {
        let (a, b) = (self.reg(a), self.reg(b));
        self.cmp(op, a, b)
    }

    fn sel(&mut self, m: M, a: impl Into<Vec32>, b: impl Into<Vec32>) -> V {
        let (a, b) = (self.reg(a), self.reg(b));
        self.select(m, a, b)
    }

    fn p1(&mut self, op: Op, a: impl Into<Vec64>) -> P {
        let a = self.preg(a);
        self.p(op, &[a])
    }

    fn p2(&mut self, op: Op, a: impl Into<Vec64>, b: impl Into<Vec64>) -> P {
        let (a, b) = (self.preg(a), self.preg(b));
        self.p(op, &[a, b])
    }

    fn p3(&mut self, op: Op, a: impl Into<Vec64>, b: impl Into<Vec64>, c: impl Into<Vec64>) -> P {
        let (a, b, c) = (self.preg(a), self.preg(b), self.preg(c));
        self.p(op, &[a, b, c])
    }

    fn ptest(&mut self, op: Op, a: impl Into<Vec64>, b: impl Into<Vec64>) -> M {
        let (a, b) = (self.preg(a), self.preg(b));
        self.def_m(op, &[a.into(), b.into()])
    }

    fn psel(&mut self, m: M, a: impl Into<Vec64>, b: impl Into<Vec64>) -> P {
        let mut words = |x: Vec64| match x {
            Vec64::Reg(p) => self.unpair(p),
            Vec64::Const(c) => (self.v_imm(c.to_bits() as i32), self.v_imm((c.to_bits() >> 32) as i32)),
        };
        let ((al, ah), (bl, bh)) = (words(a.into()), words(b.into()));
        let lo = self.select(m, al, bl);
        let hi = self.select(m, ah, bh);
        self.pair(lo, hi)
    }

    fn poly(&mut self, x: V, c: &[f32]) -> V {
        let (last, rest) = c.split_last().expect("a polynomial has coefficients");
        let mut r = self.v_f32(*last);
        for &k in rest.iter().rev() {
            r = self.fma(r, x, k);
        }
        r
    }

    fn polyd(&mut self, x: P, c: &[f64]) -> P {
        let (last, rest) = c.split_last().expect("a polynomial has coefficients");
        let mut r = self.p_f64(*last);
        for &k in rest.iter().rev() {
            r = self.fmad(r, x, k);
        }
        r
    }
}
