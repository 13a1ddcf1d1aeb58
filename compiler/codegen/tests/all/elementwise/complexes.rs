//! Complex operations against textbook formulas in f64.

use super::{Elements, Failures, Random, eval};
use systole_codegen::emit::elementwise::{binary, unary};
use systole_eval::scalar;
use systole_hlo::graph::elementwise::{BinaryKind, UnaryKind};
use systole_hlo::graph::{Binary, Unary};
use systole_isa::DType;

#[derive(Clone, Copy, Debug, PartialEq)]
struct C(f64, f64);

impl C {
    fn add(self, o: C) -> C {
        C(self.0 + o.0, self.1 + o.1)
    }
    fn neg(self) -> C {
        C(-self.0, -self.1)
    }
    fn mul(self, o: C) -> C {
        C(self.0 * o.0 - self.1 * o.1, self.0 * o.1 + self.1 * o.0)
    }
    fn div(self, o: C) -> C {
        let d = o.0 * o.0 + o.1 * o.1;
        C((self.0 * o.0 + self.1 * o.1) / d, (self.1 * o.0 - self.0 * o.1) / d)
    }
    fn abs(self) -> f64 {
        self.0.hypot(self.1)
    }
    fn exp(self) -> C {
        C(self.0.exp() * self.1.cos(), self.0.exp() * self.1.sin())
    }
    fn log(self) -> C {
        C(self.abs().ln(), self.1.atan2(self.0))
    }
    fn sqrt(self) -> C {
        let (r, t) = (self.abs().sqrt(), self.1.atan2(self.0) / 2.0);
        C(r * t.cos(), r * t.sin())
    }
    fn sinh(self) -> C {
        C(self.0.sinh() * self.1.cos(), self.0.cosh() * self.1.sin())
    }
    fn cosh(self) -> C {
        C(self.0.cosh() * self.1.cos(), self.0.sinh() * self.1.sin())
    }
    fn turn(self) -> C {
        C(-self.1, self.0)
    }
    fn sin(self) -> C {
        self.turn().sinh().turn().neg()
    }
    fn cos(self) -> C {
        self.turn().cosh()
    }
}

const ONE: C = C(1.0, 0.0);

fn elements(t: DType, x: &[C]) -> Elements {
    let bits = x
        .iter()
        .map(|x| match t {
            DType::C64 => (x.0 as f32).to_bits() as u128 | ((x.1 as f32).to_bits() as u128) << 32,
            _ => x.0.to_bits() as u128 | (x.1.to_bits() as u128) << 64,
        })
        .collect();
    Elements { dtype: t, bits }
}

fn numbers(x: &Elements) -> Vec<C> {
    let split = |&b: &u128| match x.dtype {
        DType::C64 => C(f32::from_bits(b as u32) as f64, f32::from_bits((b >> 32) as u32) as f64),
        DType::C128 => C(f64::from_bits(b as u64), f64::from_bits((b >> 64) as u64)),
        DType::F32 => C(f32::from_bits(b as u32) as f64, 0.0),
        _ => C(f64::from_bits(b as u64), 0.0),
    };
    x.bits.iter().map(split).collect()
}

fn arguments(t: DType) -> Vec<C> {
    let mut r = Random(5);
    let some = [0.5, -0.5, 1.0, -1.0, 2.0, -3.0];
    let mut x: Vec<C> = some.iter().flat_map(|&x| some.iter().map(move |&y| C(x, y))).collect();
    x.extend((0..200).map(|i| {
        let size = 10f64.powi(i % 4 - 3) * 4.0;
        C(r.unit() * size, r.unit() * size)
    }));
    numbers(&elements(t, &x))
}

/// Parts may be off relative to the whole number's size.
fn check(failures: &mut Failures, what: &str, args: &str, t: DType, got: C, want: C) {
    // The reference cancels in c128 where the emitted code does not.
    let cancels = what.ends_with("m1") || what.ends_with("1p");
    // Of small angles XLA's formula loses digits, wherever it is computed.
    let small_angles = what.ends_with("Atan2");
    let unit = if small_angles {
        if t == DType::C64 { 3e-4 } else { 1e-12 }
    } else if t == DType::C64 {
        3e-6
    } else if cancels {
        1e-12
    } else {
        1e-14
    };
    let off = C(got.0 - want.0, got.1 - want.1).abs();
    let error = off / want.abs().max(if t == DType::C64 { 1e-3 } else { 1e-6 });
    failures.check(what, &format!("{args} = {got:?} not {want:?}; part"), error, 0.0, 0.0, unit);
}

type Row = (Unary, fn(C) -> C);

const UNARY: &[Row] = &[
    (Unary::Neg, C::neg),
    (Unary::Exp, C::exp),
    (Unary::Expm1, |z| z.exp().add(ONE.neg())),
    (Unary::Log, C::log),
    (Unary::Log1p, |z| z.add(ONE).log()),
    (Unary::Sqrt, C::sqrt),
    (Unary::Rsqrt, |z| ONE.div(z.sqrt())),
    (Unary::Cbrt, |z| {
        let l = z.log();
        C(l.0 / 3.0, l.1 / 3.0).exp()
    }),
    (Unary::Logistic, |z| ONE.div(ONE.add(z.neg().exp()))),
    (Unary::Sign, |z| C(z.0 / z.abs(), z.1 / z.abs())),
];

/// Functions that another one undoes.
const UNDONE: [(Unary, Unary, fn(C) -> C); 6] = [
    (Unary::Sin, Unary::Asin, C::sin),
    (Unary::Cos, Unary::Acos, C::cos),
    (Unary::Tan, Unary::Atan, |z| z.sin().div(z.cos())),
    (Unary::Sinh, Unary::Asinh, C::sinh),
    (Unary::Cosh, Unary::Acosh, C::cosh),
    (Unary::Tanh, Unary::Atanh, |z| z.sinh().div(z.cosh())),
];

fn formula(op: Unary) -> Option<fn(C) -> C> {
    let undone = UNDONE.iter().map(|&(of, _, f)| (of, f));
    UNARY.iter().copied().chain(undone).find(|r| r.0 == op).map(|r| r.1)
}

/// What the evaluator makes of functions that have no formula and undo none.
fn evaluated(op: Unary) -> Option<impl Fn(C) -> C> {
    let free = matches!(op.kind(), UnaryKind::Function(_)) && formula(op).is_none();
    let f = (free && UNDONE.iter().all(|r| r.1 != op))
        .then(|| scalar::unary::complex(op).expect("a function of complex numbers"))?;
    Some(move |z: C| {
        let (re, im) = f((z.0, z.1));
        C(re, im)
    })
}

#[test]
fn unary_functions() {
    let mut failures = Failures::default();
    let mut all: Vec<(Unary, Box<dyn Fn(C) -> C>)> = Vec::new();
    for &op in Unary::ALL {
        match formula(op) {
            Some(reference) => all.push((op, Box::new(reference))),
            None => all.extend(evaluated(op).map(|f| (op, Box::new(f) as Box<dyn Fn(C) -> C>))),
        }
    }
    for t in [DType::C64, DType::C128] {
        let x = arguments(t);
        for (op, reference) in &all {
            let r = eval(&[elements(t, &x)], |b, v| unary(b, *op, &v[0], t));
            for (x, got) in x.iter().zip(numbers(&r)) {
                check(&mut failures, &format!("{t} {op:?}"), &format!("{x:?}"), t, got, reference(*x));
            }
        }
        let r = eval(&[elements(t, &x)], |b, v| unary(b, Unary::Abs, &v[0], t.real()));
        for (x, got) in x.iter().zip(numbers(&r)) {
            check(&mut failures, &format!("{t} Abs"), &format!("{x:?}"), t, got, C(x.abs(), 0.0));
        }
    }
}

/// f(g(z)) = z for the functions whose inverses are simple.
#[test]
fn inverse_functions() {
    let mut failures = Failures::default();
    for t in [DType::C64, DType::C128] {
        let x: Vec<C> = arguments(t).into_iter().filter(|z| z.abs() > 0.1 && z.1 != 0.0).collect();
        for (_, op, back) in UNDONE {
            // The poles of the inverse tangents.
            let poles = matches!(op, Unary::Atan | Unary::Atanh);
            let x: Vec<C> = x.iter().copied().filter(|z| !poles || (z.abs() - 1.0).abs() > 0.2).collect();
            let r = eval(&[elements(t, &x)], |b, v| unary(b, op, &v[0], t));
            for (x, got) in x.iter().zip(numbers(&r)) {
                let z = back(got);
                let (rel, want) = (if t == DType::C64 { 2e-4 } else { 1e-11 }, *x);
                let error = C(z.0 - want.0, z.1 - want.1).abs() / want.abs();
                failures.check(&format!("{t} {op:?}"), &format!("{x:?} -> {got:?}"), error, 0.0, 0.0, rel);
            }
        }
    }
}

#[test]
fn binary_functions() {
    let mut failures = Failures::default();
    let table: [(Binary, fn(C, C) -> C); 5] = [
        (Binary::Add, C::add),
        (Binary::Sub, |x, y| x.add(y.neg())),
        (Binary::Mul, C::mul),
        (Binary::Div, C::div),
        (Binary::Pow, |x, y| x.log().mul(y).exp()),
    ];
    for t in [DType::C64, DType::C128] {
        let x = arguments(t);
        let y: Vec<C> = x.iter().rev().copied().collect();
        let functions = Binary::ALL.iter().filter(|b| matches!(b.kind(), BinaryKind::BinaryFunction(_)));
        let others = functions.filter(|b| b.takes(t.class()) && table.iter().all(|r| r.0 != **b));
        for op in table.iter().map(|r| r.0).chain(others.copied()) {
            let row = table.iter().find(|r| r.0 == op);
            let reference = |x: C, y: C| match row {
                Some((_, reference)) => reference(x, y),
                None => {
                    let f = scalar::binary::complex(op).expect("an operation on complex numbers");
                    let (re, im) = f((x.0, x.1), (y.0, y.1));
                    C(re, im)
                }
            };
            let r = eval(&[elements(t, &x), elements(t, &y)], |b, v| binary(b, op, &v[0], &v[1]));
            for ((x, y), got) in x.iter().zip(&y).zip(numbers(&r)) {
                check(&mut failures, &format!("{t} {op:?}"), &format!("{x:?} {y:?}"), t, got, reference(*x, *y));
            }
        }
    }
}

#[test]
fn large_parts_do_not_overflow() {
    let x = [C(3e38, 1e38), C(2e-38, 6e-38), C(f64::INFINITY, 1.0), C(0.0, 0.0)];
    let r = eval(&[elements(DType::C64, &x)], |b, v| unary(b, Unary::Abs, &v[0], DType::F32));
    let n = numbers(&r);
    assert!((n[0].0 / 3.162_277_66e38 - 1.0).abs() < 1e-6 && (n[1].0 / 6.324_555_32e-38 - 1.0).abs() < 1e-6);
    assert_eq!((n[2].0, n[3].0), (f64::INFINITY, 0.0));
    let inputs = [elements(DType::C64, &[C(3e38, 1e38)]), elements(DType::C64, &[C(3e38, 1e38)])];
    let q = numbers(&eval(&inputs, |b, v| binary(b, Binary::Div, &v[0], &v[1])));
    assert!((q[0].0 - 1.0).abs() < 1e-6 && q[0].1.abs() < 1e-6, "{q:?}");
}

#[test]
fn special_values() {
    const INF: f64 = f64::INFINITY;
    let un = |op, x: C| numbers(&eval(&[elements(DType::C64, &[x])], |b, v| unary(b, op, &v[0], DType::C64)))[0];
    let table = [
        (Unary::Exp, C(-INF, 0.0), C(0.0, 0.0)),
        (Unary::Exp, C(INF, 0.0), C(INF, 0.0)),
        (Unary::Log, C(0.0, 0.0), C(-INF, 0.0)),
        (Unary::Sqrt, C(-INF, 0.0), C(0.0, INF)),
        (Unary::Sqrt, C(0.0, INF), C(INF, INF)),
        (Unary::Sqrt, C(-4.0, -0.0), C(0.0, 2.0)),
        (Unary::Tanh, C(INF, INF), C(1.0, 0.0)),
        (Unary::Tanh, C(-100.0, 3.0), C(-1.0, 0.0)),
        (Unary::Logistic, C(-INF, 0.0), C(0.0, 0.0)),
        (Unary::Sign, C(0.0, 0.0), C(0.0, 0.0)),
    ];
    for (op, x, want) in table {
        assert_eq!(un(op, x), want, "{op:?} {x:?}");
    }
    let bin = |op, x: C, y: C| {
        let inputs = [elements(DType::C64, &[x]), elements(DType::C64, &[y])];
        numbers(&eval(&inputs, |b, v| binary(b, op, &v[0], &v[1])))[0]
    };
    let table = [
        (Binary::Div, C(1.0, 1.0), C(0.0, 0.0), C(INF, INF)),
        (Binary::Div, C(1.0, 1.0), C(INF, INF), C(0.0, 0.0)),
        (Binary::Div, C(3.0, 4.0), C(INF, 0.0), C(0.0, 0.0)),
        (Binary::Pow, C(0.0, 0.0), C(0.0, 0.0), C(1.0, 0.0)),
        (Binary::Pow, C(0.0, 0.0), C(2.0, 0.0), C(0.0, 0.0)),
        (Binary::Pow, C(INF, 0.0), C(-1.0, 0.0), C(0.0, 0.0)),
    ];
    for (op, x, y, want) in table {
        assert_eq!(bin(op, x, y), want, "{op:?} {x:?} {y:?}");
    }
}
