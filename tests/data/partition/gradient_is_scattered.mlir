// run: partition %s
module @gradient_is_scattered attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<64x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %g: tensor<64x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %g, contracting_dims = [0] x [0] : (tensor<64x8xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}

// ==== partition %s
// arg0: [64, 8] [{"x"}, {}]
// arg1: [64, 16] [{"x"}, {}]
// out0: [8, 16] [{"x"}, {}]
// dot.2: f32[8,16] [{"x"}, {}]
// custom-call.3: f32[8,16] [{"x"}, {}]
// received: 384 bytes by reduce-scatter
HloModule gradient_is_scattered, num_partitions=4

%add.f32.spmd {
  %parameter.0 = f32[] parameter(0)
  %parameter.1 = f32[] parameter(1)
  ROOT %add.2 = f32[] add(%parameter.0, %parameter.1)
}

ENTRY %main_spmd {
  %x = f32[16,8] parameter(0)
  %g = f32[16,16] parameter(1)
  %dot.2.1 = f32[8,16] dot(%x, %g), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT %reduce-scatter.3 = f32[2,16] reduce-scatter(%dot.2.1), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}, to_apply=%add.f32.spmd
}
