// run: run --chip tpu-v5e --report kernels %s
module @jit_wrapped attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<72x40xf32>) -> (tensor<72x40xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.custom_call @tpu_custom_call(%arg0) {backend_config = "{\22custom_call_config\22: {\22body\22: \22TUzvUgFNTElSMjMuMC4wZ2l0AAEhCQEDBQcBAwkDDQsNDxETFQO3kRMBiQcLExMPCwsPCw8LCwtTCwsLDw8PEwsPSwsPC4ULMwsLCwsTGwsbCxsbDw8LDwsPGxMLDwsPCw8bCw8LDxsjCw8LUwsTBQeRYU0HA1kBEw8HDyMbBxsbCwK2Bh8FFwMDIVMDAyFVHXFzBRkFGx1XWQUdEQUBBR8FIQUjIwUFIUAAAAAAAAAAKAAAAAAAAAAFJQ0PBScdA18dA28dA3kDAystBSkRBS0DETEzCzU5Oz0TPxMNA0GNQ0UFKwEDiQ0NYWZmaW5lX21hcDwoZDAsIGQxKSAtPiAoZDAsIGQxKT4ABS0jBQMRAgAAAAAAAAAFLwUxBTMFNQEFR0sDBRVJGRsJFwMFFU0ZGwkdAwULHw0XAwULHw0dEQEBEQMBBTcdW10FORUjIy0RB4MrNwMDY48FOx1naQU9HWttBT8VJSUtEQeDGzkFQR11dwVDFScnLREHgwkVAwd9f4GDhYcFRRERAAVHIwEJIQEAAAABAAAAAgAAAAAAAAAFSSMBAQEjdHB1LmRpbWVuc2lvbl9zZW1hbnRpY3M8YXJiaXRyYXJ5PgAjdHB1Lm1lbW9yeV9zcGFjZTx2bWVtPgAjdHB1LmNvcmVfdHlwZTx0Yz4AI2FyaXRoLmZhc3RtYXRoPG5vbmU+AAECAgMBAgQXiwUCAqELNycFAgKhCwsFBwEHBwEFAwEFAQEBCQRCAgUBEQEpBwMBDQURAS8HAxUnBwEBBwEHAQMDDwcDAwMDDwcDAwkGDwMJBwMHCQsHZWEDCQMLAwMJBwMDAwMJBwMDCQYJAwkHBQ8RDQUJewkNBQ8RBwABBREBTwcDBw8DAQEDAwEFAwEDAwEFAwEHBAEFAQMFEQFRBwMHDwMBAQMDAQUDAQMDAQUDAQcEAQUBAwYDAQUBAFIHSxEpCRUNEQsTEQsdHSMhIyktDRkdGSUrEx0PIxMZGRUfDw0JHRFidWlsdGluAHN0YWJsZV9tb3NhaWMAdHB1AGFyaXRoAG1vZHVsZQBhcml0aC5jb25zdGFudABmdW5jLmZ1bmMAZnVuYy5yZXR1cm4AdmVjdG9yLmxvYWQAbWF0aC5leHAAdHB1LnZlY3Rvcl9zdG9yZQBwYWRkZWQAZnVuY3Rpb25fdHlwZQBzeW1fbmFtZQB0ZXN0cy9wYWxsYXMvbGludC5weQB0cmFuc2Zvcm1faW5kaWNlcwB0cmFuc2Zvcm1fMAB3aW5kb3dfYm91bmRzAHRyYW5zZm9ybV8xAHZhbHVlAHN0YWJsZV9tb3NhaWMudmVyc2lvbgBkaW1lbnNpb25fc2VtYW50aWNzAGl0ZXJhdGlvbl9ib3VuZHMAc2NhbGFyX3ByZWZldGNoAHNjcmF0Y2hfb3BlcmFuZHMAdHB1LmNvcmVfdHlwZQB3aW5kb3dfcGFyYW1zAGdldDoAZ2V0L2dldABmYXN0bWF0aABleHA6AGV4cC9leHAAc3dhcDoAc3dhcC9zd2FwAGFkZABvcGVyYW5kU2VnbWVudFNpemVzAHN0cmlkZXMA\22, \22serialization_format\22: 1, \22needs_layout_passes\22: true}}", kernel_name = "padded", mhlo.frontend_attributes = {kernel_metadata = "{}"}, operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<72x40xf32>) -> tensor<72x40xf32>
    return %0 : tensor<72x40xf32>
  }
}

// ==== run --chip tpu-v5e --report kernels %s
line of a kernel                           cycles   share   waited  part
lint.py:65 (padded)                           697  31.7 %   29.4 %  window of operand 0: block [64, 40], padding: 68 % of its registers, 43 % beyond the array
lint.py:65 (padded)                           681  30.9 %   28.6 %  window of result 0: block [64, 40], padding: 68 % of its registers, 43 % beyond the array
lint.py:65 (padded)                            66   3.0 %    1.4 %

vector memory of a kernel                   bytes  what
padded                                      32768  window of operand 0: block [64, 40], place 1 of 2
padded                                      32768  window of operand 0: block [64, 40], place 2 of 2
padded                                      32768  window of result 0: block [64, 40], place 1 of 2
padded                                      32768  window of result 0: block [64, 40], place 2 of 2
padded                                      16384  rows behind arrays

lint.py:65: window of operand 0: block [64, 40], padding: 68 % of its registers, 43 % beyond the array
lint.py:65: window of result 0: block [64, 40], padding: 68 % of its registers, 43 % beyond the array
lint.py:65: copies of a window are exposed for 29.4 % of the time: window of operand 0: block [64, 40], padding: 68 % of its registers, 43 % beyond the array
lint.py:65: copies of a window are exposed for 28.6 % of the time: window of result 0: block [64, 40], padding: 68 % of its registers, 43 % beyond the array
