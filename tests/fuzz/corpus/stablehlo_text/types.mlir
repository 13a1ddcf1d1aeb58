module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<4xi4> {jax.result_info = "result[0]"}, tensor<4xf8E4M3FN> {jax.result_info = "result[1]"}, tensor<4xcomplex<f64>> {jax.result_info = "result[2]"}, tensor<4xi1> {jax.result_info = "result[3]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xi4>
    %1 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
    %2 = stablehlo.convert %arg0 : (tensor<4xf32>) -> tensor<4xcomplex<f64>>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %4 = stablehlo.compare NE, %arg0, %3, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    return %0, %1, %2, %4 : tensor<4xi4>, tensor<4xf8E4M3FN>, tensor<4xcomplex<f64>>, tensor<4xi1>
  }
}
