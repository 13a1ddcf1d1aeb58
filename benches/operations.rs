//! What a large case of each family of operations costs on `tpu-v5e`.
//!
//! `cargo bench --bench operations [-- WORD...]` simulates the cases whose names contain one of the words (default: all),
//! timing-only. A line gives the cycles, cycles per element of the result (or what the case counts), multiples of the
//! time that moving the data that the operation needs through HBM once takes, the busiest unit, and what bounds it.

use systole_isa::ChipConfig;
use systole_runtime::{Array, Client, CompileOptions, Mode, NoObserver, PodRun, Ran, RunOptions, report};

/// A case: name, elements counted, bytes that have to move, and the entry's instructions.
struct Case {
    name: &'static str,
    elements: u64,
    bytes: u64,
    text: &'static str,
}

/// Computations that the cases call.
const BODIES: &str = "
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }
least { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=GE }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }
lessi { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
pair { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3) ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }
";

const M: u64 = 1 << 20;

const fn case(name: &'static str, elements: u64, bytes: u64, text: &'static str) -> Case {
    Case { name, elements, bytes, text }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("elementwise: add f32", 16 * M, 192 * M, "x = f32[4096,4096] parameter(0) y = f32[4096,4096] parameter(1) ROOT r = f32[4096,4096] add(x, y)"),
    case("elementwise: tanh f32", 16 * M, 128 * M, "x = f32[4096,4096] parameter(0) ROOT r = f32[4096,4096] tanh(x)"),
    case("elementwise: power f32", 16 * M, 192 * M, "x = f32[4096,4096] parameter(0) y = f32[4096,4096] parameter(1) ROOT r = f32[4096,4096] power(x, y)"),
    case("elementwise: add f64", 4 * M, 96 * M, "x = f64[2048,2048] parameter(0) y = f64[2048,2048] parameter(1) ROOT r = f64[2048,2048] add(x, y)"),
    case("elementwise: exponential f64", 4 * M, 64 * M, "x = f64[2048,2048] parameter(0) ROOT r = f64[2048,2048] exponential(x)"),
    case("elementwise: multiply s64", 4 * M, 96 * M, "x = s64[2048,2048] parameter(0) y = s64[2048,2048] parameter(1) ROOT r = s64[2048,2048] multiply(x, y)"),
    case("elementwise: multiply c64", 4 * M, 96 * M, "x = c64[2048,2048] parameter(0) y = c64[2048,2048] parameter(1) ROOT r = c64[2048,2048] multiply(x, y)"),
    case("convert u8 to f32", 16 * M, 80 * M, "x = u8[4096,4096] parameter(0) ROOT r = f32[4096,4096] convert(x)"),
    case("broadcast", 16 * M, 64 * M, "x = f32[4096] parameter(0) ROOT r = f32[4096,4096] broadcast(x), dimensions={0}"),
    case("concatenate lanes", 4 * M, 32 * M, "x = f32[2048,1000] parameter(0) y = f32[2048,1048] parameter(1) ROOT r = f32[2048,2048] concatenate(x, y), dimensions={1}"),
    case("pad", 4 * M, 32 * M, "x = f32[2000,2000] parameter(0) v = f32[] parameter(1) ROOT r = f32[2048,2048] pad(x, v), padding=17_31x5_43"),
    case("reverse lanes", 4 * M, 32 * M, "x = f32[2048,2048] parameter(0) ROOT r = f32[2048,2048] reverse(x), dimensions={1}"),
    case("slice, stride 2", 4 * M, 32 * M, "x = f32[4096,4096] parameter(0) ROOT r = f32[2048,2048] slice(x), slice={[0:4096:2], [0:4096:2]}"),
    case("reshape 1000 to 4096", 4096000, 32768000, "x = f32[4096,1000] parameter(0) ROOT r = f32[1000,4096] reshape(x)"),
    case("transpose f32 4096²", 16 * M, 128 * M, "x = f32[4096,4096] parameter(0) ROOT r = f32[4096,4096] transpose(x), dimensions={1,0}"),
    case("transpose bf16 4096²", 16 * M, 64 * M, "x = bf16[4096,4096] parameter(0) ROOT r = bf16[4096,4096] transpose(x), dimensions={1,0}"),
    case("transpose 4-d", 8 * M, 64 * M, "x = f32[8,64,128,128] parameter(0) ROOT r = f32[8,128,64,128] transpose(x), dimensions={0,2,1,3}"),
    case("gather 4096 rows of 512", 2 * M, 16 * M, "x = f32[32768,512] parameter(0) i = s32[4096] parameter(1) ROOT r = f32[4096,512] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,512}"),
    case("gather 65536 elements of 65536", 65536, 786432, "x = f32[65536] parameter(0) i = s32[65536] parameter(1) ROOT r = f32[65536] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}"),
    case("scatter-add 65536 rows of 128", 8 * M, 36438016, "x = f32[4096,128] parameter(0) i = s32[65536] parameter(1) u = f32[65536,128] parameter(2) ROOT r = f32[4096,128] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"),
    case("scatter-add 65536 elements", 65536, M, "x = f32[65536] parameter(0) i = s32[65536] parameter(1) u = f32[65536] parameter(2) ROOT r = f32[65536] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"),
    case("dot bf16 2048³", 4 * M, 20 * M, "x = bf16[2048,2048] parameter(0) y = bf16[2048,2048] parameter(1) ROOT r = bf16[2048,2048] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    case("dot f64 256³", 65536, 1572864, "x = f64[256,256] parameter(0) y = f64[256,256] parameter(1) ROOT r = f64[256,256] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    case("dot s32 512³", 262144, 3145728, "x = s32[512,512] parameter(0) y = s32[512,512] parameter(1) ROOT r = s32[512,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    case("convolution bf16 3x3, 128 channels", 8 * 56 * 56 * 128, 8 * 56 * 56 * 128 * 4, "x = bf16[8,56,56,128] parameter(0) k = bf16[3,3,128,128] parameter(1) ROOT r = bf16[8,56,56,128] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    case("reduce rows", 16 * M, 64 * M, "x = f32[4096,4096] parameter(0) z = f32[] constant(0) ROOT r = f32[4096] reduce(x, z), dimensions={0}, to_apply=add"),
    case("reduce lanes", 16 * M, 64 * M, "x = f32[4096,4096] parameter(0) z = f32[] constant(0) ROOT r = f32[4096] reduce(x, z), dimensions={1}, to_apply=add"),
    case("reduce all", 16 * M, 64 * M, "x = f32[4096,4096] parameter(0) z = f32[] constant(0) ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add"),
    case("windows: maximum 3x3 of channels last", 4 * M, 20 * M, "x = f32[8,128,128,128] parameter(0) z = f32[] constant(-inf) ROOT r = f32[8,64,64,128] reduce-window(x, z), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, to_apply=max"),
    case("windows: sum of 64x64", M, 8 * M, "x = f32[1024,1024] parameter(0) z = f32[] constant(0) ROOT r = f32[961,961] reduce-window(x, z), window={size=64x64}, to_apply=add"),
    case("cumulative sum of 2^20", M, 8 * M, "x = f32[1048576] parameter(0) z = f32[] constant(0) ROOT r = f32[1048576] reduce-window(x, z), window={size=1048576 pad=1048575_0}, to_apply=add"),
    case("cumulative sum along lanes", M, 8 * M, "x = f32[1024,1024] parameter(0) z = f32[] constant(0) ROOT r = f32[1024,1024] reduce-window(x, z), window={size=1x1024 pad=0_0x1023_0}, to_apply=add"),
    case("select-and-scatter", 8 * M, 72 * M, "x = f32[8,128,128,64] parameter(0) s = f32[8,64,64,64] parameter(1) z = f32[] constant(0) ROOT r = f32[8,128,128,64] select-and-scatter(x, s, z), window={size=1x2x2x1 stride=1x2x2x1}, select=least, scatter=add"),
    case("sort 2^20 f32", M, 8 * M, "x = f32[1048576] parameter(0) ROOT r = f32[1048576] sort(x), dimensions={0}, is_stable=true, to_apply=less"),
    case("sort 2^20 s32", M, 8 * M, "x = s32[1048576] parameter(0) ROOT r = s32[1048576] sort(x), dimensions={0}, is_stable=true, to_apply=lessi"),
    case("sort 2^20 pairs", M, 16 * M, "x = f32[1048576] parameter(0) y = s32[1048576] parameter(1) ROOT r = (f32[1048576], s32[1048576]) sort(x, y), dimensions={0}, is_stable=true, to_apply=pair"),
    case("sort 1024 rows of 1024", M, 8 * M, "x = f32[1024,1024] parameter(0) ROOT r = f32[1024,1024] sort(x), dimensions={1}, is_stable=true, to_apply=less"),
    case("top 64 of 64 rows of 32768", 2 * M, 8 * M, "x = f32[64,32768] parameter(0) ROOT r = (f32[64,64], s32[64,64]) topk(x), k=64, largest=true"),
    case("fft 1024 of 1024 rows", M, 16 * M, "x = c64[1024,1024] parameter(0) ROOT r = c64[1024,1024] fft(x), fft_type=FFT, fft_length={1024}"),
    case("rfft 1024 of 1024 rows", M, 8400896, "x = f32[1024,1024] parameter(0) ROOT r = c64[1024,513] fft(x), fft_type=RFFT, fft_length={1024}"),
    case("fft 65536", 65536, M, "x = c64[65536] parameter(0) ROOT r = c64[65536] fft(x), fft_type=FFT, fft_length={65536}"),
    case("cholesky 512", 262144, 2 * M, "x = f32[512,512] parameter(0) ROOT r = f32[512,512] cholesky(x), lower=true"),
    case("triangular-solve 512", 262144, 3 * M, "x = f32[512,512] parameter(0) y = f32[512,512] parameter(1) ROOT r = f32[512,512] triangular-solve(x, y), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"),
    case("rng-bit-generator ThreeFry u32", 4 * M, 16 * M, "s = u64[2] parameter(0) ROOT r = (u64[2], u32[2048,2048]) rng-bit-generator(s), algorithm=rng_three_fry"),
    case("rng-bit-generator Philox u32", 4 * M, 16 * M, "s = u64[2] parameter(0) ROOT r = (u64[2], u32[2048,2048]) rng-bit-generator(s), algorithm=rng_philox"),
    case("dynamic-slice", 4 * M, 32 * M, "x = f32[4096,4096] parameter(0) i = s32[] parameter(1) ROOT r = f32[2048,2048] dynamic-slice(x, i, i), dynamic_slice_sizes={2048,2048}"),
    case("dynamic-update-slice", 4 * M, 80 * M, "x = f32[4096,4096] parameter(0) u = f32[1024,1024] parameter(1) i = s32[] parameter(2) ROOT r = f32[4096,4096] dynamic-update-slice(x, u, i, i)"),
];

/// The module of a case.
fn program(text: &str) -> String {
    format!("HloModule operation\n{BODIES}\nENTRY e {{\n  {text}\n}}\n")
}

fn simulate(client: &Client, c: &Case) -> Result<String, Box<dyn std::error::Error>> {
    let start = std::time::Instant::now();
    let exe = client.compile_hlo(&program(c.text), &CompileOptions::default())?;
    let compiled = start.elapsed();
    let params = exe.program.params.iter();
    // Small arrays may steer the program: they are zeros. Others need no contents.
    let bytes = |n: u64, size: usize| if n <= 4096 { vec![0; n as usize * size] } else { Vec::new() };
    let inputs: Vec<Array> = params
        .map(|p| {
            let (dtype, dims) = (p.layout.dtype, p.layout.dims.clone());
            let bytes = bytes(dims.iter().product(), dtype.host_bytes());
            Array { dtype, dims, bytes }
        })
        .collect();
    let options = RunOptions::new(Mode::TimingOnly);
    let done = client.device(0).run_with(&exe, &inputs, &options, &mut NoObserver)?;
    let ran = Ran::new(c.name, client.chip(), &exe.program, Mode::TimingOnly);
    let r = report(&ran, &PodRun::alone(done.result));
    let chip = client.chip();
    let once = c.bytes as f64 / (chip.hbm.bandwidth / chip.clock_hz);
    let busiest = r.units.iter().filter(|u| u.unit != "issue").max_by_key(|u| u.busy);
    let share = |busy: u64| 100.0 * busy as f64 / r.cycles.max(1) as f64;
    let busiest = busiest.map_or(String::new(), |u| format!("{} {:.0} %", u.unit, share(u.busy)));
    Ok(format!(
        "| {} | {} | {:.3} | {:.1} | {} | {busiest} | {:.2} s |",
        c.name,
        r.cycles,
        r.cycles as f64 / c.elements as f64,
        r.cycles as f64 / once,
        r.bound,
        compiled.as_secs_f64()
    ))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let client = Client::with_chip(ChipConfig::from_preset("tpu-v5e")?);
    println!(
        "| case | cycles | cycles per element | times its data through HBM | bound | busiest unit | compiled in |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for c in CASES.iter().filter(|c| words.is_empty() || words.iter().any(|w| c.name.contains(w.as_str()))) {
        match simulate(&client, c) {
            Ok(line) => println!("{line}"),
            Err(e) => println!("| {} | failed: {} |", c.name, e.to_string().lines().next().unwrap_or_default()),
        }
    }
    Ok(())
}
