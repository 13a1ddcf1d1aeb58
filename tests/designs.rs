//! Sensible physics over designs: more of anything never makes a program slower by more than two in a hundred.
//!
//! Of wide arrays, products use the part that they fill, or a smaller one whose tiles fit vector memory better; what stays is the way
//! of results through the whole array.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Slower by more than this is wrong.
const SLOWER: f64 = 1.02;

/// More of one thing.
const MORE: [&[&str]; 10] = [
    &["hbm.bandwidth=1638 GB/s"],
    &["hbm.latency=250 ns"],
    &["hbm.channels=64"],
    &["clock=3 GHz"],
    &["vmem.bytes=256 MiB"],
    &["dma.engines=16"],
    &["dma.in_flight=512"],
    &["core.valu_slots=8"],
    &["core.vector_registers=128"],
    &["core.mxu_push_slots=4"],
];

/// More of what only programs of large arrays are better for: every unit has to be given its weights, and a result's way through a
/// wide array is longer, which is all that small products wait for.
const MORE_FOR_LARGE: [&[&str]; 3] =
    [&["mxu.count=16"], &["mxu.rows=256", "mxu.cols=256"], &["mxu.rows=1024", "mxu.cols=1024"]];

/// Programs of the suite of large ones.
const LARGE: [&str; 4] =
    ["resnet50_b8_bf16", "gpt2_small_prefill1024_bf16", "llama7b_decode4_b8_kv2048_bf16", "llama7b_layer_s2048_bf16"];

/// Wider arrays may be slower than narrower ones by so much: by the way of results through them.
const THROUGH: f64 = 1.12;

fn seconds(file: &Path, sets: &[&str]) -> f64 {
    report(file, sets)["time_s"].as_f64().expect("a time")
}

fn report(file: &Path, sets: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_systole"));
    command.arg("run").arg(file).args(["--chip", "tpu-v5e", "--timing-only", "--report", "json"]);
    sets.iter().for_each(|s| {
        command.args(["--set", s]);
    });
    let out = command.output().expect("systole runs");
    assert!(out.status.success(), "{} with {sets:?}: {}", file.display(), String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("a report")
}

#[test]
fn more_is_not_slower() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let small = ["mlp", "resnet", "transformer_block"];
    let mut files: Vec<PathBuf> = small.iter().map(|n| root.join(format!("examples/{n}.hlo"))).collect();
    let large = root.join("../shared/conformance/large");
    if large.is_dir() {
        files.extend(LARGE.iter().map(|n| large.join(format!("{n}.hlo"))));
    } else {
        eprintln!("more_is_not_slower: {} is not there: large programs are skipped", large.display());
    }
    let mut wrong = String::new();
    for (i, f) in files.iter().enumerate() {
        let base = seconds(f, &[]);
        let for_large = MORE_FOR_LARGE.iter().filter(|_| i >= small.len());
        for &more in MORE.iter().chain(for_large) {
            let ratio = seconds(f, more) / base;
            if ratio > SLOWER {
                wrong += &format!("{} with {more:?}: {ratio:.3} times as long\n", f.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn wide_arrays_are_used_in_parts_where_that_is_faster() {
    let large = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance/large");
    if !large.is_dir() {
        return eprintln!("wide_arrays_are_used_in_parts: {} is not there", large.display());
    }
    let mut wrong = String::new();
    for name in LARGE {
        let mut least = f64::INFINITY;
        for wide in [128, 256, 512, 1024] {
            let sets = [format!("mxu.rows={wide}"), format!("mxu.cols={wide}")];
            let time = seconds(&large.join(format!("{name}.hlo")), &sets.each_ref().map(String::as_str));
            if time > THROUGH * least {
                wrong += &format!("{name} on arrays {wide} wide: {:.3} times as long\n", time / least);
            }
            least = least.min(time);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_loops_read_comes_once() {
    // 64 KiB of weights, twenty rounds. Behind the program is what the file's own test expects.
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/plan/arrays-before-loops.hlo");
    let text = std::fs::read_to_string(known).expect("a program");
    let program = text.split("// ====").next().expect("there is always a first part");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("arrays-before-loops.hlo");
    std::fs::write(&file, program).expect("it can be written");
    let read = report(&file, &[])["hbm"]["read_bytes"].as_u64().expect("bytes");
    assert!(read < 2 * (64 << 10), "{read} bytes");
}
