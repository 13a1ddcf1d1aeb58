// run: partition %s
module @partly_manual attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["d"=2, "m"=2]>
  func.func public @main(%x: tensor<16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}, %w: tensor<32x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"m"}]>}) -> tensor<8x64xf32> {
    %0 = sdy.manual_computation(%x, %w) in_shardings=[<@mesh, [{"d", ?}, {?}]>, <@mesh, [{?}, {?}]>] out_shardings=[<@mesh, [{?}, {?}]>] manual_axes={"d"} (%a: tensor<8x32xf32>, %b: tensor<32x64xf32>) {
      %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %3 = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %3 : tensor<f32>
      }) : (tensor<8x64xf32>) -> tensor<8x64xf32>
      sdy.return %2 : tensor<8x64xf32>
    } : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
    return %0 : tensor<8x64xf32>
  }
}

// ==== partition %s
// arg0: [16, 32] [{"d"}, {}]
// arg1: [32, 64] [{}, {"m"}]
// out0: [8, 64] [{}, {"m"}]
// custom-call.2: f32[16,32] [{"d"}, {}]
// custom-call.2: f32[8,32] [{}, {}]
// custom-call.2: f32[32,64] [{}, {"m"}]
// custom-call.2: f32[32,64] [{}, {"m"}]
// dot.2: f32[8,64] [{}, {"m"}]
// all-reduce.3: f32[8,64] [{}, {"m"}]
// custom-call.6: f32[8,64] [{}, {"m"}]
HloModule partly_manual, num_partitions=4

%all_reduce.region {
  %parameter.0 = f32[] parameter(0)
  %parameter.1 = f32[] parameter(1)
  ROOT %add.2 = f32[] add(%parameter.0, %parameter.1)
}

ENTRY %main_spmd {
  %x = f32[8,32] parameter(0)
  %w = f32[32,32] parameter(1)
  %dot.2.1 = f32[8,32] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %all-reduce.3.1 = f32[8,32] all-reduce(%dot.2.1), channel_id=1, replica_groups={{0,2},{1,3}}, use_global_device_ids=true, to_apply=%all_reduce.region
}
