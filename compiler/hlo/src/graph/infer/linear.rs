//! Rules of batch norm, sorting, linear algebra, transforms and random numbers.

use super::{Rule, Site, ensure, fail, one_or_tuple, sized, with_type};
use crate::graph::{CompId, FftKind, Op, RngAlgorithm, Shape};
use systole_isa::DType;

#[allow(clippy::wildcard_enum_match_arm, reason = "the caller sends the three of the family alone")]
pub(super) fn batch_norm(s: &Site<'_>, feature: usize) -> Rule {
    let (count, last) = match s.op {
        Op::BatchNormTraining { .. } => (3, 3),
        Op::BatchNormInference { .. } => (5, 5),
        _ => (5, 4),
    };
    s.count(count)?;
    let a = s.array(0)?;
    s.dim(feature, a.rank(), "its operand")?;
    ensure(a.dtype.is_float(), "element_type", || format!("{} normalizes floats, not {a}", s.name()))?;
    for i in 1..last {
        let p = s.array(i)?;
        ensure(p.dims == [a.dims[feature]] && p.dtype == a.dtype, "batch_norm_features", || {
            format!("operand {i} of {} must be {}[{}], not {p}", s.name(), a.dtype, a.dims[feature])
        })?;
    }
    if last == 4 {
        let gradient = s.array(4)?;
        ensure(gradient.same(a), "batch_norm_gradient", || format!("the gradient of {a} is {gradient}"))?;
    }
    let whole = with_type(a, a.dtype);
    if matches!(s.op, Op::BatchNormInference { .. }) {
        return Ok(whole);
    }
    let per_feature = Shape::array(a.dtype, &[a.dims[feature]]);
    Ok(Shape::Tuple(vec![whole, per_feature.clone(), per_feature]))
}

pub(super) fn sort(s: &Site<'_>, dim: usize, body: CompId) -> Rule {
    s.at_least(1)?;
    let arrays = s.arrays()?;
    s.dim(dim, arrays[0].rank(), "its operand")?;
    for a in &arrays {
        ensure(a.dims == arrays[0].dims, "same_sizes", || {
            format!("sort's operands must have the same sizes, not {} and {a}", arrays[0])
        })?;
    }
    let params: Vec<Shape> =
        arrays.iter().flat_map(|a| [Shape::array(a.dtype, &[]), Shape::array(a.dtype, &[])]).collect();
    let result = s.signature(body, &params)?;
    ensure(result.same(&Shape::array(DType::Pred, &[])), "computation_result", || {
        format!("sort's comparator must return pred[], not {result}")
    })?;
    Ok(one_or_tuple(arrays.iter().map(|a| with_type(a, a.dtype)).collect()))
}

pub(super) fn top_k(s: &Site<'_>, k: u64) -> Rule {
    s.count(1)?;
    let a = s.array(0)?;
    let Some((&last, rest)) = a.dims.split_last() else {
        return fail("topk_rank", "topk needs an operand of at least one dimension");
    };
    ensure(k <= last, "topk_k", || format!("topk of {k} out of {last}"))?;
    ensure(!a.dtype.is_complex(), "element_type", || format!("topk does not order {}", a.dtype))?;
    let dims: Vec<u64> = rest.iter().copied().chain([k]).collect();
    Ok(Shape::Tuple(vec![Shape::array(a.dtype, &dims), Shape::array(DType::S32, &dims)]))
}

pub(super) fn cholesky(s: &Site<'_>) -> Rule {
    s.count(1)?;
    let a = s.array(0)?;
    ensure(a.dtype.is_float() || a.dtype.is_complex(), "element_type", || format!("cholesky does not take {a}"))?;
    let square = matches!(a.dims[..], [.., m, n] if m == n);
    ensure(square, "cholesky_square", || format!("cholesky needs square matrices, not {a}"))?;
    Ok(with_type(a, a.dtype))
}

pub(super) fn triangular_solve(s: &Site<'_>, left: bool) -> Rule {
    s.count(2)?;
    let (a, b) = (s.array(0)?, s.array(1)?);
    ensure(a.dtype.is_float() || a.dtype.is_complex(), "element_type", || {
        format!("triangular-solve does not take {a}")
    })?;
    ensure(a.dtype == b.dtype, "same_type", || format!("triangular-solve of {a} and {b}: the types differ"))?;
    let r = a.rank();
    ensure(r >= 2 && a.dims[r - 2] == a.dims[r - 1], "triangular_square", || {
        format!("triangular-solve needs square matrices, not {a}")
    })?;
    ensure(b.rank() == r && b.dims[..r - 2] == a.dims[..r - 2], "triangular_batch", || {
        format!("the batch dimensions of {a} and {b} must agree")
    })?;
    let side = if left { b.dims[r - 2] } else { b.dims[r - 1] };
    ensure(side == a.dims[r - 1], "triangular_sizes", || {
        format!("{a} does not multiply {b} from the {}", if left { "left" } else { "right" })
    })?;
    Ok(with_type(b, b.dtype))
}

pub(super) fn fft(s: &Site<'_>, kind: FftKind, lengths: &[u64]) -> Rule {
    s.count(1)?;
    let a = s.array(0)?;
    let n = lengths.len();
    ensure((1..=3).contains(&n) && n <= a.rank(), "fft_rank", || {
        format!("fft transforms 1 to 3 of its operand's dimensions, not {n} of {a}")
    })?;
    let complex = a.dtype.is_complex();
    let ok = if kind == FftKind::Rfft { matches!(a.dtype, DType::F32 | DType::F64) } else { complex };
    ensure(ok, "element_type", || format!("this fft does not take {a}"))?;
    let mut out: Vec<i128> = a.dims.iter().map(|&d| d as i128).collect();
    let first = a.rank() - n;
    for (i, &length) in lengths.iter().enumerate() {
        let half = i + 1 == n && kind == FftKind::Irfft;
        let expected = if half { if length == 0 { 0 } else { length / 2 + 1 } } else { length };
        ensure(a.dims[first + i] == expected, "fft_length", || {
            format!("fft_length {length} where dimension {} of {a} should be {expected}", first + i)
        })?;
    }
    let last = lengths[n - 1];
    let dtype = match (kind, a.dtype) {
        (FftKind::Fft | FftKind::Ifft, t) => t,
        (FftKind::Rfft, t) => {
            if let Some(d) = out.last_mut() {
                *d = if last == 0 { 0 } else { last as i128 / 2 + 1 };
            }
            t.complex()
        }
        (FftKind::Irfft, t) => {
            if let Some(d) = out.last_mut() {
                *d = last as i128;
            }
            t.real()
        }
    };
    sized(dtype, &out)
}

#[allow(clippy::wildcard_enum_match_arm, reason = "the caller sends generators alone; the last one takes nothing")]
pub(super) fn random(s: &Site<'_>) -> Rule {
    match s.op {
        Op::Rng { .. } => {
            s.count(2)?;
            let out = s.declared_array()?;
            for i in 0..2 {
                let p = s.scalar(i)?;
                ensure(p.dtype == out.dtype, "same_type", || format!("rng of {out} has a parameter {p}"))?;
            }
            Ok(with_type(out, out.dtype))
        }
        Op::RngBitGenerator { algorithm } => {
            s.count(1)?;
            let state = s.array(0)?;
            // One key word and a counter of one or two, or the same in words of 32 bits.
            let words = match (state.dtype, &state.dims[..]) {
                (DType::U64, &[n]) => n,
                (DType::U32, &[n]) if n.is_multiple_of(2) => n / 2,
                _ => 0,
            };
            let fits = if *algorithm == RngAlgorithm::ThreeFry { words == 2 } else { matches!(words, 2 | 3) };
            ensure(fits, "rng_state", || {
                let accepted = if *algorithm == RngAlgorithm::ThreeFry { "u64[2]" } else { "u64[2] or u64[3]" };
                format!("the state of this generator is {accepted}, not {state}")
            })?;
            let declared = s.declared()?;
            let bits = match declared {
                Shape::Tuple(t) => t.get(1).and_then(Shape::as_array),
                Shape::Array(_) | Shape::Token => None,
            };
            match bits {
                Some(b) if b.dtype.is_integer() || b.dtype.is_float() => {
                    Ok(Shape::Tuple(vec![with_type(state, state.dtype), with_type(b, b.dtype)]))
                }
                _ => fail("rng_result", format!("rng-bit-generator gives the state and bits, not {declared}")),
            }
        }
        _ => {
            s.count(0)?;
            match s.declared {
                None => Ok(Shape::array(DType::U64, &[2])),
                Some(_) => {
                    let d = s.declared_array()?;
                    ensure(d.dtype.is_integer(), "element_type", || format!("the state is u64[2], not {d}"))?;
                    Ok(with_type(d, d.dtype))
                }
            }
        }
    }
}
