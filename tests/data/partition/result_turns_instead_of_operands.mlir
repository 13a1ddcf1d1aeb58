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

// ==== partition %s
// arg0: [4, 8, 32] [{"x"}, {}, {}]
// arg1: [4, 8, 4, 8] [{"x"}, {}, {}, {}]
// out0: [4, 4, 8, 32] [{"x"}, {}, {}, {}]
// negate.2: f32[4,8,4,8] [{"x"}, {}, {}, {}]
// dot.3: f32[4,32,4,8] [{}, {}, {"x"}, {}]
// transpose.4: f32[4,4,8,32] [{"x"}, {}, {}, {}]
// custom-call.5: f32[4,4,8,32] [{"x"}, {}, {}, {}]
// received: 3072 bytes by all-to-all
HloModule result_turns_instead_of_operands, num_partitions=4

ENTRY %main_spmd {
  %tokens = f32[1,8,32] parameter(0)
  %where = f32[1,8,4,8] parameter(1)
  %negate.2.1 = f32[1,8,4,8] negate(%where)
  %dot.3.1 = f32[1,32,4,8] dot(%tokens, %negate.2.1), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  %reshape.4 = f32[1,32,4,1,8] reshape(%dot.3.1)
  %transpose.5 = f32[4,1,32,1,8] transpose(%reshape.4), dimensions={2,0,1,3,4}
  %all-to-all.6 = f32[4,1,32,1,8] all-to-all(%transpose.5), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
  %transpose.7 = f32[4,1,32,1,8] transpose(%all-to-all.6), dimensions={0,1,2,3,4}
  %reshape.8 = f32[4,32,1,8] reshape(%transpose.7)
  ROOT %transpose.4 = f32[1,4,8,32] transpose(%reshape.8), dimensions={2,0,3,1}
}
