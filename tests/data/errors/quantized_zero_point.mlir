// run: opt %s
func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5:200>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:200>> {
  return %x : tensor<2x!quant.uniform<i8:f32, 0.5:200>>
}

// ==== opt %s
error: the zero point 200 is beyond -128:127
 --> quantized_zero_point.mlir:2:30
  |
2 | func.func @main(%x: tensor<2x!quant.uniform<i8:f32, 0.5:200>>) -> tensor<2x!quant.uniform<i8:f32, 0.5:200>> {
  |                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
exit 2
