// run: partition %s
module @heads_are_parts_of_an_axis attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%x: tensor<4x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<4x4x4xf32> {
    %0 = stablehlo.reshape %x : (tensor<4x16xf32>) -> tensor<4x4x4xf32>
    return %0 : tensor<4x4x4xf32>
  }
}

// ==== partition %s
// arg0: [4, 16] [{}, {"x"}]
// out0: [4, 4, 4] [{}, {"x":(1)4}, {"x":(4)2}]
// reshape.1: f32[4,4,4] [{}, {"x":(1)4}, {"x":(4)2}]
HloModule heads_are_parts_of_an_axis, num_partitions=8

ENTRY %main_spmd {
  %x = f32[4,2] parameter(0)
  ROOT %reshape.1.1 = f32[4,1,2] reshape(%x)
}
