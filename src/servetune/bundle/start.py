"""The `__main__.py` of a bundle: unpack it, then measure. Needs Python 3.11 and nothing else."""

import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

NEEDED = {
    "aiohttp": "aiohttp",
    "httpx": "httpx",
    "jsonschema": "jsonschema",
    "numpy": "numpy",
    "pandas": "pandas",
    "psutil": "psutil",
    "pyarrow": "pyarrow",
    "pydantic": "pydantic",
    "pynvml": "nvidia-ml-py",
}
"""What measuring imports, with the names of the packages that hold it."""

TO_TUNE = {"scipy": "scipy"}
"""What choosing the rounds of a tuning imports besides."""


REQUIREMENTS = "requirements.txt"
"""In a bundle: those and all that they need, with the pins and hashes of the project's lock."""


def main() -> None:
    """Unpack this bundle into the folder that --folder names, then measure there."""
    if sys.version_info < (3, 11):  # noqa: UP036 (this runs on hosts where nothing was checked)
        sys.exit(
            f"servetune: {sys.executable} is Python {sys.version.split()[0]}; use 3.11 or newer"
        )
    bundle, arguments = Path(__file__).parent, sys.argv[1:]
    folder = Path(taken(arguments, "--folder") or bundle.stem)
    packages = taken(arguments, "--packages")
    with zipfile.ZipFile(bundle) as content:
        needed = {**NEEDED, **(TO_TUNE if "project/tuning.json" in content.namelist() else {})}
        pinned = content.read(REQUIREMENTS).decode()
    missing = sorted(package for name, package in needed.items() if find_spec(name) is None)
    if missing and packages:
        install(lacking(pinned, {p for p in needed.values() if p not in missing}), packages)
    elif missing:
        sys.exit(
            f"servetune: {sys.executable} lacks {', '.join(missing)}; pass --packages DIR to"
            " install them there with the pins and hashes of the bundle, or install their wheels:"
            f" python3 -m pip install --no-index --find-links WHEELS {' '.join(missing)}"
        )
    try:
        unpack(bundle, folder)
    except OSError as error:
        sys.exit(f"servetune: {folder}: the bundle cannot be unpacked there: {error}")
    source, project = (str((folder / name).resolve()) for name in ("src", "project"))
    paths = [source, packages and str(Path(packages).resolve()), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    words = ["-m", "servetune.bundle.host", project, *arguments]
    os.execv(sys.executable, [sys.executable, *words])


def unpack(bundle: Path, folder: Path) -> None:
    """Unpack a bundle, each file at once: a run that was killed leaves none half-written.

    Another run in the same folder may serve from these files, so that none is written over.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begun = tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder)
    with begun as hidden, zipfile.ZipFile(bundle) as content:
        for name in content.namelist():
            place = folder / name
            # What an earlier run measured in this folder is newer than what the bundle came with.
            if not (name.startswith("project/results/") and place.exists()):
                place.parent.mkdir(parents=True, exist_ok=True)
                Path(content.extract(name, hidden)).replace(place)


def taken(arguments: list[str], option: str) -> str | None:
    """Take an option and its value out of arguments, as one word or two; returns the value."""
    for at, word in enumerate(arguments):
        if word.startswith(f"{option}="):
            return arguments.pop(at).partition("=")[2]
        if word == option and arguments[at + 1 :]:
            del arguments[at]
            return arguments.pop(at)
    return None


def lacking(pinned: str, present: set[str]) -> str:
    """Return the requirements that this Python lacks: what it has stays as its engine needs it.

    `present` are packages whose modules are there, from wherever.
    """
    return "".join(
        f"{line}\n"
        for line in pinned.splitlines()
        if (name := line.partition("==")[0]) not in present and not is_installed(name)
    )


def is_installed(package: str) -> bool:
    """Tell whether a package is installed, in any version."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def install(requirements: str, folder: str) -> None:
    """Install pinned wheels into a folder of their own; a hash that differs ends it."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(requirements)
        file.flush()
        options = ["--quiet", "--no-cache-dir", "--no-deps", "--require-hashes"]
        options += ["--only-binary", ":all:", "--upgrade", "--target", folder]
        words = [sys.executable, "-m", "pip", "install", *options, "--requirement", file.name]
        if subprocess.run(words, check=False).returncode:
            sys.exit(f"servetune: pip could not install into {folder}; see above")


if __name__ == "__main__":
    try:
        main()
    except (zipfile.BadZipFile, zlib.error) as error:
        sys.exit(f"servetune: {Path(__file__).parent}: damaged, copy it again: {error}")
