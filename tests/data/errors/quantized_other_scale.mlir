// run: opt %s
func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.25>> {
  %0 = stablehlo.reshape %x : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  return %0 : tensor<2x2x!quant.uniform<i8:f32, 0.25>>
}

// ==== opt %s
error: the result has other scales, zero points or types than the operand
 --> quantized_other_scale.mlir:3:3
  |
3 |   %0 = stablehlo.reshape %x : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  |
  = note: uniform_quantize changes them
exit 2
