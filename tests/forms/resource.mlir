// VALUE: 3.5, not 2.5
func.func @main() {
  %x = stablehlo.constant dense_resource<weights> : tensor<2xf32>
  check.expect_almost_eq_const %x, dense<[1.5, VALUE]> : tensor<2xf32>, tolerance = 1.0e-6
  return
}
{-#
  dialect_resources: { builtin: { weights: "0x040000000000C03F00006040" } }
#-}
