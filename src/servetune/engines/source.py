"""This package's code, for the processes that run in other environments."""

import os
import sys
from pathlib import Path


def environment_with_source() -> dict[str, str]:
    """Return this process's environment with servetune's code and commands found first."""
    inherited = os.environ.get("PYTHONPATH")
    paths = [str(Path(__file__).parents[2]), *([inherited] if inherited else [])]
    commands = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PATH": os.pathsep.join(dict.fromkeys(commands)),
    }
