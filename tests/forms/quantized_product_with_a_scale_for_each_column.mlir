// VALUE: 11, not 12
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
