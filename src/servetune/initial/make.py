"""A folder for studies of one's own: the files that `servetune init` writes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from servetune.errors import UserError
from servetune.files import write_text
from servetune.git import define_ours, git
from servetune.initial.version import VERSION, write_version
from servetune.shipped import SHIPPED, is_clone

_TEMPLATES = Path(__file__).parent / "templates"
_OF_THE_CODE = ("workflow/", "docs/")
"""Lines of the clone's .gitattributes that a folder without code has no use for."""

_MERGED = (".gitignore", ".gitattributes", ".dvcignore")
_OPTIONAL = ("README.md", ".github/workflows/servetune.yml")


def make_project(folder: Path) -> list[str]:
    """Write a project into a folder; returns in a line each what it did beside that.

    Git and DVC are initialized there unless they are.

    Raises:
        UserError: the folder has a file that it would have to replace.
    """
    files = dict(_files(folder))
    taken = [name for name in files if name not in (*_MERGED, *_OPTIONAL)]
    for name in taken:
        if os.path.lexists(folder / name):
            raise UserError(
                f"{folder / name}: is there already; expected a folder without one,"
                " or run in it: servetune upgrade"
            )
    folder.mkdir(parents=True, exist_ok=True)
    notes = list(_repositories(folder))
    for name, text in files.items():
        path = folder / name
        if name in _MERGED and path.is_file():
            had = path.read_text()
            missing = [line for line in text.splitlines() if line not in had.splitlines()]
            text = "\n".join([had.rstrip("\n"), *missing]) + "\n"
            if missing and name != ".dvcignore":
                notes.append(f"{name}: {len(missing)} lines added")
        elif path.is_file():
            notes.append(f"{name}: kept as it was")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    if wheel := _wheel():
        (folder / "wheels").mkdir(exist_ok=True)
        shutil.copy(wheel, folder / "wheels" / wheel.name)
    write_version(folder)
    return notes


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    yield "pyproject.toml", _template("pyproject").replace("@source@\n", _source())
    for name in ("Snakefile", "README.md", "studies/mine.yaml"):
        yield name, _template(name)
    yield "params.yaml", _shipped("params.yaml").replace("study: quickstart", "study: mine")
    yield "dvc.yaml", _stage(_shipped("dvc.yaml"))
    for name in ("profiles/default/config.yaml", "profiles/slurm/config.yaml"):
        yield name, _shipped(name)
    yield "studies/study.schema.json", _shipped("studies/study.schema.json")
    yield ".dvc/plots/by_variant.json", _shipped(".dvc/plots/by_variant.json")
    yield ".github/workflows/servetune.yml", _shipped("docs/ci/github.yml").partition("\n")[2]
    attributes = _shipped(".gitattributes").splitlines(keepends=True)
    yield ".gitattributes", "".join(x for x in attributes if not x.startswith(_OF_THE_CODE))
    yield ".gitignore", _shipped(".gitignore")
    yield ".dvcignore", _shipped(".dvcignore")


def _shipped(name: str) -> str:
    return (SHIPPED / name).read_text()


def _template(name: str) -> str:
    return (_TEMPLATES / name).read_text()


def _stage(text: str) -> str:
    """Let the stage depend on the installed version, where the clone has the code itself."""
    lines = text.splitlines(keepends=True)
    code = {f"      - {name}\n" for name in ("src", "workflow", "data/prompts", "data/published")}
    kept = [line for line in lines if line not in code]
    at = kept.index("    deps:\n") + 1
    return "".join([*kept[:at], f"      - {VERSION}\n", *kept[at:]])


def _origin() -> Path | None:
    """Return what this code was installed from, where that is a file or a folder of this host."""
    text = distribution("servetune").read_text("direct_url.json")
    url = urlsplit(json.loads(text)["url"]) if text else None
    return Path(unquote(url.path)) if url and url.scheme == "file" else None


def _wheel() -> Path | None:
    origin = None if is_clone() else _origin()
    return origin if origin and origin.suffix == ".whl" and origin.is_file() else None


def _source() -> str:
    """Return where uv takes servetune from in the new folder, as lines of its pyproject.toml."""
    if wheel := _wheel():
        source = f'path = "wheels/{wheel.name}"'
    elif is_clone():
        source = f"path = {json.dumps(str(SHIPPED))}, editable = true"
    else:
        return ""
    return f"\n[tool.uv.sources]\nservetune = {{ {source} }}\n"


def _repositories(folder: Path) -> Iterator[str]:
    if git(folder, "rev-parse", "--git-dir") is None:
        _run(folder, "git", "init", "--quiet", "--initial-branch=main")
        yield "git init"
    if not (folder / ".dvc" / "config").is_file():
        is_inside = git(folder, "rev-parse", "--show-prefix") not in (None, b"\n")
        words = ("init", "--quiet", *(["--subdir"] if is_inside else []))
        _run(folder, sys.executable, "-m", "dvc", *words)
        yield "dvc init --subdir" if is_inside else "dvc init"
        _run(folder, sys.executable, "-m", "dvc", "config", "core.analytics", "false")
        _run(folder, sys.executable, "-m", "dvc", "config", "core.autostage", "false")
    if define_ours(folder):
        yield "git config merge.ours.driver true, which .gitattributes names"


def _run(folder: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
        raise UserError(f"{folder}: {' '.join(words[-3:])}: {lines[-1]}")
