"""The entry point ``jax_plugins``: JAX calls :func:`initialize` when it looks for devices."""

from __future__ import annotations

from ._config import configured
from ._native_calls import library_path

#: Below the CPU's: the simulated chip is used when it is asked for.
_PRIORITY = -100


def _code(executable) -> str:
    """The plan and the assembly of a program of this platform; nothing of another's."""
    devices = executable.local_devices()
    if not devices or devices[0].platform != "systole":
        return ""
    from ._native_calls import library, opened

    name = executable.fingerprint
    answer, _ = opened(library().systole_code(name, len(name)))
    plan = answer["plan"]
    return "".join(f"\n// {title}\n{text}" for title, text in [("plan", plan), ("assembly", answer["assembly"])] if text)


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
    # The text of a compiled program goes on with what the chip runs.
    from jax._src import stages

    source_text = stages.Executable.as_text
    stages.Executable.as_text = lambda self: source_text(self) + _code(self.xla_extension_executable())
    # Callbacks get their arrays on the CPU, as with other platforms.
    import jax

    if jax.config.jax_platforms == "systole":
        jax.config.update("jax_platforms", "systole,cpu")
