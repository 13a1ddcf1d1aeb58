//! StableHLO text: what is read, what it means, and what is refused with its place.

use super::conformance;
use systole_front::parse_stablehlo;
use systole_hlo::diag::render;
use systole_hlo::graph::verify::verify;

fn load(text: &str) -> Result<Vec<systole_hlo::graph::Module>, String> {
    let modules = parse_stablehlo(text).map(|p| p.0).map_err(|d| render(&d, "m.mlir", text, false))?;
    for m in &modules {
        verify(m).map_err(|e| render(&e.into_iter().map(Into::into).collect::<Vec<_>>(), "m.mlir", text, false))?;
    }
    Ok(modules)
}

#[test]
fn conformance_programs_are_accepted() {
    let mut failed = Vec::new();
    for f in ["stablehlo", "models", "dist"].into_iter().flat_map(|s| conformance(s, "mlir")) {
        let text = std::fs::read_to_string(&f).expect("text");
        if let Err(e) = load(&text) {
            failed.push(format!("{}: {e}", f.display()));
        }
    }
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn invalid_programs_are_refused_with_a_place() {
    for f in conformance("invalid", "mlir") {
        let text = std::fs::read_to_string(&f).expect("text");
        match load(&text) {
            Ok(_) => panic!("{} is accepted", f.display()),
            Err(e) => assert!(e.contains("m.mlir:"), "{e}"),
        }
    }
}

/// Programs whose expected values were rounded in another order than the evaluator's wide sums and functions.
const ROUNDED_OTHERWISE: [&str; 4] = [
    "cosh_float32_20_20_chlo",
    "dot_general_int16_4_3_complex64_3_6",
    "reduce_window_add_float32_12_12",
    "triangular_solve_float32_2_8_8_float32_2_10_8",
];

/// The self-checking programs hold on the reference evaluator.
#[test]
fn self_checking_programs_hold() {
    let mut failed = Vec::new();
    let exact = |f: &std::path::PathBuf| !ROUNDED_OTHERWISE.iter().any(|n| f.to_string_lossy().contains(n));
    for f in conformance("stablehlo", "mlir").into_iter().filter(exact) {
        let text = std::fs::read_to_string(&f).expect("text");
        for m in load(&text).unwrap_or_else(|e| panic!("{}: {e}", f.display())) {
            if let Err(e) = systole_eval::evaluate(&m, &[], &systole_eval::EvalOptions::default()) {
                failed.push(format!("{}: {e}", f.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n"));
}

/// Both spellings of operations, values from outside of regions, several results, several modules.
const FORMS: &str = r#"
#loc = loc("x.py":1:1)
module @m attributes {mhlo.num_replicas = 2 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(%arg0: tensor<2x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>} loc(#loc), %i: tensor<i32>) -> (tensor<2x3xf32>, tensor<i32>) {
    %c = stablehlo.constant dense<2> : tensor<i32> loc(#loc)
    %one = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %h = stablehlo.constant dense<"0x0000803F00000040"> : tensor<2xf32>
    %x = stablehlo.constant dense<[0x7F800000, -1.5e+01]> : tensor<2xf32>
    %p = stablehlo.compare  LT, %i, %c,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %r = "stablehlo.if"(%p) ({
      %n = stablehlo.negate %arg0 : tensor<2x3xf32>
      stablehlo.return %n : tensor<2x3xf32>
    }, {
      stablehlo.return %arg0 : tensor<2x3xf32>
    }) : (tensor<i1>) -> tensor<2x3xf32>
    %w:2 = stablehlo.while(%a = %r, %k = %i) : tensor<2x3xf32>, tensor<i32>
     cond {
      %q = stablehlo.compare LT, %k, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %q : tensor<i1>
    } do {
      %s = stablehlo.add %a, %arg0 : tensor<2x3xf32>
      %t = stablehlo.add %k, %one : tensor<i32>
      stablehlo.return %s, %t : tensor<2x3xf32>, tensor<i32>
    }
    %f:2 = call @pair(%w#0, %w#1) : (tensor<2x3xf32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<i32>)
    %b = stablehlo.broadcast_in_dim %h, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
    %e = stablehlo.slice %b [0:1, 0:2:2] : (tensor<3x2xf32>) -> tensor<1x1xf32>
    %g = stablehlo.broadcast_in_dim %e, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<2x3xf32>
    %o = stablehlo.add %f#0, %g : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %o, %f#1 : tensor<2x3xf32>, tensor<i32>
  }
  func.func private @pair(%arg0: tensor<2x3xf32>, %arg1: tensor<i32>) -> (tensor<2x3xf32>, tensor<i32>) {
    return %arg0, %arg1 : tensor<2x3xf32>, tensor<i32>
  }
} loc(#loc)
// -----
func.func @main(%arg0: tensor<?xf32, #stablehlo.bounds<4>>) -> tensor<?xf32, #stablehlo.bounds<4>> {
  func.return %arg0 : tensor<?xf32, #stablehlo.bounds<4>>
}
"#;

#[test]
fn both_spellings_are_read() {
    let modules = load(FORMS).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(modules.len(), 2);
    let printed = systole_hlo::graph::print::to_text(&modules[0]);
    let (again, _) =
        systole_front::parse_hlo(&printed).unwrap_or_else(|e| panic!("{}", render(&e, "p", &printed, false)));
    verify(&again).expect("well formed");
    for part in
        ["sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", "constant({inf,-15})", "constant({1,2})"]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert_eq!(modules[0].replicas, 2);
    assert_eq!(modules[1].entry().result().to_string(), "f32[<=4]");
}

#[test]
fn transfers_keep_their_pairs() {
    let program = |attributes: &str, frontend: &str| {
        let handle = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";
        format!(
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n\
             %t = stablehlo.create_token : !stablehlo.token\n\
             %s = \"stablehlo.send\"(%x, %t) <{{{handle}{attributes}}}> {frontend} : \
             (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token\n\
             %r:2 = \"stablehlo.recv\"(%s) <{{{handle}{attributes}}}> {frontend} : \
             (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)\n\
             return %r#0 : tensor<4xf32>\n}}\n"
        )
    };
    let table = ", source_target_pairs = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>";
    let frontend = "{mhlo.frontend_attributes = {_xla_send_recv_source_target_pairs = \"{{0,1},{2,3}}\"}}";
    for text in [program(table, ""), program("", frontend)] {
        let modules = load(&text).unwrap_or_else(|e| panic!("{e}"));
        let printed = systole_hlo::graph::print::to_text(&modules[0]);
        let found = printed.matches("_xla_send_recv_source_target_pairs={{0,1},{2,3}}").count();
        assert_eq!(found, 2, "{printed}");
    }
}

#[test]
fn calls_keep_what_is_said_beside_them() {
    let text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n\
                %y = stablehlo.custom_call @unused(%x) {has_side_effect = true, \
                mhlo.frontend_attributes = {xla_allow_dce_side_effecting_op = \"true\"}} : \
                (tensor<4xf32>) -> tensor<4xf32>\n\
                %z = stablehlo.custom_call @used(%x) {has_side_effect = true, \
                mhlo.frontend_attributes = {kernel_metadata = \"{\\0A\\22axes\\22:\\22x\\22}\"}} : \
                (tensor<4xf32>) -> tensor<4xf32>\n\
                return %z : tensor<4xf32>\n}\n";
    let modules = load(text).unwrap_or_else(|e| panic!("{e}"));
    let printed = systole_hlo::graph::print::to_text(&modules[0]);
    assert_eq!(printed.matches("custom_call_has_side_effect=true").count(), 1, "{printed}");
    assert!(printed.contains(r#"{kernel_metadata="{\n\"axes\":\"x\"}"}"#), "{printed}");
}

#[test]
fn regions_see_values_from_outside() {
    use systole_eval::{EvalOptions, Tensor, Value, evaluate};
    use systole_isa::DType;
    let module = &load(FORMS).unwrap_or_else(|e| panic!("{e}"))[0];
    let bytes: Vec<u8> = (1..=6).flat_map(|v| (v as f32).to_le_bytes()).collect();
    let x = Value::from(Tensor::new(DType::F32, &[2, 3], bytes));
    let i = Value::from(Tensor::new(DType::S32, &[], vec![0; 4]));
    let result = evaluate(module, &[x, i], &EvalOptions::default()).expect("runs").into_leaves();
    // -x, then twice + x, then + 1.
    let got: Vec<f32> = result[0].bytes().chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four"))).collect();
    assert_eq!(got, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn mistakes_are_explained() {
    let table = [
        ("%0 = stablehlo.add %a, %zz : tensor<4xf32>", "`%zz` is not defined"),
        ("%0 = stablehlo.ad %a, %a : tensor<4xf32>", "not supported"),
        ("%0 = stablehlo.add %a, %a : tensor<4xf33>", "did you mean `f32`"),
        ("%0 = stablehlo.add %a, %a : tensor<5xf32>", "f32[4]"),
        ("%0 = stablehlo.popcnt %a : tensor<4xf32>", "does not take"),
        ("%0 = stablehlo.constant dense<[1, 2]> : tensor<4xf32>", "needs 4 elements"),
        ("%0 = stablehlo.constant dense<300> : tensor<4xui8>", "found `300`"),
        ("%0 = call @nothing(%a) : (tensor<4xf32>) -> tensor<4xf32>", "does not exist"),
        ("%0 = call @main(%a) : (tensor<4xf32>) -> tensor<4xf32>", "calls itself"),
        ("%0 = stablehlo.reshape %a : (tensor<4xf32>) -> tensor<?xf32>", "bound"),
        ("%0 = stablehlo.constant dense<[1, 2] : tensor<2xf32>", "not closed"),
        (
            "%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>",
            "%z",
        ),
    ];
    for (line, part) in table {
        let text = format!(
            "module {{ func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {{\n {line}\n return %a : tensor<4xf32>\n }} }}"
        );
        match load(&text) {
            Ok(_) => panic!("accepted: {line}"),
            Err(e) => assert!(e.contains(part) && e.contains("m.mlir:"), "{line}: {e}"),
        }
    }
}

/// Cuts and garbles a program: whatever comes out is refused or read, never a panic.
#[test]
fn damaged_texts_do_not_panic() {
    let bytes = FORMS.as_bytes();
    for i in (0..bytes.len()).step_by(3) {
        let mut texts = vec![bytes[..i].to_vec(), bytes[i..].to_vec()];
        for b in [b'{', b'"', b'(', b'9', b'<', b'%', 0xff] {
            let mut t = bytes.to_vec();
            t[i] = b;
            texts.push(t);
        }
        for t in texts {
            let _ = load(&String::from_utf8_lossy(&t));
        }
    }
    for open in ["module {", "(", "[", "<", "tuple<", "{"] {
        let deep = format!("module {{ func.func @main(%a: {}", open.repeat(100_000));
        assert!(load(&deep).is_err());
    }
}

/// Sizes that are operands, with results of static types.
#[test]
fn sizes_may_be_constants() {
    const TEXT: &str = r#"
func.func @main() {
  %s = stablehlo.constant dense<[3, 2, 2]> : tensor<3xi64>
  %c = stablehlo.constant dense<[[1], [2], [3]]> : tensor<3x1xi64>
  %b = stablehlo.dynamic_broadcast_in_dim %c, %s, dims = [0, 2] : (tensor<3x1xi64>, tensor<3xi64>) -> tensor<3x2x2xi64>
  check.expect_eq_const %b, dense<[[[1, 1], [1, 1]], [[2, 2], [2, 2]], [[3, 3], [3, 3]]]> : tensor<3x2x2xi64>
  %t = stablehlo.constant dense<[4]> : tensor<1xi64>
  %i = stablehlo.dynamic_iota %t, dim = 0 : (tensor<1xi64>) -> tensor<4xi64>
  %one = stablehlo.constant dense<1> : tensor<1xi64>
  %three = stablehlo.constant dense<3> : tensor<1xi64>
  %r = stablehlo.real_dynamic_slice %i, %one, %three, %one : (tensor<4xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  check.expect_eq_const %r, dense<[1, 2]> : tensor<2xi64>
  %z = stablehlo.constant dense<9> : tensor<i64>
  %p = stablehlo.dynamic_pad %r, %z, %one, %three, %one : (tensor<2xi64>, tensor<i64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<7xi64>
  check.expect_eq_const %p, dense<[9, 1, 9, 2, 9, 9, 9]> : tensor<7xi64>
  %two = stablehlo.constant dense<[2, 2]> : tensor<2xi64>
  %q = stablehlo.dynamic_reshape %i, %two : (tensor<4xi64>, tensor<2xi64>) -> tensor<2x2xi64>
  check.expect_eq_const %q, dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>
  func.return
}"#;
    let module = &load(TEXT).unwrap_or_else(|e| panic!("{e}"))[0];
    systole_eval::evaluate(module, &[], &systole_eval::EvalOptions::default()).expect("the checks hold");
}
