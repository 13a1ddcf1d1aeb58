// VALUE: 31, not 30
module @m {
  func.func @sum(%x: tensor<2xi32>) -> tensor<2xi32> {
    %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %1 = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %1 : tensor<i32>
    }) {
      replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 4>]>, axes = [#stablehlo.axis_ref<name = "x", sub_axis_info = (2)2>]>
    } : (tensor<2xi32>) -> tensor<2xi32>
    return %0 : tensor<2xi32>
  }
  func.func @main() {
    %a = stablehlo.constant dense<[1, 10]> : tensor<2xi32>
    %b = stablehlo.constant dense<[2, 21]> : tensor<2xi32>
    %r:4 = "interpreter.run_parallel"(%a, %b, %b, %b) {
      programs = [[@sum], [@sum], [@sum], [@sum]]
    } : (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>)
    check.expect_eq_const %r#1, dense<[3, VALUE]> : tensor<2xi32>
    check.expect_eq_const %r#2, dense<[4, 42]> : tensor<2xi32>
    return
  }
}
