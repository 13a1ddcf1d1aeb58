// VALUE: 5, not 1
module {
  module @a { func.func @main() { return } }
  module @b { func.func @main() {
    %x = stablehlo.constant dense<5> : tensor<i32>
    check.expect_eq_const %x, dense<VALUE> : tensor<i32>
    return
  } }
}
