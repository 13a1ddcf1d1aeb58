// VALUE: 3, not 4
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
