// run: opt --passes inline %s
func.func @main(%x: tensor<2x3x!quant.uniform<u8:f32, 0.5:128>>, %y: tensor<3x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i8:f32, 1.0:3>> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x3x!quant.uniform<u8:f32, 0.5:128>>, tensor<3x2x!quant.uniform<i8:f32, 0.25>>) -> tensor<2x2x!quant.uniform<i8:f32, 1.0:3>>
  return %0 : tensor<2x2x!quant.uniform<i8:f32, 1.0:3>>
}

// ==== opt --passes inline %s
HloModule module, entry_computation_layout={(u8[2,3], s8[3,2])->s8[2,2]}

ENTRY %main {
  %x = u8[2,3] parameter(0)
  %y = s8[3,2] parameter(1)
  %convert.2 = s32[2,3] convert(%x)
  %constant.3 = s32[] constant(128)
  %broadcast.4 = s32[2,3] broadcast(%constant.3), dimensions={}
  %subtract.5 = s32[2,3] subtract(%convert.2, %broadcast.4)
  %convert.6 = bf16[2,3] convert(%subtract.5)
  %convert.7 = bf16[3,2] convert(%y)
  %dot.8 = f32[2,2] dot(%convert.6, %convert.7), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %constant.9 = f32[] constant(0.125)
  %broadcast.10 = f32[2,2] broadcast(%constant.9), dimensions={}
  %multiply.11 = f32[2,2] multiply(%dot.8, %broadcast.10)
  %constant.15 = f32[] constant(3)
  %broadcast.16 = f32[2,2] broadcast(%constant.15), dimensions={}
  %add.17 = f32[2,2] add(%multiply.11, %broadcast.16)
  %constant.18 = f32[] constant(-128)
  %broadcast.19 = f32[2,2] broadcast(%constant.18), dimensions={}
  %constant.20 = f32[] constant(127)
  %broadcast.21 = f32[2,2] broadcast(%constant.20), dimensions={}
  %clamp.22-1 = f32[2,2] maximum(%broadcast.19, %add.17)
  %clamp.22 = f32[2,2] minimum(%clamp.22-1, %broadcast.21)
  %round-nearest-even.23 = f32[2,2] round-nearest-even(%clamp.22)
  ROOT %convert.24 = s8[2,2] convert(%round-nearest-even.23)
}
