"""Where a number came from: the commit, and when."""

import datetime
import json
from pathlib import Path
from typing import Any

from servetune.git import git


def now() -> str:
    """Return the time as ISO 8601 in UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


EXPORTED = "git.json"
"""In the root of a bundle: the state of the project that it was exported from."""


def git_state(root: Path) -> dict[str, Any]:
    """Return the commit of the project and whether its tracked files differ from it."""
    if (root / EXPORTED).is_file():
        exported: dict[str, Any] = json.loads((root / EXPORTED).read_bytes())
        return exported

    commit = git(root, "rev-parse", "HEAD")
    if commit is None:
        return {}
    code = ("src", "workflow", "Snakefile", "servetune.version")
    changed = git(root, "status", "--porcelain", "--untracked-files=no", "--", *code)
    return {"commit": commit.decode().strip(), "is_dirty": bool(changed)}
