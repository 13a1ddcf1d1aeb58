// run: run --chip tpu-v5e --report kernels %s
module @jit_wrapped attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<256x512xbf16>, %arg1: tensor<512x1024xbf16>) -> (tensor<256x1024xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.custom_call @tpu_custom_call(%arg0, %arg1) {backend_config = "{\22custom_call_config\22: {\22body\22: \22TUzvUgFNTElSMjMuMC4wZ2l0AAEtCQEDBQcBAwkDGQsNDxETFRcZGx0fIQPGAl4CGQH3BxMLCxMPCwsLCwsPDxMTCwtTCw8PDw8PDw8LCw8zExOFDw8LCwsLCw8PDwsTCxMLD0sLFwsLcwsLCwsXGwsbCxsLGxsbDw8PCxsTDw8LDw8LDwsPGwsPCxMPDw8bDw8bDw8PGxMfCw8LDxsjCwsLEwsPCw8LDxsPDxsLBQmRYU0qAgcDWQEvC1MLExMTExsTDxsXDxMTCxsTFwsPEw8BGQ8HHw8nJwcLBx8rIwLSDB8DAxGzBSMFJQMDEYsdq60FJwUpBSsFLQUvHQe5HTXvHTUiAh01VgIFMQUzIwcFIYAAAAAAAAAAgAAAAAAAAAANFx0Hkx0HqR0TtR0Tux0Hvx0TwREPAAU1BTcdV/MDB/UzAgIGAgoCDgIdExICHVdCAmFmZmluZV9tYXA8KGQwLCBkMSkgLT4gKGQwLCBkMSk+ABEHAREHBQU5BTsFPQU/BUEdzc8dB9UdB+0FQx0HKgIFRQMDX2EFRxEHLQMRZWcNaWttb0NxRQ8Hc/t1dwVJAQf39/cNFQVLIwcHMQIAAAAAAAAACAAAAAAAAAAEAAAAAAAAAAVNBU8FUQVTAQd5fYEDBR97ISMJRwMFH38hIwlJAwUfgyEjCUsDBQ0lD0cDBQ0lD0kDBQ0lD0sRAQEdTY8dkScFVS0FBz0bRQMDT0MdTZkdm50FVxUnJx2howVZHaWnBVsVKSktBQc9C0cFXR2vKQVfAwNPRREDAR0VtxUXFy0FB0UJGR0VvRUvLy0FB0UxPR0VwxUvxR0Hxy0FB0VBTQMDEcslBQkAAAAABWEd0dMFYxVTUy0FB0UhgwMH2f3bM90zBWUFZwVpAwPh/wVrHeXnBW0d6esFbxVVVS0FB0UJgx038RU5Fy0FB0ERIQVxI3RwdS5kaW1lbnNpb25fc2VtYW50aWNzPGFyYml0cmFyeT4AI3RwdS5tZW1vcnlfc3BhY2U8dm1lbT4AI3RwdS5jb3JlX3R5cGU8dGM+ACN0cHUuZG90X2RpbWVuc2lvbl9udW1iZXJzPFsxXSwgWzBdLCBbMF0sIFsxXSwgWzAsIDAsIDEsIDFdLCBbXSwgW10+ACNhcml0aC5mYXN0bWF0aDxub25lPgAFcyMBCSEBAAAAAQAAAAIAAAAAAAAABXUjAQEBHRUWAhUXGgIdBx4CLQUHRxsrHTcmAhVZWS0FB0cJFQMDETICEw0BHVs6Ah0+Aj8Fdy0FB0EnTR1bSgIdTgJSAgV5FT8/HTdaAhU5OQECAgMnBQIEAgQNAQIEF/kFAgQCBBFBF/kFAgQCBA1BCwEJBycFAgQCBBEFDwEBAQkJCwsBBQcBAQEFAQEECgYFAREBXQcDAREHEQFjBwNDew8BAQEBAQEJAQkBCwELAQMDjQkDAQ0Hl5UDDwUFDxEGnwMBAxEDAwsJAwENBwuxAw8FExUTFAsDFwkDCx0DAzYCLgIDDRkGRgIDBQNDAwMdAwMDAwMdAwMDBQYdAwUHDUdJCwUdOwlFDUdJDwALAwEFDwALAwMrAwMDAwMrAwMDBQYrAwUHDRkbAwMtAwMDAwMtAwMDBQYtAxMHBx8hAwMxAwMDAwMxAwMDBQYxAxMHCSUnAwNRyQMFFQdR1wMFByMpKxcH498DBQUdLQMDGQMDAwMDGQMDAwUGGQMFBw0xMwsFGTsJLw0xMwMDPQMDAwMDPQMDAwUGPQMFBw03OQMDGwMDAwMDGwMDAwUGGwMFBws9PwsFGzsJOws9PwkAAQcRAYUHAwkLBwEBAQEBAQMDAQkDAQkEAQUBBQcRAYcHAwkLBwEBAQEBAQMDAQkDAQkEAQUFAwcRAYkHAwkLBwEBAQEBAQMDAQkDAQkEAQUBAwYDAQUBAFoNe0UjESkJEQsTHR0lMRsLDVUtDQcdHSMhIyktJTEVCRkZGRUNHSURCw0THRsrIxcXDxkVFyMZFRkfDw0JHRFidWlsdGluAHN0YWJsZV9tb3NhaWMAdHB1AGFyaXRoAG1vZHVsZQBhcml0aC5jb25zdGFudAB2ZWN0b3IubG9hZABmdW5jLmZ1bmMAZnVuYy5yZXR1cm4AdHB1LnZlY3Rvcl9zdG9yZQBhcml0aC5jbXBpAHNjZi55aWVsZABhcml0aC5leHR1aQBzY2YuaWYAdHB1Lm1hdG11bABhcml0aC5hZGRmAHZlY3Rvci5icm9hZGNhc3QAdGVzdHMvcGFsbGFzL2xpbnQucHkAY29waWVkX2FnYWluAGZ1bmN0aW9uX3R5cGUAc3ltX25hbWUAdmFsdWUAZ2V0OgBnZXQvZ2V0AHRyYW5zZm9ybV9pbmRpY2VzAHdpbmRvd19ib3VuZHMAc3dhcDoAc3dhcC9zd2FwAHRyYW5zZm9ybV8wAHRyYW5zZm9ybV8xAHRyYW5zZm9ybV8yAGVxOgBwcmVkaWNhdGUAY29waWVkX2FnYWluLjxsb2NhbHM+Ll8AYnJvYWRjYXN0X2luX2RpbToAc3RhYmxlX21vc2FpYy52ZXJzaW9uAGRpbWVuc2lvbl9zZW1hbnRpY3MAaXRlcmF0aW9uX2JvdW5kcwBzY2FsYXJfcHJlZmV0Y2gAc2NyYXRjaF9vcGVyYW5kcwB0cHUuY29yZV90eXBlAHdpbmRvd19wYXJhbXMAZXEAZXEvZXEAY29udmVydF9lbGVtZW50X3R5cGU6AGNvbnZlcnRfZWxlbWVudF90eXBlL2NvbnZlcnRfZWxlbWVudF90eXBlAGNvbmQ6AGNvbmQAZG90X2dlbmVyYWw6AGRvdF9nZW5lcmFsL2RvdF9nZW5lcmFsAGRpbWVuc2lvbl9udW1iZXJzAHRyYW5zcG9zZV9saHMAdHJhbnNwb3NlX3JocwBmYXN0bWF0aABhZGQ6AGFkZC9hZGQAYWRkAG9wZXJhbmRTZWdtZW50U2l6ZXMAc3RyaWRlcwBicm9hZGNhc3RfaW5fZGltAGJyb2FkY2FzdF9pbl9kaW0vYnJvYWRjYXN0X2luX2RpbQA=\22, \22serialization_format\22: 1, \22needs_layout_passes\22: true}}", kernel_name = "copied_again", mhlo.frontend_attributes = {kernel_metadata = "{}"}, operand_layouts = [dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<256x512xbf16>, tensor<512x1024xbf16>) -> tensor<256x1024xf32>
    return %0 : tensor<256x1024xf32>
  }
}

// ==== run --chip tpu-v5e --report kernels %s
line of a kernel                           cycles   share   waited  part
lint.py:34 (copied_again)                   31792  71.7 %   46.3 %
lint.py:30 (copied_again)                    4223   9.5 %    5.7 %  window of operand 1: block [128, 128], each copied 2 times
lint.py:30 (copied_again)                    4024   9.1 %    4.9 %  window of operand 0: block [128, 128], each copied 8 times
lint.py:30 (copied_again)                    1977   4.5 %    2.0 %  window of result 0: block [128, 128]
lint.py:35 (copied_again)                     832   1.9 %    0.4 %
lint.py:30 (copied_again)                     434   1.0 %    0.1 %
lint.py:32 (copied_again.<locals>._)          320   0.7 %    0.1 %

vector memory of a kernel                   bytes  what
copied_again                                65536  scratch argument 3: f32 [128, 128]
copied_again                                65536  window of result 0: block [128, 128], place 1 of 2
copied_again                                65536  window of result 0: block [128, 128], place 2 of 2
copied_again                                32768  window of operand 0: block [128, 128], place 1 of 2
copied_again                                32768  window of operand 0: block [128, 128], place 2 of 2
copied_again                                32768  window of operand 1: block [128, 128], place 1 of 2
copied_again                                32768  window of operand 1: block [128, 128], place 2 of 2
copied_again                                16384  rows behind arrays
copied_again                                16384  vectors on their way

lint.py:34: matrix units work for 4.6 % of the time because of waits in lines with products (46.3 %), copies of windows (23.0 %), lines without products, most of all line 35 (3.6 %)
lint.py:30: copies of a window are exposed for 5.7 % of the time: window of operand 1: block [128, 128], each copied 2 times
lint.py:30: copies of a window are exposed for 4.9 % of the time: window of operand 0: block [128, 128], each copied 8 times
lint.py:30: copies of a window are exposed for 2.0 % of the time: window of result 0: block [128, 128]
