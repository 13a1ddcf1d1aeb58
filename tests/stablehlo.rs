//! Forms of StableHLO text: each program checks itself.

use std::path::Path;
use std::process::Command;

/// Runs a program; its exit code and what it says.
fn run(name: &str, text: &str) -> (i32, String) {
    run_on(name, text, &["tiny"])
}

/// The same on a chip, as it is asked for.
fn run_on(name: &str, text: &str, chip: &[&str]) -> (i32, String) {
    let path = std::env::temp_dir().join(format!("systole-forms-{}-{name}.mlir", std::process::id()));
    std::fs::write(&path, text).expect("written");
    let done = Command::new(env!("CARGO_BIN_EXE_systole"))
        .args(["run", path.to_str().expect("UTF-8"), "--fold", "none", "--report", "none", "--chip"])
        .args(chip)
        .output()
        .expect("runs");
    std::fs::remove_file(&path).expect("removed");
    (done.status.code().unwrap_or(-1), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Windows of whole columns, their sums, and an array that is copied meanwhile: a kernel reads in steps of 32 rows.
#[test]
fn kernels_read_no_array_that_is_on_its_way() {
    let text = "HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[64,32] parameter(0)
  y = f32[32] parameter(1)
  zero = f32[] constant(0)
  square = f32[64,32] multiply(x, x)
  windows = f32[2,32] reduce-window(square, zero), window={size=32x1 stride=32x1}, to_apply=add
  sums = f32[32] reduce(windows, zero), dimensions={0}, to_apply=add
  old = f32[32] multiply(y, y)
  ROOT r = f32[32] add(sums, old)
}";
    let (code, said) = run("windows", text);
    assert_eq!(code, 0, "{said}");
}

/// Running sums of more elements than vector memory has room for go in chunks, from either end: what neighbours differ by is the elements
/// again. (The evaluator takes every window by itself, which takes too long.)
#[test]
fn long_running_sums_go_in_chunks() {
    let text = "func.func @main() {
  %0 = stablehlo.iota dim = 0 : tensor<200003xi32>
  %1 = stablehlo.constant dense<7> : tensor<200003xi32>
  %x = stablehlo.and %0, %1 : tensor<200003xi32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<0> : tensor<1xi32>
  %y = \"stablehlo.reduce_window\"(%x, %zero) <{padding = dense<[[200002, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 200003>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<200003xi32>, tensor<i32>) -> tensor<200003xi32>
  %z = \"stablehlo.reduce_window\"(%x, %zero) <{padding = dense<[[0, 200002]]> : tensor<1x2xi64>, window_dimensions = array<i64: 200003>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.add %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<200003xi32>, tensor<i32>) -> tensor<200003xi32>
  %2 = stablehlo.slice %y [0:200002] : (tensor<200003xi32>) -> tensor<200002xi32>
  %3 = stablehlo.concatenate %one, %2, dim = 0 : (tensor<1xi32>, tensor<200002xi32>) -> tensor<200003xi32>
  %4 = stablehlo.subtract %y, %3 : tensor<200003xi32>
  check.expect_eq %4, %x : tensor<200003xi32>
  %5 = stablehlo.slice %z [1:200003] : (tensor<200003xi32>) -> tensor<200002xi32>
  %6 = stablehlo.concatenate %5, %one, dim = 0 : (tensor<200002xi32>, tensor<1xi32>) -> tensor<200003xi32>
  %7 = stablehlo.subtract %z, %6 : tensor<200003xi32>
  check.expect_eq %7, %x : tensor<200003xi32>
  return
}";
    for chip in ["tpu-v4", "tpu-v5e"] {
        let (code, said) = run_on("chunks", text, &[chip, "--set", "vmem.bytes=2097152"]);
        assert_eq!(code, 0, "{chip}: {said}");
    }
}

/// Programs of `tests/forms/`, whose first lines say what is to stand for `VALUE`, and what would be wrong. Quantized ones were worked out
/// by hand.
#[test]
fn forms_of_text_mean_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms");
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a program");
        let values = text.lines().next().and_then(|first| first.strip_prefix("// VALUE: ")?.split_once(", not "));
        let Some((right, wrong)) = values else { panic!("{name}: its first line is no `// VALUE: RIGHT, not WRONG`") };
        let (code, said) = run(&name, &text.replace("VALUE", right));
        assert_eq!(code, 0, "{name}: {said}");
        let (code, said) = run(&name, &text.replace("VALUE", wrong));
        assert_eq!(code, 1, "{name} with a wrong value: {said}");
        assert!(said.contains("check.e"), "{name}: {said}");
        names.push(name);
    }
    assert!(names.len() > 20, "programs are missing: {names:?}");
}
