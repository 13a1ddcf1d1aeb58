//! What the command says about a run is true, and the same everywhere: totals, identities, forms of data.

mod schema;
mod totals;
mod words;

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A file for this test alone.
fn scratch(name: &str) -> String {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&dir).expect("the target folder is writable");
    dir.join(name).to_string_lossy().into_owned()
}

fn written(name: &str, text: &str) -> String {
    let path = scratch(name);
    std::fs::write(&path, text).expect("the target folder is writable");
    path
}

fn example(name: &str) -> String {
    format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn systole(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_systole")).args(args).output().expect("the command starts")
}

fn works(args: &[&str]) -> String {
    let o = systole(args);
    assert_eq!(o.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8_lossy(&o.stdout).into_owned()
}

fn refused(args: &[&str]) -> String {
    let o = systole(args);
    let message = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(o.status.code(), Some(2), "{args:?}: {message}");
    message
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&works(args)).unwrap_or_else(|e| panic!("{args:?}: {e}"))
}

fn report(module: &str, more: &[&str]) -> Value {
    json(&[&["run", module, "--timing-only", "--report", "json"], more].concat())
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_else(|| panic!("{v} is no number"))
}

/// A product of `[m, k]` and `[k, n]`.
fn dot(dtype: &str, out: &str, (m, k, n): (u64, u64, u64)) -> String {
    format!(
        "HloModule d\nENTRY e {{ a = {dtype}[{m},{k}] parameter(0) b = {dtype}[{k},{n}] parameter(1) \
         ROOT c = {out}[{m},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"
    )
}

/// A loop that multiplies a state by a matrix, `trips` times.
fn looped(trips: u64) -> String {
    format!(
        "HloModule l\nbody {{ s = (s32[], bf16[64,64], bf16[64,64]) parameter(0)\n\
         i = s32[] get-tuple-element(s), index=0 x = bf16[64,64] get-tuple-element(s), index=1\n\
         w = bf16[64,64] get-tuple-element(s), index=2 one = s32[] constant(1) j = s32[] add(i, one)\n\
         y = bf16[64,64] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n\
         ROOT t = (s32[], bf16[64,64], bf16[64,64]) tuple(j, y, w) }}\n\
         cond {{ s = (s32[], bf16[64,64], bf16[64,64]) parameter(0) i = s32[] get-tuple-element(s), index=0\n\
         n = s32[] constant({trips}) ROOT r = pred[] compare(i, n), direction=LT }}\n\
         ENTRY e {{ x = bf16[64,64] parameter(0) w = bf16[64,64] parameter(1) z = s32[] constant(0)\n\
         i = (s32[], bf16[64,64], bf16[64,64]) tuple(z, x, w)\n\
         l = (s32[], bf16[64,64], bf16[64,64]) while(i), condition=cond, body=body\n\
         ROOT o = bf16[64,64] get-tuple-element(l), index=1 }}"
    )
}
