// run: opt %s
func.func @main(%x: tensor<2x3x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5, 0.25}>> {
  return %x : tensor<2x3x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
}
