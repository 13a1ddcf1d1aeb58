//! What is computed or simplified at compile time gives the chip's own answer, bit for bit, special values included.

use systole_isa::DType;
use systole_runtime::{Array, Asked, Client, CompileOptions};

const SPECIAL: [f32; 18] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    2.5,
    -3.75,
    3.402_823_5e38,
    -3.402_823_5e38,
    1.175_494_4e-38,
    0.1,
    -0.3,
    7.0,
    1e10,
    -1e-10,
    0.333_333_34,
];

fn text_of(v: f32) -> String {
    match v {
        v if v.is_nan() => "nan".into(),
        f32::INFINITY => "inf".into(),
        f32::NEG_INFINITY => "-inf".into(),
        v => format!("{v:e}"),
    }
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Runs a program of one `f32` result without folding.
fn run(client: &Client, text: &str, inputs: &[Array]) -> Vec<f32> {
    let exe = client.compile_text(text, &CompileOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    client.device(0).run(&exe, inputs).unwrap_or_else(|e| panic!("{e}\n{text}")).outputs[0].to_f32()
}

#[test]
fn local_rules_keep_special_values() {
    let client = Client::new("tiny").unwrap();
    let n = SPECIAL.len();
    let x = Array::from_f32(&[n as u64], &SPECIAL);
    type Rule = (&'static str, fn(f32, f32) -> f32);
    let nan_max = |a: f32, b: f32| {
        if a.is_nan() || b.is_nan() {
            f32::NAN
        } else if a > b {
            a
        } else {
            b
        }
    };
    let rules: [Rule; 5] = [
        ("add", |a, b| a + b),
        ("subtract", |a, b| a - b),
        ("multiply", |a, b| a * b),
        ("divide", |a, b| a / b),
        ("maximum", nan_max),
    ];
    for (op, meaning) in rules {
        // An operand with itself.
        let text = format!("HloModule m\nENTRY e {{ x = f32[{n}] parameter(0)\n ROOT r = f32[{n}] {op}(x, x) }}");
        for (i, (got, &v)) in run(&client, &text, std::slice::from_ref(&x)).into_iter().zip(&SPECIAL).enumerate() {
            let want = meaning(v, v);
            // Results below the smallest normal are zeros.
            let want = if want.is_subnormal() { 0f32.copysign(want) } else { want };
            assert!(same(got, want), "{op}(x, x) at {i}: {v} gives {got}, not {want}");
        }
        // An operand with each constant, on both sides.
        for c in [0.0, -0.0, 1.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 2.0, 0.5] {
            for constant_first in [false, true] {
                let operands = if constant_first { "c, x" } else { "x, c" };
                let text = format!(
                    "HloModule m\nENTRY e {{ x = f32[{n}] parameter(0)\n k = f32[] constant({})\n c = f32[{n}] broadcast(k), dimensions={{}}\n ROOT r = f32[{n}] {op}({operands}) }}",
                    text_of(c)
                );
                for (got, &v) in run(&client, &text, std::slice::from_ref(&x)).into_iter().zip(&SPECIAL) {
                    let want = if constant_first { meaning(c, v) } else { meaning(v, c) };
                    let want = if want.is_subnormal() { 0f32.copysign(want) } else { want };
                    // Of zeros of both signs either is the larger.
                    let zeros = op == "maximum" && got == 0.0 && want == 0.0;
                    assert!(same(got, want) || zeros, "{op}({operands}) of {v} and {c} gives {got}, not {want}");
                }
            }
        }
    }
}

/// Elementwise operations on constants, with folding and without.
#[test]
#[cfg(feature = "evaluator")]
fn folding_changes_no_bit() {
    let client = Client::new("tiny").unwrap();
    let unary = [
        "abs",
        "negate",
        "sign",
        "floor",
        "ceil",
        "round-nearest-afz",
        "round-nearest-even",
        "exponential",
        "exponential-minus-one",
        "log",
        "log-plus-one",
        "tanh",
        "sine",
        "cosine",
        "tan",
        "sqrt",
        "rsqrt",
        "cbrt",
        "logistic",
        "erf",
    ];
    let binary = ["add", "subtract", "multiply", "divide", "remainder", "power", "atan2", "maximum", "minimum"];
    let n = SPECIAL.len();
    for dtype in ["f32", "f64", "bf16", "f16"] {
        let list = |shift: usize| {
            let of = |i: usize| SPECIAL[(i + shift) % n];
            let (low, high) = match dtype {
                "f16" => (1e-4, 6e4),
                "bf16" => (1e-38, 3e38),
                _ => (0.0, f32::INFINITY),
            };
            let fits = |v: f32| if v.is_finite() && v != 0.0 && !(low..high).contains(&v.abs()) { 3.0 } else { v };
            (0..n).map(|i| text_of(fits(of(i)))).collect::<Vec<_>>().join(", ")
        };
        let mut body =
            format!(" a = {dtype}[{n}] constant({{{}}})\n b = {dtype}[{n}] constant({{{}}})\n", list(0), list(5));
        let mut names = Vec::new();
        let mut types = Vec::new();
        for (i, op) in unary.iter().enumerate() {
            body += &format!(" u{i} = {dtype}[{n}] {op}(a)\n");
            names.push(format!("u{i}"));
            types.push(format!("{dtype}[{n}]"));
        }
        for (i, op) in binary.iter().enumerate() {
            body += &format!(" v{i} = {dtype}[{n}] {op}(a, b)\n");
            names.push(format!("v{i}"));
            types.push(format!("{dtype}[{n}]"));
        }
        for (i, to) in
            ["f32", "f64", "bf16", "f16", "s32", "s8", "u16", "s64", "pred", "f8e4m3fn", "f8e5m2"].iter().enumerate()
        {
            body += &format!(" w{i} = {to}[{n}] convert(a)\n");
            names.push(format!("w{i}"));
            types.push(format!("{to}[{n}]"));
        }
        let text = format!(
            "HloModule m\nENTRY e {{\n{body} ROOT t = ({}) tuple({})\n}}\n",
            types.join(", "),
            names.join(", ")
        );
        let go = |fold: bool| {
            let options = CompileOptions { asked: Asked { fold, ..Asked::default() }, ..CompileOptions::default() };
            let exe = client.compile_text(&text, &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
            client.device(0).run(&exe, &[]).unwrap().outputs
        };
        for ((with, without), name) in go(true).iter().zip(&go(false)).zip(&names) {
            if with.dtype.is_float() && !with.dtype.is_byte_float() {
                let numbers = |a: &Array| match a.dtype {
                    DType::F64 => a.bytes.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect(),
                    _ => a.to_f32().into_iter().map(f64::from).collect::<Vec<f64>>(),
                };
                for (i, (x, y)) in numbers(with).into_iter().zip(numbers(without)).enumerate() {
                    let same = x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
                    assert!(same, "{dtype} {name} element {i}: {x} folded, {y} on the chip");
                }
            } else {
                assert_eq!(with.bytes, without.bytes, "{dtype} {name}");
            }
        }
    }
    // 64-bit integers to floats.
    let values = "9007199254740993, -9007199254740993, 16777217, 33554435, 123456789012345678, 65505, 1, -1";
    for to in ["f32", "f64", "bf16", "f16"] {
        let text =
            format!("HloModule m\nENTRY e {{ a = s64[8] constant({{{values}}})\n ROOT r = {to}[8] convert(a) }}");
        let go = |fold: bool| {
            let options = CompileOptions { asked: Asked { fold, ..Asked::default() }, ..CompileOptions::default() };
            let exe = client.compile_text(&text, &options).unwrap();
            client.device(0).run(&exe, &[]).unwrap().outputs.remove(0).bytes
        };
        assert_eq!(go(true), go(false), "s64 to {to}");
    }
}
