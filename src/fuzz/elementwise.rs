//! Elementwise operations.

use super::program::{Facts, Gen, Instr};
use systole_compiler::eval::scalar;
use systole_compiler::graph::elementwise::{Arithmetic, BinaryKind, Domain, Integer, Signs, UnaryKind};
use systole_compiler::graph::{Binary, Unary};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// What lies between two samples of a function is at most so much more.
const BETWEEN: f64 = 1.1;

fn real_float(i: &Instr) -> bool {
    i.dtype().is_float()
}

fn integer(i: &Instr) -> bool {
    matches!(i.dtype().class(), DTypeClass::Signed | DTypeClass::Unsigned)
}

/// `|x| + 1`.
fn above_one(g: &mut Gen, x: usize) -> Option<usize> {
    from(g, x, 1.0)
}

/// `|x| + low`.
fn from(g: &mut Gen, x: usize, low: f64) -> Option<usize> {
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let a = g.push((t, &dims), "abs", &[x], "", f.clone())?;
    if low == 0.0 {
        return Some(a);
    }
    let least = splat(g, t, &dims, &format!("{low}"), low)?;
    let least_facts = g.facts(least);
    g.push((t, &dims), "add", &[a, least], "", both(&f, &least_facts, f.bound + low, f.error + least_facts.error))
}

/// A scalar constant in every place.
pub fn splat(g: &mut Gen, t: DType, dims: &[u64], text: &str, bound: f64) -> Option<usize> {
    let c = g.constant(t, text, bound);
    let f = g.facts(c);
    if dims.is_empty() { Some(c) } else { g.push((t, dims), "broadcast", &[c], ", dimensions={}", f) }
}

/// The value held between `-limit` and `limit`.
pub fn limited(g: &mut Gen, x: usize, limit: f64) -> Option<usize> {
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    if f.bound <= limit {
        return Some(x);
    }
    let low = g.constant(t, &format!("-{limit}"), limit);
    let high = g.constant(t, &format!("{limit}"), limit);
    let end = g.facts(high);
    g.push((t, &dims), "clamp", &[low, x, high], "", both(&f, &end, limit, f.error.max(end.error)))
}

/// Operations of one argument, where their row of the table says that they are smooth.
pub fn unary(g: &mut Gen, op: &str) -> Option<usize> {
    let row = Unary::from_name(op)?;
    match row.kind() {
        UnaryKind::Function(_) | UnaryKind::RealFunction(_) => function(g, row),
        UnaryKind::Rounding(_) | UnaryKind::Signs(Signs::Sign) => rounding(g, op),
        UnaryKind::Signs(_) => {
            let x = g.find(|i| row.takes(i.dtype().class()) && !i.dtype().is_complex())?;
            let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
            g.push((t, &dims), op, &[x], "", f)
        }
        UnaryKind::Part(_) => {
            let x = g.find(|i| i.dtype().is_complex())?;
            let (t, dims, f) = (g.dtype(x).real(), g.dims(x), g.facts(x));
            g.push((t, &dims), op, &[x], "", f)
        }
        UnaryKind::Test(_) => {
            let x = g.find(real_float)?;
            let dims = g.dims(x);
            g.push((DType::Pred, &dims), op, &[x], "", Facts { bound: 1.0, step: 1.0, error: 0.0 })
        }
        UnaryKind::Count(_) | UnaryKind::Logic(_) => {
            let x = g.find(|i| row.takes(i.dtype().class()))?;
            let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
            g.push((t, &dims), op, &[x], "", f)
        }
    }
}

/// A function of a real number.
fn function(g: &mut Gen, row: Unary) -> Option<usize> {
    let x = match g.find(real_float) {
        Some(x) => x,
        None => g.parameter(DType::F32, &[5, 7]),
    };
    let x = match row.domain() {
        Domain::Any | Domain::Exact => x,
        Domain::Within(limit) => limited(g, x, limit)?,
        Domain::From(low) => from(g, x, low)?,
    };
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let (bound, slope) = most(row, f.bound);
    g.push((t, &dims), row.name(), &[x], "", Facts { bound, step: 0.0, error: slope * f.error })
}

/// The least and the largest argument of a function on its domain, for magnitudes up to `b`.
fn arguments(row: Unary, b: f64) -> (f64, f64) {
    match row.domain() {
        Domain::Any | Domain::Exact => (-b, b),
        Domain::Within(limit) => (-b.min(limit), b.min(limit)),
        Domain::From(low) => (low, b.max(low)),
    }
}

/// The largest result and slope of a function on its domain, for arguments up to `b`, as the evaluator has it; 4 and 6 where
/// they are smaller.
fn sampled(row: Unary, b: f64) -> (f64, f64) {
    const STEPS: i32 = 256;
    let (low, high) = arguments(row, b);
    let step = (high - low).max(f64::MIN_POSITIVE) / f64::from(STEPS);
    let f = scalar::unary::float(row).expect("a function of real numbers");
    let at: Vec<f64> = (0..=STEPS).map(|i| f(low + step * f64::from(i))).collect();
    let bound = at.iter().fold(0.0, |most: f64, y| most.max(y.abs()));
    let slope = at.windows(2).fold(0.0, |most: f64, y| most.max((y[1] - y[0]).abs() / step));
    ((BETWEEN * bound).max(4.0), (BETWEEN * slope).max(6.0))
}

/// The largest result and slope of a function on its domain, for arguments up to `b`.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others are sampled")]
fn most(row: Unary, b: f64) -> (f64, f64) {
    match row {
        Unary::Exp | Unary::Expm1 | Unary::Sinh | Unary::Cosh => (b.exp(), b.exp()),
        Unary::Log | Unary::Log1p | Unary::Acosh => ((2.0 * b + 1.0).ln().max(0.1), 1.0),
        Unary::Sqrt | Unary::Cbrt => (b.sqrt().max(1.0), 0.5),
        Unary::Rsqrt => (1.0, 0.5),
        Unary::Tan => (1.6, 3.5),
        Unary::Logistic => (1.0, 0.25),
        Unary::Erf => (1.0, 1.2),
        Unary::Sin | Unary::Cos | Unary::Tanh => (1.0, 1.0),
        _ => sampled(row, b),
    }
}

/// Operations that jump: on exact values only.
fn rounding(g: &mut Gen, op: &str) -> Option<usize> {
    let x = match g.find(|i| real_float(i) && i.exact()) {
        Some(x) => x,
        None if op == "sign" => g.find(integer)?,
        None => return None,
    };
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    g.push((t, &dims), op, &[x], "", Facts { bound: f.bound + 1.0, step: 1.0, error: 0.0 })
}

/// A complex number of two parts.
fn complex(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| matches!(i.dtype(), DType::F32 | DType::F64))?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let y = g.like(t, &dims);
    let (a, b) = (g.facts(x), g.facts(y));
    let to = if t == DType::F64 { DType::C128 } else { DType::C64 };
    g.push((to, &dims), op, &[x, y], "", both(&a, &b, a.bound + b.bound, a.error + b.error))
}

fn both(a: &Facts, b: &Facts, bound: f64, error: f64) -> Facts {
    Facts { bound, step: a.step.min(b.step), error }
}

/// Operations of two arguments.
pub fn binary(g: &mut Gen, op: &str) -> Option<usize> {
    let row = Binary::from_name(op)?;
    match row.kind() {
        BinaryKind::Arithmetic(a) => arithmetic(g, row, a),
        BinaryKind::BinaryFunction(_) => function_of_two(g, row),
        BinaryKind::Join(_) => complex(g, op),
        BinaryKind::Integer(Integer::And | Integer::Or | Integer::Xor) => {
            let x = g.find(|i| integer(i) || i.dtype() == DType::Pred)?;
            bits(g, op, x)
        }
        // Also by more than the width.
        BinaryKind::Integer(Integer::Shl | Integer::Sar | Integer::Shr) => {
            let x = g.find(integer)?;
            bits(g, op, x)
        }
    }
}

/// Bits of `x` and of another array.
fn bits(g: &mut Gen, op: &str, x: usize) -> Option<usize> {
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let y = g.like(t, &dims);
    g.push((t, &dims), op, &[x, y], "", f)
}

/// Arithmetic on two arrays.
fn arithmetic(g: &mut Gen, row: Binary, op: Arithmetic) -> Option<usize> {
    let complex = matches!(op, Arithmetic::Add | Arithmetic::Sub | Arithmetic::Mul);
    let exact = op == Arithmetic::Rem;
    let x = g.find(|i| {
        let t = i.dtype();
        (!t.is_complex() || complex) && t != DType::Pred && (!exact || i.exact())
    })?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let mut y = g.like(t, &dims);
    if !t.is_float() && !t.is_complex() {
        let f = g.facts(x);
        return g.push((t, &dims), row.name(), &[x, y], "", f);
    }
    if matches!(op, Arithmetic::Div | Arithmetic::Rem) {
        y = above_one(g, y)?;
    }
    if exact && !(g.instr(x).exact() && g.instr(y).exact()) {
        return None;
    }
    let (a, b) = (g.facts(x), g.facts(y));
    let facts = match op {
        Arithmetic::Add | Arithmetic::Sub => both(&a, &b, a.bound + b.bound, a.error + b.error),
        Arithmetic::Mul => {
            let error = a.bound * b.error + b.bound * a.error + a.error * b.error;
            Facts { bound: a.bound * b.bound, step: a.step * b.step, error }
        }
        Arithmetic::Max | Arithmetic::Min => both(&a, &b, a.bound.max(b.bound), a.error.max(b.error)),
        Arithmetic::Div => Facts { bound: a.bound, step: 0.0, error: a.error + a.bound * b.error },
        Arithmetic::Rem => both(&a, &b, a.bound, 0.0),
    };
    g.push((t, &dims), row.name(), &[x, y], "", facts)
}

/// A function of two numbers; of real ones the second is at least 1.
fn function_of_two(g: &mut Gen, row: Binary) -> Option<usize> {
    let mut x = g.find(|i| row.takes(i.dtype().class()) && !i.dtype().is_complex())?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let mut y = g.like(t, &dims);
    if !t.is_float() {
        let f = g.facts(x);
        return g.push((t, &dims), row.name(), &[x, y], "", f);
    }
    if row == Binary::Pow {
        x = limited(g, x, 3.0)?;
        x = above_one(g, x)?;
        y = limited(g, y, 2.0)?;
    } else {
        y = above_one(g, y)?;
    }
    let (a, b) = (g.facts(x), g.facts(y));
    let (bound, by_x, by_y) = most_of_two(row, a.bound, b.bound);
    let facts = Facts { bound, step: 0.0, error: by_x * a.error + by_y * b.error };
    g.push((t, &dims), row.name(), &[x, y], "", facts)
}

/// The largest result of a function of two numbers, and its largest slopes by each, for a first argument up to `a` and a second
/// in 1..=`b`.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others are sampled")]
fn most_of_two(row: Binary, a: f64, b: f64) -> (f64, f64, f64) {
    match row {
        // Its arguments are limited before.
        Binary::Pow => (16.0, 32.0, 23.0),
        Binary::Atan2 => (1.6, 1.0, 1.0),
        _ => sampled_of_two(row, a, b),
    }
}

/// [`most_of_two`] as the evaluator has it; 4 and 6 where results and slopes are smaller.
fn sampled_of_two(row: Binary, a: f64, b: f64) -> (f64, f64, f64) {
    const STEPS: i32 = 64;
    let f = scalar::binary::float(row).expect("a function of real numbers");
    let (dx, dy) = (2.0 * a / f64::from(STEPS), (b - 1.0).max(0.0) / f64::from(STEPS));
    let at = |i: i32, j: i32| f(dx * f64::from(i) - a, dy * f64::from(j) + 1.0);
    let slope = |difference: f64, step: f64| if step > 0.0 { difference.abs() / step } else { 0.0 };
    let (mut bound, mut by_x, mut by_y) = (0.0f64, 0.0f64, 0.0f64);
    for (i, j) in (0..STEPS).flat_map(|i| (0..STEPS).map(move |j| (i, j))) {
        let here = at(i, j);
        bound = bound.max(here.abs()).max(at(i + 1, j + 1).abs());
        by_x = by_x.max(slope(at(i + 1, j) - here, dx));
        by_y = by_y.max(slope(at(i, j + 1) - here, dy));
    }
    ((BETWEEN * bound).max(4.0), (BETWEEN * by_x).max(6.0), (BETWEEN * by_y).max(6.0))
}

/// Comparisons of exact values.
pub fn compare(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(Instr::exact)?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let y = g.like(t, &dims);
    if !g.instr(y).exact() {
        return None;
    }
    let direction = if t.is_complex() {
        g.random.pick(&["EQ", "NE"])
    } else {
        g.random.pick(&["EQ", "NE", "LT", "LE", "GT", "GE"])
    };
    let total = if t.is_float() && g.random.once_in(3) { ", type=TOTALORDER" } else { "" };
    g.push(
        (DType::Pred, &dims),
        op,
        &[x, y],
        &format!(", direction={direction}{total}"),
        Facts { bound: 1.0, step: 1.0, error: 0.0 },
    )
}

/// Choice by an array of truths or one.
pub fn select(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|_| true)?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let y = g.like(t, &dims);
    let p = if g.random.once_in(4) { g.like(DType::Pred, &[]) } else { g.like(DType::Pred, &dims) };
    let (a, b) = (g.facts(x), g.facts(y));
    g.push((t, &dims), op, &[p, x, y], "", both(&a, &b, a.bound.max(b.bound), a.error.max(b.error)))
}

/// A value between two.
pub fn clamp(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| !i.dtype().is_complex() && i.dtype() != DType::Pred)?;
    let (t, dims) = (g.dtype(x), g.dims(x));
    let bounds = if g.random.once_in(2) { Vec::new() } else { dims.clone() };
    let (low, high) = (g.like(t, &bounds), g.like(t, &bounds));
    let all = [g.facts(low), g.facts(x), g.facts(high)];
    let most = |f: fn(&Facts) -> f64| all.iter().map(f).fold(0.0, f64::max);
    let step = all.iter().map(|f| f.step).fold(f64::INFINITY, f64::min);
    g.push((t, &dims), op, &[low, x, high], "", Facts { bound: most(|f| f.bound), step, error: most(|f| f.error) })
}

/// Conversions: inexact floats to floats only.
pub fn convert(g: &mut Gen, op: &str) -> Option<usize> {
    let to = g.random.pick(&[
        DType::F32,
        DType::BF16,
        DType::F16,
        DType::F64,
        DType::S32,
        DType::S8,
        DType::U8,
        DType::S64,
        DType::U32,
        DType::Pred,
        DType::S4,
        DType::U64,
        DType::F8E5M2,
        DType::F8E4M3FN,
        DType::F4E2M1FN,
        DType::C64,
        DType::S16,
    ]);
    let x =
        g.find(|i| (i.exact() || to.is_float() || to.is_complex()) && (!i.dtype().is_complex() || to.is_complex()))?;
    let (from, dims, mut f) = (g.dtype(x), g.dims(x), g.facts(x));
    if !from.is_float() && !from.is_complex() && (to.is_float() || to.is_complex()) {
        // An integer can be as large as its type.
        let bits = if from == DType::Pred { 1 } else { from.bits() as i32 };
        f = Facts { bound: f64::powi(2.0, bits), step: 1.0, error: 0.0 };
    }
    g.push((to, &dims), op, &[x], "", f)
}

/// Bits read as another type of the same width: integers.
pub fn bitcast(g: &mut Gen, op: &str) -> Option<usize> {
    let x =
        g.find(|i| integer(i) || i.exact() && matches!(i.dtype(), DType::F32 | DType::BF16 | DType::F16 | DType::F64))?;
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let mut x = x;
    if t.is_float() {
        // Which zero a sum of products is, nobody says; with another zero it is the positive one.
        let zero = g.constant(t, "0", 0.0);
        let zeros = g.push((t, &dims), "broadcast", &[zero], ", dimensions={}", g.facts(zero))?;
        x = g.push((t, &dims), "add", &[x, zeros], "", f)?;
    }
    let to: &[DType] = match t.bits() {
        4 => &[DType::S4, DType::U4, DType::F4E2M1FN],
        8 => &[DType::S8, DType::U8],
        16 => &[DType::S16, DType::U16],
        32 => &[DType::S32, DType::U32, DType::U16, DType::S8],
        _ => &[DType::S64, DType::U64, DType::U32],
    };
    let to = g.random.pick(to);
    let mut dims = dims;
    if to.bits() < t.bits() {
        dims.push(u64::from(t.bits() / to.bits()));
    }
    g.push((to, &dims), op, &[x], "", Facts { bound: 1.0, step: 1.0, error: 0.0 })
}

/// Values of a narrower format.
pub fn reduce_precision(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| real_float(i) && !i.dtype().is_byte_float())?;
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let (e, m) = g.random.pick(&[(8u32, 7u32), (5, 10), (5, 4), (8, 10), (6, 3)]);
    let error = f.error + f.bound * f64::powi(2.0, -(m as i32));
    // What this format cannot hold becomes infinite.
    if f.bound > 1000.0 {
        return None;
    }
    g.push(
        (t, &dims),
        op,
        &[x],
        &format!(", exponent_bits={e}, mantissa_bits={m}"),
        Facts { bound: f.bound * 1.2, step: 0.0, error },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What [`most`] says of a function holds between its samples too.
    #[test]
    fn results_of_functions_are_bounded() {
        const STEPS: i32 = 1000;
        for &row in Unary::ALL {
            let (UnaryKind::Function(_) | UnaryKind::RealFunction(_)) = row.kind() else { continue };
            let most_argument = match row.domain() {
                Domain::Within(most) => most,
                Domain::From(least) => least + 16.0,
                Domain::Any | Domain::Exact => 16.0,
            };
            for b in [1.0, 0.5, 0.1].map(|part| part * most_argument) {
                let (low, high) = arguments(row, b);
                let f = scalar::unary::float(row).expect("a function of real numbers");
                let at = |i: i32| f(low + (high - low) * f64::from(i) / f64::from(STEPS));
                let (bound, slope) = most(row, b);
                for i in 0..STEPS {
                    let steep = (at(i + 1) - at(i)).abs() * f64::from(STEPS) / (high - low).max(f64::MIN_POSITIVE);
                    let (name, y) = (row.name(), at(i).abs());
                    assert!(y <= bound && steep <= slope, "`{name}` up to {b}: {y} of {bound}, {steep} of {slope}");
                }
            }
        }
    }

    /// What [`most_of_two`] says of a function holds between its samples too.
    #[test]
    fn results_of_functions_of_two_are_bounded() {
        const STEPS: i32 = 150;
        for &row in Binary::ALL {
            let (BinaryKind::BinaryFunction(_), Some(f)) = (row.kind(), scalar::binary::float(row)) else { continue };
            // What is allowed for powers is of their limited arguments.
            if row == Binary::Pow {
                continue;
            }
            for (a, b) in [(4.0, 5.0), (1.0, 2.0), (16.0, 17.0)] {
                let (bound, by_x, by_y) = most_of_two(row, a, b);
                let (dx, dy) = (2.0 * a / f64::from(STEPS), (b - 1.0) / f64::from(STEPS));
                let at = |i: i32, j: i32| f(dx * f64::from(i) - a, dy * f64::from(j) + 1.0);
                for (i, j) in (0..STEPS).flat_map(|i| (0..STEPS).map(move |j| (i, j))) {
                    let (name, y) = (row.name(), at(i, j));
                    let (sx, sy) = ((at(i + 1, j) - y).abs() / dx, (at(i, j + 1) - y).abs() / dy);
                    assert!(y.abs() <= bound && sx <= by_x && sy <= by_y, "`{name}` up to {a}, {b}: {y}, {sx}, {sy}");
                }
            }
        }
    }
}
