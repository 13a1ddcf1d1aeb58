// VALUE: 2, not 9
func.func private @rows(%x: tensor<?x3xf32>) -> tensor<i32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  return %n : tensor<i32>
}
func.func @main() {
  %x = stablehlo.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]> : tensor<1x6xf32>
  %s = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<1x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %z = stablehlo.add %y, %y : tensor<?x?xf32>
  %n = call @rows(%z) : (tensor<?x?xf32>) -> tensor<i32>
  check.expect_eq_const %n, dense<VALUE> : tensor<i32>
  %i = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> tensor<?x?xf32>
  %w = stablehlo.subtract %z, %i : tensor<?x?xf32>
  %e = stablehlo.constant dense<[[2.0, 3.0, 4.0], [8.0, 9.0, 10.0]]> : tensor<2x3xf32>
  "check.expect_eq"(%w, %e) : (tensor<?x?xf32>, tensor<2x3xf32>) -> ()
  return
}
