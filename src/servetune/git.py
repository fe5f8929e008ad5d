"""What Git is asked, and told, of the project's repository. What a commit holds is data."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_NOWHERE = "/dev/null/not-in-this-tree"
"""Where nothing can be."""

_LFS = b"version https://git-lfs.github.com/spec/v1\n"

# A configuration, also one that a branch brought along, starts neither a monitor nor a hook.
_SAFELY = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "safe.bareRepository=explicit", "--no-optional-locks"),
)


@dataclass(frozen=True)
class File:
    """What a commit has at a path: `content` is a file's, or where a link points to.

    It is None of what Git does not have: a submodule, or a file that Git LFS keeps.
    """

    content: bytes | None
    is_link: bool = False


def git(root: Path, *words: str, given: bytes | None = None) -> bytes | None:
    """Run Git in a folder; returns what it prints, None where it fails, or is not there."""
    command = ["git", *_SAFELY, "-C", str(root), *words]
    try:
        done = subprocess.run(command, input=given, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def commit_of(revision: str, root: Path) -> str | None:
    """Return the full name of a revision's commit; None if there is none.

    A DVC experiment goes by its name: of several that are called alike, the newest.
    """
    named = git(
        root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
    )
    return named.decode().split()[-1] if named else _experiment(revision, root)


def _experiment(name: str, root: Path) -> str | None:
    # refs/exps/<two digits>/<the others of the commit that it began at>/<name>
    words = ("--sort=-committerdate", "--format=%(objectname) %(refname:lstrip=4)", "refs/exps")
    refs = (git(root, "for-each-ref", *words) or b"").decode(errors="replace").splitlines()
    pairs = (ref.partition(" ") for ref in refs)
    return next((sha for sha, _, called in pairs if called and called == name), None)


def commits_of(path: str, root: Path) -> list[tuple[str, str]]:
    """Return the commits of HEAD's first parents that changed a file, oldest first.

    Beside each stands where the file was, from the top of the repository: a commit that moved it as
    it was is no end of its history.
    """
    above = git(root, "rev-parse", "--show-prefix") or b""
    place = os.fsdecode(above.removesuffix(b"\n")) + path
    changed: list[tuple[str, str]] = []
    last = "HEAD"
    while last:
        # Not `git log`, which may be configured to have signatures checked by a program.
        words = ("rev-list", "--first-parent", last, "--", f":(top,literal){place}")
        commits = (git(root, *words) or b"").decode().split()
        changed += [(commit, place) for commit in commits]
        last, place = _moved_by(commits[-1], place, root) if commits else ("", "")
    return changed[::-1]


def _moved_by(commit: str, place: str, root: Path) -> tuple[str, str]:
    """Return the parent of a commit that moved a file, and where it was there; else nothing."""
    parent = f"{commit}^1"
    moves = ("--find-renames=100%", "--diff-filter=R", "--name-status", "--no-commit-id")
    found = git(root, "diff-tree", "-r", "-z", *moves, parent, commit)
    words = os.fsdecode(found or b"").split("\0")
    was = dict(zip(words[2::3], words[1::3], strict=False))
    return (parent, was[place]) if place in was else ("", "")


def read_files(names: list[str], root: Path) -> list[bytes | None]:
    """Read `REVISION:PATH` or an object each, at once; None for a file that is not there.

    A path that begins with `./` is relative to `root`.
    """
    # A name of two lines would be two questions.
    asked = "\n".join(["" if "\n" in name else name for name in names] + [""])
    out = git(root, "cat-file", "--batch", given=os.fsencode(asked)) if names else None
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


def read_tree(
    commit: str, root: Path, wanted: Callable[[PurePosixPath], bool], place: str | None = None
) -> dict[str, File] | None:
    """Read the project's wanted files as they are in a commit, by their paths in the project.

    They are what Git stores: no filter, checkout or attribute of that commit is applied. `place` is
    where the project was then, from the top of the repository, if not where it is. None if Git does
    not have that commit whole.
    """
    # In a subfolder of the repository it lists that subfolder.
    tree = (commit,) if place is None else ("--full-tree", f"{commit}:{place}")
    listed = git(root, "ls-tree", "-r", "-z", *tree)
    if listed is None:
        return None
    modes: dict[str, tuple[str, str]] = {}
    for entry in listed.split(b"\0")[:-1]:
        about, _, name = entry.partition(b"\t")
        mode, _, object = about.decode().split()
        path = os.fsdecode(name)
        if _can_be_checked_out(path) and wanted(PurePosixPath(path)):
            modes[path] = mode, object
    contents = read_files([object for _, object in modes.values()], root)
    return {
        path: File(None if _is_elsewhere(mode, content) else content, mode == "120000")
        for (path, (mode, _)), content in zip(modes.items(), contents, strict=True)
    }


def _is_elsewhere(mode: str, content: bytes | None) -> bool:
    """Whether it is a submodule, or what Git LFS keeps."""
    return mode == "160000" or (content or b"").startswith(_LFS)


def write_tree(tree: dict[str, File], folder: Path) -> None:
    """Write the files of a commit into an empty folder, out of which no link leads.

    In the place of what is not known stands a link to nothing: a link that leads elsewhere, a
    submodule, or a file that Git LFS keeps. So whoever asks for it gets an error, and no less.

    Raises:
        OSError, ValueError: it holds what no folder can.
    """
    # Folders before files before links, so that nothing is written through a link.
    for path in tree:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    links = {}
    for path, file in tree.items():
        if file.content is None or file.is_link:
            links[folder / path] = _NOWHERE if file.content is None else os.fsdecode(file.content)
        else:
            (folder / path).write_bytes(file.content)
    for place, target in links.items():
        place.symlink_to(target)
    # With all of them there, as a link may lead through another.
    for place in links:
        if not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder)):
            place.unlink()
            place.symlink_to(_NOWHERE)


def define_ours(root: Path) -> bool:
    """Tell Git what `merge=ours` of `.gitattributes` is: a command that leaves our side as it is.

    No clone brings this along, as Git runs nothing that a repository names. Returns whether it was
    not defined before, and now is.
    """
    if git(root, "config", "--get", "merge.ours.driver") is not None:
        return False
    return git(root, "config", "merge.ours.driver", "true") is not None


def _can_be_checked_out(path: str) -> bool:
    """Whether Git would write to such a path, which a commit that was made by hand may not be."""
    return not {"", ".", "..", ".git"} & set(path.split("/"))
