"""The entry point ``jax_plugins``: JAX calls :func:`initialize` when it looks for devices."""

from __future__ import annotations

from ._config import configured
from ._native_calls import library_path

#: Below the CPU's: the simulated chip is used when it is asked for.
_PRIORITY = -100


def initialize() -> None:
    """Registers the platform ``systole``; once, whoever asks."""
    from jax._src import xla_bridge

    from . import _lowering

    if "systole" in xla_bridge._backend_factories:
        return
    xla_bridge._nonexperimental_plugins.add("systole")
    xla_bridge.register_plugin("systole", priority=_PRIORITY, library_path=library_path(), options=configured)
    _lowering.install()
    # JAX keeps a list of platforms whose programs may be cached.
    from jax._src import compilation_cache

    is_listed = compilation_cache.is_cache_used
    compilation_cache.is_cache_used = lambda backend: backend.platform == "systole" or is_listed(backend)
    # Callbacks get their arrays on the CPU, as with other platforms.
    import jax

    if jax.config.jax_platforms == "systole":
        jax.config.update("jax_platforms", "systole,cpu")
