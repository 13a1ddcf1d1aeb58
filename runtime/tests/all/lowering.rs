//! Lowers every program of the conformance suites beside the checkout, and runs the small ones before and after on the
//! reference evaluator; skips when the suites are absent.

use std::path::{Path, PathBuf};
use systole_compiler::eval::{EvalOptions, Tensor, Value, evaluate};
use systole_compiler::front::parse_hlo;
use systole_compiler::graph::{ArrayShape, Module, Shape};
use systole_compiler::pipeline::{PassOptions, lower_to_core};
use systole_hlo::core::CoreModule;
use systole_isa::{ChipConfig, DType, dtype::DTypeClass};

fn options() -> PassOptions {
    let chip = ChipConfig::from_preset("tpu-v5e").expect("a preset");
    let mut options = PassOptions { verify: true, ..PassOptions::for_chip(&chip) };
    (options.chip.mxu_types, options.chip.mxu_cols) = (vec![DType::BF16, DType::S8], 128);
    options
}

fn programs(folder: &str) -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let roots = ["../../shared/conformance", "../../../shared/conformance"];
    let Some(entries) = roots.iter().find_map(|r| std::fs::read_dir(here.join(r).join(folder)).ok()) else {
        return Vec::new();
    };
    let mut out: Vec<PathBuf> = entries
        .filter_map(|e| e.ok())
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "hlo"))
        .collect();
    out.sort();
    out
}

fn parsed(path: &Path) -> Result<Module, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let messages = |d: &systole_compiler::diag::Diagnostic| d.message.clone();
    Ok(parse_hlo(&text).map_err(|d| d.iter().map(messages).collect::<Vec<_>>().join("; "))?.0)
}

fn lowered(module: Module) -> Result<CoreModule, String> {
    lower_to_core(module, &options(), &mut |_, _| {}).map_err(|e| e.to_string())
}

fn report(failures: &[String]) {
    assert!(failures.is_empty(), "{} programs fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn conformance_programs_lower_to_core_operations() {
    let mut failures = Vec::new();
    for folder in ["ops", "models", "large"] {
        for path in programs(folder) {
            let name = path.file_stem().map(|n| n.to_string_lossy().to_string()).unwrap_or_default();
            if MANY_DEVICES.iter().any(|e| name.starts_with(e)) {
                continue;
            }
            if let Err(e) = parsed(&path).and_then(lowered) {
                failures.push(format!("{}: {e}", path.display()));
            }
        }
    }
    report(&failures);
}

/// Deterministic bits for an array that the suite has no values for.
fn generated(shape: &ArrayShape, seed: u64) -> Tensor {
    let n = shape.elements() as usize * shape.dtype.components().max(1);
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut values = Vec::with_capacity(n);
    for _ in 0..n {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        values.push((state >> 40) as f64 / (1u64 << 24) as f64);
    }
    let part = shape.dtype.real();
    let encode = |v: f64| -> Vec<u8> {
        let number = match part.class() {
            DTypeClass::Pred => f64::from(v > 0.5),
            DTypeClass::Signed | DTypeClass::Unsigned => (v * 7.0).floor(),
            DTypeClass::Float | DTypeClass::Complex => v * 3.0 - 1.5,
        };
        systole_compiler::graph::number::element_bytes(part, number)
    };
    let parts = if shape.dtype.is_complex() { 2 } else { 1 };
    let count = shape.elements() as usize * parts;
    let bytes: Vec<u8> = values.iter().cycle().take(count).flat_map(|&v| encode(v)).collect();
    Tensor::new(shape.dtype, &shape.dims.iter().map(|&d| d as usize).collect::<Vec<_>>(), bytes)
}

/// `argN` of the archive beside a program, if it is there.
fn from_archive(path: &Path, index: usize, shape: &ArrayShape) -> Option<Tensor> {
    let name = format!("arg{index}");
    let file = path.with_extension("npz");
    let array = systole_runtime::npz::read_some(&file.to_string_lossy(), &|n| n == name).ok()?.remove(&name)?;
    let dims: Vec<usize> = shape.dims.iter().map(|&d| d as usize).collect();
    let fits = array.dtype == shape.dtype && array.bytes.len() == shape.elements() as usize * shape.dtype.host_bytes();
    fits.then(|| Tensor::new(shape.dtype, &dims, array.bytes))
}

fn nested(shape: &Shape, leaves: &mut dyn Iterator<Item = Tensor>) -> Option<Value> {
    Some(match shape {
        Shape::Array(_) => Value::Array(leaves.next()?),
        Shape::Tuple(t) => Value::Tuple(t.iter().map(|s| nested(s, leaves)).collect::<Option<_>>()?),
        Shape::Token => Value::Token,
    })
}

/// Whether two arrays agree within what their types and a change of the order of sums allow.
fn agree(want: &Tensor, have: &Tensor) -> Result<(), String> {
    if want.dtype != have.dtype || want.dims != have.dims {
        return Err(format!("{}{:?} is not {}{:?}", have.dtype, have.dims, want.dtype, want.dims));
    }
    let numbers = |t: &Tensor| -> Vec<f64> {
        (0..t.elements())
            .flat_map(|i| match t.get(i) {
                systole_compiler::eval::scalar::Scalar::I(v) => vec![v as f64],
                systole_compiler::eval::scalar::Scalar::F(v) => vec![v],
                systole_compiler::eval::scalar::Scalar::C(re, im) => vec![re, im],
            })
            .collect()
    };
    let (w, h) = (numbers(want), numbers(have));
    let scale = w.iter().filter(|v| v.is_finite()).fold(0.0f64, |m, v| m.max(v.abs()));
    let share = match want.dtype {
        DType::F64 | DType::C128 => 1e-9,
        DType::F32 | DType::C64 => 2e-5,
        DType::F16 => 4e-3,
        t if t.is_float() => 3e-2,
        _ => 0.0,
    };
    for (i, (a, b)) in w.iter().zip(&h).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= share * scale.max(1e-6);
        if !same {
            return Err(format!("element {i} is {b}, not {a}"));
        }
    }
    Ok(())
}

/// An array as a program has it (`own`) that may work in another order of dimensions than the host: `known` is what the
/// entry's layout says of it.
fn in_order(t: Tensor, known: Option<&Shape>, own: &Shape) -> Tensor {
    let order = known.and_then(Shape::as_array).and_then(|a| a.minor_to_major.clone());
    let (Some(order), Some(own)) = (order, own.as_array()) else { return t };
    let order: Vec<usize> = order.into_iter().rev().map(usize::from).collect();
    let dims: Vec<usize> = order.iter().map(|&d| t.dims[d]).collect();
    if own.minor_to_major.is_some() || !dims.iter().map(|&d| d as u64).eq(own.dims.iter().copied()) {
        return t;
    }
    let stride = |d: usize| t.dims[d + 1..].iter().product::<usize>();
    let width = t.bytes().len() / t.elements().max(1);
    let mut bytes = Vec::with_capacity(t.bytes().len());
    for mut i in 0..t.elements() {
        let mut from = 0;
        for (&d, &size) in order.iter().zip(&dims).rev() {
            from += i % size * stride(d);
            i /= size;
        }
        bytes.extend_from_slice(&t.bytes()[from * width..][..width]);
    }
    Tensor::new(t.dtype, &dims, bytes)
}

fn before_and_after(path: &Path) -> Result<(), String> {
    let module = parsed(path)?;
    let entry = module.entry();
    let shapes: Vec<Shape> = entry.params.iter().map(|&p| entry.node(p).shape.clone()).collect();
    let leaves: Vec<ArrayShape> = shapes.iter().flat_map(|s| s.leaves().into_iter().cloned()).collect();
    let flat: Vec<Tensor> = leaves
        .iter()
        .enumerate()
        .map(|(i, s)| from_archive(path, i, s).unwrap_or_else(|| generated(s, i as u64 + 1)))
        .collect();
    let mut next = flat.clone().into_iter();
    let inputs: Vec<Value> = shapes.iter().filter_map(|s| nested(s, &mut next)).collect();
    let opts = EvalOptions::default();
    let want = evaluate(&module, &inputs, &opts).map_err(|e| format!("before: {e}"))?.into_leaves();
    let core = lowered(module)?;
    // Parameters may have another shape of as many elements by now, or another order of dimensions.
    let entry = core.entry();
    let known = core.entry_layout.as_ref();
    let shaped = |(i, (t, &p)): (usize, (Tensor, &_))| match entry.node(p).shape.as_array() {
        Some(a) => {
            let t = in_order(t, known.and_then(|k| k.0.get(i)), &entry.node(p).shape);
            let dims: Vec<usize> = a.dims.iter().map(|&d| d as usize).collect();
            Value::Array(Tensor::new(t.dtype, &dims, t.bytes().to_vec()))
        }
        None => Value::Array(t),
    };
    let inputs: Vec<Value> = flat.into_iter().zip(&entry.params).enumerate().map(shaped).collect();
    let have = evaluate(&core, &inputs, &opts).map_err(|e| format!("after: {e}"))?.into_leaves();
    if want.len() != have.len() {
        return Err(format!("{} results, not {}", have.len(), want.len()));
    }
    let parts = |s: &Shape| if let Shape::Tuple(t) = s { t.clone() } else { vec![s.clone()] };
    let results = known.map_or(Vec::new(), |k| parts(&k.1));
    let own = parts(entry.result());
    for (i, (w, h)) in want.into_iter().zip(&have).enumerate() {
        let w = in_order(w, results.get(i), &own[i]);
        let w = if w.elements() == h.elements() { Tensor::new(w.dtype, &h.dims, w.bytes().to_vec()) } else { w };
        agree(&w, h).map_err(|e| format!("result {i}: {e}"))?;
    }
    Ok(())
}

/// Programs that need several devices, or whose results the passes decide.
/// (`reduce_window_add_f32_2_364` scans from an initial value that is not neutral: blocks repeat it, as in XLA.)
const ELSEWHERE: &[&str] =
    &["reduce_window_add_f32_2_364", "all_", "collective_", "reduce_scatter", "async_", "replica_id", "partition_id"];

/// Programs that only several devices run.
const MANY_DEVICES: &[&str] = &["all_", "collective_", "reduce_scatter", "async_", "replica_id", "partition_id"];

#[test]
fn lowered_programs_compute_the_same() {
    let mut failures = Vec::new();
    for folder in ["ops", "models"] {
        for path in programs(folder) {
            let name = path.file_stem().map(|n| n.to_string_lossy().to_string()).unwrap_or_default();
            if ELSEWHERE.iter().any(|e| name.starts_with(e)) {
                continue;
            }
            if let Err(e) = before_and_after(&path) {
                failures.push(format!("{folder}/{name}: {e}"));
            }
        }
    }
    report(&failures);
}
