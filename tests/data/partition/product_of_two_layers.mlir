// run: partition %s
module @product_of_two_layers attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["d"=2, "m"=2]>
  func.func public @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}, %a: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"m"}]>}, %b: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"m"}, {}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}) {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
    %1 = stablehlo.tanh %0 : tensor<8x32xf32>
    %2 = stablehlo.dot_general %1, %b, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
    return %2 : tensor<8x16xf32>
  }
}

// ==== partition %s
// arg0: [8, 16] [{"d"}, {}]
// arg1: [16, 32] [{}, {"m"}]
// arg2: [32, 16] [{"m"}, {}]
// out0: [8, 16] [{"d"}, {}]
// dot.3: f32[8,32] [{"d"}, {"m"}]
// tanh.4: f32[8,32] [{"d"}, {"m"}]
// dot.5: f32[8,16] [{"d"}, {}]
// custom-call.6: f32[8,16] [{"d"}, {}]
// received: 256 bytes by all-reduce
HloModule product_of_two_layers, num_partitions=4

%add.f32.spmd {
  %parameter.0 = f32[] parameter(0)
  %parameter.1 = f32[] parameter(1)
  ROOT %add.2 = f32[] add(%parameter.0, %parameter.1)
}

ENTRY %main_spmd {
  %x = f32[4,16] parameter(0)
  %a = f32[16,16] parameter(1)
  %b = f32[16,16] parameter(2)
  %dot.3.1 = f32[4,16] dot(%x, %a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %tanh.4.1 = f32[4,16] tanh(%dot.3.1)
  %dot.5.1 = f32[4,16] dot(%tanh.4.1, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %all-reduce.6 = f32[4,16] all-reduce(%dot.5.1), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%add.f32.spmd
}
