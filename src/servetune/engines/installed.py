"""Which vLLM the environment of a Python holds, by its files: nothing of it is run.

The folders are those that CPython's `site` adds, of an environment by venv, virtualenv, uv or
conda, and of a system's Python. What `.pth` files import is not known.
"""

import os
import re
from collections.abc import Iterator
from email.parser import HeaderParser
from itertools import product
from pathlib import Path

from servetune.errors import UserError
from servetune.files import read_given

# Bytes, more than any package writes: a larger file is none of them, and is not read.
_LARGEST_METADATA = 4_000_000
_LARGEST_PATHS = 100_000


def installed_vllm(python: Path) -> str | None:
    """Return the version of vLLM in the environment of a Python; None if its files tell none."""
    for folder in _with_named_paths(_sites(python)):
        # In the order in which importlib.metadata finds them.
        for name in _names(folder):
            project, _, kind = name.lower().rpartition(".")
            is_metadata = kind in ("dist-info", "egg-info")
            if is_metadata and project.partition("-")[0] == "vllm":
                for file in ("METADATA", "PKG-INFO", "."):
                    if version := _version(folder / name / file):
                        return version
    return None


def _sites(python: Path) -> Iterator[Path]:
    """Yield the folders of packages of a Python, in the order in which it searches them.

    None of a program that is not known to be one, such as a script that starts another.
    """
    # A link from elsewhere to an environment's Python is not of that environment.
    homes = (python.parent, python.parent.parent)
    venv = next((home for home in homes if (home / "pyvenv.cfg").is_file()), None)
    settings = _settings(venv / "pyvenv.cfg") if venv else {}
    program = Path(os.path.realpath(python))
    told = settings.get("version_info") or settings.get("version") or ""
    version = re.match(r"python(3\.\d+)", program.name) or re.match(r"(3\.\d+)", told)
    if version is None:
        return
    lib = f"python{version[1]}"
    yield from map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    if venv:
        yield from _sites_below(venv, lib)
        if settings.get("include-system-site-packages", "").lower() != "true":
            return
    if not os.environ.get("PYTHONNOUSERSITE"):
        user = Path(os.environ.get("PYTHONUSERBASE") or "~/.local").expanduser()
        yield user / "lib" / lib / "site-packages"
    yield from _sites_below(program.parent.parent, lib)
    if home := settings.get("home"):
        yield from _sites_below(Path(os.path.realpath(home)).parent, lib)


def _sites_below(prefix: Path, lib: str) -> Iterator[Path]:
    # Debian's Python has folders of its own, one of them for all versions.
    libraries = ("local/lib", "local/lib64", "lib", "lib64")
    for library, name in product(libraries, (lib, "python3")):
        for kind in ("site-packages", "dist-packages"):
            yield prefix / library / name / kind


def _with_named_paths(folders: Iterator[Path]) -> Iterator[Path]:
    """Yield each folder and those that its `.pth` files name."""
    for folder in folders:
        yield folder
        for name in sorted(name for name in _names(folder) if name.endswith(".pth")):
            for line in (_text(folder / name, _LARGEST_PATHS) or "").splitlines():
                if line.strip() and not line.startswith(("#", "import ", "import\t")):
                    yield folder / line.strip()


def _settings(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in (_text(file, _LARGEST_PATHS) or "").splitlines())
    return {key.strip().lower(): value.strip() for key, _, value in lines}


def _version(file: Path) -> str | None:
    text = _text(file, _LARGEST_METADATA)
    return HeaderParser().parsestr(text).get("Version") if text else None


def _text(file: Path, most_bytes: int) -> str | None:
    try:
        return read_given(file, str(file), most_bytes)
    except (UserError, ValueError):
        return None


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208, as importlib.metadata has their order
    except (OSError, ValueError):
        return []
