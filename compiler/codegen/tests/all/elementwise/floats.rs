//! Float operations against f64 arithmetic and libm.

use super::{Elements, Failures, Random, as_f64, eval_counted, floats};
use systole_codegen::emit::elementwise::effort::{Effort, effort};
use systole_codegen::emit::elementwise::{binary, unary};
use systole_eval::scalar;
use systole_hlo::graph::elementwise::UnaryKind;
use systole_hlo::graph::{Binary, Unary};
use systole_isa::DType;

const SPECIAL: [f64; 29] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    -1.5,
    2.5,
    -2.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    0.1,
    -0.1,
    1e-3,
    -1e-3,
    10.0,
    -10.0,
    88.0,
    -88.0,
    1e4,
    -1e4,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    0.49999997,
    8388609.0,
];

/// Special numbers, numbers of every size, and numbers near 1.
fn arguments(dtype: DType, n: usize) -> Vec<f64> {
    let mut r = Random(0x1234_5678_9abc_def1);
    let exponents = match dtype {
        DType::F64 => 300.0,
        DType::F16 => 4.0,
        _ => 37.0,
    };
    let mut x = SPECIAL.to_vec();
    // Near a multiple of pi/2, a large power of two, and the ends of two ways of reduction.
    x.extend([5.319372648326541e255, 2f64.powi(900), 1.099511627775e12, 1.099511627777e12, 1e15, -1e22, f64::MAX]);
    for i in 0..n {
        let u = r.unit();
        x.push(match i % 4 {
            0 => u * 10f64.powf(r.unit() * exponents),
            1 => u * 4.0,
            2 => u,
            _ => u * 10f64.powf(r.unit() * 2.0 - 2.0),
        });
    }
    as_f64(&floats(dtype, &x))
}

fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F32 => (2e-6, f32::MIN_POSITIVE as f64 * 1.01),
        DType::BF16 => (0.0041, f32::MIN_POSITIVE as f64 * 1.01),
        DType::F16 => (5.5e-4, 6.2e-8),
        _ => (4e-15, f64::MIN_POSITIVE * 1.01),
    }
}

/// What the type makes of a number: bf16 and f16 overflow early.
fn rounded(dtype: DType, x: f64) -> f64 {
    as_f64(&floats(dtype, &[x]))[0]
}

fn flushed(dtype: DType, x: f64) -> f64 {
    let least = if dtype == DType::F64 { f64::MIN_POSITIVE } else { f32::MIN_POSITIVE as f64 };
    if x.abs() < least && dtype != DType::F16 { 0f64.copysign(x) } else { x }
}

fn check_unary(failures: &mut Failures, dtype: DType, op: Unary, slack: f64, reference: impl Fn(f64) -> f64) {
    let x = arguments(dtype, 400);
    let (rel, tiny) = tolerance(dtype);
    for noise in [false, true] {
        let inputs = [floats(dtype, &x)];
        let (r, _) = eval_counted(noise, &inputs, |b, v| unary(b, op, &v[0], dtype));
        for (x, got) in x.iter().zip(as_f64(&r)) {
            let want = rounded(dtype, reference(flushed(dtype, *x)));
            failures.check(&format!("{dtype} {op:?}"), &format!("{x:e}"), got, want, rel * slack, tiny);
        }
    }
}

const FLOATS: [DType; 4] = [DType::F32, DType::BF16, DType::F16, DType::F64];

fn round_afz(x: f64) -> f64 {
    x.round()
}

fn sign(x: f64) -> f64 {
    if x == 0.0 || x.is_nan() { x } else { x.signum() }
}

fn erf_inv(x: f64) -> f64 {
    if x.abs() >= 1.0 {
        return if x.abs() == 1.0 { x * f64::INFINITY } else { f64::NAN };
    }
    if x == 0.0 || x.is_nan() {
        return x;
    }
    // Bisection on erfc, which is accurate in the tail.
    let a = x.abs();
    let (mut low, mut high) = (0.0f64, 7.0f64);
    for _ in 0..200 {
        let mid = 0.5 * (low + high);
        let below = if a < 0.5 { libm::erf(mid) < a } else { libm::erfc(mid) > 1.0 - a };
        if below { low = mid } else { high = mid }
    }
    let mut y = 0.5 * (low + high);
    if a < 1e-6 {
        y = a * std::f64::consts::PI.sqrt() / 2.0;
    }
    y.copysign(x)
}

/// Operation, allowed error in units of the type's tolerance, reference.
type Row = (Unary, f64, fn(f64) -> f64);

/// What is held against something else than the evaluator, or more loosely than by one unit.
const UNARY: &[Row] = &[
    (Unary::Ceil, 0.0, f64::ceil),
    (Unary::Floor, 0.0, f64::floor),
    (Unary::RoundEven, 0.0, f64::round_ties_even),
    (Unary::RoundAfz, 0.0, round_afz),
    (Unary::Sign, 0.0, sign),
    (Unary::Sqrt, 1.0, f64::sqrt),
    (Unary::Rsqrt, 1.0, |x| 1.0 / x.sqrt()),
    (Unary::Exp, 1.0, f64::exp),
    (Unary::Expm1, 1.0, f64::exp_m1),
    (Unary::Log, 1.0, f64::ln),
    (Unary::Log1p, 1.0, f64::ln_1p),
    (Unary::Logistic, 1.0, |x| 1.0 / (1.0 + (-x).exp())),
    (Unary::Tanh, 1.0, f64::tanh),
    (Unary::Cbrt, 1.0, f64::cbrt),
    (Unary::Erf, 1.0, libm::erf),
    (Unary::ErfInv, 4.0, erf_inv),
    (Unary::Sinh, 1.0, f64::sinh),
    (Unary::Cosh, 1.0, f64::cosh),
    (Unary::Asin, 1.0, f64::asin),
    (Unary::Acos, 1.0, f64::acos),
    (Unary::Atan, 1.0, f64::atan),
    (Unary::Asinh, 1.0, f64::asinh),
    (Unary::Acosh, 1.0, f64::acosh),
    (Unary::Atanh, 2.0, f64::atanh),
];

/// [`UNARY`], and functions without a row there.
fn unary_rows() -> impl Iterator<Item = Row> {
    // Signs, parts and questions have tests of their own.
    let functions = Unary::ALL
        .iter()
        .filter(|u| matches!(u.kind(), UnaryKind::Function(_) | UnaryKind::RealFunction(_) | UnaryKind::Rounding(_)));
    let others = functions.filter(|op| UNARY.iter().chain(&TRIGONOMETRIC).all(|r| r.0 != **op));
    UNARY.iter().copied().chain(others.map(|&op| (op, 1.0, scalar::unary::float(op).expect("a function of floats"))))
}

#[test]
fn unary_functions() {
    let mut failures = Failures::default();
    for (op, slack, reference) in unary_rows() {
        for dtype in FLOATS {
            check_unary(&mut failures, dtype, op, slack, reference);
        }
    }
}

const TRIGONOMETRIC: [Row; 3] = [(Unary::Sin, 1.0, f64::sin), (Unary::Cos, 1.0, f64::cos), (Unary::Tan, 1.0, f64::tan)];

#[test]
fn trigonometric_functions() {
    let mut failures = Failures::default();
    for (op, slack, reference) in TRIGONOMETRIC {
        for dtype in FLOATS {
            check_unary(&mut failures, dtype, op, slack, reference);
        }
    }
}

#[test]
fn signs_keep_subnormals_and_payloads() {
    let x = Elements { dtype: DType::F32, bits: vec![0x8000_0001, 0x7fc0_1234, 0x0000_0007, 0xff80_0000] };
    let (abs, _) = eval_counted(false, &[x], |b, v| unary(b, Unary::Abs, &v[0], DType::F32));
    assert_eq!(abs.bits, [1, 0x7fc0_1234, 7, 0x7f80_0000]);
    let x = Elements { dtype: DType::F64, bits: vec![1, 1 << 63 | 5] };
    let (neg, _) = eval_counted(false, &[x], |b, v| unary(b, Unary::Neg, &v[0], DType::F64));
    assert_eq!(neg.bits, [1 << 63 | 1, 5]);
}

#[test]
fn is_finite() {
    let x = [0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e30];
    for dtype in FLOATS {
        let (r, _) = eval_counted(false, &[floats(dtype, &x)], |b, v| unary(b, Unary::IsFinite, &v[0], DType::Pred));
        let big = (dtype != DType::F16) as u128;
        assert_eq!(r.bits, [1, 1, 0, 0, 0, big], "{dtype}");
    }
}

fn max(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x.total_cmp(&y).is_lt() {
        y
    } else {
        x
    }
}

fn min(x: f64, y: f64) -> f64 {
    -max(-x, -y)
}

type Row2 = (Binary, f64, fn(f64, f64) -> f64);

/// As [`UNARY`].
const BINARY: &[Row2] = &[
    (Binary::Add, 0.5, |x, y| x + y),
    (Binary::Sub, 0.5, |x, y| x - y),
    (Binary::Mul, 0.5, |x, y| x * y),
    (Binary::Div, 0.5, |x, y| x / y),
    (Binary::Max, 0.0, max),
    (Binary::Min, 0.0, min),
    (Binary::Rem, 0.0, |x, y| x % y),
    (Binary::Atan2, 1.0, f64::atan2),
    (Binary::Pow, 1.5, |x, y| if y.is_nan() && x != 1.0 { f64::NAN } else { x.powf(y) }),
];

/// [`BINARY`], and operations without a row there.
fn binary_rows() -> impl Iterator<Item = Row2> {
    let all = Binary::ALL.iter().filter(|b| b.takes(DType::F32.class()) && **b != Binary::Complex);
    let others = all.filter(|op| BINARY.iter().all(|r| r.0 != **op));
    BINARY
        .iter()
        .copied()
        .chain(others.map(|&op| (op, 1.0, scalar::binary::float(op).expect("an operation on floats"))))
}

#[test]
fn binary_functions() {
    let mut failures = Failures::default();
    for (op, slack, reference) in binary_rows() {
        for dtype in FLOATS {
            let some = arguments(dtype, 200);
            // Every pair of special numbers, then random pairs.
            let mut pairs = Vec::new();
            for x in &some[..SPECIAL.len()] {
                pairs.extend(some[..SPECIAL.len()].iter().map(|y| (*x, *y)));
            }
            pairs.extend(some.iter().zip(some.iter().rev()).map(|(x, y)| (*x, *y)));
            pairs.extend(some.iter().zip(some.iter().skip(7)).map(|(x, y)| (*x, *y)));
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let (rel, tiny) = tolerance(dtype);
            for noise in [false, true] {
                let inputs = [floats(dtype, &x), floats(dtype, &y)];
                let (r, _) = eval_counted(noise, &inputs, |b, v| binary(b, op, &v[0], &v[1]));
                for ((x, y), got) in x.iter().zip(&y).zip(as_f64(&r)) {
                    let want = rounded(dtype, reference(flushed(dtype, *x), flushed(dtype, *y)));
                    // A subnormal result is flushed.
                    let what = format!("{dtype} {op:?}");
                    failures.check(&what, &format!("{x:e}, {y:e}"), got, want, rel * slack, tiny);
                }
            }
        }
    }
}

/// Estimates take a function for one instruction of the unit of functions where it is one; sine and cosine, whose instruction keeps the
/// unit for long, count as a series.
#[test]
fn effort_follows_from_the_instructions() {
    for op in Unary::ALL.iter().filter(|u| matches!(u.kind(), UnaryKind::Function(_) | UnaryKind::RealFunction(_))) {
        let (_, n) = eval_counted(false, &[floats(DType::F32, &[1.0])], |b, v| unary(b, *op, &v[0], DType::F32));
        let short = n == 1 && !matches!(op, Unary::Sin | Unary::Cos);
        assert_eq!(effort(*op) == Effort::Function, short, "{op:?} is {n} instructions: see `functions.rs`");
    }
}

#[test]
fn hot_operations_stay_short() {
    let most = [
        (Unary::Exp, 1, 2),
        (Unary::Tanh, 1, 2),
        (Unary::Rsqrt, 1, 2),
        (Unary::Log, 1, 2),
        (Unary::Logistic, 4, 5),
        // Subnormal arguments keep their sign and value.
        (Unary::Expm1, 7, 8),
        (Unary::Erf, 9, 10),
        (Unary::Neg, 1, 1),
        (Unary::Abs, 1, 1),
    ];
    for (op, f32_count, bf16_count) in most {
        for (dtype, count) in [(DType::F32, f32_count), (DType::BF16, bf16_count)] {
            let (_, n) = eval_counted(false, &[floats(dtype, &[1.0])], |b, v| unary(b, op, &v[0], dtype));
            assert!(n <= count, "{op:?} of {dtype} takes {n} instructions");
        }
    }
}
