// VALUE: 3, not 4
func.func @main() {
  %x = stablehlo.constant dense<3> : tensor<i32>
  %y = interpreter.probe %x, probe_id = "x" : tensor<i32>
  %z = stablehlo.constant dense<VALUE> : tensor<i32>
  check.expect_serialized_eq %z, probe_id = "x" : tensor<i32>
  return
}
