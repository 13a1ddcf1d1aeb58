// VALUE: 2, not 1
func.func @first() {
  %x = stablehlo.constant dense<1> : tensor<i32>
  check.expect_eq_const %x, dense<1> : tensor<i32>
  return
}
func.func private @helper(%x: tensor<i32>) -> tensor<i32>
func.func @second() {
  %x = stablehlo.constant dense<VALUE> : tensor<i32>
  check.expect_eq_const %x, dense<2> : tensor<i32>
  return
}
