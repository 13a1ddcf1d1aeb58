//! Any input gives a result or a message: programs that nest, grow or lie, and chips at the ends of their ranges.

use std::path::Path;
use systole_isa::ChipConfig;
use systole_runtime::{Array, Client, CompileOptions, Mode, NoObserver, RunOptions, RuntimeError};

fn client(chip: &str, sets: &[&str]) -> Client {
    let mut chip = ChipConfig::from_preset(chip).expect("it is a preset");
    chip.apply_sets(&sets.iter().map(|s| s.to_string()).collect::<Vec<_>>()).expect("they are in range");
    Client::with_chip(chip)
}

/// What compiling says, which is never that the compiler is wrong.
fn compiled(client: &Client, text: &str) -> Result<(), String> {
    let done = client.compile_text(text, &CompileOptions::default());
    let message = done.map(|_| ()).map_err(|e| e.to_string());
    if let Err(e) = &message {
        assert!(!e.contains("internal error"), "{e}\n{text}");
        assert!(!e.trim().is_empty(), "{text}");
    }
    message
}

/// Numbers of a fixed sequence.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len() as u64) as usize]
    }

    fn dims(&mut self) -> Vec<u64> {
        let rank = [2, 2, 2, 3, 3, 1, 0, 4][self.below(8) as usize];
        (0..rank).map(|_| [3, 3, 4, 1, 2, 0, 5][self.below(7) as usize]).collect()
    }

    fn shape(&mut self, likely: &str, dims: &[u64]) -> String {
        let types = ["f32", "f64", "c64", "c128", "s32", "u64", "pred", "bf16", "f8e5m2", "s4", "u8"];
        let dtype = if self.below(4) > 0 { likely } else { self.one(&types) };
        let dims = if self.below(4) > 0 { dims.to_vec() } else { self.dims() };
        let list: Vec<String> = dims.iter().map(u64::to_string).collect();
        format!("{dtype}[{}]", list.join(","))
    }
}

const TARGETS: [&str; 27] = [
    "LuDecomposition",
    "Qr",
    "ProductOfElementaryHouseholderReflectors",
    "Eigh",
    "lapack_sgetrf_ffi",
    "lapack_zgetrf_ffi",
    "lapack_sgeqrf_ffi",
    "lapack_sorgqr_ffi",
    "lapack_cungqr_ffi",
    "lapack_ssyevd_ffi",
    "lapack_sgesdd_ffi",
    "lapack_cgesdd_ffi",
    "lapack_spotrf_ffi",
    "lapack_cpotrf_ffi",
    "lapack_strsm_ffi",
    "lapack_sgtsv_ffi",
    "lapack_sgehrd_ffi",
    "TopK",
    "mhlo.topk",
    "ApproxTopK",
    "AllocateBuffer",
    "PadToStatic",
    "SliceToDynamic",
    "mhlo.erf",
    "chlo.tan",
    "Sharding",
    "SPMDFullToShardShape",
];

/// A call with operands and results that are nearly what a routine takes and gives.
fn call(d: &mut Draw) -> String {
    let target = d.one(&TARGETS);
    let dims = d.dims();
    let likely = d.one(&["f32", "f32", "f32", "f64", "c64"]);
    let operands = 1 + d.below(3) as usize;
    let mut lines = String::new();
    let mut names = Vec::new();
    for i in 0..operands {
        // The first is a matrix, the second often a vector of its factors.
        let of = if i > 0 && d.below(2) == 0 { &dims[..dims.len().saturating_sub(1)] } else { &dims[..] };
        lines += &format!("  p{i} = {} parameter({i})\n", d.shape(likely, of));
        names.push(format!("p{i}"));
    }
    let inner = dims.len().saturating_sub(2);
    let shorter = &dims[..dims.len().saturating_sub(1)];
    let mut results = Vec::new();
    for i in 0..1 + d.below(5) as usize {
        let (dtype, of) = match (i, d.below(3)) {
            (0, _) | (_, 0) => (likely, &dims[..]),
            (_, 1) => (if d.below(2) == 0 { likely } else { "s32" }, shorter),
            _ => ("s32", &dims[..inner]),
        };
        results.push(d.shape(dtype, of));
    }
    let result = if results.len() == 1 { results.remove(0) } else { format!("({})", results.join(", ")) };
    let config = d.one(&[
        "",
        "mode = 65 : ui8",
        "mode = 78 : ui8",
        "uplo = 85 : ui8",
        "side = 82 : ui8",
        "1,1,100,1e-6",
        "mode = 999",
    ]);
    let calls = if d.below(4) == 0 { ", called_computations={gt}" } else { "" };
    format!(
        "HloModule m\ngt {{\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=GT\n}}\n\
         ENTRY e {{\n{lines}  ROOT r = {result} custom-call({}), custom_call_target=\"{target}\", backend_config=\"{config}\"{calls}\n}}\n",
        names.join(", ")
    )
}

#[test]
fn malformed_library_calls_give_messages() {
    let client = client("tiny", &[]);
    let mut d = Draw(11);
    let mut good = 0;
    for _ in 0..1500 {
        good += u32::from(compiled(&client, &call(&mut d)).is_ok());
    }
    assert!((20..1400).contains(&good), "{good} of 1500 compile: the generator is near what routines take");
}

#[test]
fn states_of_generators_are_verified() {
    let client = client("tiny", &[]);
    for (state, algorithm, message) in [
        ("u8[5]", "rng_philox", "u64[2] or u64[3], not u8[5]"),
        ("u64[3]", "rng_three_fry", "u64[2], not u64[3]"),
        ("u64[0]", "rng_default", "not u64[0]"),
        ("s64[2]", "rng_default", "not s64[2]"),
    ] {
        let text = format!(
            "HloModule m\nENTRY e {{ s = {state} parameter(0)\n ROOT r = ({state}, u32[9]) rng-bit-generator(s), algorithm={algorithm} }}"
        );
        let e = compiled(&client, &text).expect_err("the state is wrong");
        assert!(e.contains(message), "{e}");
    }
}

/// An `f32[8]` on which `n` times `op` is done.
fn chain(n: usize, op: &str) -> String {
    let mut t = String::from("HloModule m\nENTRY e {\n a0 = f32[8] parameter(0)\n");
    for i in 0..n {
        t += &format!(" a{} = f32[8] {op}(a{i}{})\n", i + 1, if op == "add" { ", a0" } else { "" });
    }
    t + &format!(" ROOT r = f32[8] negate(a{n})\n}}\n")
}

#[test]
fn long_chains_need_no_deep_stack() {
    // The stack of a test's thread is small.
    for (n, op) in [(30_000, "sine"), (30_000, "add"), (200_000, "negate")] {
        compiled(&client("tiny", &[]), &chain(n, op)).unwrap_or_else(|e| panic!("{n} {op}: {e}"));
    }
}

#[test]
fn sums_of_many_parameters_compile_in_time() {
    let n = 3000;
    let mut t = String::from("HloModule m\nENTRY e {\n");
    (0..n).for_each(|i| t += &format!(" p{i} = f32[8,128] parameter({i})\n"));
    t += " a1 = f32[8,128] add(p0, p1)\n";
    (2..n).for_each(|i| t += &format!(" a{i} = f32[8,128] add(a{}, p{i})\n", i - 1));
    t += &format!(" ROOT r = f32[8,128] negate(a{})\n}}\n", n - 1);
    compiled(&client("tpu-v5e", &[]), &t).unwrap();
}

#[test]
fn calls_that_double_are_refused() {
    let mut t = String::from("HloModule m\nf0 { x = f32[] parameter(0)\n ROOT r = f32[] sine(x) }\n");
    for i in 1..=40 {
        t += &format!(
            "f{i} {{ x = f32[] parameter(0)\n a = f32[] call(x), to_apply=f{p}\n ROOT r = f32[] call(a), to_apply=f{p} }}\n",
            p = i - 1
        );
    }
    t += "ENTRY e { x = f32[] parameter(0)\n ROOT r = f32[] call(x), to_apply=f40 }\n";
    let e = compiled(&client("tiny", &[]), &t).expect_err("a program of 2^40 operations");
    assert!(e.contains("nodes: needs"), "{e}");
}

/// Loops around loops, `n` deep.
fn nest(n: usize) -> String {
    let mut t = String::from("HloModule m\n");
    for i in 0..n {
        t += &format!(
            "c{i} {{ s = (s32[], f32[8]) parameter(0)\n k = s32[] get-tuple-element(s), index=0\n n = s32[] constant(1)\n ROOT r = pred[] compare(k, n), direction=LT }}\n"
        );
        let inner = match i {
            0 => " y = f32[8] add(x, x)\n".to_string(),
            i => format!(
                " z = s32[] constant(0)\n t = (s32[], f32[8]) tuple(z, x)\n w = (s32[], f32[8]) while(t), condition=c{p}, body=b{p}\n y = f32[8] get-tuple-element(w), index=1\n",
                p = i - 1
            ),
        };
        t += &format!(
            "b{i} {{ s = (s32[], f32[8]) parameter(0)\n k = s32[] get-tuple-element(s), index=0\n x = f32[8] get-tuple-element(s), index=1\n one = s32[] constant(1)\n k1 = s32[] add(k, one)\n{inner} ROOT r = (s32[], f32[8]) tuple(k1, y) }}\n"
        );
    }
    t + &format!(
        "ENTRY e {{ x = f32[8] parameter(0)\n z = s32[] constant(0)\n t = (s32[], f32[8]) tuple(z, x)\n w = (s32[], f32[8]) while(t), condition=c{p}, body=b{p}\n ROOT y = f32[8] get-tuple-element(w), index=1 }}\n",
        p = n - 1
    )
}

#[test]
fn deep_loops_compile_or_give_a_limit() {
    let _ = compiled(&client("tpu-v5e", &[]), &nest(300));
}

const ELIDED: &str =
    "HloModule m\nENTRY e { p = f32[16] parameter(0)\n c = f32[16] constant({...})\n ROOT r = f32[16] add(p, c) }";

#[test]
fn elided_constants_give_time_but_no_numbers() {
    let client = client("tiny", &[]);
    let e = compiled(&client, ELIDED).expect_err("numbers would be wrong");
    assert!(e.contains("leaves out the elements") && e.contains("--xla_dump_large_constants=true"), "{e}");
    assert!(e.contains("<text>:3:"), "the place: {e}");
    let options = CompileOptions { timing_only: true, ..CompileOptions::default() };
    assert!(client.compile_text(ELIDED, &options).is_ok());
    let mlir = "func.func @main() -> tensor<4xf32> {\n %0 = stablehlo.constant dense_resource<__elided__> : tensor<4xf32>\n return %0 : tensor<4xf32>\n}\n";
    let e = compiled(&client, mlir).expect_err("a resource that is not there");
    assert!(e.contains("leaves out the elements"), "{e}");
}

#[test]
fn a_byte_order_mark_says_nothing() {
    let text = "\u{feff}HloModule m\nENTRY e { ROOT c = s32[] constant(7) }";
    compiled(&client("tiny", &[]), text).unwrap();
    compiled(&client("tiny", &[]), "\u{feff}module {\n func.func @main() { return }\n}").unwrap();
}

#[test]
fn hbm_of_a_device_is_its_share_of_the_chips() {
    // 12 GB of 16 GB that two devices share.
    let text = "HloModule m\nENTRY e { a = f32[1500000000] parameter(0)\n ROOT r = f32[1500000000] negate(a) }";
    for chip in ["tpu-v2", "tpu-v3"] {
        let client = client(chip, &[]);
        let most = client.chip().device_hbm_bytes();
        match compiled(&client, text) {
            Ok(()) => assert!(most >= 12_000_000_000, "{chip}"),
            Err(e) => assert!(most < 12_100_000_000 && e.contains(&format!("limit {most}")), "{chip}: {e}"),
        }
    }
}

#[test]
fn few_registers_and_semaphores_are_enough() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for name in ["transformer_block", "resnet", "mlp"] {
        let file = examples.join(format!("{name}.hlo"));
        let text = std::fs::read_to_string(&file).expect("an example");
        for set in ["core.scalar_registers=8", "core.scalar_registers=10", "core.semaphores=7"] {
            if let Err(e) = compiled(&client("tpu-v5e", &[set]), &text) {
                panic!("{name} with {set}: {e}");
            }
        }
    }
}

#[test]
fn parameters_within_their_ranges_compile_or_give_a_limit() {
    let programs = [
        "HloModule m\nENTRY e { a = f32[256,384] parameter(0)\n b = f32[384,128] parameter(1)\n d = f32[256,128] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n ROOT t = f32[256,128] tanh(d) }".to_string(),
        "HloModule m\nENTRY e { a = c64[4,17] parameter(0)\n ROOT f = c64[4,17] fft(a), fft_type=FFT, fft_length={17} }".to_string(),
        "HloModule m\nENTRY e { a = f32[40,40] parameter(0)\n ROOT f = f32[40,40] cholesky(a), lower=true }".to_string(),
        nest(3),
    ];
    for set in [
        "vmem.bytes=512MiB",
        "vmem.bytes=1GiB",
        "core.semaphores=7",
        "core.semaphores=32",
        "core.semaphores=41",
        "core.scalar_registers=8",
        "core.scalar_registers=9",
        "core.scalar_registers=10",
        "core.vector_registers=8",
        "core.mask_registers=4",
        "core.call_depth=2",
        "smem.bytes=1KiB",
        "vmem.bytes=64KiB",
        "imem.bytes=1KiB",
    ] {
        for p in &programs {
            let _ = compiled(&client("tpu-v5e", &[set]), p);
        }
    }
}

#[test]
fn counters_of_64_bits_and_constant_bounds_are_timed() {
    for (dtype, init, limit, step, direction) in
        [("s64", "0", "7", "1", "LT"), ("u64", "3", "9", "2", "NE"), ("s64", "5", "-1", "-1", "GT")]
    {
        let text = format!(
            "HloModule m\n\
             c {{ s = ({dtype}[], f32[8]) parameter(0)\n k = {dtype}[] get-tuple-element(s), index=0\n n = {dtype}[] constant({limit})\n ROOT r = pred[] compare(k, n), direction={direction} }}\n\
             b {{ s = ({dtype}[], f32[8]) parameter(0)\n k = {dtype}[] get-tuple-element(s), index=0\n x = f32[8] get-tuple-element(s), index=1\n one = {dtype}[] constant({step})\n k1 = {dtype}[] add(k, one)\n kf = f32[] convert(k)\n kb = f32[8] broadcast(kf), dimensions={{}}\n y = f32[8] add(x, kb)\n ROOT r = ({dtype}[], f32[8]) tuple(k1, y) }}\n\
             ENTRY e {{ x = f32[8] parameter(0)\n z = {dtype}[] constant({init})\n t = ({dtype}[], f32[8]) tuple(z, x)\n ROOT w = ({dtype}[], f32[8]) while(t), condition=c, body=b }}\n"
        );
        let client = client("tiny", &[]);
        let exe = client.compile_text(&text, &CompileOptions::default()).unwrap();
        let x = Array::from_f32(&[8], &[0.5; 8]);
        let full = client.device(0).run(&exe, std::slice::from_ref(&x)).unwrap();
        let (init, limit, step): (i64, i64, i64) =
            (init.parse().unwrap(), limit.parse().unwrap(), step.parse().unwrap());
        let mut k = init;
        let mut sum = 0.5f32;
        while (step > 0 && k < limit) || (step < 0 && k > limit) {
            sum += k as f32;
            k += step;
        }
        assert_eq!(full.outputs[0].bytes, k.to_le_bytes(), "{text}");
        assert_eq!(full.outputs[1].to_f32(), [sum; 8], "{text}");
        let options = RunOptions::new(Mode::TimingOnly);
        let timed = client.device(0).run_with(&exe, &[x], &options, &mut NoObserver);
        assert_eq!(timed.map(|t| t.result.cycles).map_err(|e: RuntimeError| e.to_string()), Ok(full.result.cycles));
    }
}
