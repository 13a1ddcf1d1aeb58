// run: partition %s
// The result is wanted by experts, the tokens are by groups: turning the result moves less than gathering the tokens.
module @result_turns_instead_of_operands attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%tokens: tensor<4x8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, %where: tensor<4x8x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}, {}]>}) -> (tensor<4x4x8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}, {}]>}) {
    %kept = stablehlo.negate %where : tensor<4x8x4x8xf32>
    %0 = stablehlo.dot_general %tokens, %kept, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<4x8x32xf32>, tensor<4x8x4x8xf32>) -> tensor<4x32x4x8xf32>
    %1 = stablehlo.transpose %0, dims = [2, 0, 3, 1] : (tensor<4x32x4x8xf32>) -> tensor<4x4x8x32xf32>
    return %1 : tensor<4x4x8x32xf32>
  }
}
