"""JAX programs on a simulated TPU.

Two ways lead there. ``JAX_PLATFORMS=systole python train.py`` runs a whole program, unmodified; :func:`collect` tells what its
runs cost. :func:`run` takes one function and its arguments and gives a :class:`Report`, whatever JAX's platform is::

    import jax.numpy as jnp, systole

    report = systole.run(lambda a, b: a @ b, jnp.ones((512, 512)), jnp.ones((512, 512)), chip="tpu-v5e")
    print(report.cycles, report.bound)
    report.table()                 # rows for pandas.DataFrame
    report.profile.save("matmul.sysp")
    report.assert_utilisation("mxu", at_least=0.2)

:func:`tune_kernel` tries a Pallas kernel with other block sizes.
"""

from ._config import configure, configured
from ._native_calls import SystoleError
from ._report import Profile, Report
from ._run import Collected, collect, run
from ._tune import Trial, Tuning, tune_kernel

__all__ = ["Collected", "Profile", "Report", "SystoleError", "Trial", "Tuning", "collect", "configure", "configured",
           "run", "tune_kernel"]
__version__ = "0.1.0"
