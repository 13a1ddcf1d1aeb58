//! Signatures of custom calls whose meaning the compiler knows by their name.
//!
//! Of other calls nothing is known: they give what they declare.

use super::{Rule, Site, elementwise, ensure, fail, linear};
use crate::graph::library::{Routine, is_lapack, letter, number, routine};
use crate::graph::{ArrayShape, CompId, Op, Shape, Unary};
use systole_isa::DType;

pub(super) fn rule(s: &Site<'_>, target: &str, config: &str, calls: &[CompId]) -> Rule {
    let declared = s.declared()?;
    if let Some(r) = routine(target) {
        let expected = results(s, r, target, config)?;
        return given(s, target, &expected);
    }
    match target {
        "TopK" | "mhlo.topk" => {
            let last = parts(declared).first().and_then(|p| p.as_array()?.dims.last().copied());
            let Some(k) = last else { return fail("call_results", format!("{target} gives values and indices")) };
            let Shape::Tuple(expected) = linear::top_k(s, k)? else { return Ok(declared.clone()) };
            given(s, target, &expected.into_iter().map(Some).collect::<Vec<_>>())
        }
        "ApproxTopK" => approximate(s, calls),
        "PadToStatic" => {
            s.count(1)?;
            let a = s.array(0)?;
            let mut expected = vec![Some(Shape::array(a.dtype, &a.dims))];
            expected.resize(a.rank() + 1, Some(Shape::array(DType::S32, &[])));
            given(s, target, &expected)
        }
        "SliceToDynamic" => {
            let a = s.array(0)?;
            s.count(a.rank() + 1)?;
            for i in 1..s.operands.len() {
                let size = s.scalar(i)?;
                ensure(size.dtype.is_integer(), "element_type", || format!("a size is an integer, not {size}"))?;
            }
            Ok(Shape::array(a.dtype, &a.dims))
        }
        _ => match target.strip_prefix("mhlo.").or_else(|| target.strip_prefix("chlo.")) {
            Some(name) if s.operands.len() == 1 => match Unary::from_name(&name.replace('_', "-")) {
                Some(u) => elementwise::unary(s, u),
                None => Ok(declared.clone()),
            },
            _ => Ok(declared.clone()),
        },
    }
}

fn parts(declared: &Shape) -> &[Shape] {
    match declared {
        Shape::Tuple(t) => t,
        Shape::Array(_) | Shape::Token => std::slice::from_ref(declared),
    }
}

/// That the declared results are the expected ones (`None`: any array); the declared shape.
fn given(s: &Site<'_>, target: &str, expected: &[Option<Shape>]) -> Rule {
    let declared = s.declared()?;
    let have = parts(declared);
    let matches = |(h, e): (&Shape, &Option<Shape>)| match e {
        Some(e) => h.same(e),
        None => h.as_array().is_some(),
    };
    let fits = have.len() == expected.len() && have.iter().zip(expected).all(matches);
    ensure(fits, "call_results", || {
        let list: Vec<String> =
            expected.iter().map(|e| e.as_ref().map_or("an array".to_string(), |e| e.to_string())).collect();
        format!("{target} gives ({}), not {declared}", list.join(", "))
    })?;
    Ok(declared.clone())
}

/// The operand's batch and matrix sizes.
fn matrix<'a>(s: &Site<'a>, target: &str, i: usize) -> Rule<(&'a ArrayShape, &'a [u64], u64, u64)> {
    let a = s.array(i)?;
    let [outer @ .., m, n] = &a.dims[..] else {
        return fail("call_operands", format!("operand {i} of {target} is a matrix, not {a}"));
    };
    ensure(a.dtype.is_float() && !a.dtype.is_byte_float() || a.dtype.is_complex(), "element_type", || {
        format!("{target} does not take {a}")
    })?;
    Ok((a, outer, *m, *n))
}

/// The results of a routine on the call's operands; `None` where any array will do.
fn results(s: &Site<'_>, r: Routine, target: &str, config: &str) -> Rule<Vec<Option<Shape>>> {
    if r == Routine::Tridiagonal {
        return tridiagonal(s, target);
    }
    s.count(if matches!(r, Routine::Reflectors | Routine::Solve) { 2 } else { 1 })?;
    let (a, outer, m, n) = matrix(s, target, 0)?;
    let k = m.min(n);
    let of = |dtype: DType, last: &[u64]| Some(Shape::array(dtype, &[outer, last].concat()));
    let same = of(a.dtype, &[m, n]);
    let info = of(DType::S32, &[]);
    let square = || ensure(m == n, "call_operands", || format!("{target} takes square matrices, not {a}"));
    let real = || {
        ensure(!a.dtype.is_complex(), "element_type", || format!("{target} of complex matrices ({a}) is not supported"))
    };
    Ok(match r {
        Routine::Lu if is_lapack(target) => vec![same, of(DType::S32, &[k]), info],
        Routine::Lu => vec![same, of(DType::S32, &[k]), of(DType::S32, &[m])],
        Routine::Qr => vec![same, of(a.dtype, &[k])],
        Routine::Reflectors => {
            let taus = s.array(1)?;
            let count = taus.dims.last().copied().unwrap_or(0);
            let fits = taus.dtype == a.dtype && taus.dims == [outer, &[count]].concat() && count <= n && n <= m;
            ensure(fits, "call_operands", || {
                format!(
                    "{target} takes matrices [.., m, n] with n <= m and at most n factors of them, not {a} and {taus}"
                )
            })?;
            vec![same]
        }
        Routine::Eigh => {
            square()?;
            real()?;
            let mut parts = vec![same, of(a.dtype, &[n])];
            parts.extend(is_lapack(target).then_some(info));
            parts
        }
        Routine::Svd => {
            real()?;
            let (left, right) = match letter(config, "mode") {
                Some('A') => (of(a.dtype, &[m, m]), of(a.dtype, &[n, n])),
                // Without vectors only their places are there.
                Some('N') => (None, None),
                Some('S') | None => (of(a.dtype, &[m, k]), of(a.dtype, &[k, n])),
                Some(other) => return fail("call_operands", format!("{target}: mode `{other}` is not A, S or N")),
            };
            vec![same, of(a.dtype.real(), &[k]), left, right, info]
        }
        Routine::Cholesky => {
            square()?;
            vec![same, info]
        }
        Routine::Hessenberg => {
            square()?;
            let whole = number(config, "low").is_none_or(|l| l == 1) && number(config, "high").is_none_or(|h| h == n);
            ensure(whole, "call_operands", || format!("{target} of a part of the matrix is not supported"))?;
            vec![same, of(a.dtype, &[n.saturating_sub(1)]), info]
        }
        Routine::Tridiagonal => return tridiagonal(s, target),
        Routine::Eig => {
            square()?;
            let vectors = of(a.dtype.complex(), &[m, n]);
            let mut parts = values(a.dtype, of(a.dtype, &[n]));
            parts.extend([vectors.clone(), vectors, info]);
            parts
        }
        Routine::Schur => {
            square()?;
            let sorted = letter(config, "sort").is_some_and(|sort| sort != 'N');
            ensure(!sorted, "call_operands", || format!("{target} in an order of eigenvalues is not supported"))?;
            let mut parts = vec![same.clone(), same];
            parts.extend(values(a.dtype, of(a.dtype, &[n])));
            parts.extend([info.clone(), info]);
            parts
        }
        Routine::Solve => vec![Some(linear::triangular_solve(s, letter(config, "side") != Some('R'))?)],
    })
}

/// Eigenvalues: of real matrices their real and imaginary parts.
fn values(dtype: DType, one: Option<Shape>) -> Vec<Option<Shape>> {
    vec![one; if dtype.is_complex() { 1 } else { 2 }]
}

/// Three diagonals `[.., n]` and right sides `[.., n, m]`; they come back with `info`.
fn tridiagonal(s: &Site<'_>, target: &str) -> Rule<Vec<Option<Shape>>> {
    s.count(4)?;
    let (y, outer, n, _) = matrix(s, target, 3)?;
    let diagonal = Shape::array(y.dtype, &[outer, &[n]].concat());
    ensure(s.operands[..3].iter().all(|d| d.same(&diagonal)), "call_operands", || {
        format!("{target} of right sides {y} takes three diagonals {diagonal}")
    })?;
    let mut parts = vec![Some(diagonal); 3];
    parts.push(Some(Shape::array(y.dtype, &y.dims)));
    parts.push(Some(Shape::array(DType::S32, outer)));
    Ok(parts)
}

/// `ApproxTopK`: arrays, then as many values to begin with; along one dimension fewer elements are left.
fn approximate(s: &Site<'_>, calls: &[CompId]) -> Rule {
    let declared = s.declared()?;
    let out = parts(declared);
    let n = out.len();
    ensure(n > 0 && s.operands.len() >= n, "call_operands", || {
        format!("ApproxTopK of {} operands gives {n} results", s.operands.len())
    })?;
    let Some(&body) = calls.first() else { return fail("call_operands", "ApproxTopK needs its comparator") };
    let given = s.array(0)?.dims.clone();
    let cut: Option<Vec<&ArrayShape>> = out.iter().map(Shape::as_array).collect();
    let Some(cut) = cut else { return fail("call_results", format!("ApproxTopK gives arrays, not {declared}")) };
    let changed: Vec<usize> = (0..given.len()).filter(|&d| cut[0].dims.get(d) != Some(&given[d])).collect();
    let dim = changed.first().copied().unwrap_or(given.len().saturating_sub(1));
    let fewer = cut[0].rank() == given.len()
        && changed.len() <= 1
        && cut[0].dims.get(dim).is_some_and(|&k| k <= given[dim])
        && cut.iter().enumerate().all(|(i, c)| {
            c.dims == cut[0].dims && s.operands[i].as_array().is_some_and(|a| a.dtype == c.dtype && a.dims == given)
        });
    ensure(fewer, "call_results", || {
        format!("ApproxTopK keeps elements along one dimension of {}, it does not give {declared}", s.operands[0])
    })?;
    let sort = Op::Sort { dim, stable: true, body };
    let arrays = Site { op: &sort, operands: &s.operands[..n], module: s.module, declared: None };
    linear::sort(&arrays, dim, body)?;
    Ok(declared.clone())
}
