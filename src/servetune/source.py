"""This package's code, for the processes that run in other environments."""

import os
from pathlib import Path


def environment_with_source() -> dict[str, str]:
    """Return this process's environment with servetune's code first on PYTHONPATH."""
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(Path(__file__).parents[1]), *([inherited] if inherited else [])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
