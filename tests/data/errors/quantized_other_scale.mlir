// run: opt %s
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.25>> {
  %0 = stablehlo.reshape %x : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  return %0 : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
}
