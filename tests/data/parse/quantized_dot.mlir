// run: opt --passes inline %s
func.func @main(%x: tensor<2x3x!quant.uniform<u8:f32, 0.5:128>>, %y: tensor<3x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i8:f32, 1.0:3>> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<u8:f32, 0.5:128>>, tensor<3x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i8:f32, 1.0:3>>
  return %0 : tensor<2x2x!quant.uniform<i8:f32, 1.0:3>>
}
