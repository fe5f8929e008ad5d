"""What another commit holds is read as data: nothing of it is run, and no link of it leads out."""

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from servetune.git import commit_of, commits_of, read_files, read_tree, write_tree

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
SECRET = "of the host"


class Repository:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "A Tester")
        self.git("config", "user.email", "tester@example.org")

    def git(self, *words: str, given: bytes = b"") -> str:
        done = subprocess.run(
            ["git", "-C", self.root, *words], input=given, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "A state", "--allow-empty")
        return self.git("rev-parse", "HEAD")

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", given=content)

    def tree(self, *entries: tuple[str, str, bytes]) -> str:
        """Write a tree as no checkout would make it: mode, object and name of each entry."""
        raw = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(object)
            for mode, object, name in entries
        )
        return self.git("hash-object", "-w", "-t", "tree", "--stdin", "--literally", given=raw)

    def commit_tree(self, tree: str) -> str:
        return self.git("commit-tree", tree, "-m", "By hand")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "file").write_text(SECRET)
    (tmp_path / "clone").mkdir()
    return Repository(tmp_path / "clone")


def written(commit: str, root: Path, folder: Path) -> Path:
    """Write all of a commit; every link leads to something in it, or to nothing at all."""
    tree = read_tree(commit, root, lambda _: True)
    assert tree is not None
    folder.mkdir()
    write_tree(tree, folder)
    for path in folder.rglob("*"):
        end = Path(os.path.realpath(path))
        assert end.is_relative_to(folder) or not end.exists(), f"{path} leads to {end}"
    return folder


def test_files_and_links_between_them_are_as_in_a_checkout(
    repository: Repository, tmp_path: Path
) -> None:
    (repository.root / "data").mkdir()
    (repository.root / "data/a.txt").write_bytes(b"one\r\ntwo")
    (repository.root / "b.txt").symlink_to("data/a.txt")
    (repository.root / "more").symlink_to("data")
    (repository.root / os.fsdecode(b"caf\xe9 \xff.txt")).write_text("of another time")
    folder = written(repository.commit(), repository.root, tmp_path / "out")
    for name in ("data/a.txt", "b.txt", "more/a.txt"):
        assert (folder / name).read_bytes() == b"one\r\ntwo"
    assert (folder / os.fsdecode(b"caf\xe9 \xff.txt")).read_text() == "of another time"


def test_a_project_in_a_subfolder_is_read_alone(repository: Repository, tmp_path: Path) -> None:
    project = repository.root / "tools" / "servetune"
    project.mkdir(parents=True)
    (repository.root / "else.txt").write_text("not of the project")
    before = repository.commit()
    (project / "params.yaml").write_text("study: it\n")
    commit = repository.commit()
    folder = written(commit, project, tmp_path / "out")
    assert [path.name for path in folder.rglob("*")] == ["params.yaml"]
    assert read_tree(before, project, lambda _: True) == {}
    assert read_files([f"{commit}:./params.yaml"], project) == [b"study: it\n"]


@pytest.mark.parametrize(
    "target", ["/etc/hostname", "../secret/file", "../secret", "a/../../secret/file", "loop", "."]
)
def test_a_link_out_of_the_tree_leads_to_nothing(
    repository: Repository, tmp_path: Path, target: str
) -> None:
    (repository.root / "loop").symlink_to(target)
    (repository.root / "through").symlink_to("loop/file")
    folder = written(repository.commit(), repository.root, tmp_path / "out")
    assert not (folder / "through").exists()
    assert (folder / "loop").exists() == (target == ".")


def test_what_no_checkout_makes_leads_nowhere_either(
    repository: Repository, tmp_path: Path
) -> None:
    link, text = repository.blob(b"../secret"), repository.blob(b"planted")
    inner = repository.tree(("100644", text, b"planted"))
    links = repository.tree(("120000", link, b"planted"))
    up = repository.tree(("40000", inner, b".."))
    for number, entries in enumerate(
        [
            # A link, and a folder of the same name, which would be written through it.
            [("120000", link, b"a"), ("40000", inner, b"a")],
            [("40000", inner, b"a"), ("120000", link, b"a")],
            [("120000", link, b"a"), ("40000", links, b"a")],
            [("40000", up, b"a")],
            [("100644", text, b"../planted")],
            [("40000", inner, b".git")],
            [("120000", repository.blob(b"a\0b"), b"a")],
            [("120000", repository.blob(b""), b"a")],
        ]
    ):
        tree = read_tree(
            repository.commit_tree(repository.tree(*entries)), repository.root, lambda _: True
        )
        assert tree is not None
        folder = tmp_path / f"out-{number}"
        folder.mkdir()
        with contextlib.suppress(OSError, ValueError):
            write_tree(tree, folder)
        assert not list(folder.rglob(".git"))
    assert [path.name for path in (tmp_path / "secret").iterdir()] == ["file"]


def test_a_submodule_and_what_git_lfs_keeps_are_not_there_and_not_left_out(
    repository: Repository, tmp_path: Path
) -> None:
    commit = repository.commit()
    (repository.root / "weights.bin").write_bytes(LFS)
    repository.git("add", "-A")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},part")
    repository.git("commit", "-qm", "Both")
    folder = written(repository.git("rev-parse", "HEAD"), repository.root, tmp_path / "out")
    assert sorted(path.name for path in folder.iterdir()) == ["part", "weights.bin"]
    for path in folder.iterdir():
        with pytest.raises(OSError, match=r"Not a directory|No such file"):
            path.stat()


def test_a_commit_that_is_not_whole_is_not_taken_for_an_empty_one(repository: Repository) -> None:
    (repository.root / "a.txt").write_text("one")
    commit = repository.commit()
    tree = repository.git("rev-parse", f"{commit}^{{tree}}")
    (repository.root / ".git/objects" / tree[:2] / tree[2:]).unlink()
    assert read_tree(commit, repository.root, lambda _: True) is None
    assert read_tree("0" * 40, repository.root, lambda _: True) is None


def test_a_name_of_two_lines_is_no_second_question(repository: Repository) -> None:
    (repository.root / "a.txt").write_text("one")
    commit = repository.commit()
    names = [f"{commit}:a.txt", f"{commit}:a.txt\n{commit}:a.txt", f"{commit}:none", commit[:7]]
    one, two, none, object = read_files(names, repository.root)
    assert (one, two, none) == (b"one", None, None)
    assert object and object.startswith(b"tree ")


def test_an_option_is_no_revision(repository: Repository) -> None:
    repository.commit()
    assert commit_of("--git-dir", repository.root) is None
    assert commit_of("main", repository.root) == repository.git("rev-parse", "HEAD")


def _filters(repository: Repository, program: str) -> None:
    for command in ("smudge", "process"):
        repository.git("config", f"filter.mark.{command}", program)
    repository.git("config", "diff.mark.textconv", program)


def _monitor(repository: Repository, program: str) -> None:
    repository.git("config", "core.fsmonitor", program)


def _hooks(repository: Repository, program: str) -> None:
    for name in ("post-index-change", "post-checkout", "reference-transaction"):
        (repository.root / ".git/hooks" / name).symlink_to(program)


def _signatures(repository: Repository, program: str) -> None:
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "gpg.program", program)
    signed = repository.git("cat-file", "commit", "HEAD").replace(
        "\n\n",
        "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n",
        1,
    )
    commit = repository.git("hash-object", "-w", "-t", "commit", "--stdin", given=signed.encode())
    repository.git("update-ref", "refs/heads/main", commit)


@pytest.mark.parametrize("configure", [_filters, _monitor, _hooks, _signatures])
def test_nothing_that_a_branch_or_a_configuration_names_is_run(
    repository: Repository, tmp_path: Path, configure: Callable[[Repository, str], None]
) -> None:
    mark = tmp_path / "mark"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    (repository.root / ".gitattributes").write_text(
        "* filter=mark diff=mark ident\n*.csv export-ignore\n*.txt export-subst\n"
    )
    (repository.root / "a.txt").write_text("$Id$ $Format:%H%GG$\n")
    (repository.root / "b.csv").write_text("x\n")
    repository.commit()
    configure(repository, str(program))
    mark.unlink(missing_ok=True)
    root = repository.root
    commit = commit_of("main", root)
    assert commit
    assert commits_of("a.txt", root) == [(commit, "a.txt")]
    folder = written(commit, root, tmp_path / "out")
    assert (folder / "a.txt").read_text() == "$Id$ $Format:%H%GG$\n"
    assert (folder / "b.csv").is_file()
    assert read_files([f"{commit}:./b.csv"], root) == [b"x\n"]
    assert not mark.exists()
