// run: partition %s
module @wrong_mesh attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  func.func public @main(%x: tensor<16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<16xf32> {
    return %x : tensor<16xf32>
  }
}

// ==== partition %s
wrong_mesh.mlir: a sharding cannot be read: mesh `@mesh` has 8 devices, the program 4 partitions
exit 2
