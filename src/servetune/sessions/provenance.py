"""Where a number came from: the commit, and when."""

import datetime
import json
import subprocess
from pathlib import Path
from typing import Any


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

    def git(*words: str) -> str | None:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    if commit is None:
        return {}
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "workflow")
    return {"commit": commit, "is_dirty": bool(changed)}
