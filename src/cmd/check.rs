//! `systole check`: the chip's answers against the reference evaluator's.
//!
//! Where the chip's own precision is part of the meaning, the evaluator takes it: operands of `f32` products at default
//! precision are rounded to `bf16`, sums and products of narrower floats than `f32` are taken in `f32` and rounded once.

use crate::args::{PrecisionArg, RunArgs};
use crate::output;
use crate::progress::Progress;
use crate::session::{self, Given};
use systole_compiler::eval::scalar::{Scalar, decode};
use systole_compiler::eval::{DotRounding, EvalOptions, Tensor, Value, evaluate};
use systole_compiler::graph::{ArrayShape, Computation, Module, Node, Shape};
use systole_isa::DType;
use systole_runtime::source::Source;
use systole_runtime::{Array, Mode, RuntimeError, memory};

/// Flags of `systole check`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,
    /// Error allowed relative to an element, and to a tenth of the largest; default: by element type
    #[arg(long)]
    rtol: Option<f64>,
    /// Error allowed in any element
    #[arg(long, default_value_t = 0.0)]
    atol: f64,
}

/// Runs the subcommand.
///
/// # Errors
/// Anything wrong with the request, a fault, or answers that differ.
pub fn run(a: &Args) -> Result<(), RuntimeError> {
    let mut progress = Progress::start("compiling");
    let opened = session::open(&a.run.module, &a.run.chip)?;
    let Source::Module { module, .. } = &opened.source else {
        let message = format!("{}: only HLO and StableHLO programs can be evaluated", a.run.module);
        return Err(RuntimeError::Request(message));
    };
    let module = module.clone();
    memory::require(largest(&module), "evaluating the program's largest operation")?;
    let mut ready = session::compile(opened, &a.run, Mode::NumericOnly)?;
    if ready.devices() > 1 {
        return Err(RuntimeError::Request("check: the reference evaluates programs of one device".into()));
    }
    let given = Given::Arrays(vec![ready.arrays(&a.run)?]);
    let done = ready.run(&a.run, &given, Mode::NumericOnly, &mut progress, Vec::new())?;
    progress.say("evaluating".into());
    let inputs = match &given {
        Given::Arrays(all) => all[0].as_slice(),
        Given::Drawn(_) => &[],
    };
    let expected = reference(&module, inputs, a.run.compile.precision)?;
    drop(progress);
    if expected.len() != done.count() {
        let message = format!("{} results, the evaluator gives {}", done.count(), expected.len());
        return Err(RuntimeError::Check(message));
    }
    let mut text = String::new();
    let mut wrong = 0;
    for (i, want) in expected.iter().enumerate() {
        let got = &done.output(0, i)?;
        let found = compare(got, want, a.rtol.unwrap_or_else(|| tolerance(got.dtype)), a.atol);
        wrong += usize::from(found.wrong > 0);
        text += &found.line(&format!("out{i}"), got);
    }
    output::print(&text)?;
    match wrong {
        0 => Ok(()),
        n => Err(RuntimeError::Check(format!("{n} of {} results differ from the reference", expected.len()))),
    }
}

/// Bytes of the largest result and operands of an operation, as the evaluator holds them.
fn largest(module: &Module) -> u64 {
    let bytes = |s: &Shape| -> u64 {
        let one = |a: &&ArrayShape| a.elements().saturating_mul(a.dtype.host_bytes() as u64);
        s.leaves().iter().map(one).fold(0, u64::saturating_add)
    };
    let nodes = module.computations.iter().flat_map(|c| c.nodes.iter().map(move |n| (c, n)));
    let of = |(c, n): (&Computation, &Node)| {
        n.operands.iter().map(|o| bytes(&c.node(*o).shape)).fold(bytes(&n.shape), u64::saturating_add)
    };
    nodes.map(of).max().unwrap_or(0)
}

/// The evaluator's results, flattened.
fn reference(module: &Module, inputs: &[Array], precision: PrecisionArg) -> Result<Vec<Tensor>, RuntimeError> {
    let entry = module.entry();
    let mut arrays = inputs.iter();
    let values: Vec<Value> = entry.params.iter().map(|&p| value(&entry.node(p).shape, &mut arrays)).collect();
    let dot_rounding = match precision {
        PrecisionArg::Default => DotRounding::Bf16,
        PrecisionArg::High | PrecisionArg::Highest => DotRounding::None,
    };
    let options = EvalOptions { dot_rounding, f32_sums: true, ..EvalOptions::default() };
    let result = evaluate(module, &values, &options).map_err(|e| RuntimeError::Check(e.to_string()))?;
    Ok(result.into_leaves())
}

/// A parameter's value from the next arrays.
fn value<'a>(shape: &Shape, arrays: &mut impl Iterator<Item = &'a Array>) -> Value {
    match shape {
        Shape::Array(_) => match arrays.next() {
            Some(a) => {
                let dims: Vec<usize> = a.dims.iter().map(|&d| d as usize).collect();
                Value::Array(Tensor::new(a.dtype, &dims, a.bytes.clone()))
            }
            None => Value::zeros(shape),
        },
        Shape::Tuple(t) => Value::Tuple(t.iter().map(|s| value(s, &mut *arrays)).collect::<Vec<_>>()),
        Shape::Token => Value::Token,
    }
}

/// Relative error that rounding explains.
#[allow(clippy::wildcard_enum_match_arm, reason = "integers and truth values are exact")]
fn tolerance(dtype: DType) -> f64 {
    match dtype.real() {
        DType::F64 => 1e-9,
        DType::F32 => 2e-3,
        t if t.is_float() => 3e-2,
        _ => 0.0,
    }
}

/// How two arrays differ.
struct Difference {
    wrong: usize,
    elements: usize,
    max_abs: f64,
    max_rel: f64,
    /// Element with the largest error beyond what is allowed: index, got, wanted.
    worst: Option<(usize, Scalar, Scalar)>,
}

/// Real and imaginary part.
fn parts(s: Scalar) -> [f64; 2] {
    let (re, im) = s.complex();
    [re, im]
}

fn compare(got: &Array, want: &Tensor, rtol: f64, atol: f64) -> Difference {
    let elements = want.elements();
    let dims: Vec<u64> = want.dims.iter().map(|&d| d as u64).collect();
    let mut d = Difference { wrong: 0, elements, max_abs: 0.0, max_rel: 0.0, worst: None };
    if got.dtype != want.dtype || got.dims != dims {
        d.wrong = elements.max(1);
        return d;
    }
    let size = got.dtype.host_bytes();
    let finite = |v: f64| if v.is_finite() { v.abs() } else { 0.0 };
    let scale = (0..elements).flat_map(|i| parts(want.get(i))).map(finite).fold(0.0, f64::max);
    let mut most = f64::NEG_INFINITY;
    for i in 0..elements {
        let (bytes, w) = (&got.bytes[i * size..(i + 1) * size], want.get(i));
        if bytes == &want.bytes()[i * size..(i + 1) * size] {
            continue;
        }
        let g = decode(got.dtype, bytes);
        if matches!((g, w), (Scalar::I(g), Scalar::I(w)) if g == w) {
            continue;
        }
        let mut beyond = f64::NEG_INFINITY;
        for (g, w) in parts(g).into_iter().zip(parts(w)) {
            if g == w && got.dtype.is_float() || g.is_nan() && w.is_nan() {
                continue;
            }
            // Infinite where one side is not finite. Equal integers may have other bits above their own. Integers that differ beyond f64's precision differ by one at least.
            let error = if (g - w).is_finite() { (g - w).abs() } else { f64::INFINITY };
            let error = if got.dtype.is_float() || got.dtype.is_complex() { error } else { error.max(1.0) };
            d.max_abs = d.max_abs.max(error);
            if w != 0.0 {
                d.max_rel = d.max_rel.max(error / w.abs());
            }
            beyond = beyond.max(error - rtol * w.abs() - rtol * 0.1 * scale - atol);
        }
        d.wrong += usize::from(beyond > 0.0);
        if beyond > most {
            most = beyond;
            d.worst = Some((i, g, w));
        }
    }
    d
}

fn show(s: Scalar) -> String {
    match s {
        Scalar::I(v) => v.to_string(),
        Scalar::F(v) => format!("{v:e}"),
        Scalar::C(re, im) => format!("({re:e}, {im:e})"),
    }
}

impl Difference {
    /// The result's line of the report.
    fn line(&self, name: &str, got: &Array) -> String {
        let verdict = if self.wrong == 0 { "ok" } else { "DIFFERS" };
        let mut text = format!(
            "{name} {}: {verdict}, {} of {} beyond tolerance, max abs error {:.3e}, max rel error {:.3e}",
            got.shape(),
            self.wrong,
            self.elements,
            self.max_abs,
            self.max_rel
        );
        if let Some((i, g, w)) = self.worst {
            text += &format!(", worst at {:?}: {} for {}", index(i, &got.dims), show(g), show(w));
        }
        text + "\n"
    }
}

/// The multi-dimensional index of element `i`.
fn index(mut i: usize, dims: &[u64]) -> Vec<usize> {
    let mut out: Vec<usize> = dims
        .iter()
        .rev()
        .map(|&d| {
            let d = d.max(1) as usize;
            let at = i % d;
            i /= d;
            at
        })
        .collect();
    out.reverse();
    out
}
