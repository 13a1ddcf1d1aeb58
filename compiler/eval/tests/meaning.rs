//! Tests of the evaluator on small programs whose answers a person can derive.

use systole_eval::scalar::{Scalar, decode, encode, special};
use systole_eval::*;
use systole_front::parse_hlo;
use systole_hlo::graph::{CompId, NodeId};
use systole_isa::DType;

fn array(dtype: DType, dims: &[usize], values: &[f64]) -> Value {
    let cast = |&v: &f64| if dtype.is_integer() || dtype == DType::Pred { Scalar::I(v as i64) } else { Scalar::F(v) };
    let bytes = scalar::scalar_bytes(dtype, values.iter().map(cast));
    Value::Array(Tensor::new(dtype, dims, bytes))
}

fn run(body: &str, inputs: &[Value]) -> Result<Vec<Tensor>, EvalError> {
    let text = format!("HloModule m\n{body}\n");
    let (module, _) = parse_hlo(&text).unwrap_or_else(|d| panic!("{}: {text}", d[0].message));
    Ok(evaluate(&module, inputs, &EvalOptions::default())?.into_leaves())
}

/// Runs a program and compares its results, all together, exactly (NaN is NaN).
fn check(body: &str, inputs: &[Value], want: &[f64]) {
    let got: Vec<f64> = run(body, inputs)
        .unwrap_or_else(|e| panic!("{e}: {body}"))
        .iter()
        .flat_map(|t| (0..t.elements()).map(|i| t.get(i).float()).collect::<Vec<_>>())
        .collect();
    let same = |a: &f64, b: &f64| a.to_bits() == b.to_bits() || a == b && *a != 0.0 || a.is_nan() && b.is_nan();
    assert!(got.len() == want.len() && got.iter().zip(want).all(|(a, b)| same(a, b)), "{got:?} for {want:?}: {body}");
}

/// A program of one elementwise operation over vectors.
fn elementwise(op: &str, from: DType, to: DType, operands: &[&[f64]], want: &[f64]) {
    let n = want.len();
    let names: Vec<String> = (0..operands.len()).map(|i| format!("p{i}")).collect();
    let params: String = names.iter().enumerate().map(|(i, p)| format!("{p} = {from}[{n}] parameter({i})\n")).collect();
    let (opcode, attributes) = op.split_once(',').map_or((op, String::new()), |(a, b)| (a, format!(", {b}")));
    let body = format!("ENTRY e {{\n{params} ROOT r = {to}[{n}] {opcode}({}){attributes} }}", names.join(", "));
    let inputs: Vec<Value> = operands.iter().map(|v| array(from, &[n], v)).collect();
    check(&body, &inputs, want);
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
/// A subnormal of f32 and bf16.
const TINY: f64 = 9.183549615799121e-41;

#[test]
fn floats_follow_ieee_and_flush_in_arithmetic_only() {
    use DType::{BF16, F16, F32, F64, Pred};
    elementwise("maximum", F32, F32, &[&[1.0, NAN, -0.0], &[NAN, 1.0, 0.0]], &[NAN, NAN, 0.0]);
    elementwise("minimum", F32, F32, &[&[1.0, 0.0, TINY], &[2.0, -0.0, -1.0]], &[1.0, -0.0, -1.0]);
    for t in [F32, BF16] {
        elementwise("add", t, t, &[&[TINY, 1.0], &[0.0, 1.0]], &[0.0, 2.0]);
        elementwise("negate", t, t, &[&[TINY]], &[-TINY]);
        elementwise("abs", t, t, &[&[-TINY]], &[TINY]);
        elementwise("compare,direction=NE", t, Pred, &[&[TINY], &[0.0]], &[0.0]);
        elementwise(
            "compare,direction=GT, type=TOTALORDER",
            t,
            Pred,
            &[&[TINY, 0.0, NAN], &[0.0, -0.0, INF]],
            &[1.0, 1.0, 1.0],
        );
    }
    elementwise("add", F64, F64, &[&[1e-310], &[0.0]], &[0.0]);
    elementwise("add", F16, F16, &[&[2f64.powi(-24), 2048.0], &[0.0, 1.0]], &[2f64.powi(-24), 2048.0]);
    elementwise("multiply", BF16, BF16, &[&[1.0078125], &[1.0078125]], &[1.015625]);
    elementwise("remainder", F32, F32, &[&[-5.5, 5.5], &[2.0, -2.0]], &[-1.5, 1.5]);
    elementwise("round-nearest-afz", F32, F32, &[&[2.5, -2.5, -0.25]], &[3.0, -3.0, -0.0]);
    elementwise("round-nearest-even", F32, F32, &[&[2.5, -2.5, 3.5]], &[2.0, -2.0, 4.0]);
    elementwise("sign", F32, F32, &[&[-3.0, -0.0, NAN]], &[-1.0, -0.0, NAN]);
    elementwise(
        "reduce-precision,exponent_bits=5, mantissa_bits=2",
        F32,
        F32,
        &[&[1.125, 1.375, 1e9, 1e-9, NAN]],
        &[1.0, 1.5, INF, 0.0, NAN],
    );
}

#[test]
fn integers_wrap_and_divide_by_zero() {
    use DType::{Pred, S8, S32, U8, U32};
    elementwise(
        "divide",
        S32,
        S32,
        &[&[7.0, 7.0, -2147483648.0, -7.0], &[0.0, 2.0, -1.0, 2.0]],
        &[-1.0, 3.0, -2147483648.0, -3.0],
    );
    elementwise("remainder", S32, S32, &[&[7.0, -7.0, -2147483648.0], &[0.0, 2.0, -1.0]], &[7.0, -1.0, 0.0]);
    elementwise("divide", U8, U8, &[&[7.0, 200.0], &[0.0, 3.0]], &[255.0, 66.0]);
    elementwise("power", S32, S32, &[&[2.0, -1.0, 3.0, 1.0], &[10.0, -3.0, -1.0, -5.0]], &[1024.0, -1.0, 0.0, 1.0]);
    elementwise("add", S8, S8, &[&[127.0], &[1.0]], &[-128.0]);
    elementwise("add", Pred, Pred, &[&[1.0, 0.0], &[1.0, 0.0]], &[1.0, 0.0]);
    elementwise("multiply", Pred, Pred, &[&[1.0, 1.0], &[1.0, 0.0]], &[1.0, 0.0]);
    elementwise("shift-left", S32, S32, &[&[1.0, 1.0, 1.0], &[31.0, 32.0, -1.0]], &[-2147483648.0, 0.0, 0.0]);
    elementwise("shift-right-arithmetic", S8, S8, &[&[-128.0, 64.0], &[9.0, 9.0]], &[-1.0, 0.0]);
    elementwise("shift-right-arithmetic", U8, U8, &[&[128.0], &[9.0]], &[255.0]);
    elementwise("shift-right-logical", S8, S8, &[&[-128.0, -1.0], &[7.0, 8.0]], &[1.0, 0.0]);
    elementwise("count-leading-zeros", U8, U8, &[&[0.0, 1.0, 255.0]], &[8.0, 7.0, 0.0]);
    elementwise("popcnt", S8, S8, &[&[-1.0]], &[8.0]);
    elementwise("not", Pred, Pred, &[&[0.0, 1.0]], &[1.0, 0.0]);
    elementwise("negate", U32, U32, &[&[1.0]], &[4294967295.0]);
}

#[test]
fn conversions_saturate_and_wrap() {
    use DType::{BF16, F4E2M1FN, F8E4M3FN, F8E5M2, F16, F32, Pred, S8, S32, U8};
    elementwise("convert", F32, S8, &[&[300.0, -300.0, 1.9, -1.9, NAN]], &[127.0, -128.0, 1.0, -1.0, 0.0]);
    elementwise("convert", F32, U8, &[&[-3.0, 255.9, INF]], &[0.0, 255.0, 255.0]);
    elementwise("convert", S32, S8, &[&[300.0, 128.0]], &[44.0, -128.0]);
    elementwise("convert", S32, F32, &[&[16777217.0, 16777219.0]], &[16777216.0, 16777220.0]);
    elementwise("convert", F32, Pred, &[&[0.5, -0.0, NAN, TINY]], &[1.0, 0.0, 1.0, 0.0]);
    elementwise("convert", F32, BF16, &[&[1.00390625, 1.01171875]], &[1.0, 1.015625]);
    elementwise("convert", F32, F16, &[&[65519.0, 65520.0]], &[65504.0, INF]);
    elementwise("convert", F32, F8E4M3FN, &[&[448.0, 464.0, 465.0, 0.0029296875]], &[448.0, 448.0, NAN, 0.00390625]);
    elementwise("convert", F32, F8E5M2, &[&[61439.0, 61440.0]], &[57344.0, INF]);
    elementwise("convert", F32, F4E2M1FN, &[&[0.25, 0.26, 5.0, -9.0, INF, NAN]], &[0.0, 0.5, 4.0, -6.0, 6.0, -0.0]);
}

#[test]
fn moves() {
    let x = array(DType::S32, &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let one = |op: &str, shape: &str, want: &[f64]| {
        let body = format!(
            "ENTRY e {{ x = s32[2,3] parameter(0) i = s32[] constant(9) z = s32[] constant(7) o = s32[] constant(-4) ROOT r = s32[{shape}] {op} }}"
        );
        check(&body, std::slice::from_ref(&x), want);
    };
    one("transpose(x), dimensions={1,0}", "3,2", &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    one("reverse(x), dimensions={1}", "2,3", &[2.0, 1.0, 0.0, 5.0, 4.0, 3.0]);
    one("slice(x), slice={[1:2],[0:3:2]}", "1,2", &[3.0, 5.0]);
    one("pad(x, z), padding=-1_0x1_-1_1", "1,5", &[7.0, 3.0, 7.0, 4.0, 7.0]);
    one("pad(x, z), padding=0_-1x-1_-2_1", "1,2", &[7.0, 1.0]);
    one("dynamic-slice(x, i, o), dynamic_slice_sizes={1,2}", "1,2", &[3.0, 4.0]);
    one("concatenate(x, x), dimensions={1}", "2,6", &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 4.0, 5.0]);
    one("iota(), iota_dimension=1", "2,3", &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    check(
        "ENTRY e { x = s32[2,3] parameter(0) u = s32[1,1] constant({{9}}) i = s8[] constant(1) j = u8[] constant(200)
           ROOT r = s32[2,3] dynamic-update-slice(x, u, i, j) }",
        std::slice::from_ref(&x),
        &[0.0, 1.0, 2.0, 3.0, 4.0, 9.0],
    );
    check(
        "ENTRY e { x = u16[2] constant({513, 1027}) ROOT r = u8[2,2] bitcast-convert(x) }",
        &[],
        &[1.0, 2.0, 3.0, 4.0],
    );
    check("ENTRY e { x = u8[2,2] constant({{1,2},{3,4}}) ROOT r = u16[2] bitcast-convert(x) }", &[], &[513.0, 1027.0]);
    check("ENTRY e { x = u8[1] constant({33}) ROOT r = u4[1,2] bitcast-convert(x) }", &[], &[1.0, 2.0]);
}

#[test]
fn gathers_clamp_and_scatters_skip() {
    check(
        "ENTRY e { x = f32[3,2] constant({{1,2},{3,4},{5,6}}) i = s32[3] constant({-5, 1, 9})
           ROOT r = f32[3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
             index_vector_dim=1, slice_sizes={1,2} }",
        &[],
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    );
    check(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
         ENTRY e { x = f32[3] constant({1,2,3}) i = s32[4,1] constant({{0},{3},{-1},{0}}) u = f32[4] constant({10,20,30,40})
           ROOT r = f32[3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
             scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }",
        &[],
        &[51.0, 2.0, 3.0],
    );
}

#[test]
fn reductions_and_windows() {
    let add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }";
    check(
        &format!(
            "{add} ENTRY e {{ x = f32[2,3] constant({{{{1,2,3}},{{4,5,6}}}}) z = f32[] constant(10)
        ROOT r = f32[3] reduce(x, z), dimensions={{0}}, to_apply=add }}"
        ),
        &[],
        &[15.0, 17.0, 19.0],
    );
    check(
        &format!(
            "{add} ENTRY e {{ x = f32[2,0] parameter(0) z = f32[] constant(10)
        ROOT r = f32[2] reduce(x, z), dimensions={{1}}, to_apply=add }}"
        ),
        &[array(DType::F32, &[2, 0], &[])],
        &[10.0, 10.0],
    );
    check(
        &format!(
            "{add} ENTRY e {{ x = f32[4] constant({{1,2,3,4}}) z = f32[] constant(100)
        ROOT r = f32[5] reduce-window(x, z), window={{size=2 pad=1_1}}, to_apply=add }}"
        ),
        &[],
        &[101.0, 103.0, 105.0, 107.0, 104.0],
    );
    // Nine partial sums and the last one take the initial value; a sum along nothing takes none.
    check(
        &format!(
            "{add} ENTRY e {{ o = f32[] constant(0) x = f32[257] broadcast(o), dimensions={{}} z = f32[] constant(2)
        ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=add }}"
        ),
        &[],
        &[20.0],
    );
    check(
        &format!(
            "{add} ENTRY e {{ x = f32[2,1] constant({{{{1}},{{2}}}}) z = f32[] constant(2)
        ROOT r = f32[2] reduce(x, z), dimensions={{1}}, to_apply=add }}"
        ),
        &[],
        &[1.0, 2.0],
    );
    let mut running = vec![2.0; 16];
    running.push(3.0);
    check(
        &format!(
            "{add} ENTRY e {{ o = f32[] constant(0) x = f32[17] broadcast(o), dimensions={{}} z = f32[] constant(1)
        ROOT r = f32[17] reduce-window(x, z), window={{size=17 pad=16_0}}, to_apply=add }}"
        ),
        &[],
        &running,
    );
    // 256 and a row of ones in bf16: every step rounds, but windows of 32 have sums of their own.
    let bf16_sum = |n: usize| {
        format!(
            "add {{ a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT c = bf16[] add(a, b) }}
        ENTRY e {{ h = bf16[1] constant({{256}}) o = bf16[] constant(1) x = bf16[{n}] broadcast(o), dimensions={{}}
           y = bf16[{}] concatenate(h, x), dimensions={{0}} z = bf16[] constant(0)
           ROOT r = bf16[] reduce(y, z), dimensions={{0}}, to_apply=add }}",
            n + 1
        )
    };
    check(&bf16_sum(31), &[], &[256.0]);
    check(&bf16_sum(63), &[], &[288.0]);
    check(
        "ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
         add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
         ENTRY e { x = f32[4] constant({2,2,1,5}) s = f32[3] constant({1,10,100}) z = f32[] constant(0)
           ROOT r = f32[4] select-and-scatter(x, s, z), window={size=2}, select=ge, scatter=add }",
        &[],
        &[1.0, 10.0, 0.0, 100.0],
    );
}

#[test]
fn contractions() {
    check(
        "ENTRY e { a = s8[2,2] constant({{100,100},{-128,1}}) b = s8[2,1] constant({{100},{100}})
           ROOT r = s32[2,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
        &[],
        &[20000.0, -12700.0],
    );
    // x = 1 2 3, k = 1 10: padding left, stride 1, and the window reversed.
    let conv = |window: &str, n: usize, want: &[f64]| {
        let body = format!("ENTRY e {{ x = f32[1,3,1] constant({{{{{{1}},{{2}},{{3}}}}}}) k = f32[2,1,1] constant({{{{{{1}}}},{{{{10}}}}}})
            ROOT r = f32[1,{n},1] convolution(x, k), window={{{window}}}, dim_labels=b0f_0io->b0f }}");
        check(&body, &[], want);
    };
    conv("size=2", 2, &[21.0, 32.0]);
    conv("size=2 pad=1_0", 3, &[10.0, 21.0, 32.0]);
    conv("size=2 rhs_reversal=1", 2, &[12.0, 23.0]);
    conv("size=2 lhs_dilate=2", 4, &[1.0, 20.0, 2.0, 30.0]);
    conv("size=2 rhs_dilate=2", 1, &[31.0]);
    conv("size=2 pad=-1_0", 1, &[32.0]);
    let text = "HloModule m\nENTRY e { a = f32[1,1] constant({{1.001}}) b = f32[1,1] constant({{1}})
        ROOT r = f32[1,1] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }";
    let (module, _) = parse_hlo(text).expect("it parses");
    let opts = EvalOptions { dot_rounding: DotRounding::Bf16, ..EvalOptions::default() };
    let out = evaluate(&module, &[], &opts).expect("it runs").into_leaves();
    assert_eq!(out[0].get(0), Scalar::F(1.0), "1.001 rounds to 1 in bf16");
}

#[test]
fn sorting_is_stable_and_ends_on_nan() {
    check(
        "lt { a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
           ROOT r = pred[] compare(a, b), direction=LT }
         ENTRY e { k = s32[5] constant({3,1,3,1,2}) v = s32[5] iota(), iota_dimension=0
           ROOT r = (s32[5], s32[5]) sort(k, v), dimensions={0}, is_stable=true, to_apply=lt }",
        &[],
        &[1.0, 1.0, 2.0, 3.0, 3.0, 1.0, 3.0, 4.0, 0.0, 2.0],
    );
    check(
        "gt { a = f32[] parameter(0) b = f32[] parameter(1) n = f32[] negate(a) m = f32[] negate(b)
           ROOT r = pred[] compare(n, m), direction=LT }
         ENTRY e { x = f32[3] constant({1,3,2}) ROOT r = f32[3] sort(x), dimensions={0}, to_apply=gt }",
        &[],
        &[3.0, 2.0, 1.0],
    );
    check(
        "ENTRY e { x = f32[4] constant({1,7,7,nan}) ROOT r = (f32[3], s32[3]) topk(x), k=3, largest=true }",
        &[],
        &[NAN, 7.0, 7.0, 3.0, 1.0, 2.0],
    );
}

#[test]
fn control_flow() {
    check(
        "c { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5) ROOT r = pred[] compare(i, n), direction=LT }
         b { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = s32[] get-tuple-element(s), index=1
             o = s32[] constant(1) j = s32[] add(i, o) y = s32[] add(x, x) ROOT r = (s32[], s32[]) tuple(j, y) }
         ENTRY e { z = s32[] constant(0) o = s32[] constant(1) t = (s32[], s32[]) tuple(z, o) ROOT w = (s32[], s32[]) while(t), condition=c, body=b }",
        &[],
        &[5.0, 32.0],
    );
    let branch = |i: i32, want: f64| {
        let body = format!("f {{ p = f32[] parameter(0) ROOT r = f32[] negate(p) }} g {{ p = f32[] parameter(0) ROOT r = f32[] add(p, p) }}
           ENTRY e {{ i = s32[] constant({i}) x = f32[] constant(3) ROOT r = f32[] conditional(i, x, x), branch_computations={{f, g}} }}");
        check(&body, &[], &[want]);
    };
    branch(0, -3.0);
    branch(1, 6.0);
    branch(-1, 6.0);
    branch(7, 6.0);
    let endless = "t { p = s32[] parameter(0) ROOT r = pred[] constant(true) } s { p = s32[] parameter(0) ROOT r = s32[] copy(p) }
        ENTRY e { z = s32[] constant(0) ROOT r = s32[] while(z), condition=t, body=s }";
    let (module, _) = parse_hlo(&format!("HloModule m\n{endless}")).expect("it parses");
    let opts = EvalOptions { max_steps: 1000, ..EvalOptions::default() };
    assert!(matches!(evaluate(&module, &[], &opts), Err(EvalError::Limit { .. })));
}

#[test]
fn dynamic_sizes_shrink_what_follows() {
    check(
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
         ENTRY e { v = f32[4] constant({1,2,3,4}) n = s32[] constant(3) d = f32[<=4] set-dimension-size(v, n), dimensions={0}
           m = f32[<=4] multiply(d, d) z = f32[] constant(0) s = f32[] reduce(m, z), dimensions={0}, to_apply=add
           g = s32[] get-dimension-size(m), dimensions={0} ROOT r = (f32[], s32[]) tuple(s, g) }",
        &[],
        &[14.0, 3.0],
    );
}

#[test]
fn bit_generators_match_published_vectors() {
    // Random123's known answers: ThreeFry 2x32-20 and Philox 4x32-10 of zeros and of ones.
    assert_eq!(threefry(0, 0), [0x6b20_0159, 0x99ba_4efe]);
    assert_eq!(threefry(u64::MAX, u64::MAX), [0x1cb9_96fc, 0xbb00_2be7]);
    assert_eq!(philox(0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
    assert_eq!(philox(u64::MAX, u128::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
}

#[test]
fn uniform_draws_are_half_open_and_repeatable() {
    let body = "ENTRY e { a = f32[] constant(2) b = f32[] constant(3) ROOT r = f32[4000] rng(a, b), distribution=rng_uniform }";
    let first = run(body, &[]).expect("it runs");
    assert_eq!(first, run(body, &[]).expect("it runs"), "the same seed, the same draws");
    let values: Vec<f64> = (0..4000).map(|i| first[0].get(i).float()).collect();
    assert!(values.iter().all(|v| (2.0..3.0).contains(v)));
    let mean = values.iter().sum::<f64>() / 4000.0;
    assert!((mean - 2.5).abs() < 0.02, "mean {mean}");
}

#[test]
fn the_inverse_error_function_inverts() {
    for y in [1e-300, 1e-9, 0.1, 0.5, 0.9, 0.999999, 1.0 - 1e-15] {
        let x = special::erf_inv(y);
        let back = libm::erf(x);
        assert!((back - y).abs() <= 4e-16 * y.max(1e-300) + 1e-16, "{y}: {x} gives {back}");
        assert_eq!(special::erf_inv(-y), -x);
    }
    assert!(special::erf_inv(1.5).is_nan());
}

#[test]
fn eight_and_sixteen_bit_types_survive_a_round_trip() {
    for t in DType::all().filter(|t| t.host_bytes() <= 2) {
        for bits in 0..1u32 << (8 * t.host_bytes()) {
            let bytes = &bits.to_le_bytes()[..t.host_bytes()];
            let valid = match t.bits() {
                few @ (2 | 4) => bits < 1 << few,
                _ => t != DType::Pred || bits < 2,
            };
            let value = decode(t, bytes);
            if !valid || matches!(value, Scalar::F(v) if v.is_nan()) {
                continue;
            }
            let mut back = [0; 16];
            encode(t, value, &mut back);
            assert_eq!(&back[..t.host_bytes()], bytes, "{t} {bits:#x}");
        }
    }
}

#[test]
fn devices_meet_in_collectives_and_report_deadlocks() {
    let devices = |text: &str| {
        let (module, _) = parse_hlo(text).expect("it parses");
        let mut hosts: Vec<Box<dyn Host + Send>> = (0..4).map(|_| Box::new(NoHost) as Box<dyn Host + Send>).collect();
        let out = evaluate_devices(&module, (4, 1), &vec![Vec::new(); 4], &EvalOptions::default(), &mut hosts);
        out.map(|v| v.into_iter().map(|v| v.into_leaves()[0].get(0).int()).collect::<Vec<_>>())
    };
    let add = "add { a = u32[] parameter(0) b = u32[] parameter(1) ROOT c = u32[] add(a, b) }";
    let sums = devices(&format!(
        "HloModule m\n{add} ENTRY e {{ r = u32[] replica-id() ROOT s = u32[] all-reduce(r), replica_groups={{{{0,2}},{{1,3}}}}, to_apply=add }}"
    ));
    assert_eq!(sums, Ok(vec![2, 4, 2, 4]));
    let stuck = devices(&format!(
        "HloModule m\n{add} f {{ p = u32[] parameter(0) ROOT s = u32[] all-reduce(p), replica_groups={{}}, to_apply=add }}
         g {{ p = u32[] parameter(0) ROOT r = u32[] copy(p) }}
         ENTRY e {{ r = u32[] replica-id() z = u32[] constant(0) c = pred[] compare(r, z), direction=EQ
           ROOT s = u32[] conditional(c, r, r), true_computation=f, false_computation=g }}"
    ));
    assert!(matches!(&stuck, Err(EvalError::Deadlock(why)) if why.contains("device 0")), "{stuck:?}");
}

#[test]
fn folding_takes_small_pure_instructions_of_constants() {
    let text = "HloModule m
        ENTRY e { a = s32[3] constant({1,2,3}) i = s32[3] iota(), iota_dimension=0 s = s32[3] add(a, i)
          p = s32[3] parameter(0) t = s32[3] add(a, p) b = s32[3] opt-barrier(a) ROOT r = (s32[3], s32[3], s32[3]) tuple(s, t, b) }";
    let (module, _) = parse_hlo(text).expect("it parses");
    let entry = module.entry();
    let fold = |name: &str| {
        let id = entry.ids().find(|&i| entry.node(i).name == name).expect("the node is there");
        fold_constant(&module, module.entry, id)
    };
    let sum = fold("s").expect("it folds");
    assert_eq!((0..3).map(|i| sum.integer(i)).collect::<Vec<_>>(), [Some(1), Some(3), Some(5)]);
    for name in ["a", "i", "t", "b", "r"] {
        assert_eq!(fold(name), None, "{name}");
    }
    let out = evaluate_node(&module, CompId(0), NodeId(1), &[]).map(Value::into_leaves);
    assert!(out.is_ok());
}

#[test]
fn transforms_of_every_length_are_sums_of_turned_elements() {
    for n in (1..=72usize).chain([97, 101, 128, 134, 243, 256, 375, 512, 1018]) {
        let x = |i: usize| ((i * i % 11) as f64 - 4.0, (i * 7 % 5) as f64 / 8.0);
        let values: Vec<Scalar> = (0..n).map(|i| Scalar::C(x(i).0, x(i).1)).collect();
        let input = Tensor::new(DType::C128, &[n], scalar::scalar_bytes(DType::C128, values.into_iter()));
        for (kind, sign, scale) in [("FFT", -1.0, 1.0), ("IFFT", 1.0, n as f64)] {
            let body = format!(
                "ENTRY e {{ p = c128[{n}] parameter(0) ROOT f = c128[{n}] fft(p), fft_type={kind}, fft_length={{{n}}} }}"
            );
            let out = run(&body, &[Value::Array(input.clone())]).expect("it is evaluated");
            for k in 0..n {
                let (mut re, mut im) = (0.0, 0.0);
                for i in 0..n {
                    let (sin, cos) = (sign * std::f64::consts::TAU * (i * k % n) as f64 / n as f64).sin_cos();
                    re += x(i).0 * cos - x(i).1 * sin;
                    im += x(i).0 * sin + x(i).1 * cos;
                }
                let (a, b) = out[0].get(k).complex();
                let error = (a * scale - re).hypot(b * scale - im);
                assert!(error < 1e-13 * (n as f64) * 8.0, "{kind} of {n}, element {k}: {error:e}");
            }
        }
    }
}
