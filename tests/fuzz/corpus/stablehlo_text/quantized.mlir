func.func @main(%x: tensor<2x3x!quant.uniform<u8:f32, 0.5:128>>, %y: tensor<3x2x!quant.uniform<i8<-127:127>:f32:1, {0.25, 0.5:3}>>) -> tensor<2x2x!quant.uniform<i16:f32, 1.0:3>> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<u8:f32, 0.5:128>>, tensor<3x2x!quant.uniform<i8<-127:127>:f32:1, {0.25, 0.5:3}>>) -> tensor<2x2x!quant.uniform<i16:f32, 1.0:3>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<2x2x!quant.uniform<i16:f32, 1.0:3>>) -> tensor<2x2xf32>
  %2 = stablehlo.uniform_quantize %1 : (tensor<2x2xf32>) -> tensor<2x2x!quant.uniform<i16:f32, 1.0:3>>
  return %2 : tensor<2x2x!quant.uniform<i16:f32, 1.0:3>>
}
