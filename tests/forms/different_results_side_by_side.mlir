// VALUE: 8, not 7
module @m {
  func.func @one(%x: tensor<2xi32>) -> tensor<2xi32> {
    %0 = stablehlo.add %x, %x : tensor<2xi32>
    return %0 : tensor<2xi32>
  }
  func.func @two(%x: tensor<2xi32>, %y: tensor<f32>) -> (tensor<f32>, tensor<2xi32>) {
    %0 = stablehlo.multiply %x, %x : tensor<2xi32>
    return %y, %0 : tensor<f32>, tensor<2xi32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 4]> : tensor<2xi32>
    %b = stablehlo.constant dense<2.5> : tensor<f32>
    %r:3 = "interpreter.run_parallel"(%a, %a, %b) {
      programs = [[@one], [@two]]
    } : (tensor<2xi32>, tensor<2xi32>, tensor<f32>) -> (tensor<2xi32>, tensor<f32>, tensor<2xi32>)
    check.expect_eq_const %r#0, dense<[2, VALUE]> : tensor<2xi32>
    check.expect_eq_const %r#1, dense<2.5> : tensor<f32>
    check.expect_eq_const %r#2, dense<[1, 16]> : tensor<2xi32>
    return
  }
}
