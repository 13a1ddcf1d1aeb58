"""The functions of the native library, by ctypes."""

from __future__ import annotations

import ctypes
import json
import os
from functools import cache
from typing import Any, Sequence

import ml_dtypes
import numpy as np


class SystoleError(RuntimeError):
    """What the compiler or the simulated program has to say, with its place in the source."""


#: Element types by the numbers of the PJRT interface.
DTYPES: dict[int, np.dtype] = {
    n: np.dtype(t)
    for n, t in {
        1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64,
        6: np.uint8, 7: np.uint16, 8: np.uint32, 9: np.uint64,
        10: np.float16, 11: np.float32, 12: np.float64, 13: ml_dtypes.bfloat16, 14: np.complex64, 15: np.complex128,
        16: ml_dtypes.float8_e5m2, 17: ml_dtypes.float8_e4m3fn, 18: ml_dtypes.float8_e4m3b11fnuz,
        19: ml_dtypes.float8_e5m2fnuz, 20: ml_dtypes.float8_e4m3fnuz, 21: ml_dtypes.int4, 22: ml_dtypes.uint4,
        24: ml_dtypes.int2, 25: ml_dtypes.uint2,
        26: ml_dtypes.float8_e4m3, 27: ml_dtypes.float8_e3m4, 28: ml_dtypes.float8_e8m0fnu, 29: ml_dtypes.float4_e2m1fn,
    }.items()
}
NUMBERS = {t: n for n, t in DTYPES.items()}


class HostArray(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("rank", ctypes.c_size_t),
        ("dims", ctypes.POINTER(ctypes.c_uint64)),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
    ]


class Frame(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("owner", ctypes.c_void_p)]


HANDLER = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_uint64, ctypes.POINTER(HostArray), ctypes.c_size_t,
    ctypes.POINTER(HostArray), ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
)


def library_path() -> str:
    """The file that is both this package's library and the PJRT plugin. ``SYSTOLE_LIBRARY`` names another."""
    given = os.environ.get("SYSTOLE_LIBRARY")
    if given:
        return given
    from . import _native

    return _native.__file__


@cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(library_path())
    text = [ctypes.c_char_p, ctypes.c_size_t]
    for name, result, arguments in [
        ("systole_set_handler", None, [HANDLER]),
        ("systole_free", None, [ctypes.c_void_p]),
        ("systole_collect_begin", None, [ctypes.c_bool]),
        ("systole_collect_end", None, [ctypes.c_bool]),
        ("systole_collect_take", Frame, []),
        ("systole_set_mode", Frame, text),
        ("systole_allow_made_up", None, [ctypes.c_bool]),
        ("systole_drain", None, []),
        ("systole_code", Frame, text),
        ("systole_run", Frame, text + text + [ctypes.POINTER(HostArray), ctypes.c_size_t]),
        ("systole_export", Frame, text + text),
    ]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def opened(frame: Frame) -> tuple[Any, list[bytes]]:
    """The JSON and the blobs of a frame, which is freed."""
    raw = ctypes.string_at(frame.data, frame.size)
    library().systole_free(frame.owner)
    parts, at = [], 0
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 8], "little")
        parts.append(raw[at + 8 : at + 8 + size])
        at += 8 + size
    answer = json.loads(parts[0])
    if isinstance(answer, dict) and "error" in answer:
        raise SystoleError(answer["error"])
    return answer, parts[1:]


def described(arrays: Sequence[np.ndarray]) -> tuple[Any, list[Any]]:
    """C's descriptions of arrays, and what must stay alive with them."""
    alive: list[Any] = []
    out = (HostArray * max(len(arrays), 1))()
    for i, a in enumerate(arrays):
        a = np.ascontiguousarray(a).reshape(np.shape(a))
        if a.dtype not in NUMBERS:
            raise TypeError(f"arrays of {a.dtype} are not supported")
        dims = (ctypes.c_uint64 * max(a.ndim, 1))(*a.shape)
        alive += [a, dims]
        out[i] = HostArray(NUMBERS[a.dtype], a.ndim, dims, a.ctypes.data, a.nbytes)
    return out, alive


def array_at(h: HostArray) -> np.ndarray:
    """The array that a description describes: a view, valid as long as what it describes."""
    dtype = DTYPES[h.kind]
    shape = tuple(h.dims[i] for i in range(h.rank))
    if h.bytes == 0:
        return np.zeros(shape, dtype)
    raw = (ctypes.c_uint8 * h.bytes).from_address(h.data)
    return np.frombuffer(raw, np.uint8).view(dtype).reshape(shape)
