// VALUE: 40, not 39
func.func private @twice(%x: tensor<3x!quant.uniform<i8:f32, 0.5:2>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:2>> {
  %0 = stablehlo.add %x, %x : tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  return %0 : tensor<3x!quant.uniform<i8:f32, 0.5:2>>
}
func.func @main() {
  %x = stablehlo.constant dense<[4, 6, 3]> : tensor<3xi8>
  %n = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<2> : tensor<i8>
  %q = stablehlo.bitcast_convert %x : (tensor<3xi8>) -> tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  %s = stablehlo.bitcast_convert %z : (tensor<i8>) -> tensor<!quant.uniform<i8:f32, 0.5:2>>
  %1 = call @twice(%q) : (tensor<3x!quant.uniform<i8:f32, 0.5:2>>) -> tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  %l:2 = stablehlo.while(%i = %n, %v = %1) : tensor<i32>, tensor<3x!quant.uniform<i8:f32, 0.5:2>> cond {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %t = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %t : tensor<i1>
  } do {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %c : tensor<i32>
    %w = stablehlo.add %v, %v : tensor<3x!quant.uniform<i8:f32, 0.5:2>>
    stablehlo.return %j, %w : tensor<i32>, tensor<3x!quant.uniform<i8:f32, 0.5:2>>
  }
  %r = stablehlo.reduce(%l#1 init: %s) across dimensions = [0] : (tensor<3x!quant.uniform<i8:f32, 0.5:2>>, tensor<!quant.uniform<i8:f32, 0.5:2>>) -> tensor<!quant.uniform<i8:f32, 0.5:2>>
   reducer(%a: tensor<!quant.uniform<i8:f32, 0.5:2>>, %b: tensor<!quant.uniform<i8:f32, 0.5:2>>) {
    %0 = stablehlo.add %a, %b : tensor<!quant.uniform<i8:f32, 0.5:2>>
    stablehlo.return %0 : tensor<!quant.uniform<i8:f32, 0.5:2>>
  }
  %o = stablehlo.bitcast_convert %r : (tensor<!quant.uniform<i8:f32, 0.5:2>>) -> tensor<i8>
  %e = stablehlo.constant dense<30> : tensor<i8>
  %k = stablehlo.add %o, %z : tensor<i8>
  %h = stablehlo.subtract %k, %z : tensor<i8>
  %m = stablehlo.convert %h : (tensor<i8>) -> tensor<i32>
  %p = stablehlo.constant dense<10> : tensor<i32>
  %u = stablehlo.add %m, %p : tensor<i32>
  check.expect_eq_const %u, dense<VALUE> : tensor<i32>
  return
}
