//! Pallas kernels that JAX wrote (`tests/pallas/make.py`) give the answers of JAX's interpreter, on chips of different kinds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use systole_runtime::{Array, npz};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pallas")
}

/// The kernels' files.
fn kernels() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the folder").map(|e| e.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == "mlir")).collect();
    files.sort();
    files
}

/// What differs from the answers, if anything does.
fn differs(file: &Path, chip: &str) -> Option<String> {
    let inputs = file.with_extension("npz");
    let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
    let outputs = std::env::temp_dir().join(format!("systole-pallas-{}-{chip}-{name}.npz", std::process::id()));
    let out = Command::new(env!("CARGO_BIN_EXE_systole"))
        .args(["run", "--precision", "highest", "--chip", chip, "--inputs"])
        .arg(&inputs)
        .arg("--outputs")
        .arg(&outputs)
        .arg(file)
        .output()
        .expect("systole runs");
    if !out.status.success() {
        return Some(String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned());
    }
    let read = |p: &Path| npz::read(&p.to_string_lossy()).expect("arrays");
    let (got, want) = (read(&outputs), read(&inputs));
    std::fs::remove_file(&outputs).expect("the file was written");
    for (key, want) in want.iter().filter(|a| a.0.starts_with("out")) {
        let Some(got) = got.get(key) else { return Some(format!("no {key}")) };
        if got.shape() != want.shape() {
            return Some(format!("{key} is {}, not {}", got.shape(), want.shape()));
        }
        if !matches!(got.dtype.name(), "f32" | "bf16" | "f16") {
            if got.bytes != want.bytes {
                return Some(format!("{key}: other {} elements", got.dtype));
            }
            continue;
        }
        let near = |g: f32, w: f32| (g - w).abs() <= 2e-2 * w.abs() + 1e-4;
        let pairs: Vec<(f32, f32)> = got.to_f32().into_iter().zip(want.to_f32()).collect();
        if let Some(i) = pairs.iter().position(|(g, w)| !near(*g, *w)) {
            return Some(format!("{key}: element {i} is {}, not {}", pairs[i].0, pairs[i].1));
        }
    }
    None
}

#[test]
fn kernels_agree_with_the_interpreter() {
    let mut failures = String::new();
    for chip in ["tpu-v5e", "tpu-v4", "tpu-v6e"] {
        for file in kernels() {
            if let Some(why) = differs(&file, chip) {
                failures += &format!("{} on {chip}: {why}\n", file.display());
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// What the command says of a kernel.
fn said(name: &str, arguments: &[&str]) -> (bool, String) {
    let file = folder().join(name).with_extension("mlir");
    let out = Command::new(env!("CARGO_BIN_EXE_systole")).args(arguments).arg(&file).output().expect("systole runs");
    (out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

#[test]
fn kernels_are_printed_with_their_lines() {
    let (fine, text) = said("product", &["mosaic"]);
    assert!(fine && text.contains("argument 1: window, bf16 block [128, 128], 2 of 32768 bytes"), "{text}");
    assert!(text.contains("4 copies, 2 blocks, each 2 times"), "{text}");
    for file in kernels() {
        let (fine, text) = said(&file.file_stem().expect("a name").to_string_lossy(), &["mosaic"]);
        assert!(fine && text.contains("func @") && text.contains("make.py:"), "{}", file.display());
    }
}

/// Products with a vector are of the vector units: nothing is rounded, whatever the precision of products.
#[test]
fn products_with_a_vector_are_exact() {
    let file = |end: &str| folder().join(format!("with_vector.{end}"));
    let outputs = std::env::temp_dir().join(format!("systole-vector-{}.npz", std::process::id()));
    let text = |p: &Path| p.to_string_lossy().into_owned();
    let paths = ["--inputs", &text(&file("npz")), "--outputs", &text(&outputs)];
    let (fine, said) = said("with_vector", &[&["run", "--chip", "tpu-v5e"][..], &paths].concat());
    assert!(fine, "{said}");
    let read = |p: &Path| npz::read(&text(p)).expect("arrays")["out0"].to_f32();
    let pairs = read(&outputs).into_iter().zip(read(&file("npz")));
    std::fs::remove_file(&outputs).expect("the file was written");
    pairs.for_each(|(got, want)| assert!((got - want).abs() <= 2e-5, "{got}, not {want}"));
}

#[test]
fn reports_name_the_lines_of_kernels() {
    let (fine, text) = said("product", &["run", "--chip", "tpu-v5e"]);
    assert!(fine, "{text}");
    let rows: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("line of a kernel")).collect();
    let row = |part: &str| rows.iter().any(|l| l.contains("make.py:") && l.contains(part));
    assert!(row("(product)"), "the kernel's function:\n{text}");
    assert!(row("window of operand 1") && row("window of result 0"), "copies of windows:\n{text}");
}

#[test]
fn lines_of_kernels_on_several_cores_are_part_of_their_operations() {
    let flags = ["run", "--chip", "tpu-v4", "--cores", "2", "--timing-only", "--report", "json"];
    let (fine, text) = said("shared_out", &flags);
    assert!(fine, "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).expect("a report");
    let sum = |list: &str, of: &dyn Fn(&serde_json::Value) -> bool| -> u64 {
        let rows = report[list].as_array().into_iter().flatten().filter(|o| of(o));
        rows.map(|o| o["cycles"].as_u64().expect("cycles")).sum()
    };
    let (lines, calls) = (sum("lines", &|_| true), sum("ops", &|o| o["opcode"] == "custom-call"));
    assert!(report["units"].as_array().is_some_and(|u| u.iter().any(|u| u["core"] == 1)), "{text}");
    assert!(lines > calls / 4 && lines <= calls, "{lines} cycles in lines of {calls} in calls");
}

#[test]
fn faults_name_the_line_of_python() {
    let make = std::fs::read_to_string(folder().join("make.py")).expect("the script");
    for (name, code, what) in
        [("never_signalled", "pl.semaphore_wait(sem, 1)", "deadlock"), ("too_early", "o[...] = t[...] * 2", "race")]
    {
        let after = make.lines().position(|l| l.starts_with(&format!("def {name}("))).expect("the kernel");
        let at = after + 1 + make.lines().skip(after).position(|l| l.trim() == code).expect("the line");
        let (fine, text) = said(&format!("bad/{name}"), &["run", "--chip", "tpu-v5e"]);
        assert!(!fine && text.contains(what) && text.contains(&format!("make.py:{at} ")), "{name}, line {at}:\n{text}");
    }
    let (fine, text) = said("bad/beyond", &["run", "--chip", "tpu-v5e"]);
    assert!(!fine && text.contains("block [4, 0]") && text.contains("make.py:"), "{text}");
    let (fine, text) = said("bad/too_large", &["run", "--chip", "tpu-v5e"]);
    assert!(!fine && text.contains("VMEM: needs") && text.contains("argument 2 (scratch"), "{text}");
    assert!(text.contains("make.py:"), "{text}");
    let (fine, text) = said("bad/beyond_limit", &["run", "--chip", "tpu-v5e"]);
    assert!(!fine && text.contains("the call allows 32768") && text.contains("make.py:"), "{text}");
    let (fine, text) = said("bad/unchecked", &["run", "--chip", "tpu-v5e"]);
    assert!(!fine && text.contains("check failed: numbers are too small") && text.contains("make.py:"), "{text}");
}

#[test]
fn copies_that_begin_within_a_register_are_refused_with_their_line() {
    let inputs = folder().join("bad/unaligned.npz");
    let (fine, text) = said("bad/unaligned", &["run", "--chip", "tpu-v5e", "--inputs", &inputs.to_string_lossy()]);
    assert!(!fine && text.contains("begins within a register") && text.contains("make.py:"), "{text}");
}

#[test]
fn blocks_beyond_the_array_that_depend_on_data_end_the_run() {
    let inputs = folder().join("bad/block_beyond.npz");
    let (fine, text) = said("bad/block_beyond", &["run", "--chip", "tpu-v5e", "--inputs", &inputs.to_string_lossy()]);
    let due = "the window of operand 1 shows a block of sizes [8, 128] beyond the array of sizes [32, 128]";
    assert!(!fine && text.contains(due) && text.contains("make.py:"), "{text}");
}

#[test]
fn prints_name_chip_time_and_line() {
    let (fine, text) = said("free/printed", &["run", "--chip", "tpu-v5e"]);
    assert!(fine, "{text}");
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("[chip 0, ") && l.contains(" us, make.py:")).collect();
    let ends: Vec<&str> = lines.iter().filter_map(|l| l.split_once("] ")).map(|l| l.1).collect();
    assert_eq!((ends.len(), ends[0], ends[3]), (6, "step 0 of 2", "step 1 of 2"), "{text}");
    assert!(ends[1].starts_with("largest ") && ends[2].starts_with("row ["), "{text}");
    let row: Vec<f32> = ends[2]
        .trim_start_matches("row [")
        .trim_end_matches(']')
        .split(' ')
        .map(|n| n.parse().expect("a number"))
        .collect();
    let largest: f32 = ends[1].trim_start_matches("largest ").parse().expect("a number");
    assert!(row.len() == 128 && row.iter().all(|n| *n <= largest), "{text}");
}

/// What a kernel of the folder `free` gives.
fn results(name: &str) -> BTreeMap<String, Array> {
    let outputs = std::env::temp_dir().join(format!("systole-pallas-{}-{name}.npz", std::process::id()));
    let (fine, text) =
        said(&format!("free/{name}"), &["run", "--chip", "tpu-v5e", "--outputs", &outputs.to_string_lossy()]);
    assert!(fine, "{text}");
    let arrays = npz::read(&outputs.to_string_lossy()).expect("arrays");
    std::fs::remove_file(&outputs).expect("the file was written");
    arrays
}

#[test]
fn semaphores_are_read() {
    let arrays = results("read");
    let got: Vec<u8> = arrays.get("out0").expect("a result").bytes.chunks_exact(4).map(|b| b[0]).collect();
    assert_eq!(got[..2], [3, 1]);
}

#[test]
fn random_bits_differ_and_are_even() {
    let arrays = results("drawn");
    let words = |key: &str| -> Vec<u32> {
        let bytes = &arrays.get(key).expect("a result").bytes;
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let (first, second) = (words("out0"), words("out1"));
    assert_eq!((first.len(), first.iter().zip(&second).filter(|(a, b)| a == b).count()), (1024, 0));
    for all in [&first, &second] {
        let distinct: std::collections::BTreeSet<&u32> = all.iter().collect();
        assert!(distinct.len() > 1020, "{} distinct words", distinct.len());
        for bit in 0..32 {
            let ones = all.iter().filter(|w| **w >> bit & 1 == 1).count();
            assert!((400..624).contains(&ones), "bit {bit}: {ones} of 1024");
        }
    }
}

#[test]
fn regions_of_a_kernel_are_spans() {
    let temp = |end: &str| std::env::temp_dir().join(format!("systole-pallas-{}-regions.{end}", std::process::id()));
    let (profile, trace) = (temp("sysp"), temp("json"));
    let [profile_at, trace_at] = [&profile, &trace].map(|p| p.to_string_lossy().into_owned());
    // What the file says of the command's output comes behind the program.
    let text = std::fs::read_to_string(folder().join("../data/pallas/waiting.mlir")).expect("the kernel");
    let program = temp("mlir");
    std::fs::write(&program, text.split("// ====").next().expect("a program")).expect("the program is written");
    let out = Command::new(env!("CARGO_BIN_EXE_systole"))
        .args(["run", "--chip", "tpu-v5e", "--profile-level", "bundles", "--profile", &profile_at])
        .arg(&program)
        .output()
        .expect("systole runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let out = Command::new(env!("CARGO_BIN_EXE_systole"))
        .args(["trace", &profile_at, "--format", "chrome", "--output", &trace_at])
        .output()
        .expect("systole runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let events = std::fs::read_to_string(&trace).expect("the trace");
    let events: serde_json::Value = serde_json::from_str(&events).expect("JSON");
    for file in [profile, trace, program] {
        std::fs::remove_file(file).expect("the file was written");
    }
    let events = events["traceEvents"].as_array().expect("events");
    // Cycles of the spans of a name.
    let spans = |name: &str| -> Vec<(u64, u64)> {
        let named = events.iter().filter(|e| e["ph"] == "X" && e["name"] == name);
        named
            .map(|e| {
                let [from, cycles] = ["cycle", "cycles"].map(|k| e["args"][k].as_u64().expect("a number"));
                (from, from + cycles)
            })
            .collect()
    };
    let (outer, inner) = (spans("normalise"), spans("power"));
    assert!(outer.len() >= 4, "one for every step of the grid: {outer:?}");
    assert!(!spans("product").is_empty());
    for (from, to) in &inner {
        assert!(outer.iter().any(|o| o.0 <= *from && *to <= o.1), "{from}..{to} in one of {outer:?}");
    }
}
