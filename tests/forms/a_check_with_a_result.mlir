// VALUE: 5.0, not 5.5
func.func @main() -> tensor<i1> {
  %x = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %w = stablehlo.constant dense<[4.0, VALUE]> : tensor<2xf32>
  %c = stablehlo.constant dense<2.0> : tensor<2xf32>
  %s = stablehlo.add %x, %c : tensor<2xf32>
  %t = stablehlo.custom_call @check.eq(%w, %s) : (tensor<2xf32>, tensor<2xf32>) -> tensor<i1>
  %yes = stablehlo.constant dense<true> : tensor<i1>
  check.expect_eq %t, %yes : tensor<i1>
  return %t : tensor<i1>
}
