"""Where JAX finds the platform when the package is used from the source tree; installed, it has an entry point."""

from systole._plugin import initialize

__all__ = ["initialize"]
