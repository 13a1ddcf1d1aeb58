// VALUE: 94, not 95
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
