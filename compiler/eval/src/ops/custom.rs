//! Custom calls, and what passes between a device and its host.

use super::super::HostCall;
use super::super::error::{Fault, malformed};
use super::super::run::{Machine, fits};
use super::super::scalar::{self, Scalar};
use super::super::value::{Tensor, Value};
use super::sort;
use systole_hlo::graph::{Node, Op, Shape};
use systole_isa::{DType, dtype::DTypeClass};

/// Calls that give their operand back.
const IDENTITIES: [&str; 10] = [
    "Sharding",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "MoveToHost",
    "MoveToDevice",
    "LayoutConstraint",
    "annotate_device_placement",
    "X64Combine",
    "mhlo.copy",
    "Barrier",
];

/// Targets that the evaluator knows itself, for messages.
const KNOWN: &str = "check.expect_eq, check.expect_close, check.expect_almost_eq (and _const), Sharding, \
                     SPMDFullToShardShape, SPMDShardToFullShape, xla.sdy.*, TopK, AllocateBuffer";

pub(in super::super) fn custom_call(m: &mut Machine, node: &Node, args: &[Value]) -> Result<Value, Fault> {
    let Op::CustomCall { target, config, .. } = &node.op else { return Err(malformed("not a custom call")) };
    if let Some(check) = target.strip_prefix("check.expect_") {
        return check_call(check, config, node, args);
    }
    if IDENTITIES.contains(&target.as_str()) || target.starts_with("xla.sdy.") {
        let first = args.first().ok_or_else(|| malformed("no operand"))?;
        return match fits(first, &node.shape) {
            true => Ok(first.clone()),
            false if args.len() > 1 => Ok(Value::Tuple(args.to_vec())),
            false => Err(Fault::Unsupported(format!("{target} that changes the shape"))),
        };
    }
    match (target.as_str(), args.first().and_then(Value::as_array), &node.shape) {
        ("AllocateBuffer", _, shape) => return Ok(Value::zeros(shape)),
        ("TopK" | "mhlo.topk", Some(t), Shape::Tuple(parts)) => {
            let k = parts.first().and_then(Shape::as_array).and_then(|a| a.dims.last()).copied().unwrap_or(0);
            let smallest = config.contains("largest = false") || config.contains("largest=false");
            let results = sort::top_k(t, k as usize, !smallest);
            return Ok(Value::Tuple(results.into_iter().map(Value::Array).collect()));
        }
        _ => {}
    }
    let call = HostCall { target, config, shape: &node.shape, attributes: &node.attributes };
    match m.host.custom_call(&call, args) {
        Some(Ok(v)) if fits(&v, &node.shape) => Ok(v),
        Some(Ok(_)) => Err(Fault::Host(format!("custom call `{target}` did not give {}", node.shape))),
        Some(Err(why)) => Err(Fault::Host(format!("custom call `{target}`: {why}"))),
        None => Err(Fault::Host(format!("no custom call `{target}`; known are {KNOWN}"))),
    }
}

/// `check.expect_*`: compares two arrays and fails the program if they differ by too much.
fn check_call(check: &str, config: &str, node: &Node, args: &[Value]) -> Result<Value, Fault> {
    let arrays: Option<Vec<&Tensor>> = args.iter().map(Value::as_array).collect();
    let arrays = arrays.ok_or_else(|| malformed("an operand is not an array"))?;
    let &[got, want] = &arrays[..] else { return Err(malformed("a check takes two arrays")) };
    if got.dtype != want.dtype || got.dims != want.dims {
        return Err(Fault::Check(format!("{}{:?} for {}{:?}", got.dtype, got.dims, want.dtype, want.dims)));
    }
    let limits = ulp_limits(config, node);
    let largest = largest_part(want);
    for i in 0..got.elements() {
        let (g, w) = (got.get(i), want.get(i));
        let ok = match check.trim_end_matches("_const") {
            "eq" => same(g, w),
            "close" => parts(got.dtype, g, w)
                .iter()
                .all(|&(t, g, w)| near_ulp(t, g, w, limits) || near_largest(t, g, w, largest, limits)),
            _ => same(g, w) || parts(got.dtype, g, w).iter().all(|&(_, g, w)| near(g, w)),
        };
        if !ok {
            return Err(Fault::Check(format!("element {i} is {} for {}", show(g), show(w))));
        }
    }
    Ok(match &node.shape {
        Shape::Tuple(t) if t.is_empty() => Value::Tuple(Vec::new()),
        shape @ (Shape::Array(_) | Shape::Tuple(_) | Shape::Token) => Value::zeros(shape),
    })
}

fn show(s: Scalar) -> String {
    match s {
        Scalar::I(v) => v.to_string(),
        Scalar::F(v) => format!("{v:?}"),
        Scalar::C(re, im) => format!("({re:?}, {im:?})"),
    }
}

/// Equal, or both NaN.
fn same(a: Scalar, b: Scalar) -> bool {
    let equal = |x: f64, y: f64| x == y || (x.is_nan() && y.is_nan());
    match (a, b) {
        (Scalar::I(a), Scalar::I(b)) => a == b,
        _ => {
            let (a, b) = (a.complex(), b.complex());
            equal(a.0, b.0) && equal(a.1, b.1)
        }
    }
}

/// Pairs of real numbers to compare, with their type.
fn parts(t: DType, a: Scalar, b: Scalar) -> Vec<(DType, f64, f64)> {
    let (x, y) = (a.complex(), b.complex());
    match t.class() {
        DTypeClass::Complex => vec![(t.real(), x.0, y.0), (t.real(), x.1, y.1)],
        DTypeClass::Pred | DTypeClass::Signed | DTypeClass::Unsigned | DTypeClass::Float => vec![(t, x.0, y.0)],
    }
}

/// Within 0.01 % (absolutely below 1).
fn near(g: f64, w: f64) -> bool {
    g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= 1e-4 * w.abs().max(1.0)
}

/// `min_ulp_difference` and `max_ulp_difference` of `check.expect_close`.
fn ulp_limits(config: &str, node: &Node) -> (u64, u64) {
    let attributes: String = node.attributes.iter().map(|(k, v)| format!("{k}={v} ")).collect();
    let text = format!("{config} {attributes}");
    let read = |key: &str, default: u64| {
        let Some((_, rest)) = text.split_once(key) else { return default };
        let digits: String =
            rest.trim_start_matches([' ', '=', '"', ':']).chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(default)
    };
    (read("min_ulp_difference", 0), read("max_ulp_difference", 3))
}

/// Within that many units in the last place.
fn near_ulp(t: DType, g: f64, w: f64, (least, most): (u64, u64)) -> bool {
    if g.is_nan() || w.is_nan() {
        return g.is_nan() && w.is_nan();
    }
    let distance = (ordinal(t, g) - ordinal(t, w)).unsigned_abs();
    (least as u128..=most as u128).contains(&distance)
}

/// The largest finite magnitude in an array.
fn largest_part(t: &Tensor) -> f64 {
    let parts = (0..t.elements()).map(|i| t.get(i).complex());
    parts.flat_map(|(re, im)| [re.abs(), im.abs()]).filter(|x| x.is_finite()).fold(0.0, f64::max)
}

/// Within that many units in the last place of the largest expected number: what is left when large numbers cancel
/// has no better digits, on XLA's own backends neither.
fn near_largest(t: DType, g: f64, w: f64, largest: f64, (least, most): (u64, u64)) -> bool {
    let unit = if t == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 };
    least == 0 && matches!(t, DType::F32 | DType::F64) && (g - w).abs() <= most as f64 * unit * largest
}

/// The number's position among the numbers of its type.
fn ordinal(t: DType, v: f64) -> i128 {
    let mut bytes = [0; 16];
    scalar::encode(t, if t.is_float() { Scalar::F(v) } else { Scalar::I(v as i64) }, &mut bytes);
    let bits = u64::from_le_bytes(bytes[..8].try_into().unwrap_or([0; 8]));
    if !t.is_float() {
        return v as i128;
    }
    let sign = 1u64 << (t.bits() - 1);
    let magnitude = (bits & (sign - 1)) as i128;
    if bits & sign != 0 { -magnitude } else { magnitude }
}

/// `infeed` and `outfeed`.
pub(in super::super) fn feed(m: &mut Machine, node: &Node, args: Vec<Value>) -> Result<Value, Fault> {
    match (&node.op, &node.shape) {
        (Op::Infeed { config }, Shape::Tuple(parts)) => {
            let shape = parts.first().ok_or_else(|| malformed("infeed of nothing"))?;
            let empty = matches!(shape, Shape::Tuple(t) if t.is_empty());
            let value =
                if empty { Value::Tuple(Vec::new()) } else { m.host.infeed(shape, config).map_err(Fault::Host)? };
            if !fits(&value, shape) {
                return Err(Fault::Host(format!("the infeed queue did not give {shape}")));
            }
            Ok(Value::Tuple(vec![value, Value::Token]))
        }
        (Op::Outfeed { config, .. }, _) => {
            let value = args.into_iter().next().ok_or_else(|| malformed("no operand"))?;
            m.host.outfeed(value, config).map_err(Fault::Host)?;
            Ok(Value::Token)
        }
        _ => Err(malformed("neither infeed nor outfeed")),
    }
}
