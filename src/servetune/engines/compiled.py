"""Packages of which there is only source: what compiles them is locked, and they are compiled.

Without isolation: in the engine's own environment, against the torch that they run with. In an
isolated one they would be built for another torch (arctic-inference 0.1.1 asks for exactly 2.7.0,
whose build for CUDA is gigabytes, on a CPU too), and by tools that no lock holds. So the lock of an
engine has the tools as well, in versions that suit the engine.
"""

import hashlib
import io
import re
import tarfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from servetune.engines.uv import ran_uv
from servetune.errors import UserError
from servetune.files import write_text
from servetune.progress import say
from servetune.running import tell

COMPILED = "# compiled, with what stands above:"
"""The line of a lock before what is source alone."""

BY_DEFAULT = ["setuptools", "wheel"]
"""What builds a package that does not say by what (PEP 518)."""

_ERROR = re.compile(r"\berror\b|not found|No such file", re.IGNORECASE)
_OUTPUT = ("[stdout]", "[stderr]")
"""Below which uv writes what the build printed."""

Package = dict[str, Any]
"""One of a `pylock.toml`."""


def is_source_alone(package: Package) -> bool:
    """Tell whether a resolved package has no wheel of the platform that it was resolved for."""
    return not package.get("wheels") and bool(package.get("sdist"))


def build_requirements(packages: Iterable[Package]) -> list[str]:
    """Return what compiles those of resolved packages that are source alone.

    Of what the engine has itself any version will do: an author pins torch for wheels of his own.

    Raises:
        UserError: the source of one cannot be read.
    """
    packages = list(packages)
    had = {package["name"] for package in packages}
    needed: dict[str, None] = {}
    for package in filter(is_source_alone, packages):
        for text in _asked_for(package):
            requirement = Requirement(text)
            if canonicalize_name(requirement.name) in had:
                requirement.specifier = SpecifierSet()
            needed[str(requirement)] = None
    return [*needed]


def _asked_for(package: Package) -> list[str]:
    """Return the build requirements of a package, as its pyproject.toml declares them."""
    where = f"{package['name']}=={package['version']}"
    try:
        content = _fetched(package["sdist"])
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            names = (name for name in archive.getnames() if name.count("/") == 1)
            name = next((name for name in names if name.endswith("/pyproject.toml")), None)
            file = archive.extractfile(name) if name else None
            declared = tomllib.loads(file.read().decode()) if file else {}
        asked = declared.get("build-system", {}).get("requires", BY_DEFAULT)
        return [str(Requirement(text)) for text in asked]
    except (OSError, tarfile.TarError, ValueError, InvalidRequirement) as error:
        raise UserError(f"{where}: its source cannot be read: {error}") from None


def _fetched(sdist: dict[str, Any]) -> bytes:
    """Return a source distribution; raises OSError or ValueError if it cannot be had."""
    import httpx  # takes as long to import as the rest of a plan

    url = urlsplit(sdist["url"])
    if url.scheme == "file":
        content = Path(unquote(url.path)).read_bytes()
    else:
        try:
            answer = httpx.get(sdist["url"], follow_redirects=True, timeout=60).raise_for_status()
        except httpx.HTTPError as error:
            raise OSError(str(error)) from None
        content = answer.content
    if hashlib.sha256(content).hexdigest() != sdist["hashes"]["sha256"]:
        raise ValueError("its hash is not the registry's")
    return content


def parts_of(lock: str) -> tuple[str, list[str]]:
    """Return what a lock installs at once, and each requirement that is then compiled."""
    ready, _, source = lock.partition(COMPILED)
    return ready, re.findall(r"^\S+==.*(?:\n +.*)*", source, re.MULTILINE)


def compile_packages(
    name: str, requirements: Iterable[str], options: list[str], python: Path, home: Path
) -> None:
    """Compile packages into the environment of a Python; their logs are in `home`.

    `options` say where uv finds them. `name` is the engine's, for the lines of progress.

    Raises:
        UserError: one does not compile.
    """
    for requirement in requirements:
        package = requirement.split()[0]
        say(f"{name}: compiling {package}, which may take minutes")
        tell(f"compiling {package}")
        source, log = home / "compiled.in", home / f"{package.replace('==', '-')}.log"
        write_text(source, f"{requirement}\n")
        # uv's cache would give what was compiled against another engine's torch.
        done = ran_uv(
            *("pip", "install", "--no-cache", "--python", str(python), "--no-deps"),
            *("--require-hashes", "--no-build-isolation", "--compile-bytecode", *options),
            *("--requirement", str(source)),
            commands=python.parent,
        )
        write_text(log, done.stderr)
        source.unlink()
        if done.returncode:
            raise UserError(
                f"engine: {package} does not compile here: {_error(done.stderr)}; its log: {log}"
            )


def _error(log: str) -> str:
    """Return what a build that failed said of it: the first error that it printed, else its end."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("hint:")]
    printed = next((at for at, line in enumerate(lines) if line in _OUTPUT), -1)
    of_build = [line for line in lines[printed + 1 :] if line not in _OUTPUT]
    errors = (line for line in of_build if _ERROR.search(line))
    return next(errors, of_build[-1] if of_build else "it says nothing")[:300]
