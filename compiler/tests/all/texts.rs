//! Plans as text: read as they were written, and refused where they are wrong.

use systole_compiler::compile::{CompileOptions, generate, plan_module};
use systole_compiler::front::parse_hlo;
use systole_compiler::plan::Plan;
use systole_compiler::plan::spec::KernelSpec;
use systole_compiler::plan::text::{parse, to_text};
use systole_compiler::plan::verify::verify;
use systole_hlo::error::CompileError;
use systole_isa::ChipConfig;

/// One program with a loop, a branch, products that stream, a sort, a gather, a scatter and scalar code.
const PROGRAM: &str = "HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = pred[] compare(a, b), direction=LT }
cond { p = (s32[], f32[64,64]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3) \
ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], f32[64,64]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[64,64] \
get-tuple-element(p), index=1 one = s32[] constant(1) j = s32[] add(i, one) y = f32[64,64] dot(x, x), \
lhs_contracting_dims={1}, rhs_contracting_dims={0} t = f32[64,64] tanh(y) ROOT r = (s32[], f32[64,64]) tuple(j, t) }
yes { x = f32[64,64] parameter(0) ROOT y = f32[64,64] negate(x) }
no { x = f32[64,64] parameter(0) ROOT y = f32[64,64] abs(x) }
ENTRY e {
  x = f32[64,64] parameter(0)
  which = pred[] parameter(1)
  at = s32[5,1] parameter(2)
  zero = s32[] constant(0)
  z = f32[] constant(0)
  init = (s32[], f32[64,64]) tuple(zero, x)
  w = (s32[], f32[64,64]) while(init), condition=cond, body=body
  y = f32[64,64] get-tuple-element(w), index=1
  c = f32[64,64] conditional(which, y, y), true_computation=yes, false_computation=no
  sorted = f32[64,64] sort(c), dimensions={1}, to_apply=less
  g = f32[5,64] gather(sorted, at), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,64}
  s = f32[64,64] scatter(x, at, g), update_window_dims={1}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  table = f32[2,3] constant({{1, 2, 3}, {4, 5, 6}})
  sum = f32[64] reduce(s, z), dimensions={1}, to_apply=add
  ROOT all = (f32[64,64], f32[64], f32[2,3]) tuple(s, sum, table)
}
";

fn planned(chip: &str, cores: u32, max_resident: Option<u64>) -> (Plan, ChipConfig, CompileOptions) {
    let chip = ChipConfig::from_preset(chip).expect("a preset");
    let (module, _) = parse_hlo(PROGRAM).expect("a module");
    let mut options = CompileOptions { cores, ..CompileOptions::for_chip(&chip) };
    options.guide.max_resident = max_resident;
    let plan = plan_module(module, &chip, &options, PROGRAM).expect("a plan");
    (plan, chip, options)
}

#[test]
fn plans_are_read_as_they_were_written_and_give_the_same_program() {
    for (chip, cores, resident) in [("tiny", 1, None), ("tpu-v5e", 1, Some(0)), ("tpu-v4", 2, Some(0))] {
        let (plan, chip, options) = planned(chip, cores, resident);
        let text = to_text(&plan);
        let read = parse(&text).unwrap_or_else(|e| panic!("{}: {e}", chip.name));
        assert_eq!(read, plan, "{}", chip.name);
        verify(&read, &chip).unwrap_or_else(|e| panic!("{}: {e}", chip.name));
        let program = |p: &Plan| generate(p, &chip, &options, None).expect("a program");
        assert!(program(&read) == program(&plan), "{}: another program", chip.name);
    }
}

#[test]
fn what_is_wrong_with_a_text_is_said_with_its_line() {
    let (plan, ..) = planned("tiny", 1, None);
    let text = to_text(&plan);
    for (change, with, message) in [
        ("plan 2", "plan 1", "line 1: version 1"),
        ("array 0 ", "array 7 ", "number 7 where 0 comes next"),
        ("main {", "mian {", "`mian` is no part of a plan"),
        ("} do {", "}", "a loop's head ends with"),
    ] {
        let wrong = text.replacen(change, with, 1);
        assert_ne!(wrong, text, "{change}");
        let e = parse(&wrong).expect_err(change).to_string();
        assert!(e.contains(message), "{change}: {e}");
    }
    let cut = &text[..text.rfind('}').expect("an end")];
    assert!(parse(cut).expect_err("no end").message.contains("too early"));
}

#[test]
fn plans_that_do_not_go_together_are_refused() {
    let (plan, chip, _) = planned("tiny", 1, None);
    let wrong = |change: &dyn Fn(&mut Plan), message: &str| {
        let mut p = plan.clone();
        change(&mut p);
        match verify(&p, &chip) {
            Err(CompileError::Plan(why)) => assert!(why.contains(message), "{message}: {why}"),
            other => panic!("{message}: {other:?}"),
        }
    };
    wrong(&|p| p.head.fingerprint += 1, "made for another chip");
    wrong(&|p| p.kernels.truncate(1), "there is no kernel");
    wrong(&|p| p.head.words = 0, "there is no word");
    wrong(&|p| p.kernels[0].needs.scratch_rows += 8, "needs Needs");
    let product = |p: &mut Plan| {
        p.kernels.iter_mut().find_map(|k| match &mut k.spec {
            KernelSpec::Product { tile, .. } => Some(std::mem::replace(&mut tile.rows, 1 << 20)),
            _ => None,
        });
    };
    wrong(&|p| product(p), "there is no such tile");
}
