module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32>) -> (tensor<7x5xf32> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i64>
    %0 = call @_pad(%arg0, %c) : (tensor<2x3xf32>, tensor<i64>) -> tensor<3x5xf32>
    %1 = stablehlo.reshape %arg0 : (tensor<2x3xf32>) -> tensor<1x2x1x3xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x2x1x3xf32>) -> tensor<2x2x2x3xf32>
    %3 = stablehlo.reshape %2 : (tensor<2x2x2x3xf32>) -> tensor<4x6xf32>
    %4 = stablehlo.reverse %3, dims = [1] : tensor<4x6xf32>
    %5 = stablehlo.slice %4 [0:4, 1:6] : (tensor<4x6xf32>) -> tensor<4x5xf32>
    %6 = stablehlo.concatenate %0, %5, dim = 0 : (tensor<3x5xf32>, tensor<4x5xf32>) -> tensor<7x5xf32>
    return %6 : tensor<7x5xf32>
  }
  func.func private @_pad(%arg0: tensor<2x3xf32>, %arg1: tensor<i64>) -> tensor<3x5xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [1, 0], high = [0, 2], interior = [0, 0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x5xf32>
    return %1 : tensor<3x5xf32>
  }
}
