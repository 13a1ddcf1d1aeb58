// VALUE: 766, not 767
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
