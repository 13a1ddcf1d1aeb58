// VALUE: 2, not 3
func.func @main() {
  %x = stablehlo.constant dense<[2.5, 3.5, -2.5, 900.0, -900.0]> : tensor<5xf32>
  %q = stablehlo.uniform_quantize %x : (tensor<5xf32>) -> tensor<5x!quant.uniform<i8<-100:101>:f32, 1.0>>
  %i = stablehlo.bitcast_convert %q : (tensor<5x!quant.uniform<i8<-100:101>:f32, 1.0>>) -> tensor<5xi8>
  check.expect_eq_const %i, dense<[VALUE, 4, -2, 101, -100]> : tensor<5xi8>
  return
}
