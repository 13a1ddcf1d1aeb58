// run: partition %s
// Written by JAX 0.10.2: the gradient of a scan over layers with jax.checkpoint, rows of weights and batch divided by one axis.
module @jit_fl attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["d"=4]> {stablehlo.mesh = {axes = [{name = "d", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<2x8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"d"}, {}]>}, %arg1: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}) -> (tensor<2x8x8xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}, {"d"}, {}]>}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x16x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:4 = stablehlo.while(%iterArg = %arg0, %iterArg_3 = %c, %iterArg_4 = %arg1, %iterArg_5 = %0) : tensor<2x8x8xf32>, tensor<i32>, tensor<16x8xf32>, tensor<2x16x8xf32>
    cond {
      %c_6 = stablehlo.constant dense<2> : tensor<i32>
      %5 = stablehlo.compare LT, %iterArg_3, %c_6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %5 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_3) : (tensor<2x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %6:2 = func.call @closed_call(%iterArg_4, %5) : (tensor<16x8xf32>, tensor<8x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>)
      %7 = func.call @dynamic_update_index_in_dim(%iterArg_5, %6#1, %iterArg_3) : (tensor<2x16x8xf32>, tensor<16x8xf32>, tensor<i32>) -> tensor<2x16x8xf32>
      %c_6 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg_3, %c_6 : tensor<i32>
      stablehlo.return %iterArg, %8, %6#0, %7 : tensor<2x8x8xf32>, tensor<i32>, tensor<16x8xf32>, tensor<2x16x8xf32>
    }
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x8x8xf32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %4:5 = stablehlo.while(%iterArg = %1#3, %iterArg_3 = %arg0, %iterArg_4 = %c_2, %iterArg_5 = %2, %iterArg_6 = %3) : tensor<2x16x8xf32>, tensor<2x8x8xf32>, tensor<i32>, tensor<16x8xf32>, tensor<2x8x8xf32>
    cond {
      %c_7 = stablehlo.constant dense<2> : tensor<i32>
      %5 = stablehlo.compare LT, %iterArg_4, %c_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %5 : tensor<i1>
    } do {
      %c_7 = stablehlo.constant dense<2> : tensor<i32>
      %5 = stablehlo.subtract %c_7, %iterArg_4 : tensor<i32>
      %c_8 = stablehlo.constant dense<1> : tensor<i32>
      %6 = stablehlo.subtract %5, %c_8 : tensor<i32>
      %7 = func.call @dynamic_index_in_dim_0(%iterArg, %6) : (tensor<2x16x8xf32>, tensor<i32>) -> tensor<16x8xf32>
      %8 = func.call @dynamic_index_in_dim(%iterArg_3, %6) : (tensor<2x8x8xf32>, tensor<i32>) -> tensor<8x8xf32>
      %9:2 = func.call @closed_call_1(%iterArg_5, %7, %8) : (tensor<16x8xf32>, tensor<16x8xf32>, tensor<8x8xf32>) -> (tensor<16x8xf32>, tensor<8x8xf32>)
      %10 = func.call @dynamic_update_index_in_dim_2(%iterArg_6, %9#1, %6) : (tensor<2x8x8xf32>, tensor<8x8xf32>, tensor<i32>) -> tensor<2x8x8xf32>
      %c_9 = stablehlo.constant dense<1> : tensor<i32>
      %11 = stablehlo.add %iterArg_4, %c_9 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_3, %11, %9#0, %10 : tensor<2x16x8xf32>, tensor<2x8x8xf32>, tensor<i32>, tensor<16x8xf32>, tensor<2x8x8xf32>
    }
    return %4#4 : tensor<2x8x8xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<2x8x8xf32>, %arg1: tensor<i32>) -> tensor<8x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 8] : (tensor<2x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x8xf32>) -> tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
  func.func private @closed_call(%arg0: tensor<16x8xf32>, %arg1: tensor<8x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %1 = stablehlo.tanh %0 : tensor<16x8xf32>
    return %1, %arg0 : tensor<16x8xf32>, tensor<16x8xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<2x16x8xf32>, %arg1: tensor<16x8xf32>, %arg2: tensor<i32>) -> tensor<2x16x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<16x8xf32>) -> tensor<1x16x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<2x16x8xf32>, tensor<1x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x16x8xf32>
    return %1 : tensor<2x16x8xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<2x16x8xf32>, %arg1: tensor<i32>) -> tensor<16x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 16, 8] : (tensor<2x16x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x16x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x16x8xf32>) -> tensor<16x8xf32>
    return %1 : tensor<16x8xf32>
  }
  func.func private @closed_call_1(%arg0: tensor<16x8xf32>, %arg1: tensor<16x8xf32>, %arg2: tensor<8x8xf32>) -> (tensor<16x8xf32>, tensor<8x8xf32>) {
    %0:3 = stablehlo.optimization_barrier %arg1, %arg2, %arg0 : tensor<16x8xf32>, tensor<8x8xf32>, tensor<16x8xf32>
    %1 = stablehlo.dot_general %0#0, %0#1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    %2 = stablehlo.tanh %1 : tensor<16x8xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x8xf32>
    %4 = stablehlo.subtract %3, %2 : tensor<16x8xf32>
    %5 = stablehlo.multiply %0#2, %4 : tensor<16x8xf32>
    %6 = stablehlo.multiply %5, %2 : tensor<16x8xf32>
    %7 = stablehlo.add %5, %6 : tensor<16x8xf32>
    %8 = stablehlo.dot_general %7, %0#0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
    %9 = stablehlo.transpose %8, dims = [1, 0] : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %10 = stablehlo.dot_general %7, %0#1, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
    return %10, %9 : tensor<16x8xf32>, tensor<8x8xf32>
  }
  func.func private @dynamic_update_index_in_dim_2(%arg0: tensor<2x8x8xf32>, %arg1: tensor<8x8xf32>, %arg2: tensor<i32>) -> tensor<2x8x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<1x8x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<2x8x8xf32>, tensor<1x8x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x8x8xf32>
    return %1 : tensor<2x8x8xf32>
  }
}

// ==== partition %s
// arg0: [2, 8, 8] [{}, {"d"}, {}]
// arg1: [16, 8] [{"d"}, {}]
// out0: [2, 8, 8] [{}, {"d"}, {}]
// constant.2: f32[] []
// broadcast.3: f32[2,16,8] [{}, {"d"}, {}]
// constant.4: s32[] []
// constant.5: s32[] []
// compare.6: pred[] []
// constant.2: s32[] []
// constant.3: s32[] []
// dynamic-slice.4: f32[1,8,8] [{}, {"d"}, {}]
// reshape.5: f32[8,8] [{"d"}, {}]
// dot.2: f32[16,8] [{"d"}, {}]
// tanh.3: f32[16,8] [{"d"}, {}]
// broadcast.3: f32[1,16,8] [{}, {"d"}, {}]
// constant.4: s32[] []
// constant.5: s32[] []
// dynamic-update-slice.6: f32[2,16,8] [{}, {"d"}, {}]
// constant.10: s32[] []
// add.11: s32[] []
// while.6: f32[2,8,8] [{}, {"d"}, {}]
// while.6: s32[] []
// while.6: f32[16,8] [{"d"}, {}]
// while.6: f32[2,16,8] [{}, {"d"}, {}]
// constant.11: f32[] []
// broadcast.12: f32[16,8] [{"d"}, {}]
// constant.13: f32[] []
// broadcast.14: f32[2,8,8] [{}, {"d"}, {}]
// constant.15: s32[] []
// constant.6: s32[] []
// compare.7: pred[] []
// constant.6: s32[] []
// subtract.7: s32[] []
// constant.8: s32[] []
// subtract.9: s32[] []
// constant.2: s32[] []
// constant.3: s32[] []
// dynamic-slice.4: f32[1,16,8] [{}, {"d"}, {}]
// reshape.5: f32[16,8] [{"d"}, {}]
// constant.2: s32[] []
// constant.3: s32[] []
// dynamic-slice.4: f32[1,8,8] [{}, {"d"}, {}]
// reshape.5: f32[8,8] [{"d"}, {}]
// opt-barrier.4: f32[16,8] [{"d"}, {}]
// opt-barrier.4: f32[8,8] [{"d"}, {}]
// opt-barrier.4: f32[16,8] [{"d"}, {}]
// dot.8: f32[16,8] [{"d"}, {}]
// tanh.9: f32[16,8] [{"d"}, {}]
// constant.10: f32[] []
// broadcast.11: f32[16,8] [{"d"}, {}]
// subtract.12: f32[16,8] [{"d"}, {}]
// multiply.13: f32[16,8] [{"d"}, {}]
// multiply.14: f32[16,8] [{"d"}, {}]
// add.15: f32[16,8] [{"d"}, {}]
// dot.16: f32[8,8] [{}, {"d"}]
// transpose.17: f32[8,8] [{"d"}, {}]
// dot.18: f32[16,8] [{"d"}, {}]
// broadcast.3: f32[1,8,8] [{}, {"d"}, {}]
// constant.4: s32[] []
// constant.5: s32[] []
// dynamic-update-slice.6: f32[2,8,8] [{}, {"d"}, {}]
// constant.16: s32[] []
// add.17: s32[] []
// while.17: f32[2,16,8] [{}, {"d"}, {}]
// while.17: f32[2,8,8] [{}, {"d"}, {}]
// while.17: s32[] []
// while.17: f32[16,8] [{"d"}, {}]
// while.17: f32[2,8,8] [{}, {"d"}, {}]
// custom-call.23: f32[2,8,8] [{}, {"d"}, {}]
// received: 384 bytes by all-gather
// received: 192 bytes by reduce-scatter
HloModule jit_fl, num_partitions=4

%while.6.condition {
  %parameter.0 = (f32[2,2,8], s32[], f32[4,8], f32[2,4,8]) parameter(0)
  %get-tuple-element.1 = f32[2,2,8] get-tuple-element(%parameter.0), index=0
  %get-tuple-element.2 = s32[] get-tuple-element(%parameter.0), index=1
  %get-tuple-element.3 = f32[4,8] get-tuple-element(%parameter.0), index=2
  %get-tuple-element.4 = f32[2,4,8] get-tuple-element(%parameter.0), index=3
  %constant.5.1 = s32[] constant(2)
  ROOT %compare.6.1 = pred[] compare(%get-tuple-element.2, %constant.5.1), direction=LT
}

%while.6.body {
  %parameter.0 = (f32[2,2,8], s32[], f32[4,8], f32[2,4,8]) parameter(0)
  %get-tuple-element.1 = f32[2,2,8] get-tuple-element(%parameter.0), index=0
  %get-tuple-element.2 = s32[] get-tuple-element(%parameter.0), index=1
  %get-tuple-element.3 = f32[4,8] get-tuple-element(%parameter.0), index=2
  %get-tuple-element.4 = f32[2,4,8] get-tuple-element(%parameter.0), index=3
  %constant.2 = s32[] constant(0)
  %constant.3 = s32[] constant(0)
  %dynamic-slice.4 = f32[1,2,8] dynamic-slice(%get-tuple-element.1, %get-tuple-element.2, %constant.2, %constant.3), dynamic_slice_sizes={1,2,8}
  %reshape.5 = f32[2,8] reshape(%dynamic-slice.4)
  %all-gather.9 = f32[8,8] all-gather(%reshape.5), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}
  %dot.2 = f32[4,8] dot(%get-tuple-element.3, %all-gather.9), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %tanh.3 = f32[4,8] tanh(%dot.2)
  %broadcast.3 = f32[1,4,8] broadcast(%get-tuple-element.3), dimensions={1,2}
  %constant.4 = s32[] constant(0)
  %constant.5.1 = s32[] constant(0)
  %dynamic-update-slice.6 = f32[2,4,8] dynamic-update-slice(%get-tuple-element.4, %broadcast.3, %get-tuple-element.2, %constant.4, %constant.5.1)
  %constant.10 = s32[] constant(1)
  %add.11 = s32[] add(%get-tuple-element.2, %constant.10)
  ROOT %tuple.18 = (f32[2,2,8], s32[], f32[4,8], f32[2,4,8]) tuple(%get-tuple-element.1, %add.11, %tanh.3, %dynamic-update-slice.6)
}

%while.17.condition {
  %parameter.0 = (f32[2,4,8], f32[2,2,8], s32[], f32[4,8], f32[2,2,8]) parameter(0)
  %get-tuple-element.1 = f32[2,4,8] get-tuple-element(%parameter.0), index=0
  %get-tuple-element.2 = f32[2,2,8] get-tuple-element(%parameter.0), index=1
  %get-tuple-element.3 = s32[] get-tuple-element(%parameter.0), index=2
  %get-tuple-element.4 = f32[4,8] get-tuple-element(%parameter.0), index=3
  %get-tuple-element.5 = f32[2,2,8] get-tuple-element(%parameter.0), index=4
  %constant.6.1 = s32[] constant(2)
  ROOT %compare.7.1 = pred[] compare(%get-tuple-element.3, %constant.6.1), direction=LT
}

%add.f32.spmd {
  %parameter.0 = f32[] parameter(0)
  %parameter.1 = f32[] parameter(1)
  ROOT %add.2 = f32[] add(%parameter.0, %parameter.1)
}

%while.17.body {
  %parameter.0 = (f32[2,4,8], f32[2,2,8], s32[], f32[4,8], f32[2,2,8]) parameter(0)
  %get-tuple-element.1 = f32[2,4,8] get-tuple-element(%parameter.0), index=0
  %get-tuple-element.2 = f32[2,2,8] get-tuple-element(%parameter.0), index=1
  %get-tuple-element.3 = s32[] get-tuple-element(%parameter.0), index=2
  %get-tuple-element.4 = f32[4,8] get-tuple-element(%parameter.0), index=3
  %get-tuple-element.5 = f32[2,2,8] get-tuple-element(%parameter.0), index=4
  %constant.6.1 = s32[] constant(2)
  %subtract.7.1 = s32[] subtract(%constant.6.1, %get-tuple-element.3)
  %constant.8.1 = s32[] constant(1)
  %subtract.9.1 = s32[] subtract(%subtract.7.1, %constant.8.1)
  %constant.2 = s32[] constant(0)
  %constant.3 = s32[] constant(0)
  %dynamic-slice.4 = f32[1,4,8] dynamic-slice(%get-tuple-element.1, %subtract.9.1, %constant.2, %constant.3), dynamic_slice_sizes={1,4,8}
  %reshape.5 = f32[4,8] reshape(%dynamic-slice.4)
  %constant.2.1 = s32[] constant(0)
  %constant.3.1 = s32[] constant(0)
  %dynamic-slice.4.1 = f32[1,2,8] dynamic-slice(%get-tuple-element.2, %subtract.9.1, %constant.2.1, %constant.3.1), dynamic_slice_sizes={1,2,8}
  %reshape.5.1 = f32[2,8] reshape(%dynamic-slice.4.1)
  %tuple.18 = (f32[4,8], f32[2,8], f32[4,8]) tuple(%reshape.5, %reshape.5.1, %get-tuple-element.4)
  %opt-barrier.19 = (f32[4,8], f32[2,8], f32[4,8]) opt-barrier(%tuple.18)
  %get-tuple-element.20 = f32[4,8] get-tuple-element(%opt-barrier.19), index=0
  %get-tuple-element.21 = f32[2,8] get-tuple-element(%opt-barrier.19), index=1
  %get-tuple-element.22 = f32[4,8] get-tuple-element(%opt-barrier.19), index=2
  %all-gather.23 = f32[8,8] all-gather(%get-tuple-element.21), channel_id=2, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}
  %dot.8 = f32[4,8] dot(%get-tuple-element.20, %all-gather.23), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %tanh.9 = f32[4,8] tanh(%dot.8)
  %constant.10.1 = f32[] constant(1)
  %broadcast.11 = f32[4,8] broadcast(%constant.10.1), dimensions={}
  %subtract.12 = f32[4,8] subtract(%broadcast.11, %tanh.9)
  %multiply.13 = f32[4,8] multiply(%get-tuple-element.22, %subtract.12)
  %multiply.14 = f32[4,8] multiply(%multiply.13, %tanh.9)
  %add.15 = f32[4,8] add(%multiply.13, %multiply.14)
  %dot.16 = f32[8,8] dot(%add.15, %get-tuple-element.20), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  %reduce-scatter.33 = f32[8,2] reduce-scatter(%dot.16), channel_id=3, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={1}, to_apply=%add.f32.spmd
  %transpose.17 = f32[2,8] transpose(%reduce-scatter.33), dimensions={1,0}
  %dot.18 = f32[4,8] dot(%add.15, %all-gather.23), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  %broadcast.3 = f32[1,2,8] broadcast(%transpose.17), dimensions={1,2}
  %constant.4 = s32[] constant(0)
  %constant.5 = s32[] constant(0)
  %dynamic-update-slice.6 = f32[2,2,8] dynamic-update-slice(%get-tuple-element.5, %broadcast.3, %subtract.9.1, %constant.4, %constant.5)
  %constant.16 = s32[] constant(1)
  %add.17 = s32[] add(%get-tuple-element.3, %constant.16)
  ROOT %tuple.42 = (f32[2,4,8], f32[2,2,8], s32[], f32[4,8], f32[2,2,8]) tuple(%get-tuple-element.1, %get-tuple-element.2, %add.17, %dot.18, %dynamic-update-slice.6)
}

ENTRY %main_spmd {
  %arg0 = f32[2,2,8] parameter(0)
  %arg1 = f32[4,8] parameter(1)
  %constant.2.1 = f32[] constant(0)
  %broadcast.3.1 = f32[2,4,8] broadcast(%constant.2.1), dimensions={}
  %constant.4.1 = s32[] constant(0)
  %tuple.5 = (f32[2,2,8], s32[], f32[4,8], f32[2,4,8]) tuple(%arg0, %constant.4.1, %arg1, %broadcast.3.1)
  %while.6.1 = (f32[2,2,8], s32[], f32[4,8], f32[2,4,8]) while(%tuple.5), condition=%while.6.condition, body=%while.6.body
  %get-tuple-element.7 = f32[2,2,8] get-tuple-element(%while.6.1), index=0
  %get-tuple-element.8 = s32[] get-tuple-element(%while.6.1), index=1
  %get-tuple-element.9 = f32[4,8] get-tuple-element(%while.6.1), index=2
  %get-tuple-element.10 = f32[2,4,8] get-tuple-element(%while.6.1), index=3
  %constant.11.1 = f32[] constant(1)
  %broadcast.12.1 = f32[4,8] broadcast(%constant.11.1), dimensions={}
  %constant.13.1 = f32[] constant(0)
  %broadcast.14.1 = f32[2,2,8] broadcast(%constant.13.1), dimensions={}
  %constant.15.1 = s32[] constant(0)
  %tuple.16 = (f32[2,4,8], f32[2,2,8], s32[], f32[4,8], f32[2,2,8]) tuple(%get-tuple-element.10, %arg0, %constant.15.1, %broadcast.12.1, %broadcast.14.1)
  %while.17.1 = (f32[2,4,8], f32[2,2,8], s32[], f32[4,8], f32[2,2,8]) while(%tuple.16), condition=%while.17.condition, body=%while.17.body
  %get-tuple-element.18 = f32[2,4,8] get-tuple-element(%while.17.1), index=0
  %get-tuple-element.19 = f32[2,2,8] get-tuple-element(%while.17.1), index=1
  %get-tuple-element.20 = s32[] get-tuple-element(%while.17.1), index=2
  %get-tuple-element.21 = f32[4,8] get-tuple-element(%while.17.1), index=3
  ROOT %get-tuple-element.22 = f32[2,2,8] get-tuple-element(%while.17.1), index=4
}
