// VALUE: 8, not 7
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2xi32>) -> tensor<2xi32>, sym_name = "twice", sym_visibility = "private"}> ({
  ^bb0(%a: tensor<2xi32>):
    %0 = "stablehlo.add"(%a, %a) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    "func.return"(%0) : (tensor<2xi32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = () -> (), sym_name = "main"}> ({
    %0 = "stablehlo.constant"() <{value = dense<[3, 4]> : tensor<2xi32>}> : () -> tensor<2xi32>
    %1 = "func.call"(%0) <{callee = @twice}> : (tensor<2xi32>) -> tensor<2xi32>
    "check.expect_eq_const"(%1) <{value = dense<[6, VALUE]> : tensor<2xi32>}> : (tensor<2xi32>) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
