"""A version of vLLM that a study names: resolved once, to a lock of the project's own.

The lock stands beside the studies and belongs into Git, so that every clone installs the same.
"""

import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from servetune.engines.compiled import COMPILED, build_requirements, is_source_alone
from servetune.engines.uv import PYTHON_VERSION, torch_source, uv
from servetune.errors import UserError
from servetune.files import write_text
from servetune.shipped import env_file
from servetune.study.engines import ON_CPU, EngineVersion

PLATFORM = "x86_64-manylinux_2_40"
"""The newest, as a lock has the files that it or an older one takes; which, its host decides."""

BESIDE = ("pandas",)
"""`vllm bench serve` imports it; vLLM leaves it to its bench extra."""


MOST_NAMED = 12
"""Versions in a message: more do not read in a line."""


def locks_folder(root: Path) -> Path:
    """Return the folder of a project's locks of versions."""
    return root / "studies" / "locks"


def version_lock(distribution: str, engine: EngineVersion, root: Path) -> Path:
    """Return where a project locks a version with its packages."""
    return locks_folder(root) / f"{distribution}-{engine.title}.txt"


def has_nvidia() -> bool:
    """Tell whether this host shows an NVIDIA GPU, without asking its driver."""
    return shutil.which("nvidia-smi") is not None or Path("/dev/nvidiactl").exists()


def lock_version(distribution: str, engine: EngineVersion, root: Path) -> Path:
    """Resolve a version and its packages to their lock, unless the project has it; returns it.

    Raises:
        UserError: the registry has no such version, or nothing that it asks for.
    """
    lock = version_lock(distribution, engine, root)
    if not lock.is_file():
        write_text(lock, _resolved(distribution, engine, root))
    return lock


def _resolved(distribution: str, engine: EngineVersion, root: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--python-version", PYTHON_VERSION, "--python-platform", PLATFORM]
        if distribution == ON_CPU:
            options += ["--override", str(env_file("overrides.txt", root).absolute())]
            options += torch_source(f"{distribution} {engine.vllm}")
        wanted = (f"{distribution}=={engine.vllm}", *engine.packages, *BESIDE)
        try:
            packages = _compiled(wanted, options, Path(folder))
            # What vLLM itself asks for is left to uv, as before a study could name more.
            if engine.packages and (tools := build_requirements(packages)):
                packages = _compiled((*wanted, *tools), options, Path(folder))
        except UserError as error:
            raise UserError(_why(error, distribution, engine, options, Path(folder))) from None
    named = ", ".join([f"{distribution} {engine.vllm}", *engine.packages])
    lines = [f"# {named} for {PLATFORM} and Python {PYTHON_VERSION}"]
    ready = [each for each in packages if not (engine.packages and is_source_alone(each))]
    lines += _pinned(ready)
    if len(ready) < len(packages):
        lines += [COMPILED, *_pinned(each for each in packages if each not in ready)]
    return "\n".join(lines) + "\n"


def _pinned(packages: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a lock: each package with the hashes of its files."""
    for package in packages:
        files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
        hashes = sorted({file["hashes"]["sha256"] for file in files})
        yield f"{package['name']}=={package['version']} \\"
        yield from (f"    --hash=sha256:{each} \\" for each in hashes[:-1])
        yield f"    --hash=sha256:{hashes[-1]}"


def _compiled(wanted: Iterable[str], options: list[str], folder: Path) -> list[dict[str, Any]]:
    """Resolve requirements; of each package there are the files of the platform alone."""
    source, out = folder / "wanted.in", folder / "pylock.toml"
    source.write_text("\n".join(wanted) + "\n")
    uv("pip", "compile", "--quiet", str(source), *options, "--output-file", str(out))
    packages: list[dict[str, Any]] = tomllib.loads(out.read_text()).get("packages", [])
    out.unlink()
    return packages


def _why(
    error: UserError, distribution: str, engine: EngineVersion, options: list[str], folder: Path
) -> str:
    """Say why a version cannot be had: the registry lacks it, or something that it asks for."""
    where, said = f"engine: {engine.as_declared}", re.sub(r"\{[^}]*\}", "", str(error))
    names = (distribution, *engine.versions)
    lacked = next((name for name in names if f"no version of {name}==" in said), None)
    if lacked is None:
        return f"{where}: {distribution} does not resolve for Python {PYTHON_VERSION}: {said}"
    known: list[str] = []
    with suppress(UserError):
        while len(known) < MOST_NAMED:
            older = f"{lacked}<{known[-1]}" if known else lacked
            (newest,) = _compiled([older], ["--no-deps", *options], folder)
            known.append(newest["version"])
    more = " and older ones" if len(known) == MOST_NAMED else ""
    return (
        f"{where}: the registry has no {lacked} of that version; it has"
        f" {', '.join(known) or 'none that installs here'}{more}"
    )
