//! Routines of linear algebra by LAPACK's names, and element types and operations that few programs use, against plain
//! arithmetic.

use systole_isa::DType;
use systole_runtime::{Array, Asked, Client, CompileOptions};

/// A program that is compiled once and run on several inputs.
fn compiled(text: &str) -> impl Fn(&[Array]) -> Vec<Array> {
    let client = Client::new("tiny").expect("a preset");
    let options = CompileOptions {
        asked: Asked { precision: systole_compiler::graph::Precision::Highest, ..Asked::default() },
        ..CompileOptions::default()
    };
    let exe = client.compile_text(text, &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
    move |inputs| client.device(0).run(&exe, inputs).unwrap_or_else(|e| panic!("{e}\n{text}")).outputs
}

fn outputs(text: &str, inputs: &[Array]) -> Vec<Array> {
    compiled(text)(inputs)
}

fn drawn(n: usize, seed: u64) -> Vec<f32> {
    let mut z = seed;
    let mut next = || {
        z = z.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (z >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

#[test]
fn tridiagonal_systems_are_solved_with_pivots() {
    let (n, m) = (6usize, 3usize);
    // Small diagonals: rows change places.
    let (low, up) = (drawn(2 * n, 1), drawn(2 * n, 2));
    let middle: Vec<f32> = drawn(2 * n, 3).iter().map(|v| v * 0.3).collect();
    let y = drawn(2 * n * m, 4);
    let text = "HloModule m\nENTRY e { a = f32[2,6] parameter(0)\n b = f32[2,6] parameter(1)\n c = f32[2,6] parameter(2)\n y = f32[2,6,3] parameter(3)\n ROOT r = (f32[2,6], f32[2,6], f32[2,6], f32[2,6,3], s32[2]) custom-call(a, b, c, y), custom_call_target=\"lapack_sgtsv_ffi\" }";
    let array = |v: &[f32]| Array::from_f32(&[2, 6], v);
    let out = outputs(text, &[array(&low), array(&middle), array(&up), Array::from_f32(&[2, 6, 3], &y)]);
    let x = out[3].to_f32();
    assert_eq!(out[4].bytes, [0; 8], "no matrix is singular");
    for batch in 0..2 {
        for i in 0..n {
            for k in 0..m {
                let at = |row: usize| f64::from(x[(batch * n + row) * m + k]);
                let of = |v: &[f32]| f64::from(v[batch * n + i]);
                let mut sum = of(&middle) * at(i);
                if i > 0 {
                    sum += of(&low) * at(i - 1);
                }
                if i + 1 < n {
                    sum += of(&up) * at(i + 1);
                }
                let want = f64::from(y[(batch * n + i) * m + k]);
                assert!((sum - want).abs() < 2e-4, "row {i} of {batch}: {sum} for {want}");
            }
        }
    }
    // A matrix of zeros.
    let zeros = Array::from_f32(&[2, 6], &[0.0; 12]);
    let out = outputs(text, &[zeros.clone(), zeros.clone(), zeros, Array::from_f32(&[2, 6, 3], &y)]);
    assert_eq!(out[4].bytes, [1, 0, 0, 0, 1, 0, 0, 0], "the first zero of the diagonal");
}

#[test]
fn hessenberg_forms_give_their_matrix_back() {
    let n = 5usize;
    let a = drawn(n * n, 7);
    let text = "HloModule m\nENTRY e { a = f32[5,5] parameter(0)\n ROOT r = (f32[5,5], f32[4], s32[]) custom-call(a), custom_call_target=\"lapack_sgehrd_ffi\", backend_config=\"{high = 5 : i32, low = 1 : i32}\" }";
    let out = outputs(text, &[Array::from_f32(&[5, 5], &a)]);
    let (packed, taus) = (out[0].to_f32(), out[1].to_f32());
    let mut h = vec![0f64; n * n];
    for i in 0..n {
        for j in 0..n {
            h[i * n + j] = if i <= j + 1 { f64::from(packed[i * n + j]) } else { 0.0 };
        }
    }
    // A = H(0) .. H(n-2) Hess (H(0) .. H(n-2))^T.
    for k in (0..n - 1).rev() {
        let v: Vec<f64> = (0..n)
            .map(|i| {
                if i <= k {
                    0.0
                } else if i == k + 1 {
                    1.0
                } else {
                    f64::from(packed[i * n + k])
                }
            })
            .collect();
        let tau = f64::from(taus[k]);
        for j in 0..n {
            let along: f64 = (0..n).map(|i| v[i] * h[i * n + j]).sum();
            (0..n).for_each(|i| h[i * n + j] -= tau * v[i] * along);
        }
        for i in 0..n {
            let along: f64 = (0..n).map(|j| h[i * n + j] * v[j]).sum();
            (0..n).for_each(|j| h[i * n + j] -= tau * along * v[j]);
        }
    }
    for (got, want) in h.iter().zip(&a) {
        assert!((got - f64::from(*want)).abs() < 1e-5, "{got} for {want}");
    }
}

#[test]
fn types_of_two_bits_wrap() {
    let values = [0i32, 1, 2, 3, -1, -2, 5, 100];
    for (dtype, want) in [
        ("s2", [[0, 1, -2, -1, -1, -2, 1, 0], [0, -2, 0, -2, -2, 0, -2, 0], [0, -2, 0, -2, -2, 0, -2, 0]]),
        ("u2", [[0, 1, 2, 3, 3, 2, 1, 0], [0, 2, 0, 2, 2, 0, 2, 0], [0, 2, 0, 2, 2, 0, 2, 0]]),
    ] {
        let list = values.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
        for source in [format!("s32[8] constant({{{list}}})"), "s32[8] parameter(0)".to_string()] {
            let given = source.contains("parameter");
            let text = format!(
                "HloModule m\nENTRY e {{ a = {source}\n b = {dtype}[8] convert(a)\n c = {dtype}[8] add(b, b)\n d = {dtype}[8] multiply(c, b)\n e = s32[8] convert(b)\n f = s32[8] convert(c)\n g = s32[8] convert(d)\n ROOT r = (s32[8], s32[8], s32[8]) tuple(e, f, g) }}"
            );
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let inputs = if given { vec![Array::new(DType::S32, &[8], bytes)] } else { Vec::new() };
            for (got, want) in outputs(&text, &inputs).iter().zip(want) {
                let want: Vec<u8> = want.iter().flat_map(|v: &i32| v.to_le_bytes()).collect();
                assert_eq!(got.bytes, want, "{text}");
            }
        }
    }
    // The portable dialect's names, a constant of them, and bits put side by side.
    let text = "func.func @main() -> tensor<2xui8> {\n %0 = stablehlo.constant dense<[[1, 2, 3, 0], [3, 3, 0, 1]]> : tensor<2x4xui2>\n %1 = stablehlo.bitcast_convert %0 : (tensor<2x4xui2>) -> tensor<2xui8>\n return %1 : tensor<2xui8>\n}\n";
    assert_eq!(outputs(text, &[])[0].bytes, [0b0011_1001, 0b0100_1111]);
}

#[test]
fn complex_extremes_are_lexicographic() {
    let x = [(1f32, 2f32), (1.0, 3.0), (0.0, -1.0), (f32::NAN, 0.0), (2.0, 0.0)];
    let y: Vec<(f32, f32)> = x.iter().rev().copied().collect();
    let array = |v: &[(f32, f32)]| {
        Array::new(DType::C64, &[5], v.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()).collect())
    };
    let greater = |a: (f32, f32), b: (f32, f32)| a.0 > b.0 || a.0 == b.0 && a.1 > b.1;
    for (op, wins) in [("maximum", false), ("minimum", true)] {
        let text = format!(
            "HloModule m\nENTRY e {{ a = c64[5] parameter(0)\n b = c64[5] parameter(1)\n ROOT r = c64[5] {op}(a, b) }}"
        );
        let got = &outputs(&text, &[array(&x), array(&y)])[0];
        let want: Vec<(f32, f32)> = x
            .iter()
            .zip(&y)
            .map(|(&a, &b)| if wins && greater(b, a) || !wins && greater(a, b) { a } else { b })
            .collect();
        for (i, (g, w)) in got.bytes.chunks_exact(8).zip(want).enumerate() {
            let part = |k: usize| f32::from_le_bytes(g[4 * k..4 * k + 4].try_into().unwrap());
            let same = |a: f32, b: f32| a == b || a.is_nan() && b.is_nan();
            assert!(same(part(0), w.0) && same(part(1), w.1), "{op} at {i}: {} {} for {w:?}", part(0), part(1));
        }
    }
}

#[test]
fn powers_and_small_arguments_are_exact_at_the_ends() {
    let x = [f32::MAX, -f32::MAX, f32::MIN_POSITIVE, 7.25, 1.844_674_2e19];
    let y = [1.0, 1.0, 1.0, 1.0, 2.0];
    let text =
        "HloModule m\nENTRY e { a = f32[5] parameter(0)\n b = f32[5] parameter(1)\n ROOT r = f32[5] power(a, b) }";
    let got = outputs(text, &[Array::from_f32(&[5], &x), Array::from_f32(&[5], &y)])[0].to_f32();
    assert_eq!(got[..4], x[..4]);
    assert!(got[4].is_finite() && (got[4] / 3.402_822_8e38 - 1.0).abs() < 1e-5, "{}", got[4]);
    let x = [1e-40f32, -1e-40, 1.2e-38, -0.0, 1e-45];
    let text = "HloModule m\nENTRY e { a = f32[5] parameter(0)\n ROOT r = f32[5] exponential-minus-one(a) }";
    let got = outputs(text, &[Array::from_f32(&[5], &x)])[0].to_f32();
    assert_eq!(got.map_bits(), x.to_vec().map_bits(), "e^x - 1 is x");
}

trait Bits {
    fn map_bits(&self) -> Vec<u32>;
}

impl Bits for Vec<f32> {
    fn map_bits(&self) -> Vec<u32> {
        self.iter().map(|v| v.to_bits()).collect()
    }
}

#[test]
fn complex_roots_and_reciprocals_keep_infinities_and_zeros() {
    const INF: f32 = f32::INFINITY;
    let run = |op: &str, z: &[(f32, f32)]| -> Vec<(f32, f32)> {
        let n = z.len();
        let text = match op {
            "reciprocal" => format!(
                "HloModule m\nENTRY e {{ a = c64[{n}] parameter(0)\n o = c64[] constant((1, 0))\n b = c64[{n}] broadcast(o), dimensions={{}}\n ROOT r = c64[{n}] divide(b, a) }}"
            ),
            op => format!("HloModule m\nENTRY e {{ a = c64[{n}] parameter(0)\n ROOT r = c64[{n}] {op}(a) }}"),
        };
        let bytes = z.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()).collect();
        let out = outputs(&text, &[Array::new(DType::C64, &[n as u64], bytes)]);
        let part = |g: &[u8]| f32::from_le_bytes(g.try_into().unwrap());
        out[0].bytes.chunks_exact(8).map(|g| (part(&g[..4]), part(&g[4..]))).collect()
    };
    // The reciprocal of an infinity is a zero, whatever the other part; of what is no number, none.
    let got = run("reciprocal", &[(INF, f32::NAN), (-INF, f32::NAN), (f32::NAN, INF), (f32::NAN, 0.0), (INF, 1.0)]);
    for (i, zero) in [(0, true), (1, true), (2, true), (3, false), (4, true)] {
        assert_eq!(got[i].0 == 0.0 && got[i].1 == 0.0, zero, "{i}: {:?}", got[i]);
        assert_eq!(got[i].0.is_nan() && got[i].1.is_nan(), !zero, "{i}: {:?}", got[i]);
    }
    // Below the cut the root is below.
    let got = run("rsqrt", &[(-1.0, -0.0), (-1.0, 0.0), (INF, f32::NAN), (3e38, 3e38), (4.0, 0.0)]);
    assert!(got[0].1 > 0.999 && got[1].1 < -0.999, "{got:?}");
    assert_eq!((got[2].0, got[2].1), (0.0, 0.0));
    assert!(
        (got[3].0 / 4.485_359e-20 - 1.0).abs() < 1e-4 && (got[3].1 / -1.857_896_6e-20 - 1.0).abs() < 1e-4,
        "{got:?}"
    );
    assert!((got[4].0 - 0.5).abs() < 1e-6 && got[4].1 == 0.0, "{got:?}");
    let got = run("sqrt", &[(3e38, 3e38), (0.0, 2e-38), (-4.0, -0.0)]);
    assert!((got[0].0 / 1.902_976_7e19 - 1.0).abs() < 1e-4, "{got:?}");
    assert!([got[1].0, got[1].1].iter().all(|part| (part / 1e-19 - 1.0).abs() < 1e-6), "{got:?}");
    assert_eq!(got[2].1, 2.0, "on the cut the upper one");
}

/// A complex number, as pairs: product and sum of matrices of them.
type C = (f64, f64);

fn times(x: C, y: C) -> C {
    (x.0 * y.0 - x.1 * y.1, x.0 * y.1 + x.1 * y.0)
}

/// The product of square matrices.
fn product(n: usize, x: &[C], y: &[C]) -> Vec<C> {
    let element = |i: usize, j: usize| {
        let terms = (0..n).map(|k| times(x[i * n + k], y[k * n + j]));
        terms.fold((0.0, 0.0), |a, t| (a.0 + t.0, a.1 + t.1))
    };
    (0..n * n).map(|at| element(at / n, at % n)).collect()
}

fn adjoint(n: usize, x: &[C]) -> Vec<C> {
    (0..n * n).map(|at| x[at % n * n + at / n]).map(|(re, im)| (re, -im)).collect()
}

fn near(what: &str, got: &[C], want: &[C], most: f64) {
    let off = got.iter().zip(want).map(|(g, w)| (g.0 - w.0).hypot(g.1 - w.1)).fold(0.0, f64::max);
    assert!(off <= most, "{what}: off by {off}");
}

/// The elements of an array of any real or complex type.
fn numbers(a: &Array) -> Vec<C> {
    let part = |raw: &[u8]| match raw.len() {
        4 => f64::from(f32::from_le_bytes(raw.try_into().expect("four"))),
        _ => f64::from_le_bytes(raw.try_into().expect("eight")),
    };
    let width = a.dtype.host_bytes();
    let pair = |raw: &[u8]| match a.dtype.is_complex() {
        true => (part(&raw[..width / 2]), part(&raw[width / 2..])),
        false => (part(raw), 0.0),
    };
    a.bytes.chunks_exact(width).map(pair).collect()
}

fn matrix(dtype: DType, n: usize, x: &[C]) -> Array {
    let part = |v: f64| match dtype.real() {
        DType::F64 => v.to_le_bytes().to_vec(),
        _ => (v as f32).to_le_bytes().to_vec(),
    };
    let bytes = x.iter().flat_map(|&(re, im)| {
        let mut bytes = part(re);
        if dtype.is_complex() {
            bytes.extend(part(im));
        }
        bytes
    });
    Array::new(dtype, &[n as u64, n as u64], bytes.collect())
}

/// Matrices that are easy, and such as algorithms stumble over: random, triangular, a cycle (no shift moves it), zeros,
/// the identity, a Jordan block, a rotation, one with equal rows.
fn matrices(n: usize, complex: bool) -> Vec<(&'static str, Vec<C>)> {
    let (re, im) = (drawn(n * n, 11), drawn(n * n, 12));
    let random: Vec<C> =
        re.iter().zip(&im).map(|(&r, &i)| (f64::from(r), if complex { f64::from(i) } else { 0.0 })).collect();
    let by = |f: &dyn Fn(usize, usize) -> f64| -> Vec<C> { (0..n * n).map(|at| (f(at / n, at % n), 0.0)).collect() };
    let upper: Vec<C> =
        random.iter().enumerate().map(|(at, &v)| if at / n <= at % n { v } else { (0.0, 0.0) }).collect();
    vec![
        ("random", random),
        ("triangular", upper),
        ("cycle", by(&|i, j| f64::from(u8::from((i + 1) % n == j)))),
        ("zeros", by(&|_, _| 0.0)),
        ("identity", by(&|i, j| f64::from(u8::from(i == j)))),
        ("jordan", by(&|i, j| f64::from(u8::from(i == j || i == j + 1)))),
        ("equal rows", by(&|_, j| j as f64 - 1.0)),
        ("antisymmetric", by(&|i, j| i as f64 - j as f64)),
    ]
}

const GENERAL: [(DType, &str, &str, &str, f64); 4] = [
    (DType::F32, "s", "f32", "c64", 2e-5),
    (DType::F64, "d", "f64", "c128", 1e-12),
    (DType::C64, "c", "c64", "c64", 2e-5),
    (DType::C128, "z", "c128", "c128", 1e-12),
];

#[test]
fn factors_of_small_and_large_numbers_are_exact() {
    let n = 4usize;
    let text = "HloModule m\nENTRY e { a = f32[4,4] parameter(0)\n q = (f32[4,4], f32[4]) custom-call(a), custom_call_target=\"Qr\"\n p = f32[4,4] get-tuple-element(q), index=0\n t = f32[4] get-tuple-element(q), index=1\n o = f32[4,4] custom-call(p, t), custom_call_target=\"ProductOfElementaryHouseholderReflectors\"\n ROOT r = (f32[4,4], f32[4,4]) tuple(p, o) }";
    for scale in [1e-25f32, 1.0, 1e25] {
        let a: Vec<f32> = drawn(n * n, 5).iter().map(|v| v * scale).collect();
        let out = outputs(text, &[Array::from_f32(&[4, 4], &a)]);
        let upper = |(at, v): (usize, C)| if at / n <= at % n { (v.0 / f64::from(scale), 0.0) } else { (0.0, 0.0) };
        let r: Vec<C> = numbers(&out[0]).into_iter().enumerate().map(upper).collect();
        let want: Vec<C> = a.iter().map(|v| (f64::from(*v) / f64::from(scale), 0.0)).collect();
        near(&format!("times {scale}"), &product(n, &numbers(&out[1]), &r), &want, 1e-5);
    }
}

/// A general matrix that a routine was given.
struct Given {
    name: String,
    dtype: DType,
    n: usize,
    a: Vec<C>,
    /// The error allowed.
    most: f64,
}

/// Calls a routine with general matrices of every type and these sizes. `call`: the shapes of its results from those of the eigenvalues,
/// of a matrix of the type and of a complex one, its name with `?` for the type's letter, and how it is configured.
fn on_general(
    sizes: &[usize],
    call: impl Fn(&str, &str, &str) -> (String, &'static str, &'static str),
    check: impl Fn(&Given, Vec<Array>),
) {
    for (dtype, letter, t, c, most) in GENERAL {
        for &n in sizes {
            let values = if dtype.is_complex() { format!("{t}[{n}]") } else { format!("{t}[{n}], {t}[{n}]") };
            let (results, target, config) = call(&values, &format!("{t}[{n},{n}]"), &format!("{c}[{n},{n}]"));
            let target = target.replace('?', letter);
            let text = format!(
                "HloModule m\nENTRY e {{ a = {t}[{n},{n}] parameter(0)\n ROOT r = ({results}) custom-call(a), custom_call_target=\"{target}\", backend_config=\"{config}\" }}"
            );
            let run = compiled(&text);
            for (name, a) in matrices(n, dtype.is_complex()) {
                let (name, given) = (format!("{name} {t} {n}"), matrix(dtype, n, &a));
                let most = most * (n * n) as f64;
                let of = Given { name, dtype, n, a: numbers(&given), most };
                check(&of, run(&[given]));
            }
        }
    }
}

#[test]
fn schur_forms_give_their_matrix_back() {
    let config = "{mode = 86 : ui8, sort = 78 : ui8}";
    let call = |w: &str, m: &str, _: &str| (format!("{m}, {m}, {w}, s32[], s32[]"), "lapack_?gees_ffi", config);
    on_general(&[1, 2, 3, 7], call, |Given { name, dtype, n, a, most }, out| {
        let (n, most) = (*n, *most);
        let (form, z) = (numbers(&out[0]), numbers(&out[1]));
        assert_eq!(out.last().map(|info| &info.bytes[..]), Some(&[0u8; 4][..]), "{name}: it converged");
        near(name, &product(n, &product(n, &z, &form), &adjoint(n, &z)), a, most);
        let unit: Vec<C> = (0..n * n).map(|at| (f64::from(u8::from(at / n == at % n)), 0.0)).collect();
        near(name, &product(n, &z, &adjoint(n, &z)), &unit, most);
        for at in 0..n * n {
            let (i, j) = (at / n, at % n);
            let below = form[at] != (0.0, 0.0) && i > j;
            // A block of two has no neighbour, equal diagonal elements and a complex pair.
            let block = !dtype.is_complex()
                && i == j + 1
                && form[j * n + j] == form[at + 1]
                && form[at].0 * form[j * n + i].0 < 0.0;
            assert!(!below || block, "{name}: {:?} at {i}, {j}", form[at]);
        }
    });
}

#[test]
fn eigenvectors_are_turned_by_nothing() {
    let config = "{compute_left = 86 : ui8, compute_right = 86 : ui8}";
    let call = |w: &str, _: &str, c: &str| (format!("{w}, {c}, {c}, s32[]"), "lapack_?geev_ffi", config);
    on_general(&[1, 2, 6], call, |Given { name, dtype, n, a, most }, mut out| {
        let (n, most) = (*n, *most);
        let mut values = numbers(&out.remove(0));
        if !dtype.is_complex() {
            let im = numbers(&out.remove(0));
            values.iter_mut().zip(im).for_each(|(v, im)| v.1 = im.0);
        }
        let diagonal: Vec<C> =
            (0..n * n).map(|at| if at / n == at % n { values[at / n] } else { (0.0, 0.0) }).collect();
        let (left, right) = (numbers(&out[0]), numbers(&out[1]));
        near(name, &product(n, a, &right), &product(n, &right, &diagonal), most);
        let left = adjoint(n, &left);
        near(name, &product(n, &left, a), &product(n, &diagonal, &left), most);
        for k in 0..n {
            let column: Vec<C> = right[k..].iter().step_by(n).copied().collect();
            for (v, side) in [(&column[..], "right"), (&left[k * n..][..n], "left")] {
                let size: f64 = v.iter().map(|x| x.0 * x.0 + x.1 * x.1).sum();
                assert!((size - 1.0).abs() < 1e-4, "{name}: {side} vector {k} has length {size}");
            }
        }
    });
}

#[test]
fn many_matrices_beside_each_other_have_the_factors_that_each_has() {
    const MANY: usize = 9;
    let calls = |n: usize| {
        let f = format!("f32[{n},6,5]");
        format!(
            "HloModule m\nENTRY e {{ a = {f} parameter(0)\n q = f32[{n},5,5] parameter(1)\n \
             lu = ({f}, s32[{n},5], s32[{n}]) custom-call(a), custom_call_target=\"lapack_sgetrf_ffi\"\n \
             qr = ({f}, f32[{n},5]) custom-call(a), custom_call_target=\"lapack_sgeqrf_ffi\"\n \
             packed = {f} get-tuple-element(qr), index=0\n taus = f32[{n},5] get-tuple-element(qr), index=1\n \
             product = {f} custom-call(packed, taus), custom_call_target=\"lapack_sorgqr_ffi\"\n \
             h = (f32[{n},5,5], f32[{n},4], s32[{n}]) custom-call(q), custom_call_target=\"lapack_sgehrd_ffi\", \
             backend_config=\"{{high = 5 : i32, low = 1 : i32}}\"\n \
             ROOT r = (({f}, s32[{n},5], s32[{n}]), ({f}, f32[{n},5]), {f}, (f32[{n},5,5], f32[{n},4], s32[{n}])) \
             tuple(lu, qr, product, h) }}"
        )
    };
    let (mut a, q) = (drawn(MANY * 30, 11), drawn(MANY * 25, 12));
    // A matrix of zeros, and one whose columns are the same.
    a[30..60].fill(0.0);
    (60..90).for_each(|i| a[i] = a[60 + (i - 60) / 5 * 5]);
    let given =
        |n: usize, a: &[f32], q: &[f32]| [Array::from_f32(&[n as u64, 6, 5], a), Array::from_f32(&[n as u64, 5, 5], q)];
    let together = outputs(&calls(MANY), &given(MANY, &a, &q));
    let text = calls(1);
    let one = compiled(&text);
    for i in 0..MANY {
        let alone = one(&given(1, &a[i * 30..][..30], &q[i * 25..][..25]));
        for (k, (all, own)) in together.iter().zip(&alone).enumerate() {
            let n = own.bytes.len();
            if own.dtype == DType::F32 {
                let (all, own) = (all.to_f32(), own.to_f32());
                for (x, y) in all[i * n / 4..].iter().zip(&own) {
                    assert!((x - y).abs() < 2e-5, "result {k} of matrix {i}: {x} for {y}");
                }
            } else {
                assert_eq!(&all.bytes[i * n..][..n], &own.bytes[..], "result {k} of matrix {i}");
            }
        }
    }
}
