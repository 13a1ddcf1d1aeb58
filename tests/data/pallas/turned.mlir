// run: run --chip tpu-v5e --report kernels %s
module @jit_wrapped attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1024x128xf32>) -> (tensor<256x512xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.custom_call @tpu_custom_call(%arg0) {backend_config = "{\22custom_call_config\22: {\22body\22: \22TUzvUgFNTElSMjMuMC4wZ2l0AAEnCQEDBQcBAwkDEwsNDxETFRcZGwPhtRkBrQcLCxMTDwsLCw8PhQ8LCwsLCw8PDwsPEwsPSwsPCwszCwsLCxMbC1MbC1MbGw8PCw8LDxsTC1MPCw8LDxsPCw8LDxsTHwsPDxsTCwsPCw8bIw8LUwsTBQdhkU0HA1kBGQ8HDwcfJycbGx8fCwKaCB8FHQUfAwMRWwMDEV0dl5kFIQUjBSUdX2Edi41hZmZpbmVfbWFwPChkMCwgZDEpIC0+IChkMCwgZDEpPgARBQEFJwUpBSsFLQ0RHQNnHQN5HQOFBS8dA58DAzEzBTERBS0DETc5DTs9P0EZQxkPA0WxR0kFMwEDrw0PBTUjBQMRBAAAAAAAAAAFNwU5BTsFPQEFS1EDBRtNH08JHSMFBSEAAQAAAAAAAIAAAAAAAAAAAwUbUx9VCSEjBQUhQAAAAAAAAAAAAgAAAAAAAAMFDSMPHQMFDSMPIREBAREHAQU/HWNlBUEVJSUtBQdbER0DA2ttBUMjBQUhAQAAAAAAAAAAAAAAAAAAAB1xcwVFHXV3BUcVJyctBQdbESEdfX8FSR2BgwVLFSkpLQUHXRs/AwMRiRMDEAAA4A8FTR0rjx0DkS0FB10bRwMDlbMFTwVRHZudBVMVLS0tBQddCRUDByujpaepqxEXAAVVIwEJIQEAAAABAAAAAgAAAAAAAAAFVyMBAQEjdHB1Lm1lbW9yeV9zcGFjZTx2bWVtPgAjdHB1LmRpbWVuc2lvbl9zZW1hbnRpY3M8YXJiaXRyYXJ5PgAjdHB1LmNvcmVfdHlwZTx0Yz4AI2FyaXRoLmZhc3RtYXRoPG5vbmU+AAECAgsBAgQDJwUCAgIQAxetBQIIAgQDFxetBQICAhADFwUHAQsNAQUDAQUBAScFAggCBAMnBQIEAggDAQkEtgIFAREBLwcDAQ0FEQE1BwMdNwcBAQsBDQEDAxMJAwcDAxMJAwcJBhMDEwcDBwkLB29pAxUDCw0GewMJAw0DAxWHAwMPBhUDCQMREQcVkwMJBQ8TAwMLCQMHAwMLCQMHCQYLAwkHBRcZEwULoQkVBRcZBwABBREBVwcDBw8DAQEDAwEHAwEDAwEHAwEHBAEFAQMFEQFZBwMHDwMBAQMDAQcDAQMDAQcDAQcEAQUBAwYDAQUBACoJWREpFQ0TCyETKRcZEQsdHSMhIyktCRkdGSUNEx0rDyMXIyUdGRkVHw8NCR0RYnVpbHRpbgBzdGFibGVfbW9zYWljAHRwdQBhcml0aABtb2R1bGUAYXJpdGguY29uc3RhbnQAZnVuYy5mdW5jAGZ1bmMucmV0dXJuAHZlY3Rvci5sb2FkAHRwdS50cmFuc3Bvc2UAdmVjdG9yLnNoYXBlX2Nhc3QAdmVjdG9yLmJyb2FkY2FzdABhcml0aC5hZGRmAHRwdS52ZWN0b3Jfc3RvcmUAdHVybmVkAHRlc3RzL3BhbGxhcy9saW50LnB5AGZ1bmN0aW9uX3R5cGUAc3ltX25hbWUAdmFsdWUAdHJhbnNmb3JtX2luZGljZXMAdHJhbnNmb3JtXzAAd2luZG93X2JvdW5kcwB0cmFuc2Zvcm1fMQBhZGQAc3RhYmxlX21vc2FpYy52ZXJzaW9uAGRpbWVuc2lvbl9zZW1hbnRpY3MAaXRlcmF0aW9uX2JvdW5kcwBzY2FsYXJfcHJlZmV0Y2gAc2NyYXRjaF9vcGVyYW5kcwB0cHUuY29yZV90eXBlAHdpbmRvd19wYXJhbXMAZ2V0OgBnZXQvZ2V0AHBlcm11dGF0aW9uAHRyYW5zcG9zZToAdHJhbnNwb3NlL3RyYW5zcG9zZQByZXNoYXBlOgByZXNoYXBlL3Jlc2hhcGUAYWRkOgBmYXN0bWF0aABzd2FwOgBzd2FwL3N3YXAAb3BlcmFuZFNlZ21lbnRTaXplcwBzdHJpZGVzAA==\22, \22serialization_format\22: 1, \22needs_layout_passes\22: true}}", kernel_name = "turned", mhlo.frontend_attributes = {kernel_metadata = "{}"}, operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (tensor<1024x128xf32>) -> tensor<256x512xf32>
    return %0 : tensor<256x512xf32>
  }
}

// ==== run --chip tpu-v5e --report kernels %s
line of a kernel                           cycles   share   waited  part
lint.py:45 (turned)                          1459  30.4 %   28.2 %  window of result 0: block [64, 512]
lint.py:45 (turned)                          1441  30.0 %   28.5 %  window of operand 0: block [256, 128]
lint.py:45 (turned)                           806  16.8 %   10.3 %  relayout of [256, 128] with rows and columns exchanged
lint.py:46 (turned)                           172   3.6 %    0.2 %
lint.py:46 (turned)                           172   3.6 %    0.0 %  relayout of [128, 256] to [64, 512]

vector memory of a kernel                   bytes  what
turned                                     131072  vectors on their way
turned                                     131072  window of operand 0: block [256, 128], place 1 of 2
turned                                     131072  window of operand 0: block [256, 128], place 2 of 2
turned                                     131072  window of result 0: block [64, 512], place 1 of 2
turned                                     131072  window of result 0: block [64, 512], place 2 of 2
turned                                      16384  rows behind arrays

lint.py:45: copies of a window are exposed for 28.5 % of the time: window of operand 0: block [256, 128]
lint.py:45: copies of a window are exposed for 28.2 % of the time: window of result 0: block [64, 512]
lint.py:45: a relayout a step takes 16.8 % of the time: [256, 128] with rows and columns exchanged
lint.py:46: a relayout a step takes 3.6 % of the time: [128, 256] to [64, 512]
