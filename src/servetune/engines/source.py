"""This package's code, for the processes that run in other environments."""

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path

from servetune.loopback import without_proxy
from servetune.shipped import is_clone

THREADS = frozenset(
    {
        *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS"),
        *("NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    }
)
"""What Snakemake sets for each job to the cores of its rule."""


def cache_root() -> Path:
    """Return the folder of environments, which outlives results and clones."""
    root = os.environ.get("SERVETUNE_CACHE") or Path.home() / ".cache" / "servetune"
    return Path(root).absolute()


def environment_with_source() -> dict[str, str]:
    """Return this process's environment with servetune's code and commands found first.

    What is sent to this host goes through no proxy.

    How many threads a library takes is left to it, or to a study's `environment`: a server must
    not be faster or slower by the number of cores that Snakemake was given.
    """
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(_alone()), *([inherited] if inherited else [])]
    commands = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        **{name: value for name, value in os.environ.items() if name not in THREADS},
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PATH": os.pathsep.join(dict.fromkeys(commands)),
        **without_proxy(os.environ),
    }


def _alone() -> Path:
    """Return a folder that holds servetune and no other package.

    An installed one stands among the pipeline's libraries, which another environment must not
    find before its own.
    """
    package = Path(__file__).resolve().parents[1]
    if is_clone():
        return package.parent
    folder = cache_root() / "code" / hashlib.sha256(os.fsencode(package)).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        (folder / package.name).symlink_to(package)
    return folder
