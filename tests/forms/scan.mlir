// VALUE: 17, not 18
func.func @main() {
  %x = stablehlo.constant dense<[[5, 6, 7], [8, 9, 10]]> : tensor<2x3xi32>
  %c = stablehlo.constant dense<0> : tensor<2xi32>
  %0:2 = chlo.scan(%x) inits(%c) dimension=1 attributes {is_reverse = true} {
  ^bb0(%a: tensor<2xi32>, %b: tensor<2xi32>):
    %s = stablehlo.add %a, %b : tensor<2xi32>
    stablehlo.return %s, %s : tensor<2xi32>, tensor<2xi32>
  } : (tensor<2x3xi32>, tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>)
  check.expect_eq_const %0#0, dense<[[18, 13, 7], [27, 19, 10]]> : tensor<2x3xi32>
  %1 = stablehlo.slice %0#1 [0:1] : (tensor<2xi32>) -> tensor<1xi32>
  %2 = stablehlo.constant dense<1> : tensor<1xi32>
  %3 = stablehlo.subtract %1, %2 : tensor<1xi32>
  check.expect_eq_const %3, dense<VALUE> : tensor<1xi32>
  return
}
