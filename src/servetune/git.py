"""What Git is asked, and told, of the project's repository."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def git(root: Path, *words: str, given: bytes | None = None) -> bytes | None:
    """Run Git in a folder; returns what it prints, None where it fails, or is not there."""
    command = ["git", "-C", str(root), *words]
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False)
    except FileNotFoundError:
        return None
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


@contextmanager
def open_tree(commit: str, root: Path) -> Iterator[tarfile.TarFile]:
    """Open the project as it is in a commit, without a checkout: its folder of the repository."""
    prefix = (git(root, "rev-parse", "--show-prefix") or b"").decode().strip()
    packed = git(root, "archive", "--format=tar", f"{commit}:{prefix}") or b""
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tree:
        yield tree


def define_ours(root: Path) -> None:
    """Tell Git what `merge=ours` of `.gitattributes` is: a command that leaves our side as it is.

    No clone brings this along, as Git runs nothing that a repository names.
    """
    if git(root, "config", "--get", "merge.ours.driver") is None:
        git(root, "config", "merge.ours.driver", "true")
