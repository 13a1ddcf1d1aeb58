// VALUE: 349.25, not 346.5
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
