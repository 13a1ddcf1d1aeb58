//! Forms of StableHLO text: each program checks itself.

use std::process::Command;

/// Runs a program; its exit code and what it says.
fn run(name: &str, text: &str) -> (i32, String) {
    let path = std::env::temp_dir().join(format!("systole-forms-{}-{name}.mlir", std::process::id()));
    std::fs::write(&path, text).expect("written");
    let done = Command::new(env!("CARGO_BIN_EXE_systole"))
        .args(["run", path.to_str().expect("UTF-8"), "--chip", "tiny", "--fold", "none", "--report", "none"])
        .output()
        .expect("runs");
    std::fs::remove_file(&path).expect("removed");
    (done.status.code().unwrap_or(-1), String::from_utf8_lossy(&done.stderr).into_owned())
}

/// Programs by name; `WRONG` stands for a number that the program gives as `RIGHT`.
const PROGRAMS: [(&str, &str, &str, &str); 10] = [
    (
        "generic",
        "7",
        "8",
        r#"
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2xi32>) -> tensor<2xi32>, sym_name = "twice", sym_visibility = "private"}> ({
  ^bb0(%a: tensor<2xi32>):
    %0 = "stablehlo.add"(%a, %a) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    "func.return"(%0) : (tensor<2xi32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = () -> (), sym_name = "main"}> ({
    %0 = "stablehlo.constant"() <{value = dense<[3, 4]> : tensor<2xi32>}> : () -> tensor<2xi32>
    %1 = "func.call"(%0) <{callee = @twice}> : (tensor<2xi32>) -> tensor<2xi32>
    "check.expect_eq_const"(%1) <{value = dense<[6, VALUE]> : tensor<2xi32>}> : (tensor<2xi32>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"#,
    ),
    (
        "functions",
        "1",
        "2",
        "
func.func @first() {
  %x = stablehlo.constant dense<1> : tensor<i32>
  check.expect_eq_const %x, dense<1> : tensor<i32>
  return
}
func.func private @helper(%x: tensor<i32>) -> tensor<i32>
func.func @second() {
  %x = stablehlo.constant dense<VALUE> : tensor<i32>
  check.expect_eq_const %x, dense<2> : tensor<i32>
  return
}
",
    ),
    (
        "nested",
        "1",
        "5",
        "
module {
  module @a { func.func @main() { return } }
  module @b { func.func @main() {
    %x = stablehlo.constant dense<5> : tensor<i32>
    check.expect_eq_const %x, dense<VALUE> : tensor<i32>
    return
  } }
}
",
    ),
    (
        "sizes",
        "9",
        "2",
        r#"
func.func private @rows(%x: tensor<?x3xf32>) -> tensor<i32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  return %n : tensor<i32>
}
func.func @main() {
  %x = stablehlo.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]> : tensor<1x6xf32>
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<1x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %z = stablehlo.add %y, %y : tensor<?x?xf32>
  %n = call @rows(%z) : (tensor<?x?xf32>) -> tensor<i32>
  check.expect_eq_const %n, dense<VALUE> : tensor<i32>
  %i = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<?x?xf32>
  %w = stablehlo.subtract %z, %i : tensor<?x?xf32>
  %e = stablehlo.constant dense<[[2.0, 3.0, 4.0], [8.0, 9.0, 10.0]]> : tensor<2x3xf32>
  "check.expect_eq"(%w, %e) : (tensor<?x?xf32>, tensor<2x3xf32>) -> ()
  return
}
"#,
    ),
    (
        "weak_order",
        "false",
        "true",
        "
func.func @main() {
  %x = stablehlo.constant dense<[0x7FC00000, 0xFFC00001, 1.0, 0x7F800000]> : tensor<4xf32>
  %y = stablehlo.constant dense<[0xFFC00000, 2.0, 0x7FC00000, 0x7F800000]> : tensor<4xf32>
  %0 = stablehlo.compare GE, %x, %y, WEAKORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  check.expect_eq_const %0, dense<[true, VALUE, false, true]> : tensor<4xi1>
  return
}
",
    ),
    (
        "scan",
        "18",
        "17",
        "
func.func @main() {
  %x = stablehlo.constant dense<[[5, 6, 7], [8, 9, 10]]> : tensor<2x3xi32>
  %c = stablehlo.constant dense<0> : tensor<2xi32>
  %0:2 = chlo.scan(%x) inits(%c) dimension=1 attributes {is_reverse = true} {
  ^bb0(%a: tensor<2xi32>, %b: tensor<2xi32>):
    %s = stablehlo.add %a, %b : tensor<2xi32>
    stablehlo.return %s, %s : tensor<2xi32>, tensor<2xi32>
  } : (tensor<2x3xi32>, tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>)
  check.expect_eq_const %0#0, dense<[[18, 13, 7], [27, 19, 10]]> : tensor<2x3xi32>
  %1 = stablehlo.slice %0#1 [0:1] : (tensor<2xi32>) -> tensor<1xi32>
  %2 = stablehlo.constant dense<1> : tensor<1xi32>
  %3 = stablehlo.subtract %1, %2 : tensor<1xi32>
  check.expect_eq_const %3, dense<VALUE> : tensor<1xi32>
  return
}
",
    ),
    (
        "resource",
        "2.5",
        "3.5",
        r#"
func.func @main() {
  %x = stablehlo.constant dense_resource<weights> : tensor<2xf32>
  check.expect_almost_eq_const %x, dense<[1.5, VALUE]> : tensor<2xf32>, tolerance = 1.0e-6
  return
}
{-#
  dialect_resources: { builtin: { weights: "0x040000000000C03F00006040" } }
#-}
"#,
    ),
    (
        "probe",
        "4",
        "3",
        r#"
func.func @main() {
  %x = stablehlo.constant dense<3> : tensor<i32>
  %y = interpreter.probe %x, probe_id = "x" : tensor<i32>
  %z = stablehlo.constant dense<VALUE> : tensor<i32>
  check.expect_serialized_eq %z, probe_id = "x" : tensor<i32>
  return
}
"#,
    ),
    (
        "parallel",
        "30",
        "31",
        r#"
module @m {
  func.func @sum(%x: tensor<2xi32>) -> tensor<2xi32> {
    %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %1 = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %1 : tensor<i32>
    }) {
      replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 4>]>, axes = [#stablehlo.axis_ref<name = "x", sub_axis_info = (2)2>]>
    } : (tensor<2xi32>) -> tensor<2xi32>
    return %0 : tensor<2xi32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 10]> : tensor<2xi32>
    %b = stablehlo.constant dense<[2, 21]> : tensor<2xi32>
    %r:4 = "interpreter.run_parallel"(%a, %b, %b, %b) {
      programs = [[@sum], [@sum], [@sum], [@sum]]
    } : (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>)
    check.expect_eq_const %r#1, dense<[3, VALUE]> : tensor<2xi32>
    check.expect_eq_const %r#2, dense<[4, 42]> : tensor<2xi32>
    return
  }
}
"#,
    ),
    (
        "different results side by side",
        "7",
        "8",
        r#"
module @m {
  func.func @one(%x: tensor<2xi32>) -> tensor<2xi32> {
    %0 = stablehlo.add %x, %x : tensor<2xi32>
    return %0 : tensor<2xi32>
  }
  func.func @two(%x: tensor<2xi32>, %y: tensor<f32>) -> (tensor<f32>, tensor<2xi32>) {
    %0 = stablehlo.multiply %x, %x : tensor<2xi32>
    return %y, %0 : tensor<f32>, tensor<2xi32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 4]> : tensor<2xi32>
    %b = stablehlo.constant dense<2.5> : tensor<f32>
    %r:3 = "interpreter.run_parallel"(%a, %a, %b) {
      programs = [[@one], [@two]]
    } : (tensor<2xi32>, tensor<2xi32>, tensor<f32>) -> (tensor<2xi32>, tensor<f32>, tensor<2xi32>)
    check.expect_eq_const %r#0, dense<[2, VALUE]> : tensor<2xi32>
    check.expect_eq_const %r#1, dense<2.5> : tensor<f32>
    check.expect_eq_const %r#2, dense<[1, 16]> : tensor<2xi32>
    return
  }
}
"#,
    ),
];

/// Programs on quantized tensors, by hand: of the form of [`PROGRAMS`].
const QUANTIZED: [(&str, &str, &str, &str); 9] = [
    (
        "quantize and requantize, a scale for each column",
        "11",
        "10",
        r#"
func.func @main() {
  %x = stablehlo.constant dense<[4.0, 15.0]> : tensor<2xf32>
  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>>
  %i = stablehlo.bitcast_convert %q : (tensor<2x!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>>) -> tensor<2xi8>
  check.expect_eq_const %i, dense<[VALUE, 10]> : tensor<2xi8>
  %r = stablehlo.uniform_quantize %q : (tensor<2x!quant.uniform<i8:f32:0, {0.1:-30,0.5:-20}>>) -> tensor<2x!quant.uniform<i8:f32:0, {0.1:-20,0.2:-30}>>
  %j = stablehlo.bitcast_convert %r : (tensor<2x!quant.uniform<i8:f32:0, {0.1:-20,0.2:-30}>>) -> tensor<2xi8>
  check.expect_eq_const %j, dense<[20, 45]> : tensor<2xi8>
  return
}
"#,
    ),
    (
        "halves to even, held within the range",
        "3",
        "2",
        r#"
func.func @main() {
  %x = stablehlo.constant dense<[2.5, 3.5, -2.5, 900.0, -900.0]> : tensor<5xf32>
  %q = stablehlo.uniform_quantize %x : (tensor<5xf32>) -> tensor<5x!quant.uniform<i8<-100:101>:f32, 1.0>>
  %i = stablehlo.bitcast_convert %q : (tensor<5x!quant.uniform<i8<-100:101>:f32, 1.0>>) -> tensor<5xi8>
  check.expect_eq_const %i, dense<[VALUE, 4, -2, 101, -100]> : tensor<5xi8>
  return
}
"#,
    ),
    (
        "sum of two scales",
        "95",
        "94",
        r#"
func.func @main() {
  %x = stablehlo.constant dense<[3, 5, 127]> : tensor<3xi8>
  %y = stablehlo.constant dense<[4, -8, 127]> : tensor<3xi8>
  %a = stablehlo.bitcast_convert %x : (tensor<3xi8>) -> tensor<3x!quant.uniform<i8:f32, 0.5:1>>
  %b = stablehlo.bitcast_convert %y : (tensor<3xi8>) -> tensor<3x!quant.uniform<i8:f32, 0.25>>
  %c = stablehlo.add %a, %b : (tensor<3x!quant.uniform<i8:f32, 0.5:1>>, tensor<3x!quant.uniform<i8:f32, 0.25>>) -> tensor<3x!quant.uniform<i8:f32, 1.0:-1>>
  %i = stablehlo.bitcast_convert %c : (tensor<3x!quant.uniform<i8:f32, 1.0:-1>>) -> tensor<3xi8>
  check.expect_eq_const %i, dense<[1, -1, VALUE]> : tensor<3xi8>
  return
}
"#,
    ),
    (
        "product of integers with a zero point",
        "767",
        "766",
        r#"
func.func @main() {
  %x = stablehlo.constant dense<[[128, 130, 126], [255, 0, 128]]> : tensor<2x3xui8>
  %y = stablehlo.constant dense<[[1, 2], [3, -4], [5, 6]]> : tensor<3x2xi8>
  %a = stablehlo.bitcast_convert %x : (tensor<2x3xui8>) -> tensor<2x3x!quant.uniform<u8:f32, 0.5:128>>
  %b = stablehlo.bitcast_convert %y : (tensor<3x2xi8>) -> tensor<3x2x!quant.uniform<i8:f32, 0.25>>
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<u8:f32, 0.5:128>>, tensor<3x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i16:f32, 0.125>>
  %i = stablehlo.bitcast_convert %c : (tensor<2x2x!quant.uniform<i16:f32, 0.125>>) -> tensor<2x2xi16>
  check.expect_eq_const %i, dense<[[-4, -20], [-257, VALUE]]> : tensor<2x2xi16>
  return
}
"#,
    ),
    (
        "product with a scale for each column",
        "12",
        "11",
        r#"
func.func @main() {
  %x = stablehlo.constant dense<[[1, 2]]> : tensor<1x2xi8>
  %y = stablehlo.constant dense<[[2, 4], [6, 8]]> : tensor<2x2xi8>
  %a = stablehlo.bitcast_convert %x : (tensor<1x2xi8>) -> tensor<1x2x!quant.uniform<i8:f32, 1.0>>
  %b = stablehlo.bitcast_convert %y : (tensor<2x2xi8>) -> tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
  %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<1x2x!quant.uniform<i8:f32, 1.0>>, tensor<2x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> tensor<1x2x!quant.uniform<i8:f32, 0.5:1>>
  %i = stablehlo.bitcast_convert %c : (tensor<1x2x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<1x2xi8>
  check.expect_eq_const %i, dense<[[15, VALUE]]> : tensor<1x2xi8>
  return
}
"#,
    ),
    (
        "numbers by quantized weights",
        "5.25",
        "5.5",
        r#"
func.func @main() {
  %x = stablehlo.constant dense<[[1.5, 2.0]]> : tensor<1x2xf32>
  %y = stablehlo.constant dense<[[2], [4]]> : tensor<2x1xi8>
  %b = stablehlo.bitcast_convert %y : (tensor<2x1xi8>) -> tensor<2x1x!quant.uniform<i8:f32, 0.5>>
  %c = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1xf32>
  check.expect_eq_const %c, dense<[[VALUE]]> : tensor<1x1xf32>
  return
}
"#,
    ),
    (
        "convolution whose padding is the zero point",
        "4",
        "3",
        r#"
func.func @main() {
  %x = stablehlo.constant dense<[[[6], [7], [8]]]> : tensor<1x3x1xi8>
  %y = stablehlo.constant dense<1> : tensor<3x1x1xi8>
  %a = stablehlo.bitcast_convert %x : (tensor<1x3x1xi8>) -> tensor<1x3x1x!quant.uniform<i8:f32, 1.0:5>>
  %b = stablehlo.bitcast_convert %y : (tensor<3x1x1xi8>) -> tensor<3x1x1x!quant.uniform<i8:f32, 1.0>>
  %c = stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x1x!quant.uniform<i8:f32, 1.0:5>>, tensor<3x1x1x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x3x1x!quant.uniform<i16:f32, 1.0>>
  %i = stablehlo.bitcast_convert %c : (tensor<1x3x1x!quant.uniform<i16:f32, 1.0>>) -> tensor<1x3x1xi16>
  check.expect_eq_const %i, dense<[[[VALUE], [6], [5]]]> : tensor<1x3x1xi16>
  return
}
"#,
    ),
    (
        "regions, calls and loops",
        "39",
        "40",
        r#"
func.func private @twice(%x: tensor<3x!quant.uniform<i8:f32, 0.5:2>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:2>> {
  %0 = stablehlo.add %x, %x : tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  return %0 : tensor<3x!quant.uniform<i8:f32, 0.5:2>>
}
func.func @main() {
  %x = stablehlo.constant dense<[4, 6, 3]> : tensor<3xi8>
  %n = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<2> : tensor<i8>
  %q = stablehlo.bitcast_convert %x : (tensor<3xi8>) -> tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  %s = stablehlo.bitcast_convert %z : (tensor<i8>) -> tensor<!quant.uniform<i8:f32, 0.5:2>>
  %1 = call @twice(%q) : (tensor<3x!quant.uniform<i8:f32, 0.5:2>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  %l:2 = stablehlo.while(%i = %n, %v = %1) : tensor<i32>, tensor<3x!quant.uniform<i8:f32, 0.5:2>> cond {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %t = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %c : tensor<i32>
    %w = stablehlo.add %v, %v : tensor<3x!quant.uniform<i8:f32, 0.5:2>>
    stablehlo.return %j, %w : tensor<i32>, tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  }
  %r = stablehlo.reduce(%l#1 init: %s) across dimensions = [0] : (tensor<3x!quant.uniform<i8:f32, 0.5:2>>, tensor<!quant.uniform<i8:f32, 0.5:2>>) -> tensor<!quant.uniform<i8:f32, 0.5:2>>
   reducer(%a: tensor<!quant.uniform<i8:f32, 0.5:2>>, %b: tensor<!quant.uniform<i8:f32, 0.5:2>>) {
    %0 = stablehlo.add %a, %b : tensor<!quant.uniform<i8:f32, 0.5:2>>
    stablehlo.return %0 : tensor<!quant.uniform<i8:f32, 0.5:2>>
  }
  %o = stablehlo.bitcast_convert %r : (tensor<!quant.uniform<i8:f32, 0.5:2>>) -> tensor<i8>
  %e = stablehlo.constant dense<30> : tensor<i8>
  %k = stablehlo.add %o, %z : tensor<i8>
  %h = stablehlo.subtract %k, %z : tensor<i8>
  %m = stablehlo.convert %h : (tensor<i8>) -> tensor<i32>
  %p = stablehlo.constant dense<10> : tensor<i32>
  %u = stablehlo.add %m, %p : tensor<i32>
  check.expect_eq_const %u, dense<VALUE> : tensor<i32>
  return
}
"#,
    ),
    (
        "comparison and largest of two scales",
        "false",
        "true",
        r#"
func.func @main() {
  %x = stablehlo.constant dense<[4, 4]> : tensor<2xi8>
  %y = stablehlo.constant dense<[7, 9]> : tensor<2xi8>
  %a = stablehlo.bitcast_convert %x : (tensor<2xi8>) -> tensor<2x!quant.uniform<i8:f32, 1.0>>
  %b = stablehlo.bitcast_convert %y : (tensor<2xi8>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
  %t = stablehlo.compare GT, %a, %b : (tensor<2x!quant.uniform<i8:f32, 1.0>>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2xi1>
  check.expect_eq_const %t, dense<[VALUE, false]> : tensor<2xi1>
  %m = stablehlo.maximum %a, %b : (tensor<2x!quant.uniform<i8:f32, 1.0>>, tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  %f = stablehlo.uniform_dequantize %m : (tensor<2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2xf32>
  check.expect_eq_const %f, dense<[4.0, 4.5]> : tensor<2xf32>
  return
}
"#,
    ),
];

/// A product whose result is kept in 32 bits, as programs that quantize activations alone have it.
const WIDE_SUM: (&str, &str, &str, &str) = (
    "product in 32 bits, quantized again",
    "346.5",
    "349.25",
    r#"
func.func @main() {
  %x = stablehlo.constant dense<[[3, 5], [-7, 127]]> : tensor<2x2xi8>
  %a = stablehlo.bitcast_convert %x : (tensor<2x2xi8>) -> tensor<2x2x!quant.uniform<i8:f32, 0.5:-1>>
  %p = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<2x2x!quant.uniform<i8:f32, 0.5:-1>>, tensor<2x2x!quant.uniform<i8:f32, 0.5:-1>>) -> tensor<2x2x!quant.uniform<i32:f32, 0.25>>
  %i = stablehlo.bitcast_convert %p : (tensor<2x2x!quant.uniform<i32:f32, 0.25>>) -> tensor<2x2xi32>
  check.expect_eq_const %i, dense<[[-20, 792], [-792, 16348]]> : tensor<2x2xi32>
  %q = stablehlo.uniform_quantize %p : (tensor<2x2x!quant.uniform<i32:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i8:f32, 2.75>>
  %f = stablehlo.uniform_dequantize %q : (tensor<2x2x!quant.uniform<i8:f32, 2.75>>) -> tensor<2x2xf32>
  check.expect_eq_const %f, dense<[[-5.5, 198.0], [-198.0, VALUE]]> : tensor<2x2xf32>
  return
}
"#,
);

/// A check that gives a truth value.
const TRUTH: (&str, &str, &str, &str) = (
    "a check with a result",
    "5.5",
    "5.0",
    r#"
func.func @main() -> tensor<i1> {
  %x = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %w = stablehlo.constant dense<[4.0, VALUE]> : tensor<2xf32>
  %c = stablehlo.constant dense<2.0> : tensor<2xf32>
  %s = stablehlo.add %x, %c : tensor<2xf32>
  %t = stablehlo.custom_call @check.eq(%w, %s) : (tensor<2xf32>, tensor<2xf32>) -> tensor<i1>
  %yes = stablehlo.constant dense<true> : tensor<i1>
  check.expect_eq %t, %yes : tensor<i1>
  return %t : tensor<i1>
}
"#,
);

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

#[test]
fn forms_of_text_mean_what_they_say() {
    for (name, wrong, right, text) in PROGRAMS.into_iter().chain(QUANTIZED).chain([WIDE_SUM, TRUTH]) {
        let (code, said) = run(name, &text.replace("VALUE", right));
        assert_eq!(code, 0, "{name}: {said}");
        let (code, said) = run(name, &text.replace("VALUE", wrong));
        assert_eq!(code, 1, "{name} with a wrong value: {said}");
        assert!(said.contains("check.e"), "{name}: {said}");
    }
}
