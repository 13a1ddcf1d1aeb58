// run: opt --passes inline %s
module @dots {
  func.func public @main(%x: tensor<4x8xf32>, %y: tensor<8x2xf32>) -> tensor<4x2xf32> {
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
}

// ==== opt --passes inline %s
HloModule dots, entry_computation_layout={(f32[4,8], f32[8,2])->f32[4,2]}

ENTRY %main {
  %x = f32[4,8] parameter(0)
  %y = f32[8,2] parameter(1)
  ROOT %dot.2 = f32[4,2] dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
