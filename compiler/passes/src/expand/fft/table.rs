//! Tables of roots of unity, and products of pairs of arrays with them.

use crate::edit::Emit;
use std::f64::consts::TAU;
use systole_hlo::graph::number::element_bytes;
use systole_hlo::graph::{DotDims, Literal, NodeId, Precision};
use systole_isa::DType;

/// Real and imaginary parts.
#[derive(Clone, Copy)]
pub struct Pair {
    pub re: NodeId,
    pub im: Option<NodeId>,
}

/// Which part of a transform's result is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    All,
    /// The first half of the bins and the one in the middle: the signal is real.
    Half,
    /// Real parts: the rest is known to be zero.
    Real,
}

impl Wanted {
    /// How many bins of `n`.
    pub fn of(self, n: u64) -> u64 {
        match self {
            Wanted::Half => n / 2 + 1,
            Wanted::All | Wanted::Real => n,
        }
    }

    /// What is wanted of the whole result along dimension `d`.
    pub fn cut(self, b: &mut Emit, p: Pair, d: usize, n: u64) -> Pair {
        let p = each(b, p, &mut |b, x| b.slice_dim(x, d, 0, self.of(n), 1));
        Pair { im: p.im.filter(|_| self != Wanted::Real), ..p }
    }
}

/// A transform as a table: `outs` results of `ins` numbers, `angle(i, j)` that of the root which number `j` is multiplied by for
/// result `i`.
pub struct Roots<'a> {
    pub ins: u64,
    pub outs: u64,
    pub wanted: Wanted,
    pub angle: &'a dyn Fn(u64, u64) -> f64,
}

impl Roots<'_> {
    /// The real matrix `[results, numbers]` (or turned) that makes real parts and, below them, imaginary parts of real parts
    /// and, behind them, imaginary parts.
    fn matrix(&self, b: &mut Emit, part: DType, complex: bool, turned: bool) -> NodeId {
        let results = if self.wanted == Wanted::Real { self.outs } else { 2 * self.outs };
        let numbers = if complex { 2 * self.ins } else { self.ins };
        let element = |i: u64, j: u64| {
            let a = (self.angle)(i % self.outs, j % self.ins);
            match (i < self.outs, j < self.ins) {
                (true, true) | (false, false) => a.cos(),
                (true, false) => -a.sin(),
                (false, true) => a.sin(),
            }
        };
        let mut bytes = Vec::new();
        let dims = if turned { [numbers, results] } else { [results, numbers] };
        for i in 0..dims[0] {
            for j in 0..dims[1] {
                bytes.extend(element_bytes(part, if turned { element(j, i) } else { element(i, j) }));
            }
        }
        b.constant(Literal::new(part, &dims, bytes))
    }
}

/// A transform of dimension `d`, by one product: the result's dimension first, or with `last` behind the others.
///
/// Imaginary parts are contracted together with the real ones, so that nothing has to be added up.
pub fn product(b: &mut Emit, x: Pair, roots: &Roots<'_>, d: usize, last: bool) -> Pair {
    let part = b.dtype(x.re);
    let t = roots.matrix(b, part, x.im.is_some(), last);
    let x = match x.im {
        Some(im) => b.concatenate(&[x.re, im], d),
        None => x.re,
    };
    let (l, r, lhs, rhs) = if last { (x, t, d, 0) } else { (t, x, 1, d) };
    let dims = DotDims { lhs_contracting: vec![lhs], rhs_contracting: vec![rhs], ..DotDims::default() };
    let out = b.dot(l, r, dims, Precision::Highest, part);
    if roots.wanted == Wanted::Real {
        return Pair { re: out, im: None };
    }
    let at = if last { b.rank(out) - 1 } else { 0 };
    let re = b.slice_dim(out, at, 0, roots.outs, 1);
    Pair { re, im: Some(b.slice_dim(out, at, roots.outs, 2 * roots.outs, 1)) }
}

/// Tables `[table, results, numbers]` that make real parts and, below them, imaginary parts of real parts and, where numbers are
/// complex, behind them imaginary parts.
pub struct Rows {
    pub results: u64,
    pub numbers: u64,
    pub complex: bool,
}

/// What of a product with a table is conjugated where its angle says so: the result, or the number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Conjugate {
    Result,
    Number,
}

impl Rows {
    /// `count` tables; `angle(table, result, number)`: that of the root, and whether there is a conjugate.
    pub fn tables(
        &self,
        b: &mut Emit,
        part: DType,
        (count, of): (u64, Conjugate),
        angle: &dyn Fn(u64, u64, u64) -> (f64, bool),
    ) -> NodeId {
        // Of the result's imaginary part, and of the number's.
        let value = |(im, of_im): (bool, bool), (a, conjugate): (f64, bool)| {
            let (sin, cos) = f64::sin_cos(a);
            let value = match (im, of_im) {
                (false, false) | (true, true) => cos,
                (false, true) => -sin,
                (true, false) => sin,
            };
            let turned = match of {
                Conjugate::Result => im,
                Conjugate::Number => of_im,
            };
            if conjugate && turned { -value } else { value }
        };
        let kinds: &[bool] = if self.complex { &[false, true] } else { &[false] };
        let mut bytes = Vec::new();
        for t in 0..count {
            for im in [false, true] {
                for i in 0..self.results {
                    for &of_im in kinds {
                        for j in 0..self.numbers {
                            bytes.extend(element_bytes(part, value((im, of_im), angle(t, i, j))));
                        }
                    }
                }
            }
        }
        let dims = [count, 2 * self.results, self.numbers * kinds.len() as u64];
        b.constant(Literal::new(part, &dims, bytes))
    }
}

/// A table `f(i, j)` of two parts.
pub fn table(b: &mut Emit, part: DType, dims: [u64; 2], angle: impl Fn(u64, u64) -> f64) -> Pair {
    let (mut cos, mut sin) = (Vec::new(), Vec::new());
    for i in 0..dims[0] {
        for j in 0..dims[1] {
            let a = angle(i, j);
            cos.extend(element_bytes(part, a.cos()));
            sin.extend(element_bytes(part, a.sin()));
        }
    }
    let re = b.constant(Literal::new(part, &dims, cos));
    let im = b.constant(Literal::new(part, &dims, sin));
    Pair { re, im: Some(im) }
}

/// The angle of root number `i * j` of `n`, its multiple reduced exactly.
pub fn root(i: u64, j: u64, n: u64, sign: f64) -> f64 {
    let k = (u128::from(i) * u128::from(j) % u128::from(n)) as f64;
    sign * TAU * k / n as f64
}

/// Elementwise complex product; the dimensions of `t` are those numbered `map` of `x`.
pub fn times(b: &mut Emit, x: Pair, t: Pair, map: &[usize]) -> Pair {
    let dims = b.dims(x.re).to_vec();
    let tr = b.broadcast(t.re, map, &dims);
    let rr = b.mul(x.re, tr);
    let Some(ti) = t.im else {
        return Pair { re: rr, im: x.im.map(|i| b.mul(i, tr)) };
    };
    let ti = b.broadcast(ti, map, &dims);
    let ri = b.mul(x.re, ti);
    match x.im {
        None => Pair { re: rr, im: Some(ri) },
        Some(i) => {
            let (ii, ir) = (b.mul(i, ti), b.mul(i, tr));
            Pair { re: b.sub(rr, ii), im: Some(b.add(ri, ir)) }
        }
    }
}

pub fn each(b: &mut Emit, p: Pair, f: &mut dyn FnMut(&mut Emit, NodeId) -> NodeId) -> Pair {
    Pair { re: f(b, p.re), im: p.im.map(|i| f(b, i)) }
}
