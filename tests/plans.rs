//! Plans of all programs of the repository: text and back, and the same program from both.

use rayon::prelude::*;
use std::path::{Path, PathBuf};
use systole_compiler::plan::{text, verify};
use systole_runtime::source::{self, Source};
use systole_runtime::{Client, CompileOptions};

/// The programs of a folder.
fn programs(folder: &str) -> Vec<PathBuf> {
    let all = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).expect("a folder");
    let kind = |p: &PathBuf| p.extension().is_some_and(|e| e == "hlo" || e == "mlir");
    let mut found: Vec<PathBuf> = all.map(|e| e.expect("an entry").path()).filter(kind).collect();
    found.sort();
    found
}

#[test]
fn plans_are_read_as_they_were_written_and_give_the_same_program() {
    let all = programs("tests/programs").into_iter().chain(programs("examples"));
    let all: Vec<(PathBuf, &str)> = all.flat_map(|f| ["tiny", "tpu-v5e"].map(|chip| (f.clone(), chip))).collect();
    let seen = all.par_iter().filter(|(file, chip)| comes_back(file, chip)).count();
    assert!(seen > 20, "{seen} programs had a plan");
}

/// Whether a program has a plan for a chip, which then must be read as it was written and give the same program.
fn comes_back(file: &Path, chip: &str) -> bool {
    let client = Client::new(chip).expect("a preset");
    let name = format!("{} on {chip}", file.display());
    let bytes = std::fs::read(file).expect("a program");
    let Ok(program) = source::read_one(&name, &bytes, client.chip(), false, &mut Vec::new()) else { return false };
    let mut options = CompileOptions::default();
    (options.asked.pod.replicas, options.asked.pod.partitions) = program.devices();
    // Programs of several devices need a topology, which other tests give.
    if !matches!(program, Source::Module { .. }) || options.asked.pod.devices() > 1 {
        return false;
    }
    let Ok(plan) = client.plan_source(program, &name, &options) else { return false };
    let read = text::parse(&text::to_text(&plan)).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(read == plan, "{name}: another plan");
    verify::verify(&read, client.chip()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let program = |p| client.compile_plan(p, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(program(&read) == program(&plan), "{name}: another program");
    true
}

/// The plan of a program on `tiny`, as text.
fn plan(program: &str) -> String {
    let client = Client::new("tiny").expect("a preset");
    let read = source::read_one("m", program.as_bytes(), client.chip(), false, &mut Vec::new());
    let options = CompileOptions::default();
    text::to_text(&client.plan_source(read.expect("a program"), "m", &options).expect("a plan"))
}

/// What is wrong with a text in which `to` stands for `from`.
fn refused(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no {from} in\n{text}");
    let read = text::parse(&text.replacen(from, to, 1)).unwrap_or_else(|e| panic!("{to}: {e}"));
    let client = Client::new("tiny").expect("a preset");
    verify::verify(&read, client.chip()).expect_err(to).to_string()
}

#[test]
fn plans_of_other_types_are_refused_with_their_node() {
    let mlp = plan(include_str!("../examples/mlp.hlo"));
    let sorted = plan(
        "HloModule s\nless { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }\n\
         ENTRY e { x = f32[200] parameter(0) ROOT r = f32[200] sort(x), dimensions={0}, to_apply=less }",
    );
    let scattered = plan(
        "HloModule scattered
         sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
         ENTRY e { x = f32[40,128] parameter(0) at = s32[300,1] parameter(1) u = f32[300,128] parameter(2)
           ROOT r = f32[40,128] scatter(x, at, u), update_window_dims={1}, inserted_window_dims={0},
             scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum }",
    );
    let cases = [
        (&scattered, "op: Binary(Add), args: [0, 1]", "op: Binary(Add), args: [65536, 1]"),
        (&mlp, "op: Const([0, 0, 0, 0]), args: [], dtype: F32", "op: Const([0, 0, 0, 0]), args: [], dtype: F64"),
        (&mlp, "op: Input(0), args: [], dtype: F32", "op: Input(0), args: [], dtype: C64"),
        (&mlp, "op: Binary(Add)", "op: Binary(Xor)"),
        (&sorted, "dtype: Pred)], roots: [2]", "dtype: Pred)], roots: [1]"),
    ];
    for (text, from, to) in cases {
        let said = refused(text, from, to);
        assert!(said.contains("kernel ") && (said.contains("node ") || said.contains("computation")), "{to}: {said}");
    }
}

/// Numbers that lead beyond every memory would overflow where code is made, or make code without end.
#[test]
fn plans_that_count_too_far_are_refused() {
    let turned = plan("HloModule turned ENTRY e { x = f32[6,3] parameter(0) ROOT r = f32[18] reshape(x) }");
    let product = plan(
        "HloModule product ENTRY e { x = f32[24,40] parameter(0) y = f32[40,16] parameter(1)
           ROOT r = f32[24,16] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }",
    );
    let sums = plan("HloModule sums ENTRY e { x = f32[24,40] parameter(0) ROOT r = f32[24,40] add(x, x) }");
    let sorted = plan(
        "HloModule sorted c { a = f32[] parameter(0) b = f32[] parameter(1) ROOT lt = pred[] compare(a, b), direction=LT }
         ENTRY e { x = f32[64] parameter(0) ROOT r = f32[64] sort(x), dimensions={0}, to_apply=c }",
    );
    let moved = plan(include_str!("programs/ragged_products.hlo"));
    let cases = [
        (&moved, "bytes: 81920)", "bytes: 9223372036854775807)", "beyond their memory"),
        (&turned, "lanes: [3, 1]", "lanes: [3, 2147483647]", "rows "),
        (&turned, "row_offset: 0", "row_offset: -9223372036854775808", "rows "),
        (&product, "rows: [(count: 24, lhs: 1", "rows: [(count: 24, lhs: 4294967295", "counts up to"),
        (&sums, "component_rows: 160", "component_rows: 9223372036854775807", "rows "),
        (&sorted, "pass: First(bits: ", "pass: First(bits: 3", "no pass of the sort"),
        (&sorted, "(row: 1, lane: 16)", "(row: 2147483647, lane: 16)", "counts up to"),
        (&sorted, "row_bits: 4", "row_bits: 2", "parts of registers"),
    ];
    for (text, from, to, why) in cases {
        let said = refused(text, from, to);
        assert!(said.contains(why), "{to}: {said}");
    }
}
