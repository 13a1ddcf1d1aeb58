"""Writes a kernel for the tests: what JAX lowers for a TPU, its inputs, and the answers of JAX's interpreter."""

import jax
import numpy as np
from jax.experimental.pallas import tpu as pltpu

# Types that NumPy lacks, as the files name them.
TYPES = {"bfloat16": (":bf16", np.uint16), "float8_e4m3fn": (":f8e4m3fn", np.uint8), "int4": (":s4", np.int8)}


def write(stem, call, ins, interpret=pltpu.InterpretParams()):
    """`stem`.mlir and `stem`.npz of a call, which takes how it is made and gives a function of `ins`."""
    text = call().trace(*ins).lower(lowering_platforms=("tpu",)).as_text()
    answers, arrays = jax.tree.leaves(call(interpret=interpret)(*ins)), {}
    with open(f"{stem}.mlir", "w") as f:
        f.write(text)
    for kind, all in (("arg", ins), ("out", answers)):
        for i, a in enumerate(all):
            a = np.asarray(a)
            suffix, bits = TYPES.get(a.dtype.name, ("", None))
            arrays[f"{kind}{i}{suffix}"] = a.view(bits) if bits else a
    np.savez_compressed(f"{stem}.npz", **arrays)
