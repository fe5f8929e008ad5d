"""What measuring imports as pinned and hashed requirements of pip, from this project's lock."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.markers import Marker

from servetune.errors import UserError
from servetune.shipped import SHIPPED, is_clone

LOCK = "uv.lock"
PYTHONS = ("3.11.0", "3.11.9", "3.12.0", "3.12.9")
"""The lock tells them apart, early ones of 3.11 too."""

ALWAYS = "sys_platform == 'linux'"

Package = dict[str, Any]


def requirements(names: Iterable[str], root: Path) -> str:
    """Return packages and all that they need, a line each, with the hashes of Linux's wheels.

    Raises:
        UserError: the lock is not there, or does not hold one of the packages.
    """
    path = root / LOCK
    if is_clone() and not path.is_file():
        # A folder of studies in a clone, such as gallery/, has none of its own.
        path = SHIPPED / LOCK
    if not path.is_file():
        raise UserError(f"{path}: no such file; expected this project's lock")
    packages: list[Package] = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
    found: dict[tuple[str, str], Package] = {}
    wanted: list[Package] = [{"name": name} for name in names]
    while wanted:
        dependency = wanted.pop()
        of = [each for each in packages if _is(each, dependency)]
        if not of:
            raise UserError(f"{path}: does not hold {dependency['name']}; run: uv lock")
        for package in of:
            if (key := (package["name"], package["version"])) not in found:
                found[key] = package
                needed = package.get("dependencies", [])
                wanted += [each for each in needed if _on_linux(each.get("marker", ALWAYS))]
    return "".join(f"{_line(package)}\n" for _, package in sorted(found.items()))


def _is(package: Package, dependency: Package) -> bool:
    """Tell whether a package is a dependency, which may be one version of several."""
    version = dependency.get("version", package["version"])
    return (package["name"], package["version"]) == (dependency["name"], version)


def _on_linux(marker: str) -> bool:
    """Tell whether a marker holds on Linux, in any Python that the lock is for."""
    return any(
        Marker(marker).evaluate({"sys_platform": "linux", "python_full_version": python})
        for python in PYTHONS
    )


def _line(package: Package) -> str:
    """Write a package; several versions of one are for different versions of Python."""
    markers = " or ".join(f"({m})" for m in package.get("resolution-markers", []) if _on_linux(m))
    hashes = [
        wheel["hash"] for wheel in package["wheels"] if re.search("linux|-any.whl$", wheel["url"])
    ]
    words = [f"{package['name']}=={package['version']}", *([f"; {markers}"] if markers else [])]
    return " ".join([*words, *(f"--hash={each}" for each in hashes)])
