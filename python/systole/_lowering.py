"""How operations of JAX become programs for the platform ``systole``.

What JAX lowers by platform is lowered as for a TPU. Callbacks become calls of the host, which the library hands to the
function registered here.
"""

from __future__ import annotations

import ctypes
import itertools
import secrets
import traceback
from typing import Any, Callable

import numpy as np

from ._native_calls import HANDLER, array_at, library

PLATFORM = "systole"
CALLBACK = "systole_python_callback"
#: Targets of custom calls that exported programs may have.
TARGETS = [CALLBACK, "Eigh", "LuDecomposition", "Qr", "ProductOfElementaryHouseholderReflectors", "ApproxTopK"]

# Callbacks by number. The numbers are drawn, so that a program cached by another process never finds a wrong one.
_callbacks: dict[int, Callable[..., Any]] = {}
_numbers = itertools.count(secrets.randbits(62))
_installed = False
#: The version of serialised kernels that the compiler reads.
_KERNEL_VERSION = 11


class _Rules(dict):
    """The rules of a platform, completed by those of TPUs."""

    def __init__(self, of_tpu: dict):
        super().__init__()
        self._of_tpu = of_tpu

    def __contains__(self, primitive: object) -> bool:
        return super().__contains__(primitive) or primitive in self._of_tpu

    def __missing__(self, primitive: Any) -> Any:
        return self._of_tpu[primitive]


def _call(number, operands, count, results, result_count, message, size) -> int:
    try:
        inputs = [array_at(operands[i]).copy() for i in range(count)]
        outputs = _callbacks[number](*inputs)
        for i in range(result_count):
            place = array_at(results[i])
            if place.size:
                place[...] = np.asarray(outputs[i], place.dtype).reshape(place.shape)
        return 0
    except BaseException as e:  # noqa: BLE001: it becomes the error of the run
        text = "".join(traceback.format_exception_only(type(e), e)).strip()
        raw = text.encode()[: size - 1] + b"\0"
        ctypes.memmove(message, raw, len(raw))
        return 1


_handler = HANDLER(_call)


def _checked(callback: Callable[..., Any], result_avals) -> Callable[..., Any]:
    from jax._src import dtypes

    def checked(*args):
        values = tuple(dtypes.canonicalize_value(np.asarray(a)) for a in callback(*args))
        if len(values) != len(result_avals):
            raise RuntimeError(
                f"Mismatched number of outputs from callback. Expected: {len(result_avals)}, Actual: {len(values)}")
        for i, (value, aval) in enumerate(zip(values, result_avals)):
            for what, is_, due in [("shape", value.shape, aval.shape), ("dtype", value.dtype, aval.dtype)]:
                if is_ != due:
                    raise RuntimeError(
                        f"Incorrect output {what} for return value #{i}: Expected: {due}, Actual: {is_}")
        return values

    return checked


def _is_of_one_device(sharding: Any) -> bool:
    """Whether JAX gives a call to one device of several, for a program of whole arrays: Python is called once."""
    from jax._src.lib import xla_client

    if isinstance(sharding, xla_client.OpSharding):
        return sharding.type == xla_client.OpSharding.Type.MAXIMAL
    return any(s.logical_device_ids for s in getattr(sharding, "shardings", ()))


def _prepare_pallas(rules: dict) -> None:
    """Kernels of Pallas are written in the version that is read here; those that ask for the chip get its TPU's sizes."""
    from jax._src import tpu_custom_call
    from jax._src.interpreters import mlir
    from jax._src.pallas import mpmd
    from jax._src.pallas.mosaic import tpu_info

    # The rule for all platforms refuses those that it does not know by name.
    rules[mpmd.mpmd_map_p] = mlir.LoweringRuleEntry(mpmd._mpmd_map_tpu_lowering, True)

    version_of = tpu_custom_call.get_ir_version

    def get_ir_version(ctx):
        return _KERNEL_VERSION if PLATFORM in ctx.module_context.platforms else version_of(ctx)

    tpu_custom_call.get_ir_version = get_ir_version

    chips = {"tpu-v3": "TPU_V3", "tpu-v4": "TPU_V4", "tpu-v5e": "TPU_V5E", "tpu-v5p": "TPU_V5P", "tpu-v6e": "TPU_V6E"}
    versions = {kind: getattr(tpu_info.ChipVersion, version) for kind, version in chips.items()}
    by_name = tpu_info.chip_version_from_device_kind
    tpu_info.chip_version_from_device_kind = lambda kind: versions.get(kind) or by_name(kind)


def install() -> None:
    """Makes the platform known to JAX's lowering; once."""
    global _installed
    if _installed:
        return
    from jax._src import callback as cb
    from jax._src import debugging  # noqa: F401: registers its rules
    from jax._src.interpreters import mlir

    tables = mlir._platform_specific_lowerings
    own = _Rules(tables["tpu"])
    own.update(tables.get(PLATFORM, {}))
    tables[PLATFORM] = own
    if PLATFORM not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(PLATFORM)

    by_platform = mlir.lower_per_platform

    def lower_per_platform(ctx, description, platform_rules, *args, **kwargs):
        # What chooses by platform only when it is lowered: kernels of Pallas.
        if "tpu" in platform_rules:
            platform_rules = {PLATFORM: platform_rules["tpu"], **platform_rules}
        return by_platform(ctx, description, platform_rules, *args, **kwargs)

    mlir.lower_per_platform = lower_per_platform
    try:
        from . import _linalg

        _linalg.install(own)
        _prepare_pallas(own)
    except (ImportError, AttributeError):
        # Another JAX than the one that this was written for: its kernels end in a message that says so.
        pass

    original = cb.emit_python_callback

    def emit(ctx, callback, token, operands, operand_avals, result_avals, *, has_side_effect, **kwargs):
        if tuple(ctx.module_context.platforms) != (PLATFORM,):
            return original(
                ctx, callback, token, operands, operand_avals, result_avals, has_side_effect=has_side_effect, **kwargs)
        number = next(_numbers)
        once = _is_of_one_device(kwargs.get("sharding")) and not kwargs.get("partitioned")
        _callbacks[number] = _checked(callback, result_avals)
        call = mlir.custom_call(
            CALLBACK,
            result_types=[mlir.aval_to_ir_type(ctx.module_context, a) for a in result_avals],
            operands=operands,
            backend_config=f"{number} once" if once else str(number),
            has_side_effect=has_side_effect,
            api_version=2,
        )
        # Calls of the host run in the order of the program: the token has nothing to add.
        return list(call.results), token, None

    cb.emit_python_callback = emit
    library().systole_set_handler(_handler)
    _installed = True
