"""The `__main__.py` of a bundle: unpack it, then measure. Needs Python 3.11 and nothing else."""

import os
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

NEEDED = {
    "filelock": "filelock",
    "httpx": "httpx",
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


def main() -> None:
    """Unpack this bundle into the folder that --folder names, then measure there."""
    if sys.version_info < (3, 11):  # noqa: UP036 (this runs on hosts where nothing was checked)
        sys.exit(
            f"servetune: {sys.executable} is Python {sys.version.split()[0]}; use 3.11 or newer"
        )
    bundle = Path(__file__).parent
    with zipfile.ZipFile(bundle) as content:
        needed = {**NEEDED, **(TO_TUNE if "project/tuning.json" in content.namelist() else {})}
    missing = sorted(package for name, package in needed.items() if find_spec(name) is None)
    if missing:
        sys.exit(
            f"servetune: {sys.executable} lacks {', '.join(missing)}; install their wheels:"
            f" python3 -m pip install --no-index --find-links WHEELS {' '.join(missing)}"
        )
    arguments = sys.argv[1:]
    folder = Path(bundle.stem)
    if "--folder" in arguments[:-1]:
        place = arguments.index("--folder")
        folder = Path(arguments[place + 1])
        del arguments[place : place + 2]
    with zipfile.ZipFile(bundle) as content:
        for name in content.namelist():
            # What an earlier run measured in this folder is newer than what the bundle came with.
            if not (name.startswith("project/results/") and (folder / name).exists()):
                content.extract(name, folder)
    source, project = (str((folder / name).resolve()) for name in ("src", "project"))
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    words = ["-m", "servetune.bundle.host", project, *arguments]
    os.execv(sys.executable, [sys.executable, *words])


if __name__ == "__main__":
    main()
