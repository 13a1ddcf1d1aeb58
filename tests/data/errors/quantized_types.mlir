// run: opt %s
func.func @main(%x: tensor<2x3x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5, 0.25}>> {
  return %x : tensor<2x3x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
}

// ==== opt %s
error: dimension 1 has 3 indices, the type has 2 scales
 --> quantized_types.mlir:2:27
  |
2 | func.func @main(%x: tensor<2x3x!quant.uniform<i8:f32:1, {0.5, 0.25}>>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5, 0.25}>> {
  |                           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
exit 2
