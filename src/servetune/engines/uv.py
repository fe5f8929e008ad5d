"""uv, which resolves, locks and installs environments, and where it finds a CPU build of torch."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from servetune.engines.source import environment_with_source
from servetune.errors import UserError
from servetune.lifetime.guard import run_guarded

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PYTHON_VERSION = "3.11"


def torch_source(name: str) -> list[str]:
    """Return the options by which uv finds a CPU build of torch, for an environment by its name.

    Raises:
        UserError: PyTorch's own index does not answer, and no folder with a wheel is named.
    """
    links = os.environ.get("UV_FIND_LINKS") or os.environ.get("PIP_FIND_LINKS") or ""
    options = [word for link in links.replace(",", " ").split() for word in ("--find-links", link)]
    import httpx  # takes as long to import as the rest of a plan

    try:
        httpx.head(f"{TORCH_CPU_INDEX}/torch/", timeout=5).raise_for_status()
    except httpx.HTTPError:
        if not options:
            raise UserError(
                f"{name}: {TORCH_CPU_INDEX}, which has torch's CPU build, does not answer;"
                " point PIP_FIND_LINKS to a folder with its wheel"
            ) from None
        return options
    return [*options, "--index", TORCH_CPU_INDEX, "--index-strategy", "unsafe-best-match"]


def uv(*arguments: str) -> None:
    """Run uv.

    Raises:
        UserError: it is not there, or refuses; the message ends with what it said.
    """
    done = ran_uv(*arguments)
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise UserError(f"uv {arguments[0]}: {' '.join(lines)[-600:]}")


def ran_uv(*arguments: str, commands: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run uv, which finds the programs of a folder first; returns how it ended.

    Raises:
        UserError: it is not there.
    """
    # uv is a dependency of this project, so it stands beside this Python, PATH or not.
    program = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if program is None:
        raise UserError("uv: not found; install this project with: python3 -m pip install uv")
    hidden = ("UV_FIND_LINKS", "VIRTUAL_ENV")
    inherited = environment_with_source()
    environment = {name: value for name, value in inherited.items() if name not in hidden}
    if commands:
        environment["PATH"] = os.pathsep.join([str(commands), environment["PATH"]])
    return run_guarded([program, *arguments], environment, stderr=subprocess.PIPE)
