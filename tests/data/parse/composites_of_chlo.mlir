// run: opt --passes inline %s
// A composite of an operation of CHLO is that operation; another's is its decomposition.
func.func @main(%x: tensor<24x16xf32>, %w: tensor<3x16x8xf32>, %sizes: tensor<3xi32>) -> (tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x16xf32>) {
  %0 = "chlo.ragged_dot"(%x, %w, %sizes) <{precision_config = [#chlo<precision DEFAULT>, #chlo<precision HIGHEST>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<24x16xf32>, tensor<3x16x8xf32>, tensor<3xi32>) -> tensor<24x8xf32>
  %1 = stablehlo.composite "chlo.ragged_dot" %x, %w, %sizes {composite_attributes = {precision_config = ["HIGH", "DEFAULT"], ragged_dot_dimension_numbers = [dense<> : tensor<0xi64>, dense<> : tensor<0xi64>, dense<1> : tensor<1xi64>, dense<1> : tensor<1xi64>, dense<0> : tensor<1xi64>, dense<0> : tensor<1xi64>]}, decomposition = @other, version = 1 : i32} : (tensor<24x16xf32>, tensor<3x16x8xf32>, tensor<3xi32>) -> tensor<24x8xf32>
  %2 = stablehlo.composite "mine.tan" %x {decomposition = @mine, version = 1 : i32} : (tensor<24x16xf32>) -> tensor<24x16xf32>
  return %0, %1, %2 : tensor<24x8xf32>, tensor<24x8xf32>, tensor<24x16xf32>
}
func.func private @other(%x: tensor<24x16xf32>, %w: tensor<3x16x8xf32>, %sizes: tensor<3xi32>) -> tensor<24x8xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<24x8xf32>
  return %0 : tensor<24x8xf32>
}
func.func private @mine(%x: tensor<24x16xf32>) -> tensor<24x16xf32> {
  %0 = stablehlo.negate %x : tensor<24x16xf32>
  return %0 : tensor<24x16xf32>
}

// ==== opt --passes inline %s
HloModule module, entry_computation_layout={(f32[24,16], f32[3,16,8], s32[3])->(f32[24,8], f32[24,8], f32[24,16])}

ENTRY %main {
  %x = f32[24,16] parameter(0)
  %w = f32[3,16,8] parameter(1)
  %sizes = s32[3] parameter(2)
  %ragged-dot.3 = f32[24,8] ragged-dot(%x, %w, %sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}, operand_precision={highest,highest}
  %ragged-dot.4 = f32[24,8] ragged-dot(%x, %w, %sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}, operand_precision={high,high}
  %negate.1 = f32[24,16] negate(%x)
  ROOT %tuple.6 = (f32[24,8], f32[24,8], f32[24,16]) tuple(%ragged-dot.3, %ragged-dot.4, %negate.1)
}
