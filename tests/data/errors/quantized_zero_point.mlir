// run: opt %s
func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5:200>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:200>> {
  return %x : tensor<2x!quant.uniform<i8:f32, 0.5:200>>
}
