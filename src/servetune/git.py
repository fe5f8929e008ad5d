"""What Git holds of a project, read without a checkout."""

import subprocess
from pathlib import Path


def git(root: Path, *words: str, given: bytes | None = None) -> bytes | None:
    """Run Git in a folder; returns what it prints, None where it fails."""
    done = subprocess.run(
        ["git", "-C", str(root), *words], input=given, capture_output=True, check=False
    )
    return done.stdout if done.returncode == 0 else None


def read_files(names: list[str], root: Path) -> list[bytes | None]:
    """Read `REVISION:PATH` each, at once; None for a file that is not there.

    A path that begins with `./` is relative to `root`.
    """
    asked = "".join(f"{name}\n" for name in names).encode()
    out = git(root, "cat-file", "--batch", given=asked) if names else None
    if out is None:
        return [None] * len(names)
    files: list[bytes | None] = []
    start = 0
    for _ in names:
        end = out.index(b"\n", start)
        size = out[start:end].rpartition(b" ")[2]
        start = end + 1
        if size.isdigit():
            files.append(out[start : start + int(size)])
            start += int(size) + 1
        else:
            files.append(None)
    return files
