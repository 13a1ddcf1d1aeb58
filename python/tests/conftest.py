"""Makes the platform known where the package is used from the source tree, without its entry point."""

from jax._src import xla_bridge

if "systole" not in xla_bridge._backend_factories:
    from systole import _plugin

    _plugin.initialize()
