//! Contractions, reductions, windows, sorts, transforms and linear algebra.

use super::elementwise::limited;
use super::program::{Facts, Gen, Instr, epsilon, list};
use systole_isa::DType;
use systole_isa::dtype::DTypeClass;

fn truth() -> Facts {
    Facts { bound: 1.0, step: 1.0, error: 0.0 }
}

/// A computation of two scalars that combines up to `n` values `e` with one `f`, and the facts of what comes out.
pub fn combiner(g: &mut Gen, t: DType, f: &Facts, e: &Facts, n: f64) -> Option<(String, Facts)> {
    let float = t.is_float() || t.is_complex();
    let op = match (float, t.class()) {
        (true, DTypeClass::Complex) => "add",
        (true, _) => g.random.pick(&["add", "maximum", "minimum"]),
        (false, DTypeClass::Pred) => g.random.pick(&["and", "or", "xor"]),
        (false, _) => g.random.pick(&["add", "multiply", "maximum", "minimum", "and", "or", "xor"]),
    };
    let facts = if float && op == "add" {
        let bound = f.bound + n * e.bound;
        // Every partial sum is rounded.
        let error = f.error + n * e.error + n * epsilon(t) * bound;
        Facts { bound, step: f.step.min(e.step), error }
    } else {
        Facts { bound: f.bound.max(e.bound), step: f.step.min(e.step), error: f.error.max(e.error) }
    };
    let t = t.name();
    let name = g.computation(|name| {
        format!("{name} {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  ROOT r = {t}[] {op}(a, b)\n}}\n")
    });
    Some((name, facts))
}

/// The value that [`combiner`]'s operations leave alone: a scalar constant; zero where none is known.
#[allow(clippy::wildcard_enum_match_arm, reason = "all numbers write their zero alike")]
fn initial(g: &mut Gen, t: DType) -> usize {
    match t {
        DType::Pred => g.constant(t, "false", 1.0),
        t if t.is_complex() => g.constant(t, "(0, 0)", 1.0),
        t => g.constant(t, "0", 1.0),
    }
}

fn some_dims(g: &mut Gen, rank: usize) -> Vec<usize> {
    let some: Vec<usize> = (0..rank).filter(|_| g.random.once_in(2)).collect();
    if some.is_empty() { vec![g.random.below(rank as u64) as usize] } else { some }
}

/// Reductions; now and then of two arrays at once (the largest and its place).
pub fn reduce(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| !i.dims().is_empty())?;
    let (t, from, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let dims = some_dims(g, from.len());
    let kept: Vec<u64> = (0..from.len()).filter(|d| !dims.contains(d)).map(|d| from[d]).collect();
    let n: u64 = dims.iter().map(|&d| from[d]).product();
    let attributes = list(&dims.iter().map(|&d| d as u64).collect::<Vec<_>>());
    if g.random.once_in(4) && t == DType::S32 {
        return argmax(g, x, &dims, &kept);
    }
    let init = initial(g, t);
    let (name, facts) = combiner(g, t, &Facts { bound: 0.0, step: f.step, error: 0.0 }, &f, n as f64)?;
    g.push((t, &kept), op, &[x, init], &format!(", dimensions={{{attributes}}}, to_apply={name}"), facts)
}

fn argmax(g: &mut Gen, x: usize, dims: &[usize], kept: &[u64]) -> Option<usize> {
    let from = g.dims(x);
    let facts = truth();
    let d = g.random.below(from.len() as u64);
    let places = g.push((DType::S32, &from), "iota", &[], &format!(", iota_dimension={d}"), facts.clone())?;
    let low = g.constant(DType::S32, "-2147483648", 1.0);
    let none = g.constant(DType::S32, "0", 1.0);
    let name = g.computation(|name| {
        format!(
            "{name} {{\n  a = s32[] parameter(0)\n  i = s32[] parameter(1)\n  b = s32[] parameter(2)\n  j = s32[] parameter(3)\n  \
             more = pred[] compare(a, b), direction=GT\n  same = pred[] compare(a, b), direction=EQ\n  \
             first = pred[] compare(i, j), direction=LT\n  tie = pred[] and(same, first)\n  left = pred[] or(more, tie)\n  \
             v = s32[] select(left, a, b)\n  k = s32[] select(left, i, j)\n  ROOT r = (s32[], s32[]) tuple(v, k)\n}}\n"
        )
    });
    let dims = list(&dims.iter().map(|&d| d as u64).collect::<Vec<_>>());
    let shapes = [(DType::S32, kept.to_vec()), (DType::S32, kept.to_vec())];
    let attributes = format!(", dimensions={{{dims}}}, to_apply={name}");
    let all = g.push_tuple(&shapes, "reduce", &[x, places, low, none], &attributes, &[facts.clone(), facts])?;
    all.last().copied()
}

struct Window {
    text: String,
    dims: Vec<u64>,
    points: u64,
}

fn window(g: &mut Gen, from: &[u64], plain: bool) -> Option<Window> {
    let (mut size, mut stride, mut pad, mut dilate, mut base) = (vec![], vec![], vec![], vec![], vec![]);
    let mut dims = Vec::new();
    for &n in from {
        let w = 1 + g.random.below(n.min(4));
        let s = g.random.pick(&[1u64, 1, 2, 3]);
        let (low, high) = if g.random.once_in(2) { (0, 0) } else { (g.random.below(w), g.random.below(w)) };
        let wd = if plain { 1 } else { g.random.pick(&[1u64, 1, 1, 2]) };
        let bd = if plain { 1 } else { g.random.pick(&[1u64, 1, 1, 2]) };
        let span = (w - 1) * wd + 1;
        let room = (n - 1) * bd + 1 + low + high;
        if room < span {
            return None;
        }
        dims.push((room - span) / s + 1);
        size.push(w.to_string());
        stride.push(s.to_string());
        pad.push(format!("{low}_{high}"));
        dilate.push(wd.to_string());
        base.push(bd.to_string());
    }
    let points = size.iter().map(|s| s.parse::<u64>().unwrap_or(1)).product();
    let mut text = format!("size={} stride={} pad={}", size.join("x"), stride.join("x"), pad.join("x"));
    if !plain {
        text += &format!(" lhs_dilate={} rhs_dilate={}", base.join("x"), dilate.join("x"));
    }
    Some(Window { text, dims, points })
}

/// Reductions over windows.
pub fn reduce_window(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| !i.dims().is_empty() && i.dtype() != DType::Pred)?;
    let (t, from, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let init = initial(g, t);
    if g.random.once_in(4) {
        // A running sum along a dimension.
        let d = g.random.below(from.len() as u64) as usize;
        let n = from[d];
        let name = |i: usize, one: &str, all: String| if i == d { all } else { one.to_string() };
        let sizes: Vec<String> = (0..from.len()).map(|i| name(i, "1", n.to_string())).collect();
        let pads: Vec<String> = (0..from.len()).map(|i| name(i, "0_0", format!("{}_0", n - 1))).collect();
        let (comp, facts) = combiner(g, t, &Facts { bound: 0.0, step: f.step, error: 0.0 }, &f, n as f64)?;
        let attributes = format!(", window={{size={} pad={}}}, to_apply={comp}", sizes.join("x"), pads.join("x"));
        return g.push((t, &from), op, &[x, init], &attributes, facts);
    }
    let w = window(g, &from, false)?;
    let (name, facts) = combiner(g, t, &Facts { bound: 0.0, step: f.step, error: 0.0 }, &f, w.points as f64)?;
    g.push((t, &w.dims), op, &[x, init], &format!(", window={{{}}}, to_apply={name}", w.text), facts)
}

/// The gradient of a pooling: exact values, as it compares.
pub fn select_and_scatter(g: &mut Gen, op: &str) -> Option<usize> {
    let x =
        g.find(|i| !i.dims().is_empty() && i.exact() && matches!(i.dtype(), DType::F32 | DType::S32 | DType::BF16))?;
    let (t, from) = (g.dtype(x), g.dims(x));
    let w = window(g, &from, true)?;
    let source = g.like(t, &w.dims);
    let (init, e) = (initial(g, t), g.facts(source));
    let name = t.name();
    let select = g.computation(|n| {
        format!("{n} {{\n  a = {name}[] parameter(0)\n  b = {name}[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=GE\n}}\n")
    });
    let add = g.computation(|n| {
        format!("{n} {{\n  a = {name}[] parameter(0)\n  b = {name}[] parameter(1)\n  ROOT r = {name}[] add(a, b)\n}}\n")
    });
    let n = w.points as f64;
    let facts = Facts { bound: n * e.bound, step: e.step, error: n * (e.error + epsilon(t) * n * e.bound) };
    let attributes = format!(", window={{{}}}, select={select}, scatter={add}", w.text);
    g.push((t, &from), op, &[x, source, init], &attributes, facts)
}

/// The facts of sums of `n` products.
fn products(t: DType, a: &Facts, b: &Facts, n: f64) -> Facts {
    let bound = n * a.bound * b.bound;
    let error = n * (a.bound * b.error + b.bound * a.error + a.error * b.error) + 4.0 * epsilon(t) * bound;
    Facts { bound, step: a.step * b.step, error }
}

/// Matrix products with batch dimensions, operands in either order of dimensions.
pub fn dot(g: &mut Gen, op: &str) -> Option<usize> {
    // Now and then of several arrays' sizes every way, which tiles and their windows cut.
    let wide = g.random.once_in(3);
    let x = if wide {
        let t = g.random.pick(&[DType::F32, DType::F32, DType::BF16, DType::BF16, DType::S8]);
        let mut dims = vec![g.random.pick(&[8u64, 24, 40]), g.random.pick(&[16u64, 40, 100, 130, 260])];
        if g.random.once_in(4) {
            dims.insert(0, 3);
        }
        g.parameter(t, &dims)
    } else {
        g.find(|i| i.dims().len() >= 2 && i.dtype() != DType::Pred && !i.dtype().is_byte_float())?
    };
    let (t, from) = (g.dtype(x), g.dims(x));
    if matches!(t, DType::S4 | DType::U4) {
        return None;
    }
    let x = if t.is_float() { limited(g, x, 8.0)? } else { x };
    let order = g.permutation(from.len());
    let batch = usize::from(from.len() > 2 && g.random.once_in(2));
    let (b, k) = (&order[..batch], order[batch]);
    let n = if wide { g.random.pick(&[9u64, 24, 33, 64, 100]) } else { 1 + g.random.below(12) };
    let flip = g.random.once_in(2);
    let mut other: Vec<u64> = b.iter().map(|&d| from[d]).collect();
    let (second, kdim) = if flip { ([n, from[k]], batch + 1) } else { ([from[k], n], batch) };
    other.extend(second);
    let y = g.like(t, &other);
    let y = if t.is_float() { limited(g, y, 8.0)? } else { y };
    let mut dims: Vec<u64> = b.iter().map(|&d| from[d]).collect();
    dims.extend((0..from.len()).filter(|d| !b.contains(d) && *d != k).map(|d| from[d]));
    dims.push(n);
    let facts = products(t, &g.facts(x), &g.facts(y), from[k] as f64);
    let names = |v: &[usize]| list(&v.iter().map(|&d| d as u64).collect::<Vec<_>>());
    let batches = match batch {
        0 => String::new(),
        _ => format!(", lhs_batch_dims={{{}}}, rhs_batch_dims={{0}}", names(b)),
    };
    let attributes = format!("{batches}, lhs_contracting_dims={{{k}}}, rhs_contracting_dims={{{kdim}}}");
    g.push((t, &dims), op, &[x, y], &attributes, facts)
}

/// Convolutions of one or two spatial dimensions.
pub fn convolution(g: &mut Gen, op: &str) -> Option<usize> {
    let t = g.random.pick(&[DType::F32, DType::BF16, DType::S32, DType::F32, DType::F64, DType::C64]);
    let spatial = 1 + g.random.below(2) as usize;
    let groups = g.random.pick(&[1u64, 1, 2, 3]);
    let (n, c, o) = (1 + g.random.below(3), groups * (1 + g.random.below(3)), groups * (1 + g.random.below(4)));
    let mut image = vec![n];
    let mut kernel = Vec::new();
    let mut out = vec![n];
    let (mut size, mut stride, mut pad, mut lhs, mut rhs) = (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..spatial {
        let (h, w) = (3 + g.random.below(7), 1 + g.random.below(3));
        let (s, low, high) = (1 + g.random.below(2), g.random.range(-1, 2), g.random.range(0, 2));
        let (bd, wd) = (1 + g.random.below(2), 1 + g.random.below(2));
        let room = ((h - 1) * bd + 1) as i64 + low + high;
        let span = ((w - 1) * wd + 1) as i64;
        if room < span {
            return None;
        }
        image.push(h);
        kernel.push(w);
        out.push(((room - span) as u64) / s + 1);
        size.push(w.to_string());
        stride.push(s.to_string());
        pad.push(format!("{low}_{high}"));
        lhs.push(bd.to_string());
        rhs.push(wd.to_string());
    }
    image.push(c);
    kernel.extend([c / groups, o]);
    out.push(o);
    let (x, k) = (g.like(t, &image), g.like(t, &kernel));
    let points: u64 = kernel[..spatial].iter().product::<u64>() * (c / groups);
    let facts = products(t, &g.facts(x), &g.facts(k), points as f64);
    let labels = if spatial == 1 { "b0f_0io->b0f" } else { "b01f_01io->b01f" };
    let attributes = format!(
        ", window={{size={} stride={} pad={} lhs_dilate={} rhs_dilate={}}}, dim_labels={labels}, feature_group_count={groups}",
        size.join("x"),
        stride.join("x"),
        pad.join("x"),
        lhs.join("x"),
        rhs.join("x")
    );
    g.push((t, &out), op, &[x, k], &attributes, facts)
}

/// Stable sorts of exact keys, alone or with values.
pub fn sort(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| i.exact() && !i.dims().is_empty() && !i.dtype().is_complex())?;
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let d = g.random.below(dims.len() as u64);
    let direction = g.random.pick(&["LT", "GT"]);
    let total = if t.is_float() && g.random.once_in(2) { ", type=TOTALORDER" } else { "" };
    let with = if g.random.once_in(2) { g.find(|i: &Instr| i.dims() == dims) } else { None };
    let name = t.name();
    let more = with.map_or(String::new(), |y| {
        let t = g.dtype(y).name();
        format!("  c = {t}[] parameter(2)\n  d = {t}[] parameter(3)\n")
    });
    let comp = g.computation(|n| {
        format!(
            "{n} {{\n  a = {name}[] parameter(0)\n  b = {name}[] parameter(1)\n{more}  ROOT r = pred[] compare(a, b), direction={direction}{total}\n}}\n"
        )
    });
    let attributes = format!(", dimensions={{{d}}}, is_stable=true, to_apply={comp}");
    let Some(y) = with else { return g.push((t, &dims), op, &[x], &attributes, f) };
    let shapes = [(t, dims.clone()), (g.dtype(y), dims)];
    let facts = [f, g.facts(y)];
    g.push_tuple(&shapes, op, &[x, y], &attributes, &facts)?.last().copied()
}

/// The largest along the last dimension.
pub fn topk(g: &mut Gen, op: &str) -> Option<usize> {
    let ok = [DType::F32, DType::S32, DType::BF16, DType::U8];
    let x = g.find(|i| i.exact() && !i.dims().is_empty() && i.dims().len() <= 2 && ok.contains(&i.dtype()))?;
    let (t, mut dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let last = dims.len() - 1;
    let k = 1 + g.random.below(dims[last]);
    dims[last] = k;
    let attributes = format!(", k={k}, largest={}", g.random.pick(&["true", "false"]));
    let shapes = [(t, dims.clone()), (DType::S32, dims)];
    g.push_tuple(&shapes, op, &[x], &attributes, &[f, truth()])?.last().copied()
}

/// Fourier transforms of any length.
pub fn fft(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| i.dtype() == DType::C64 && !i.dims().is_empty());
    let x = match x {
        Some(x) => x,
        None => {
            let n = 1 + g.random.below(20);
            g.parameter(DType::C64, &[3, n])
        }
    };
    let (dims, f) = (g.dims(x), g.facts(x));
    let n = dims[dims.len() - 1];
    let kind = g.random.pick(&["FFT", "IFFT"]);
    let scale = if kind == "FFT" { n as f64 } else { 1.0 };
    let bound = f.bound * scale;
    let facts = Facts { bound, step: 0.0, error: f.error * scale + 8.0 * bound * epsilon(DType::F32) };
    g.push((DType::C64, &dims), op, &[x], &format!(", fft_type={kind}, fft_length={{{n}}}"), facts)
}

/// A matrix that is far from singular: a given one made small, with `n + 1` along its diagonal.
fn strong(g: &mut Gen, n: u64) -> Option<usize> {
    let t = g.random.pick(&[DType::F32, DType::F32, DType::F64]);
    let x = g.like(t, &[n, n]);
    let x = limited(g, x, 1.0)?;
    let f = Facts { bound: n as f64 + 1.0, step: 0.0, error: g.facts(x).error };
    let (i, j) = (iota(g, n, 0)?, iota(g, n, 1)?);
    let p = g.push((DType::Pred, &[n, n]), "compare", &[i, j], ", direction=EQ", truth())?;
    let c = super::elementwise::splat(g, t, &[n, n], &format!("{}", n + 1), n as f64 + 1.0)?;
    g.push((t, &[n, n]), "select", &[p, c, x], "", f)
}

fn iota(g: &mut Gen, n: u64, d: usize) -> Option<usize> {
    g.push((DType::S32, &[n, n]), "iota", &[], &format!(", iota_dimension={d}"), truth())
}

/// Cholesky factors.
pub fn cholesky(g: &mut Gen, op: &str) -> Option<usize> {
    let n = 1 + g.random.below(9);
    let x = strong(g, n)?;
    let (t, error) = (g.dtype(x), g.facts(x).error);
    let lower = g.random.pick(&["true", "false"]);
    let l = g.push(
        (t, &[n, n]),
        op,
        &[x],
        &format!(", lower={lower}"),
        Facts { bound: 4.0, step: 0.0, error: 20.0 * error + 50.0 * epsilon(t) },
    )?;
    // What lies beside the factor is anything.
    let (i, j) = (iota(g, n, 0)?, iota(g, n, 1)?);
    let direction = if lower == "true" { "GE" } else { "LE" };
    let p = g.push((DType::Pred, &[n, n]), "compare", &[i, j], &format!(", direction={direction}"), truth())?;
    let zero = super::elementwise::splat(g, t, &[n, n], "0", 0.0)?;
    let f = g.facts(l);
    g.push((t, &[n, n]), "select", &[p, l, zero], "", f)
}

/// Solutions of triangular systems.
pub fn triangular_solve(g: &mut Gen, op: &str) -> Option<usize> {
    let n = 1 + g.random.below(9);
    let a = strong(g, n)?;
    let t = g.dtype(a);
    let m = 1 + g.random.below(5);
    let left = g.random.once_in(2);
    let dims = if left { [n, m] } else { [m, n] };
    let y = g.like(t, &dims);
    let y = limited(g, y, 4.0)?;
    let (e, b) = (g.facts(a).error, g.facts(y));
    let attributes = format!(
        ", left_side={left}, lower={}, unit_diagonal=false, transpose_a={}",
        g.random.once_in(2),
        g.random.pick(&["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
    );
    let error = 20.0 * (e + b.error) + 100.0 * epsilon(t);
    g.push((t, &dims), op, &[a, y], &attributes, Facts { bound: 8.0, step: 0.0, error })
}

/// Random bits of an algorithm that is fixed bit by bit.
pub fn random_bits(g: &mut Gen, op: &str) -> Option<usize> {
    let state = g.like(DType::U64, &[2]);
    let t = g.random.pick(&[DType::U32, DType::U64, DType::U8, DType::U16]);
    let dims = vec![1 + g.random.below(5), 1 + g.random.below(17)];
    let shapes = [(DType::U64, vec![2]), (t, dims)];
    let facts = [truth(), truth()];
    g.push_tuple(&shapes, op, &[state], ", algorithm=rng_three_fry", &facts)?.last().copied()
}

/// Batch normalisation of `[n, f]`-like arrays.
pub fn batch_norm(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| i.dtype() == DType::F32 && i.dims().len() >= 2)?;
    let dims = g.dims(x);
    let x = limited(g, x, 4.0)?;
    let feature = g.random.below(dims.len() as u64) as usize;
    let f = [dims[feature]];
    let t = DType::F32;
    let scale = g.like(t, &f);
    let scale = limited(g, scale, 4.0)?;
    let other = g.like(t, &f);
    let other = limited(g, other, 4.0)?;
    let attributes = format!(", epsilon=0.5, feature_index={feature}");
    let n = (dims.iter().product::<u64>() / f[0]) as f64;
    let from: f64 = [x, scale, other].iter().map(|&i| g.facts(i).error).sum();
    let facts = |bound: f64, slope: f64| Facts { bound, step: 0.0, error: slope * (from + 1e-4) };
    let per = |g: &mut Gen| -> Option<usize> {
        // A variance.
        let v = g.like(t, &f);
        let v = limited(g, v, 4.0)?;
        let facts = g.facts(v);
        g.push((t, &f), "abs", &[v], "", facts)
    };
    match op {
        "batch-norm-inference" => {
            let mean = g.like(t, &f);
            let mean = limited(g, mean, 4.0)?;
            let variance = per(g)?;
            let more = g.facts(mean).error + g.facts(variance).error;
            let mut facts = facts(60.0, 60.0);
            facts.error += 60.0 * more;
            g.push((t, &dims), op, &[x, scale, other, mean, variance], &attributes, facts)
        }
        "batch-norm-training" => {
            let shapes = [(t, dims.clone()), (t, f.to_vec()), (t, f.to_vec())];
            let all = [facts(60.0, 200.0), facts(4.0, 4.0), facts(64.0, 64.0)];
            g.push_tuple(&shapes, op, &[x, scale, other], &attributes, &all)?.first().copied()
        }
        _ => {
            let variance = per(g)?;
            let grad = g.like(t, &dims);
            let grad = limited(g, grad, 4.0)?;
            let more = g.facts(variance).error + g.facts(grad).error;
            let shapes = [(t, dims.clone()), (t, f.to_vec()), (t, f.to_vec())];
            let wide = |bound: f64, slope: f64| Facts { bound, step: 0.0, error: slope * (from + more + 1e-4) };
            let all = [wide(2000.0, 2000.0), wide(60.0 * n, 100.0 * n), wide(4.0 * n, 4.0 * n)];
            g.push_tuple(&shapes, op, &[x, scale, other, variance, grad], &attributes, &all)?.first().copied()
        }
    }
}
