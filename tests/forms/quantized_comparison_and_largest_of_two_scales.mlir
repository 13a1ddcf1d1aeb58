// VALUE: true, not false
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
