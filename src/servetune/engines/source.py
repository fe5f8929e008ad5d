"""This package's code, for the processes that run in other environments."""

import os
import sys
from pathlib import Path

from servetune.loopback import without_proxy

THREADS = frozenset(
    {
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS"),
        *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    }
)
"""What Snakemake sets for each job to the cores of its rule."""


def environment_with_source() -> dict[str, str]:
    """Return this process's environment with servetune's code and commands found first.

    What is sent to this host goes through no proxy.

    How many threads a library takes is left to it, or to a study's `environment`: a server must
    not be faster or slower by the number of cores that Snakemake was given.
    """
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(Path(__file__).parents[2]), *([inherited] if inherited else [])]
    commands = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        **{name: value for name, value in os.environ.items() if name not in THREADS},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PATH": os.pathsep.join(dict.fromkeys(commands)),
        **without_proxy(os.environ),
    }
