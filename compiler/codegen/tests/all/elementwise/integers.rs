//! Integer and `pred` operations against i128 arithmetic.

use super::{Elements, Random, eval};
use systole_codegen::emit::elementwise::{binary, clamp, compare, select, unary};
use systole_eval::scalar;
use systole_hlo::graph::elementwise::{Arithmetic, BinaryFunction, BinaryKind, Integer};
use systole_hlo::graph::{Binary, Direction, Order, Unary};
use systole_isa::{DType, dtype::DTypeClass};

pub const TYPES: [DType; 10] = [
    DType::S4,
    DType::U4,
    DType::S8,
    DType::U8,
    DType::S16,
    DType::U16,
    DType::S32,
    DType::U32,
    DType::S64,
    DType::U64,
];

fn signed(t: DType) -> bool {
    t.class() == DTypeClass::Signed
}

/// Reduces to the type's range.
pub(super) fn wrap(t: DType, x: i128) -> i128 {
    let spare = 128 - t.bits();
    if signed(t) { x << spare >> spare } else { ((x as u128) << spare >> spare) as i128 }
}

pub(super) fn elements(t: DType, x: &[i128]) -> Elements {
    let mask = u128::MAX >> (128 - t.bits());
    Elements { dtype: t, bits: x.iter().map(|&x| x as u128 & mask).collect() }
}

pub(super) fn numbers(x: &Elements) -> Vec<i128> {
    x.bits.iter().map(|&b| wrap(x.dtype, b as i128)).collect()
}

/// The ends of the range, small numbers, and random ones.
pub(super) fn arguments(t: DType, n: usize) -> Vec<i128> {
    let mut r = Random(99);
    let top = 1i128 << (t.bits() - 1);
    let mut x = vec![0, 1, -1, 2, -2, 3, 5, 7, -7, top, top - 1, top + 1, -top, 10, 13, 31, 32, 33, 63, 64, 65];
    x.extend((0..n).map(|i| r.next() as i128 >> (i % 60)));
    x.iter().map(|&x| wrap(t, x)).collect()
}

fn power(t: DType, x: i128, y: i128) -> i128 {
    let spare = 128 - t.bits().max(8);
    let (base, exponent) = (x << spare >> spare, y << spare >> spare);
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if y % 2 == 0 => 1,
            -1 => wrap(t, -1),
            _ => 0,
        };
    }
    // XLA looks at the exponent's low six bits.
    wrap(t, (0..y & 63).fold(1i128, |r, _| r.wrapping_mul(x)))
}

/// The amount of a shift as XLA reads it: an unsigned number of the type's width.
fn amount(t: DType, y: i128) -> u32 {
    let y = y as u128 & (u128::MAX >> (128 - t.bits()));
    y.min(t.bits() as u128) as u32
}

fn reference(t: DType, op: Binary, x: i128, y: i128) -> i128 {
    let bits = t.bits();
    let unsigned = |x: i128| (x as u128 & (u128::MAX >> (128 - bits))) as i128;
    let r = match op.kind() {
        BinaryKind::Arithmetic(Arithmetic::Add) => x + y,
        BinaryKind::Arithmetic(Arithmetic::Sub) => x - y,
        BinaryKind::Arithmetic(Arithmetic::Mul) => x.wrapping_mul(y),
        BinaryKind::Arithmetic(Arithmetic::Div) => {
            if y == 0 {
                -1
            } else {
                x / y
            }
        }
        BinaryKind::Arithmetic(Arithmetic::Rem) => {
            if y == 0 {
                x
            } else {
                x % y
            }
        }
        BinaryKind::Arithmetic(Arithmetic::Max) => x.max(y),
        BinaryKind::Arithmetic(Arithmetic::Min) => x.min(y),
        BinaryKind::Integer(Integer::And) => x & y,
        BinaryKind::Integer(Integer::Or) => x | y,
        BinaryKind::Integer(Integer::Xor) => x ^ y,
        BinaryKind::BinaryFunction(BinaryFunction::Pow) => power(t, x, y),
        BinaryKind::Integer(Integer::Shl) => {
            if amount(t, y) == bits {
                0
            } else {
                x << amount(t, y)
            }
        }
        BinaryKind::Integer(Integer::Shr) => {
            if amount(t, y) == bits {
                0
            } else {
                unsigned(x) >> amount(t, y)
            }
        }
        BinaryKind::Integer(Integer::Sar) => {
            let spare = 128 - bits;
            (x << spare >> spare) >> amount(t, y).min(bits - 1)
        }
        BinaryKind::BinaryFunction(BinaryFunction::MulHi) => {
            if signed(t) {
                (x * y) >> bits
            } else {
                ((x as u128 * y as u128) >> bits) as i128
            }
        }
        BinaryKind::BinaryFunction(_) => {
            scalar::binary::integer(op).expect("an operation on integers")(t, x as i64, y as i64) as i128
        }
        BinaryKind::Join(_) => unreachable!("of no integers"),
    };
    wrap(t, r)
}

#[test]
fn binary_operations() {
    for t in TYPES {
        let some = arguments(t, 25);
        let (x, y): (Vec<i128>, Vec<i128>) = some.iter().flat_map(|x| some.iter().map(|y| (*x, *y))).unzip();
        for &op in Binary::ALL.iter().filter(|b| b.takes(t.class())) {
            let r = eval(&[elements(t, &x), elements(t, &y)], |b, v| binary(b, op, &v[0], &v[1]));
            for ((x, y), got) in x.iter().zip(&y).zip(numbers(&r)) {
                assert_eq!(got, reference(t, op, *x, *y), "{t} {op:?} {x} {y}");
            }
        }
    }
}

#[test]
fn unary_operations() {
    for t in TYPES {
        let x = arguments(t, 60);
        let mask = u128::MAX >> (128 - t.bits());
        // XLA counts the sign-extended byte of an s4.
        let counted = if t == DType::S4 { 0xff } else { mask };
        let table: [(Unary, &dyn Fn(i128) -> i128); 6] = [
            (Unary::Abs, &|x| x.abs()),
            (Unary::Neg, &|x| -x),
            (Unary::Not, &|x| !x),
            (Unary::Sign, &|x| x.signum()),
            (Unary::Clz, &|x| (x as u128 & mask).leading_zeros() as i128 - 128 + t.bits() as i128),
            (Unary::Popcnt, &|x| (x as u128 & counted).count_ones() as i128),
        ];
        for &op in Unary::ALL.iter().filter(|u| u.takes(t.class())) {
            let row = table.iter().find(|r| r.0 == op);
            let reference = |x: i128| match row {
                Some((_, reference)) => reference(x),
                None => scalar::unary::integer(op).expect("an operation on integers")(t, x as i64) as i128,
            };
            let r = eval(&[elements(t, &x)], |b, v| unary(b, op, &v[0], t));
            for (x, got) in x.iter().zip(numbers(&r)) {
                assert_eq!(got, wrap(t, reference(*x)), "{t} {op:?} {x}");
            }
        }
    }
}

const DIRECTIONS: [Direction; 6] =
    [Direction::Eq, Direction::Ne, Direction::Ge, Direction::Gt, Direction::Le, Direction::Lt];

fn holds<T: PartialOrd>(d: Direction, x: T, y: T) -> bool {
    d.holds(x.partial_cmp(&y))
}

#[test]
fn integer_comparisons() {
    for t in TYPES {
        let some = arguments(t, 20);
        let (x, y): (Vec<i128>, Vec<i128>) = some.iter().flat_map(|x| some.iter().map(|y| (*x, *y))).unzip();
        for d in DIRECTIONS {
            let r = eval(&[elements(t, &x), elements(t, &y)], |b, v| compare(b, d, Order::Total, &v[0], &v[1]));
            for ((x, y), got) in x.iter().zip(&y).zip(&r.bits) {
                assert_eq!(*got == 1, holds(d, x, y), "{t} {d:?} {x} {y}");
            }
        }
    }
}

#[test]
fn float_comparisons() {
    let some = [0.0, -0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 0.5, 3.0, -2.0];
    let (x, y): (Vec<f64>, Vec<f64>) = some.iter().flat_map(|x| some.iter().map(|y| (*x, *y))).unzip();
    for t in [DType::F32, DType::BF16, DType::F16, DType::F64] {
        for d in DIRECTIONS {
            for order in [Order::Partial, Order::Total] {
                let inputs = [super::floats(t, &x), super::floats(t, &y)];
                let r = eval(&inputs, |b, v| compare(b, d, order, &v[0], &v[1]));
                for ((x, y), got) in x.iter().zip(&y).zip(&r.bits) {
                    let want = match order {
                        Order::Partial => holds(d, x, y),
                        Order::Total => holds(d, x.total_cmp(y) as i32, 0),
                    };
                    assert_eq!(*got == 1, want, "{t} {d:?} {order:?} {x} {y}");
                }
            }
        }
    }
}

#[test]
fn subnormals_compare_as_zero() {
    let x = Elements { dtype: DType::F32, bits: vec![1, 1, 0x8000_0001] };
    let y = Elements { dtype: DType::F32, bits: vec![0, 0x8000_0001, 0] };
    let r = eval(&[x, y], |b, v| compare(b, Direction::Ne, Order::Partial, &v[0], &v[1]));
    assert_eq!(r.bits, [0, 0, 0]);
}

#[test]
fn pred_operations() {
    let x = || Elements { dtype: DType::Pred, bits: vec![0, 0, 1, 1] };
    let y = || Elements { dtype: DType::Pred, bits: vec![0, 1, 0, 1] };
    let table = [
        (Binary::Add, [0, 1, 1, 1]),
        (Binary::Max, [0, 1, 1, 1]),
        (Binary::Or, [0, 1, 1, 1]),
        (Binary::Mul, [0, 0, 0, 1]),
        (Binary::Min, [0, 0, 0, 1]),
        (Binary::And, [0, 0, 0, 1]),
        (Binary::Xor, [0, 1, 1, 0]),
    ];
    for (op, want) in table {
        assert_eq!(eval(&[x(), y()], |b, v| binary(b, op, &v[0], &v[1])).bits, want, "{op:?}");
    }
    assert_eq!(eval(&[x()], |b, v| unary(b, Unary::Not, &v[0], DType::Pred)).bits, [1, 1, 0, 0]);
    for d in DIRECTIONS {
        let r = eval(&[x(), y()], |b, v| compare(b, d, Order::Total, &v[0], &v[1]));
        let want: Vec<u128> = x().bits.iter().zip(&y().bits).map(|(x, y)| holds(d, x, y) as u128).collect();
        assert_eq!(r.bits, want, "{d:?}");
    }
}

#[test]
fn select_and_clamp() {
    for t in [DType::S64, DType::S32, DType::U8, DType::C128] {
        let p = Elements { dtype: DType::Pred, bits: vec![1, 0] };
        let (x, y) = (Elements { dtype: t, bits: vec![3, 4] }, Elements { dtype: t, bits: vec![50, 60] });
        assert_eq!(eval(&[p, x, y], |b, v| select(b, &v[0], &v[1], &v[2])).bits, [3, 60], "{t}");
    }
    let (p, x, y) = ([1, 0, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]);
    let preds = [p, x, y].map(|bits| Elements { dtype: DType::Pred, bits: bits.to_vec() });
    assert_eq!(eval(&preds, |b, v| select(b, &v[0], &v[1], &v[2])).bits, [0, 0, 1, 1]);
    for t in [DType::S8, DType::S32, DType::S64] {
        let (low, x, high) = ([-3, -3, -3, 5], [-9, 0, 9, 0], [3, 3, 3, 1]);
        let inputs = [low, x, high].map(|x| elements(t, &x));
        assert_eq!(numbers(&eval(&inputs, |b, v| clamp(b, &v[0], &v[1], &v[2]))), [-3, 0, 3, 1], "{t}");
    }
}
