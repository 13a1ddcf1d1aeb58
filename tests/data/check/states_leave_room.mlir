// run: check %s --chip tpu-v5e --set vmem.bytes=1MiB
// run: check %s --chip tpu-v5e --set vmem.bytes=2MiB
// Written by JAX 0.10.2: gradients of a scan whose states would fill half of vector memory.
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64x128xf32>, %arg1: tensor<3x128x512xf32>, %arg2: tensor<3x512x128xf32>) -> (tensor<3x128x512xf32> {jax.result_info = "result[0]"}, tensor<3x512x128xf32> {jax.result_info = "result[1]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<3x64x128xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<3x64x512xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<3x64x512xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<3x64x512xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<3x64x512xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<3x64x512xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<3x64x512xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %7:11 = stablehlo.while(%iterArg = %arg1, %iterArg_11 = %arg2, %iterArg_12 = %c, %iterArg_13 = %arg0, %iterArg_14 = %0, %iterArg_15 = %1, %iterArg_16 = %2, %iterArg_17 = %3, %iterArg_18 = %4, %iterArg_19 = %5, %iterArg_20 = %6) : tensor<3x128x512xf32>, tensor<3x512x128xf32>, tensor<i32>, tensor<64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>
    cond {
      %c_21 = stablehlo.constant dense<3> : tensor<i32>
      %15 = stablehlo.compare LT, %iterArg_12, %c_21, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %15 : tensor<i1>
    } do {
      %15 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_12) : (tensor<3x128x512xf32>, tensor<i32>) -> tensor<128x512xf32>
      %16 = func.call @dynamic_index_in_dim_0(%iterArg_11, %iterArg_12) : (tensor<3x512x128xf32>, tensor<i32>) -> tensor<512x128xf32>
      %17:8 = func.call @closed_call(%iterArg_13, %15, %16) : (tensor<64x128xf32>, tensor<128x512xf32>, tensor<512x128xf32>) -> (tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>)
      %18 = func.call @dynamic_update_index_in_dim(%iterArg_14, %17#1, %iterArg_12) : (tensor<3x64x128xf32>, tensor<64x128xf32>, tensor<i32>) -> tensor<3x64x128xf32>
      %19 = func.call @dynamic_update_index_in_dim_1(%iterArg_15, %17#2, %iterArg_12) : (tensor<3x64x512xf32>, tensor<64x512xf32>, tensor<i32>) -> tensor<3x64x512xf32>
      %20 = func.call @dynamic_update_index_in_dim_1(%iterArg_16, %17#3, %iterArg_12) : (tensor<3x64x512xf32>, tensor<64x512xf32>, tensor<i32>) -> tensor<3x64x512xf32>
      %21 = func.call @dynamic_update_index_in_dim_1(%iterArg_17, %17#4, %iterArg_12) : (tensor<3x64x512xf32>, tensor<64x512xf32>, tensor<i32>) -> tensor<3x64x512xf32>
      %22 = func.call @dynamic_update_index_in_dim_1(%iterArg_18, %17#5, %iterArg_12) : (tensor<3x64x512xf32>, tensor<64x512xf32>, tensor<i32>) -> tensor<3x64x512xf32>
      %23 = func.call @dynamic_update_index_in_dim_1(%iterArg_19, %17#6, %iterArg_12) : (tensor<3x64x512xf32>, tensor<64x512xf32>, tensor<i32>) -> tensor<3x64x512xf32>
      %24 = func.call @dynamic_update_index_in_dim_1(%iterArg_20, %17#7, %iterArg_12) : (tensor<3x64x512xf32>, tensor<64x512xf32>, tensor<i32>) -> tensor<3x64x512xf32>
      %c_21 = stablehlo.constant dense<1> : tensor<i32>
      %25 = stablehlo.add %iterArg_12, %c_21 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_11, %25, %17#0, %18, %19, %20, %21, %22, %23, %24 : tensor<3x128x512xf32>, tensor<3x512x128xf32>, tensor<i32>, tensor<64x128xf32>, tensor<3x64x128xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>
    }
    %cst_6 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %9 = stablehlo.multiply %8, %7#3 : tensor<64x128xf32>
    %cst_7 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<64x128xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<3x128x512xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<3x512x128xf32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %14:13 = stablehlo.while(%iterArg = %arg1, %iterArg_11 = %7#4, %iterArg_12 = %7#5, %iterArg_13 = %7#6, %iterArg_14 = %7#7, %iterArg_15 = %7#8, %iterArg_16 = %7#9, %iterArg_17 = %arg2, %iterArg_18 = %7#10, %iterArg_19 = %c_10, %iterArg_20 = %11, %iterArg_21 = %12, %iterArg_22 = %13) : tensor<3x128x512xf32>, tensor<3x64x128xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x512x128xf32>, tensor<3x64x512xf32>, tensor<i32>, tensor<64x128xf32>, tensor<3x128x512xf32>, tensor<3x512x128xf32>
    cond {
      %c_23 = stablehlo.constant dense<3> : tensor<i32>
      %15 = stablehlo.compare LT, %iterArg_19, %c_23, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %15 : tensor<i1>
    } do {
      %c_23 = stablehlo.constant dense<3> : tensor<i32>
      %15 = stablehlo.subtract %c_23, %iterArg_19 : tensor<i32>
      %c_24 = stablehlo.constant dense<1> : tensor<i32>
      %16 = stablehlo.subtract %15, %c_24 : tensor<i32>
      %17 = func.call @dynamic_index_in_dim(%iterArg, %16) : (tensor<3x128x512xf32>, tensor<i32>) -> tensor<128x512xf32>
      %18 = func.call @dynamic_index_in_dim_2(%iterArg_11, %16) : (tensor<3x64x128xf32>, tensor<i32>) -> tensor<64x128xf32>
      %19 = func.call @dynamic_index_in_dim_3(%iterArg_12, %16) : (tensor<3x64x512xf32>, tensor<i32>) -> tensor<64x512xf32>
      %20 = func.call @dynamic_index_in_dim_3(%iterArg_13, %16) : (tensor<3x64x512xf32>, tensor<i32>) -> tensor<64x512xf32>
      %21 = func.call @dynamic_index_in_dim_3(%iterArg_14, %16) : (tensor<3x64x512xf32>, tensor<i32>) -> tensor<64x512xf32>
      %22 = func.call @dynamic_index_in_dim_3(%iterArg_15, %16) : (tensor<3x64x512xf32>, tensor<i32>) -> tensor<64x512xf32>
      %23 = func.call @dynamic_index_in_dim_3(%iterArg_16, %16) : (tensor<3x64x512xf32>, tensor<i32>) -> tensor<64x512xf32>
      %24 = func.call @dynamic_index_in_dim_0(%iterArg_17, %16) : (tensor<3x512x128xf32>, tensor<i32>) -> tensor<512x128xf32>
      %25 = func.call @dynamic_index_in_dim_3(%iterArg_18, %16) : (tensor<3x64x512xf32>, tensor<i32>) -> tensor<64x512xf32>
      %26:3 = func.call @closed_call_4(%iterArg_20, %17, %18, %19, %20, %21, %22, %23, %24, %25) : (tensor<64x128xf32>, tensor<128x512xf32>, tensor<64x128xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<512x128xf32>, tensor<64x512xf32>) -> (tensor<64x128xf32>, tensor<128x512xf32>, tensor<512x128xf32>)
      %27 = func.call @dynamic_update_index_in_dim_5(%iterArg_21, %26#1, %16) : (tensor<3x128x512xf32>, tensor<128x512xf32>, tensor<i32>) -> tensor<3x128x512xf32>
      %28 = func.call @dynamic_update_index_in_dim_6(%iterArg_22, %26#2, %16) : (tensor<3x512x128xf32>, tensor<512x128xf32>, tensor<i32>) -> tensor<3x512x128xf32>
      %c_25 = stablehlo.constant dense<1> : tensor<i32>
      %29 = stablehlo.add %iterArg_19, %c_25 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_11, %iterArg_12, %iterArg_13, %iterArg_14, %iterArg_15, %iterArg_16, %iterArg_17, %iterArg_18, %29, %26#0, %27, %28 : tensor<3x128x512xf32>, tensor<3x64x128xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x64x512xf32>, tensor<3x512x128xf32>, tensor<3x64x512xf32>, tensor<i32>, tensor<64x128xf32>, tensor<3x128x512xf32>, tensor<3x512x128xf32>
    }
    return %14#11, %14#12 : tensor<3x128x512xf32>, tensor<3x512x128xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<3x128x512xf32>, %arg1: tensor<i32>) -> tensor<128x512xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 128, 512] : (tensor<3x128x512xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x128x512xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x128x512xf32>) -> tensor<128x512xf32>
    return %1 : tensor<128x512xf32>
  }
  func.func private @dynamic_index_in_dim_0(%arg0: tensor<3x512x128xf32>, %arg1: tensor<i32>) -> tensor<512x128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 512, 128] : (tensor<3x512x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x512x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x512x128xf32>) -> tensor<512x128xf32>
    return %1 : tensor<512x128xf32>
  }
  func.func private @closed_call(%arg0: tensor<64x128xf32>, %arg1: tensor<128x512xf32>, %arg2: tensor<512x128xf32>) -> (tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<64x128xf32>, tensor<128x512xf32>) -> tensor<64x512xf32>
    %cst = stablehlo.constant dense<9.000000e-02> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %2 = stablehlo.multiply %0, %1 : tensor<64x512xf32>
    %3 = stablehlo.multiply %2, %2 : tensor<64x512xf32>
    %4 = stablehlo.multiply %3, %2 : tensor<64x512xf32>
    %5 = stablehlo.multiply %2, %2 : tensor<64x512xf32>
    %cst_0 = stablehlo.constant dense<3.000000e+00> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %7 = stablehlo.multiply %6, %5 : tensor<64x512xf32>
    %cst_1 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %9 = stablehlo.multiply %8, %4 : tensor<64x512xf32>
    %10 = stablehlo.add %2, %9 : tensor<64x512xf32>
    %cst_2 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %12 = stablehlo.multiply %11, %10 : tensor<64x512xf32>
    %13 = stablehlo.tanh %12 : tensor<64x512xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %15 = stablehlo.subtract %14, %13 : tensor<64x512xf32>
    %cst_4 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %17 = stablehlo.add %16, %13 : tensor<64x512xf32>
    %cst_5 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %19 = stablehlo.multiply %18, %17 : tensor<64x512xf32>
    %20 = stablehlo.multiply %2, %19 : tensor<64x512xf32>
    %21 = stablehlo.dot_general %20, %arg2, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<64x512xf32>, tensor<512x128xf32>) -> tensor<64x128xf32>
    %cst_6 = stablehlo.constant dense<6.000000e-02> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %23 = stablehlo.multiply %21, %22 : tensor<64x128xf32>
    return %23, %arg0, %7, %13, %15, %19, %2, %20 : tensor<64x128xf32>, tensor<64x128xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>, tensor<64x512xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<3x64x128xf32>, %arg1: tensor<64x128xf32>, %arg2: tensor<i32>) -> tensor<3x64x128xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<64x128xf32>) -> tensor<1x64x128xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x64x128xf32>, tensor<1x64x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x64x128xf32>
    return %1 : tensor<3x64x128xf32>
  }
  func.func private @dynamic_update_index_in_dim_1(%arg0: tensor<3x64x512xf32>, %arg1: tensor<64x512xf32>, %arg2: tensor<i32>) -> tensor<3x64x512xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<64x512xf32>) -> tensor<1x64x512xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x64x512xf32>, tensor<1x64x512xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x64x512xf32>
    return %1 : tensor<3x64x512xf32>
  }
  func.func private @dynamic_index_in_dim_2(%arg0: tensor<3x64x128xf32>, %arg1: tensor<i32>) -> tensor<64x128xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 64, 128] : (tensor<3x64x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x128xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x64x128xf32>) -> tensor<64x128xf32>
    return %1 : tensor<64x128xf32>
  }
  func.func private @dynamic_index_in_dim_3(%arg0: tensor<3x64x512xf32>, %arg1: tensor<i32>) -> tensor<64x512xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 64, 512] : (tensor<3x64x512xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x512xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x64x512xf32>) -> tensor<64x512xf32>
    return %1 : tensor<64x512xf32>
  }
  func.func private @closed_call_4(%arg0: tensor<64x128xf32>, %arg1: tensor<128x512xf32>, %arg2: tensor<64x128xf32>, %arg3: tensor<64x512xf32>, %arg4: tensor<64x512xf32>, %arg5: tensor<64x512xf32>, %arg6: tensor<64x512xf32>, %arg7: tensor<64x512xf32>, %arg8: tensor<512x128xf32>, %arg9: tensor<64x512xf32>) -> (tensor<64x128xf32>, tensor<128x512xf32>, tensor<512x128xf32>) {
    %cst = stablehlo.constant dense<6.000000e-02> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<64x128xf32>
    %1 = stablehlo.multiply %arg0, %0 : tensor<64x128xf32>
    %2 = stablehlo.dot_general %1, %arg9, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<64x128xf32>, tensor<64x512xf32>) -> tensor<128x512xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<128x512xf32>) -> tensor<512x128xf32>
    %4 = stablehlo.dot_general %1, %arg8, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<64x128xf32>, tensor<512x128xf32>) -> tensor<64x512xf32>
    %5 = stablehlo.multiply %arg7, %4 : tensor<64x512xf32>
    %6 = stablehlo.multiply %4, %arg6 : tensor<64x512xf32>
    %cst_0 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %8 = stablehlo.multiply %7, %5 : tensor<64x512xf32>
    %9 = stablehlo.multiply %8, %arg5 : tensor<64x512xf32>
    %10 = stablehlo.multiply %9, %arg4 : tensor<64x512xf32>
    %11 = stablehlo.add %9, %10 : tensor<64x512xf32>
    %cst_1 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %13 = stablehlo.multiply %12, %11 : tensor<64x512xf32>
    %14 = stablehlo.add %6, %13 : tensor<64x512xf32>
    %cst_2 = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %16 = stablehlo.multiply %15, %13 : tensor<64x512xf32>
    %17 = stablehlo.multiply %16, %arg3 : tensor<64x512xf32>
    %18 = stablehlo.add %14, %17 : tensor<64x512xf32>
    %cst_3 = stablehlo.constant dense<9.000000e-02> : tensor<f32>
    %19 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<64x512xf32>
    %20 = stablehlo.multiply %18, %19 : tensor<64x512xf32>
    %21 = stablehlo.dot_general %20, %arg2, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<64x512xf32>, tensor<64x128xf32>) -> tensor<512x128xf32>
    %22 = stablehlo.transpose %21, dims = [1, 0] : (tensor<512x128xf32>) -> tensor<128x512xf32>
    %23 = stablehlo.dot_general %20, %arg1, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<64x512xf32>, tensor<128x512xf32>) -> tensor<64x128xf32>
    return %23, %22, %3 : tensor<64x128xf32>, tensor<128x512xf32>, tensor<512x128xf32>
  }
  func.func private @dynamic_update_index_in_dim_5(%arg0: tensor<3x128x512xf32>, %arg1: tensor<128x512xf32>, %arg2: tensor<i32>) -> tensor<3x128x512xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<128x512xf32>) -> tensor<1x128x512xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x128x512xf32>, tensor<1x128x512xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x128x512xf32>
    return %1 : tensor<3x128x512xf32>
  }
  func.func private @dynamic_update_index_in_dim_6(%arg0: tensor<3x512x128xf32>, %arg1: tensor<512x128xf32>, %arg2: tensor<i32>) -> tensor<3x512x128xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<512x128xf32>) -> tensor<1x512x128xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<3x512x128xf32>, tensor<1x512x128xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x512x128xf32>
    return %1 : tensor<3x512x128xf32>
  }
}

// ==== check %s --chip tpu-v5e --set vmem.bytes=1MiB
out0 f32[3,128,512]: ok, 0 of 196608 beyond tolerance, max abs error 7.276e-10, max rel error 2.554e-2, worst at [1, 68, 277]: 7.118896583335754e-9 for 6.9416037362657335e-9
out1 f32[3,512,128]: ok, 0 of 196608 beyond tolerance, max abs error 1.048e-9, max rel error 3.682e-2, worst at [0, 505, 102]: -4.9643656296893823e-8 for -4.9941164093070256e-8

// ==== check %s --chip tpu-v5e --set vmem.bytes=2MiB
out0 f32[3,128,512]: ok, 0 of 196608 beyond tolerance, max abs error 7.276e-10, max rel error 2.554e-2, worst at [1, 68, 277]: 7.118896583335754e-9 for 6.9416037362657335e-9
out1 f32[3,512,128]: ok, 0 of 196608 beyond tolerance, max abs error 1.048e-9, max rel error 3.682e-2, worst at [0, 505, 102]: -4.9643656296893823e-8 for -4.9941164093070256e-8
