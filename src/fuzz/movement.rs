//! Shapes and data movement.

use super::program::{Facts, Gen, Instr, Source, list};
use super::rows::any_dims;
use systole_isa::DType;

fn any(g: &mut Gen, least_rank: usize) -> usize {
    match g.find(|i: &Instr| i.dims().len() >= least_rank) {
        Some(x) => x,
        None => g.parameter(DType::F32, &[5, 9]),
    }
}

fn sizes(of: &[usize]) -> String {
    list(&of.iter().map(|&d| d as u64).collect::<Vec<_>>())
}

/// Numbers along a dimension.
pub fn iota(g: &mut Gen, op: &str) -> Option<usize> {
    let t = g.random.pick(&[
        DType::S32,
        DType::F32,
        DType::U8,
        DType::S64,
        DType::BF16,
        DType::U32,
        DType::F64,
        DType::C64,
    ]);
    let mut dims = any_dims(g);
    if dims.is_empty() {
        dims.push(6);
    }
    let d = g.random.below(dims.len() as u64) as usize;
    let bound = (dims[d] - 1) as f64;
    let facts = Facts { bound, step: 1.0, error: 0.0 };
    g.push((t, &dims), op, &[], &format!(", iota_dimension={d}"), facts)
}

/// A small constant array.
pub fn constant(g: &mut Gen, op: &str) -> Option<usize> {
    let t = g.random.pick(&[DType::S32, DType::F32, DType::BF16, DType::S8, DType::F64]);
    let n = 1 + g.random.below(6);
    let numbers: Vec<String> = (0..n).map(|_| g.random.range(-4, 4).to_string()).collect();
    let i = g.push((t, &[n]), op, &[], "", Facts { bound: 4.0, step: 1.0, error: 0.0 })?;
    g.program.instrs[i].source = Source::Constant(format!("{{{}}}", numbers.join(", ")));
    Some(i)
}

/// New dimensions anywhere.
pub fn broadcast(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| i.dims().len() <= 2)?;
    let (t, from, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let mut dims = Vec::new();
    let mut map = Vec::new();
    for &d in &from {
        if g.random.once_in(2) {
            dims.push(1 + g.random.below(6));
        }
        map.push(dims.len());
        dims.push(d);
    }
    if g.random.once_in(2) {
        dims.push(1 + g.random.below(9));
    }
    g.push((t, &dims), op, &[x], &format!(", dimensions={{{}}}", sizes(&map)), f)
}

/// Other dimensions of as many elements.
pub fn reshape(g: &mut Gen, op: &str) -> Option<usize> {
    let x = any(g, 0);
    let (t, from, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let mut rest: u64 = from.iter().product();
    let mut dims = Vec::new();
    while rest > 1 && dims.len() < 3 {
        let factors: Vec<u64> = (1..=rest).filter(|d| rest.is_multiple_of(*d)).collect();
        let d = g.random.pick(&factors);
        dims.push(d);
        rest /= d;
    }
    if rest > 1 || g.random.once_in(4) {
        dims.push(rest);
    }
    g.push((t, &dims), op, &[x], "", f)
}

/// Dimensions in another order.
pub fn transpose(g: &mut Gen, op: &str) -> Option<usize> {
    let x = any(g, 2);
    let (t, from, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let order = g.permutation(from.len());
    let dims: Vec<u64> = order.iter().map(|&d| from[d]).collect();
    g.push((t, &dims), op, &[x], &format!(", dimensions={{{}}}", sizes(&order)), f)
}

/// Some dimensions backwards.
pub fn reverse(g: &mut Gen, op: &str) -> Option<usize> {
    let x = any(g, 1);
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let some: Vec<usize> = (0..dims.len()).filter(|_| g.random.once_in(2)).collect();
    g.push((t, &dims), op, &[x], &format!(", dimensions={{{}}}", sizes(&some)), f)
}

/// An array of several registers either way, now and then: what rows and lanes that both move by parts of a register need.
fn large(g: &mut Gen) -> Option<usize> {
    g.random.once_in(3).then(|| {
        let t = g.random.pick(&[DType::F32, DType::BF16, DType::S8]);
        let dims = [g.random.pick(&[9u64, 13, 24]), g.random.pick(&[100u64, 130, 200, 256])];
        g.parameter(t, &dims)
    })
}

/// A part, with strides.
pub fn slice(g: &mut Gen, op: &str) -> Option<usize> {
    let x = large(g).unwrap_or_else(|| any(g, 1));
    let (t, from, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let mut dims = Vec::new();
    let mut parts = Vec::new();
    for &n in &from {
        let start = g.random.below(n.div_ceil(2));
        let limit = start + 1 + g.random.below(n - start);
        let stride = g.random.pick(&[1u64, 1, 2, 3]);
        dims.push((limit - start).div_ceil(stride));
        parts.push(format!("[{start}:{limit}:{stride}]"));
    }
    g.push((t, &dims), op, &[x], &format!(", slice={{{}}}", parts.join(", ")), f)
}

/// Arrays one after the other.
pub fn concatenate(g: &mut Gen, op: &str) -> Option<usize> {
    let x = any(g, 1);
    let (t, from, mut f) = (g.dtype(x), g.dims(x), g.facts(x));
    let d = g.random.below(from.len() as u64) as usize;
    let mut operands = vec![x];
    let mut dims = from.clone();
    for _ in 0..g.random.below(3) {
        let mut other = from.clone();
        other[d] = 1 + g.random.below(9);
        let y = g.like(t, &other);
        let e = g.facts(y);
        f = Facts { bound: f.bound.max(e.bound), step: f.step.min(e.step), error: f.error.max(e.error) };
        dims[d] += other[d];
        operands.push(y);
    }
    g.push((t, &dims), op, &operands, &format!(", dimensions={{{d}}}"), f)
}

/// Edges (negative ones too) and gaps.
pub fn pad(g: &mut Gen, op: &str) -> Option<usize> {
    let x = large(g).unwrap_or_else(|| any(g, 1));
    let (t, from, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let value = g.like(t, &[]);
    let e = g.facts(value);
    let mut dims = Vec::new();
    let mut parts = Vec::new();
    for &n in &from {
        let mut edge = || if g.random.once_in(6) { g.random.range(4, 9) } else { g.random.range(-1, 3) };
        let (low, high) = (edge(), edge());
        let interior = g.random.pick(&[0i64, 0, 0, 1, 2]);
        let size = n as i64 + (n as i64 - 1).max(0) * interior + low + high;
        if size < 1 {
            return None;
        }
        dims.push(size as u64);
        parts.push(format!("{low}_{high}_{interior}"));
    }
    let f = Facts { bound: f.bound.max(e.bound), step: f.step.min(e.step), error: f.error.max(e.error) };
    g.push((t, &dims), op, &[x, value], &format!(", padding={}", parts.join("x")), f)
}

fn starts(g: &mut Gen, n: usize) -> Vec<usize> {
    let t = g.random.pick(&[DType::S32, DType::S32, DType::U32, DType::S64, DType::S8]);
    (0..n).map(|_| g.like(t, &[])).collect()
}

/// A part whose place is computed.
pub fn dynamic_slice(g: &mut Gen, op: &str) -> Option<usize> {
    let x = any(g, 1);
    let (t, from, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let dims: Vec<u64> = from.iter().map(|&n| 1 + g.random.below(n)).collect();
    let mut operands = vec![x];
    operands.extend(starts(g, from.len()));
    g.push((t, &dims), op, &operands, &format!(", dynamic_slice_sizes={{{}}}", list(&dims)), f)
}

/// A part replaced whose place is computed.
pub fn dynamic_update_slice(g: &mut Gen, op: &str) -> Option<usize> {
    let x = any(g, 1);
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let part: Vec<u64> = dims.iter().map(|&n| 1 + g.random.below(n)).collect();
    let update = g.like(t, &part);
    let e = g.facts(update);
    let mut operands = vec![x, update];
    operands.extend(starts(g, dims.len()));
    let f = Facts { bound: f.bound.max(e.bound), step: f.step.min(e.step), error: f.error.max(e.error) };
    g.push((t, &dims), op, &operands, "", f)
}

/// Indices of rows: `[n, 1]`, some outside.
fn indices(g: &mut Gen, n: u64) -> usize {
    let t = g.random.pick(&[DType::S32, DType::S32, DType::S64, DType::U8]);
    g.like(t, &[n, 1])
}

/// Rows of a matrix, or windows of an array, by index.
pub fn gather(g: &mut Gen, op: &str) -> Option<usize> {
    let x = any(g, 1);
    let (t, from, f) = (g.dtype(x), g.dims(x), g.facts(x));
    let d = g.random.below(from.len() as u64) as usize;
    let n = 1 + g.random.below(12);
    let idx = indices(g, n);
    let collapsed = g.random.once_in(2);
    let mut window = from.clone();
    window[d] = if collapsed { 1 } else { 1 + g.random.below(from[d]) };
    let mut rest = window.clone();
    if collapsed {
        rest.remove(d);
    }
    let offset: Vec<usize> = (1..=rest.len()).collect();
    let dims: Vec<u64> = [&[n], &rest[..]].concat();
    let attributes = format!(
        ", offset_dims={{{}}}, collapsed_slice_dims={{{}}}, start_index_map={{{d}}}, index_vector_dim=1, slice_sizes={{{}}}",
        sizes(&offset),
        if collapsed { d.to_string() } else { String::new() },
        list(&window)
    );
    g.push((t, &dims), op, &[x, idx], &attributes, f)
}

/// Rows combined into an array by index.
pub fn scatter(g: &mut Gen, op: &str) -> Option<usize> {
    let x = g.find(|i| !i.dims().is_empty() && (i.exact() || matches!(i.dtype(), DType::F32 | DType::F64)))?;
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    if t.is_complex() || t.is_byte_float() {
        return None;
    }
    let d = g.random.below(dims.len() as u64) as usize;
    let n = 1 + g.random.below(12);
    let idx = indices(g, n);
    let mut rest = dims.clone();
    rest.remove(d);
    let update: Vec<u64> = [&[n], &rest[..]].concat();
    let u = g.like(t, &update);
    let e = g.facts(u);
    let (name, facts) = super::numeric::combiner(g, t, &f, &e, n as f64)?;
    let window: Vec<usize> = (1..=rest.len()).collect();
    let attributes = format!(
        ", update_window_dims={{{}}}, inserted_window_dims={{{d}}}, scatter_dims_to_operand_dims={{{d}}}, index_vector_dim=1, to_apply={name}",
        sizes(&window)
    );
    g.push((t, &dims), op, &[x, idx, u], &attributes, facts)
}

/// The value itself.
pub fn copy(g: &mut Gen, op: &str) -> Option<usize> {
    let x = any(g, 0);
    let (t, dims, f) = (g.dtype(x), g.dims(x), g.facts(x));
    g.push((t, &dims), op, &[x], "", f)
}

/// The size of a dimension.
pub fn dimension_size(g: &mut Gen, op: &str) -> Option<usize> {
    let x = any(g, 1);
    let d = g.random.below(g.dims(x).len() as u64);
    g.push(
        (DType::S32, &[]),
        op,
        &[x],
        &format!(", dimensions={{{d}}}"),
        Facts { bound: 3000.0, step: 1.0, error: 0.0 },
    )
}
