// run: partition %s --partitions 4
module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{}, {}], unreduced={"x"}>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x"} (%b: tensor<8x8xf32>) {
      %1 = "stablehlo.all_reduce"(%b) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      sdy.return %1 : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
}

// ==== partition %s --partitions 4
// arg0: [8, 8] [{}, {}]
// out0: [8, 8] [{}, {}]
// custom-call.1: f32[8,8] [{}, {}]
// custom-call.1: f32[8,8] [{}, {}]
// all-reduce.1: f32[8,8] [{}, {}]
// custom-call.3: f32[8,8] [{}, {}]
HloModule m, num_partitions=4

%all_reduce.region {
  %parameter.0 = f32[] parameter(0)
  %parameter.1 = f32[] parameter(1)
  ROOT %add.2 = f32[] add(%parameter.0, %parameter.1)
}

ENTRY %main_spmd {
  %a = f32[8,8] parameter(0)
  %partition-id.1 = u32[] partition-id()
  %convert.2 = s32[] convert(%partition-id.1)
  %constant.3 = s32[] constant(0)
  %compare.4 = pred[] compare(%convert.2, %constant.3), direction=EQ
  %broadcast.5 = pred[8,8] broadcast(%compare.4), dimensions={}
  %constant.6 = f32[] constant(0)
  %broadcast.7 = f32[8,8] broadcast(%constant.6), dimensions={}
  %select.8 = f32[8,8] select(%broadcast.5, %a, %broadcast.7)
  ROOT %all-reduce.1 = f32[8,8] all-reduce(%select.8), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%all_reduce.region
}
