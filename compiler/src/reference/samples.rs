//! Sample programs: one for each operation, as text with a place for the element type.
//!
//! `T` stands for the element type and `P` for its real part's type; `@B` is the name of a computation of [`BODIES`]
//! and puts it in front.

use systole_hlo::graph::{Binary, Unary};
use systole_isa::DType;

/// An operation of the page: its section, its name, and a program that uses it on every type that it takes.
pub struct Sample {
    pub section: &'static str,
    pub name: &'static str,
    /// Instructions of the entry computation.
    pub text: String,
}

/// Computations that samples call.
pub const BODIES: &[(&str, &str)] = &[
    ("@add", "@add { a = T[] parameter(0) b = T[] parameter(1) ROOT r = T[] add(a, b) }"),
    ("@less", "@less { a = T[] parameter(0) b = T[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }"),
    ("@least", "@least { a = T[] parameter(0) b = T[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }"),
    ("@twice", "@twice { s = T[64,300] parameter(0) ROOT r = T[64,300] add(s, s) }"),
    ("@same", "@same { s = T[64,300] parameter(0) ROOT r = T[64,300] copy(s) }"),
    (
        "@running",
        "@running { x = T[] parameter(0) c = T[] parameter(1) s = T[] add(c, x) ROOT r = (T[], T[]) tuple(s, s) }",
    ),
    (
        "@test",
        "@test { s = (s32[], T[64,300]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(99) ROOT r = pred[] compare(i, n), direction=LT }",
    ),
    (
        "@step",
        "@step { s = (s32[], T[64,300]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = T[64,300] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = T[64,300] add(x, x) ROOT r = (s32[], T[64,300]) tuple(j, y) }",
    ),
];

const E: &str = "Elementwise";
const D: &str = "Data movement";
const W: &str = "Contractions and windows";
const C: &str = "Control flow";

/// All operations of programs for one device, in the order of the page.
#[allow(clippy::wildcard_enum_match_arm, reason = "results are truth values, parts, or of the operand's type")]
pub fn samples() -> Vec<Sample> {
    let x = "x = T[64,300] parameter(0)";
    let unary = Unary::ALL.iter().filter(|&&u| u != Unary::ErfInv).map(|u| {
        // Of complex numbers.
        let result = match u.result(DType::C64) {
            DType::Pred => "pred",
            DType::F32 => "P",
            _ => "T",
        };
        sample(E, u.name(), format!("{x} ROOT r = {result}[64,300] {}(x)", u.name()))
    });
    let binary = Binary::ALL.iter().map(|b| {
        let result = if *b == Binary::Complex { "C" } else { "T" };
        sample(E, b.name(), format!("{x} y = T[64,300] parameter(1) ROOT r = {result}[64,300] {}(x, y)", b.name()))
    });
    let others = OTHERS.iter().map(|(section, name, text)| sample(section, name, text.to_string()));
    let mut all: Vec<Sample> = unary.chain(binary).chain(others).collect();
    // The elementwise ones by name, the rest as they stand.
    all.sort_by_key(|s| match s.section {
        E => (0, s.name),
        _ => (1, ""),
    });
    all
}

fn sample(section: &'static str, name: &'static str, text: String) -> Sample {
    Sample { section, name, text }
}

/// The operations without a row in the tables of elementwise ones: section, name, instructions of the entry computation.
#[rustfmt::skip]
const OTHERS: &[(&str, &str, &str)] = &[
            (E, "bitcast-convert", "x = T[64,300] parameter(0) ROOT r = U[64,300] bitcast-convert(x)"),
    (E, "clamp", "x = T[64,300] parameter(0) y = T[64,300] parameter(1) z = T[64,300] parameter(2) ROOT r = T[64,300] clamp(y, x, z)"),
    (E, "compare", "x = T[64,300] parameter(0) y = T[64,300] parameter(1) ROOT r = pred[64,300] compare(x, y), direction=EQ"),
    (E, "convert", "x = T[64,300] parameter(0) ROOT r = f32[64,300] convert(x)"),
            (E, "iota", "ROOT r = T[64,300] iota(), iota_dimension=1"),
        (E, "map", "x = T[64,300] parameter(0) y = T[64,300] parameter(1) ROOT r = T[64,300] map(x, y), dimensions={0,1}, to_apply=@add"),
            (E, "reduce-precision", "x = T[64,300] parameter(0) ROOT r = T[64,300] reduce-precision(x), exponent_bits=4, mantissa_bits=2"),
        (E, "select", "p = pred[64,300] parameter(0) x = T[64,300] parameter(1) y = T[64,300] parameter(2) ROOT r = T[64,300] select(p, x, y)"),
                (E, "rng", "a = T[] parameter(0) b = T[] parameter(1) ROOT r = T[64,300] rng(a, b), distribution=rng_uniform"),
    (E, "rng-bit-generator", "s = u64[2] parameter(0) ROOT r = (u64[2], T[64,300]) rng-bit-generator(s), algorithm=rng_three_fry"),
    (E, "stochastic-convert", "x = T[64,300] parameter(0) y = U[64,300] parameter(1) ROOT r = bf16[64,300] stochastic-convert(x, y)"),
    (D, "broadcast", "x = T[300] parameter(0) ROOT r = T[64,300] broadcast(x), dimensions={1}"),
    (D, "concatenate", "x = T[64,300] parameter(0) y = T[64,300] parameter(1) ROOT r = T[64,600] concatenate(x, y), dimensions={1}"),
    (D, "copy", "x = T[64,300] parameter(0) ROOT r = T[64,300] copy(x)"),
    (D, "dynamic-slice", "x = T[64,300] parameter(0) i = s32[] parameter(1) ROOT r = T[9,70] dynamic-slice(x, i, i), dynamic_slice_sizes={9,70}"),
    (D, "dynamic-update-slice", "x = T[64,300] parameter(0) u = T[9,70] parameter(1) i = s32[] parameter(2) ROOT r = T[64,300] dynamic-update-slice(x, u, i, i)"),
    (D, "gather", "x = T[64,300] parameter(0) i = s32[40] parameter(1) ROOT r = T[40,300] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,300}"),
    (D, "gather (elements)", "x = T[300] parameter(0) i = s32[400] parameter(1) ROOT r = T[400] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"),
    (D, "pad", "x = T[64,300] parameter(0) v = T[] parameter(1) ROOT r = T[67,605] pad(x, v), padding=1_2x3_3_1"),
    (D, "reshape", "x = T[64,300] parameter(0) ROOT r = T[300,64] reshape(x)"),
    (D, "reverse", "x = T[64,300] parameter(0) ROOT r = T[64,300] reverse(x), dimensions={1}"),
    (D, "scatter", "x = T[64,300] parameter(0) i = s32[40] parameter(1) u = T[40,300] parameter(2) ROOT r = T[64,300] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=@add"),
    (D, "slice", "x = T[64,300] parameter(0) ROOT r = T[30,100] slice(x), slice={[1:61:2], [5:105]}"),
    (D, "transpose", "x = T[64,300] parameter(0) ROOT r = T[300,64] transpose(x), dimensions={1,0}"),
    (W, "batch-norm-grad", "x = T[8,64,32] parameter(0) s = T[32] parameter(1) m = T[32] parameter(2) v = T[32] parameter(3) g = T[8,64,32] parameter(4) ROOT r = (T[8,64,32], T[32], T[32]) batch-norm-grad(x, s, m, v, g), epsilon=0.01, feature_index=2"),
    (W, "batch-norm-inference", "x = T[8,64,32] parameter(0) s = T[32] parameter(1) o = T[32] parameter(2) m = T[32] parameter(3) v = T[32] parameter(4) ROOT r = T[8,64,32] batch-norm-inference(x, s, o, m, v), epsilon=0.01, feature_index=2"),
    (W, "batch-norm-training", "x = T[8,64,32] parameter(0) s = T[32] parameter(1) o = T[32] parameter(2) ROOT r = (T[8,64,32], T[32], T[32]) batch-norm-training(x, s, o), epsilon=0.01, feature_index=2"),
    (W, "cholesky", "x = T[64,64] parameter(0) ROOT r = T[64,64] cholesky(x), lower=true"),
    (W, "convolution", "x = T[2,9,9,32] parameter(0) k = T[3,3,32,64] parameter(1) ROOT r = T[2,9,9,64] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    (W, "dot", "x = T[64,300] parameter(0) y = T[300,200] parameter(1) ROOT r = T[64,200] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    (W, "fft", "x = T[64,1024] parameter(0) ROOT r = T[64,1024] fft(x), fft_type=FFT, fft_length={1024}"),
    (W, "ragged-dot", "x = T[64,300] parameter(0) w = T[4,300,200] parameter(1) g = s32[4] parameter(2) ROOT r = T[64,200] ragged-dot(x, w, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"),
    (W, "reduce", "x = T[64,300] parameter(0) i = T[] parameter(1) ROOT r = T[64] reduce(x, i), dimensions={1}, to_apply=@add"),
    (W, "reduce-window", "x = T[64,300] parameter(0) i = T[] parameter(1) ROOT r = T[64,300] reduce-window(x, i), window={size=3x3 pad=1_1x1_1}, to_apply=@add"),
    (W, "reduce-window (prefix)", "x = T[64,300] parameter(0) i = T[] constant(0) ROOT r = T[64,300] reduce-window(x, i), window={size=1x300 pad=0_0x299_0}, to_apply=@add"),
    (W, "scaled-dot", "x = T[64,320] parameter(0) y = T[320,200] parameter(1) a = T[64,10] parameter(2) b = T[10,200] parameter(3) ROOT r = f32[64,200] scaled-dot(x, y, a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    (W, "scan", "x = T[300] parameter(0) i = T[] parameter(1) ROOT r = (T[300], T[]) scan(x, i), dimensions={0}, num_carries=1, to_apply=@running"),
    (W, "select-and-scatter", "x = T[8,64,32] parameter(0) s = T[8,32,32] parameter(1) i = T[] parameter(2) ROOT r = T[8,64,32] select-and-scatter(x, s, i), window={size=1x2x1 stride=1x2x1}, select=@least, scatter=@add"),
    (W, "sort", "x = T[64,300] parameter(0) ROOT r = T[64,300] sort(x), dimensions={1}, is_stable=true, to_apply=@less"),
    (W, "topk", "x = T[64,300] parameter(0) ROOT r = (T[64,5], s32[64,5]) topk(x), k=5, largest=true"),
    (W, "triangular-solve", "x = T[64,64] parameter(0) y = T[64,20] parameter(1) ROOT r = T[64,20] triangular-solve(x, y), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"),
    (C, "conditional", "p = pred[] parameter(0) x = T[64,300] parameter(1) ROOT r = T[64,300] conditional(p, x, x), true_computation=@twice, false_computation=@same"),
    (C, "while", "x = T[64,300] parameter(0) i = s32[] constant(0) s = (s32[], T[64,300]) tuple(i, x) ROOT r = (s32[], T[64,300]) while(s), condition=@test, body=@step"),
];
