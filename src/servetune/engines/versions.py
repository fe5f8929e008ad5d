"""A version of vLLM that a study names: resolved once, to a lock of the project's own.

The lock stands beside the studies and belongs into Git, so that every clone installs the same.
"""

import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from servetune.engines.uv import PYTHON_VERSION, torch_source, uv
from servetune.errors import UserError
from servetune.files import write_text
from servetune.shipped import env_file
from servetune.study.engines import ON_CPU

PLATFORM = "x86_64-manylinux_2_40"
"""The newest, as a lock has the files that it or an older one takes; which, its host decides."""

BESIDE = ("pandas",)
"""`vllm bench serve` imports it; vLLM leaves it to its bench extra."""


MOST_NAMED = 12
"""Versions in a message: more do not read in a line."""


def locks_folder(root: Path) -> Path:
    """Return the folder of a project's locks of versions."""
    return root / "studies" / "locks"


def version_lock(distribution: str, version: str, root: Path) -> Path:
    """Return where a project locks a version."""
    return locks_folder(root) / f"{distribution}-{version}.txt"


def has_nvidia() -> bool:
    """Tell whether this host shows an NVIDIA GPU, without asking its driver."""
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidiactl").exists()


def lock_version(distribution: str, version: str, root: Path) -> Path:
    """Resolve a version to its lock, unless the project has one; returns the lock.

    Raises:
        UserError: the registry has no such version, or nothing that it asks for.
    """
    lock = version_lock(distribution, version, root)
    if not lock.is_file():
        write_text(lock, _resolved(distribution, version, root))
    return lock


def _resolved(distribution: str, version: str, root: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--python-version", PYTHON_VERSION, "--python-platform", PLATFORM]
        if distribution == ON_CPU:
            options += ["--override", str(env_file("overrides.txt", root).absolute())]
            options += torch_source(f"{distribution} {version}")
        wanted = (f"{distribution}=={version}", *BESIDE)
        try:
            packages = _compiled(wanted, options, Path(folder))
        except UserError as error:
            raise UserError(_why(error, distribution, version, options, Path(folder))) from None
    lines = [f"# {distribution} {version} for {PLATFORM} and Python {PYTHON_VERSION}"]
    for package in packages:
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        hashes = sorted({file["hashes"]["sha256"] for file in files})
        lines.append(f"{package['name']}=={package['version']} \\")
        lines += [f"    --hash=sha256:{each} \\" for each in hashes]
        lines[-1] = lines[-1].removesuffix(" \\")
    return "\n".join(lines) + "\n"


def _compiled(wanted: Iterable[str], options: list[str], folder: Path) -> list[dict[str, Any]]:
    """Resolve requirements; of each package there are the files of the platform alone."""
    source, out = folder / "wanted.in", folder / "pylock.toml"
    source.write_text("\n".join(wanted) + "\n")
    uv("pip", "compile", "--quiet", str(source), *options, "--output-file", str(out))
    packages: list[dict[str, Any]] = tomllib.loads(out.read_text()).get("packages", [])
    out.unlink()
    return packages


def _why(
    error: UserError, distribution: str, version: str, options: list[str], folder: Path
) -> str:
    """Say why a version cannot be had: the registry lacks it, or something that it asks for."""
    where, said = f"engine: {{vllm: {version}}}", re.sub(r"\{[^}]*\}", "", str(error))
    if f"no version of {distribution}==" not in said:
        return f"{where}: {distribution} does not resolve for Python {PYTHON_VERSION}: {said}"
    known: list[str] = []
    with suppress(UserError):
        while len(known) < MOST_NAMED:
            older = f"{distribution}<{known[-1]}" if known else distribution
            (newest,) = _compiled([older], ["--no-deps", *options], folder)
            known.append(newest["version"])
    more = " and older ones" if len(known) == MOST_NAMED else ""
    return (
        f"{where}: the registry has no {distribution} of that version; it has"
        f" {', '.join(known) or 'none that installs here'}{more}"
    )
