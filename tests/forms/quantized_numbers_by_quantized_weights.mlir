// VALUE: 5.5, not 5.25
func.func @main() {
  %x = stablehlo.constant dense<[[1.5, 2.0]]> : tensor<1x2xf32>
  %y = stablehlo.constant dense<[[2], [4]]> : tensor<2x1xi8>
  %b = stablehlo.bitcast_convert %y : (tensor<2x1xi8>) -> tensor<2x1x!quant.uniform<i8:f32, 0.5>>
  %c = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : (tensor<1x2xf32>, tensor<2x1x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x1xf32>
  check.expect_eq_const %c, dense<[[VALUE]]> : tensor<1x1xf32>
  return
}
