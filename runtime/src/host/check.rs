//! The assertions of self-checking programs: `check.expect_eq`, `check.expect_close`, `check.expect_almost_eq`, `check.eq`.
//!
//! Each compares what the chip computed with what the program expects, element by element. Numbers are read exactly
//! (as integers, or as `f64`) and compared with the tolerance that the program asks for:
//!
//! - `eq`: the same value; NaN equals NaN, zeros of both signs are equal;
//! - `close`: at least `min_ulp_difference` and at most `max_ulp_difference` (default 0 and 3) representable values apart;
//! - `almost_eq`: within `tolerance` (default 0.0001) of the expected value, relative above 1, absolute below;
//! - `check.eq`, an older form that gives a truth value: `eq` for integers, `almost_eq` for all else.

use crate::Array;
use systole_compiler::graph::number::decode_float;
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

/// Names of the assertions. The `_const` forms have their expected value as an operand too.
pub const TARGETS: [&str; 7] = [
    "check.eq",
    "check.expect_eq",
    "check.expect_close",
    "check.expect_almost_eq",
    "check.expect_eq_const",
    "check.expect_close_const",
    "check.expect_almost_eq_const",
];

/// A real number of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Integer(i128),
    Real(f64),
}

impl Number {
    fn real(self) -> f64 {
        match self {
            Number::Integer(v) => v as f64,
            Number::Real(v) => v,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Integer(v) => write!(f, "{v}"),
            Number::Real(v) => write!(f, "{v:?}"),
        }
    }
}

/// The bits of a component, little-endian.
fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |a, &b| a << 8 | u64::from(b))
}

/// A component's value; `bytes` are its own.
fn number(dtype: DType, bytes: &[u8]) -> Number {
    let raw = bits(bytes);
    let width = dtype.bits().min(64);
    match dtype.class() {
        DTypeClass::Pred => Number::Integer(i128::from(raw != 0)),
        DTypeClass::Unsigned => Number::Integer(i128::from(raw << (64 - width) >> (64 - width))),
        DTypeClass::Signed => Number::Integer(i128::from((raw << (64 - width)) as i64 >> (64 - width))),
        DTypeClass::Float | DTypeClass::Complex => Number::Real(decode_float(dtype, raw)),
    }
}

/// The component's place among the values of its type: neighbours differ by one, both zeros are 0.
fn ordinal(dtype: DType, bytes: &[u8]) -> i128 {
    match number(dtype, bytes) {
        Number::Integer(v) => v,
        Number::Real(_) => {
            let raw = bits(bytes);
            let sign = 1u64 << (dtype.bits() - 1);
            let magnitude = i128::from(raw & (sign - 1));
            if raw & sign != 0 { -magnitude } else { magnitude }
        }
    }
}

/// What a check allows.
enum Rule {
    Same,
    Ulps { least: u128, most: u128 },
    Near(f64),
}

/// The number after `key` in a call's text.
fn setting(config: &str, key: &str) -> Option<f64> {
    let (_, rest) = config.split_once(key)?;
    let rest = rest.trim_start_matches([' ', '=', '"', ':']);
    let end =
        rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

impl Rule {
    fn new(target: &str, config: &str, dtype: DType) -> Result<Rule, String> {
        if target == "check.eq" {
            return Ok(match dtype.class() {
                DTypeClass::Pred | DTypeClass::Unsigned | DTypeClass::Signed => Rule::Same,
                DTypeClass::Float | DTypeClass::Complex => Rule::Near(1e-4),
            });
        }
        let name = target.strip_prefix("check.expect_").unwrap_or(target);
        match name.strip_suffix("_const").unwrap_or(name) {
            "eq" => Ok(Rule::Same),
            "close" => Ok(Rule::Ulps {
                least: setting(config, "min_ulp_difference").unwrap_or(0.0) as u128,
                most: setting(config, "max_ulp_difference").unwrap_or(3.0) as u128,
            }),
            "almost_eq" => Ok(Rule::Near(setting(config, "tolerance").unwrap_or(1e-4))),
            other => Err(format!("no check is called {other}")),
        }
    }

    fn holds(&self, dtype: DType, got: &[u8], want: &[u8]) -> bool {
        let (g, w) = (number(dtype, got), number(dtype, want));
        if g == w || (g.real().is_nan() && w.real().is_nan()) {
            return !matches!(self, Rule::Ulps { least: 1.., .. });
        }
        if g.real().is_nan() || w.real().is_nan() {
            return false;
        }
        match self {
            Rule::Same => false,
            Rule::Ulps { least, most } => {
                let apart = (ordinal(dtype, got) - ordinal(dtype, want)).unsigned_abs();
                (*least..=*most).contains(&apart)
            }
            Rule::Near(tolerance) => (g.real() - w.real()).abs() <= tolerance * w.real().abs().max(1.0),
        }
    }
}

/// Runs a check: `operands` are the computed and the expected array.
///
/// # Errors
/// The first element that differs by more than is allowed: its index and both values.
pub fn run(target: &str, config: &str, operands: &[Array]) -> Result<(), String> {
    let [got, want] = operands else {
        return Err(format!("{target} compares two arrays, {} are given", operands.len()));
    };
    if got.dtype != want.dtype || got.dims != want.dims {
        return Err(format!("{target} failed: the value is {}, expected is {}", got.shape(), want.shape()));
    }
    let rule = Rule::new(target, config, got.dtype)?;
    let (size, real) = (got.dtype.host_bytes(), got.dtype.real());
    let part = if got.dtype.is_complex() { size / 2 } else { size };
    let pairs = || got.bytes.chunks_exact(size).zip(want.bytes.chunks_exact(size)).enumerate();
    let differs =
        |g: &[u8], w: &[u8]| g.chunks_exact(part).zip(w.chunks_exact(part)).any(|(g, w)| !rule.holds(real, g, w));
    let Some((first, (g, w))) = pairs().find(|(_, (g, w))| differs(g, w)) else { return Ok(()) };
    let count = pairs().filter(|(_, (g, w))| differs(g, w)).count();
    let show = |bytes: &[u8]| {
        let parts: Vec<String> = bytes.chunks_exact(part).map(|b| number(real, b).to_string()).collect();
        if parts.len() == 1 { parts.concat() } else { format!("({})", parts.join(", ")) }
    };
    let total = got.dims.iter().product::<u64>();
    Err(format!(
        "{target} failed: {count} of {total} elements of {} differ, first at {:?}: {} where {} is expected",
        got.shape(),
        index(first as u64, &got.dims),
        show(g),
        show(w)
    ))
}

/// The multi-dimensional index of element `i`.
fn index(mut i: u64, dims: &[u64]) -> Vec<u64> {
    let mut out: Vec<u64> = dims
        .iter()
        .rev()
        .map(|&d| {
            let at = i % d.max(1);
            i /= d.max(1);
            at
        })
        .collect();
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_are_those_that_are_asked_for() {
        let f = |v: &[f32]| Array::from_f32(&[v.len() as u64], v);
        let up = |n: u32| f32::from_bits(1f32.to_bits() + n);
        let nan = f32::NAN;
        for (target, config, got, want, holds) in [
            ("check.expect_eq", "", f(&[1.0, -0.0, nan]), f(&[1.0, 0.0, nan]), true),
            ("check.expect_eq", "", f(&[up(1)]), f(&[1.0]), false),
            ("check.expect_close", "", f(&[up(3)]), f(&[1.0]), true),
            ("check.expect_close", "", f(&[up(4)]), f(&[1.0]), false),
            ("check.expect_close", "{max_ulp_difference = 8 : i64}", f(&[up(8)]), f(&[1.0]), true),
            ("check.expect_close", "{min_ulp_difference = 1 : i64}", f(&[1.0]), f(&[1.0]), false),
            ("check.expect_close", "", f(&[f32::MIN_POSITIVE]), f(&[nan]), false),
            ("check.expect_close", "", f(&[f32::from_bits(1)]), f(&[-f32::from_bits(2)]), true),
            ("check.expect_almost_eq", "", f(&[1000.09]), f(&[1000.0]), true),
            ("check.expect_almost_eq", "", f(&[0.0002]), f(&[0.0]), false),
            ("check.expect_almost_eq_const", "{tolerance = 1.0e-2 : f64}", f(&[0.0002]), f(&[0.0]), true),
            ("check.expect_eq", "", f(&[1.0]), f(&[1.0, 1.0]), false),
            ("check.eq", "", f(&[1.00005]), f(&[1.0]), true),
            ("check.eq", "", f(&[1.0002]), f(&[1.0]), false),
        ] {
            let result = run(target, config, &[got.clone(), want.clone()]);
            assert_eq!(result.is_ok(), holds, "{target} {config}: {got:?} {want:?}: {result:?}");
        }
    }

    #[test]
    fn wide_elements_are_one_number() {
        let f = |v: f64| Array::new(DType::F64, &[1], v.to_le_bytes().to_vec());
        assert!(run("check.expect_close", "", &[f(1.0 + 2.0 * f64::EPSILON), f(1.0)]).is_ok());
        assert!(run("check.expect_close", "", &[f(1.0 + 4.0 * f64::EPSILON), f(1.0)]).is_err());
        let i = |v: i64| Array::new(DType::S64, &[1], v.to_le_bytes().to_vec());
        let message = run("check.expect_eq", "", &[i(-1 << 40), i(1)]).unwrap_err();
        assert!(message.contains("-1099511627776 where 1"), "{message}");
    }

    #[test]
    fn a_failure_says_where_and_what() {
        let got = Array::new(DType::S4, &[2, 2], vec![0, 1, 2, 0x0f]);
        let want = Array::new(DType::S4, &[2, 2], vec![0, 1, 2, 0x07]);
        let message = run("check.expect_eq", "", &[got, want]).unwrap_err();
        assert!(message.contains("at [1, 1]: -1 where 7"), "{message}");
        let c = |im: f32| Array::new(DType::C64, &[1], [1f32.to_le_bytes(), im.to_le_bytes()].concat());
        let message = run("check.expect_close", "", &[c(2.0), c(3.0)]).unwrap_err();
        assert!(message.contains("[0]: (1.0, 2.0) where (1.0, 3.0)"), "{message}");
    }
}
