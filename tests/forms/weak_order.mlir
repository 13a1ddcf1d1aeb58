// VALUE: true, not false
func.func @main() {
  %x = stablehlo.constant dense<[0x7FC00000, 0xFFC00001, 1.0, 0x7F800000]> : tensor<4xf32>
  %y = stablehlo.constant dense<[0xFFC00000, 2.0, 0x7FC00000, 0x7F800000]> : tensor<4xf32>
  %0 = stablehlo.compare GE, %x, %y, WEAKORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  check.expect_eq_const %0, dense<[true, VALUE, false, true]> : tensor<4xi1>
  return
}
