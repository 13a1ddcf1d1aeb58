//! The Hurwitz zeta function and the polygamma functions as formulas.

use super::chlo::Math;
use super::special::{digamma, lgamma};
use crate::hlo_text::PResult;
use systole_hlo::graph::{Binary, Direction, NodeId, Unary};

/// Terms that are summed one by one before the Euler-Maclaurin formula takes over.
const TERMS: usize = 10;

/// `(2j)! / B(2j)` for j from 1: the divisors of the Euler-Maclaurin terms.
const DIVISORS: [f64; 12] = [
    12.0,
    -720.0,
    30_240.0,
    -1_209_600.0,
    47_900_160.0,
    -1.892_437_580_318_379_2e9,
    7.472_424_96e10,
    -2.950_130_727_918_164e12,
    1.164_678_281_435_006_7e14,
    -4.597_978_722_407_473e15,
    1.815_210_540_194_354_7e17,
    -7.166_165_256_175_667e18,
];

/// The sum of `(q + n)^-x` over all n from 0.
pub(super) fn zeta(m: &mut Math<'_, '_, '_, '_>, x: NodeId, q: NodeId) -> PResult<NodeId> {
    let minus = m.one(Unary::Neg, x)?;
    let mut sum = m.two(Binary::Pow, q, minus)?;
    for n in 1..TERMS {
        let a = m.with(Binary::Add, q, n as f64)?;
        let power = m.two(Binary::Pow, a, minus)?;
        sum = m.two(Binary::Add, sum, power)?;
    }
    let a = m.with(Binary::Add, q, TERMS as f64)?;
    let power = m.two(Binary::Pow, a, minus)?;
    // The integral of what is left, and half its first term.
    let less = m.with(Binary::Sub, x, 1.0)?;
    let integral = m.two(Binary::Div, a, less)?;
    let integral = m.with(Binary::Add, integral, 0.5)?;
    let integral = m.two(Binary::Mul, power, integral)?;
    sum = m.two(Binary::Add, sum, integral)?;
    let square = m.two(Binary::Mul, a, a)?;
    let mut term = m.two(Binary::Div, power, a)?;
    term = m.two(Binary::Mul, term, x)?;
    for (j, divisor) in DIVISORS.iter().enumerate() {
        if j > 0 {
            let odd = m.with(Binary::Add, x, 2.0 * j as f64 - 1.0)?;
            let even = m.with(Binary::Add, x, 2.0 * j as f64)?;
            let both = m.two(Binary::Mul, odd, even)?;
            let both = m.two(Binary::Div, both, square)?;
            term = m.two(Binary::Mul, term, both)?;
        }
        let part = m.with(Binary::Div, term, *divisor)?;
        sum = m.two(Binary::Add, sum, part)?;
    }
    // A pole where a term divides by zero, at x = 1; no sum below.
    let (infinity, nan) = (m.real(f64::INFINITY)?, m.real(f64::NAN)?);
    let whole = m.one(Unary::Floor, q)?;
    let whole = m.compare(Direction::Eq, whole, q)?;
    let below = m.is(q, Direction::Le, 0.0)?;
    let pole = m.two(Binary::And, whole, below)?;
    let sum = m.select(pole, infinity, sum)?;
    let low = m.is(x, Direction::Lt, 1.0)?;
    let sum = m.select(low, nan, sum)?;
    let one = m.is(x, Direction::Eq, 1.0)?;
    m.select(one, infinity, sum)
}

/// The derivative of order `n` of digamma; a number of order that is no natural one gives NaN.
pub(super) fn polygamma(m: &mut Math<'_, '_, '_, '_>, n: NodeId, x: NodeId) -> PResult<NodeId> {
    let next = m.with(Binary::Add, n, 1.0)?;
    let log = lgamma(m, next)?;
    let factorial = m.one(Unary::Exp, log)?;
    let series = zeta(m, next, x)?;
    let size = m.two(Binary::Mul, factorial, series)?;
    // Odd orders are positive.
    let half = m.with(Binary::Mul, n, 0.5)?;
    let down = m.one(Unary::Floor, half)?;
    let even = m.compare(Direction::Eq, half, down)?;
    let minus = m.one(Unary::Neg, size)?;
    let derivative = m.select(even, minus, size)?;
    let zeroth = digamma(m, x)?;
    let none = m.is(n, Direction::Eq, 0.0)?;
    let value = m.select(none, zeroth, derivative)?;
    let whole = m.one(Unary::Floor, n)?;
    let fraction = m.compare(Direction::Ne, whole, n)?;
    let negative = m.is(n, Direction::Lt, 0.0)?;
    let wrong = m.two(Binary::Or, fraction, negative)?;
    let nan = m.real(f64::NAN)?;
    m.select(wrong, nan, value)
}
