"""`servetune clean` reads every branch as data, and keeps what it cannot know to be unneeded."""

import shutil
import subprocess
from collections.abc import Callable

import pytest
import yaml
from typer.testing import CliRunner

from servetune.cli import app
from tests.paths import GALLERY
from tests.project import Project
from tests.unit.test_git import LFS

STUDY = "h100-starts"


@pytest.fixture
def measured(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with the results of one study, all of which its only branch names."""
    shutil.copytree(GALLERY / "results" / STUDY, project.root / "results" / STUDY)
    for study in (project.root / "studies").glob("*.yaml"):
        if study.stem != STUDY:
            study.unlink()
    (project.root / "params.yaml").write_text(f"study: {STUDY}\nvariants: all\nseed: 0\n")
    (project.root / "Snakefile").touch()
    monkeypatch.chdir(project.root)
    git("init", "-q", "-b", "main")
    commit()
    return project


def git(*words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=A Tester", "-c", "user.email=tester@example.org", *words],
        check=True,
    )


def commit() -> None:
    git("add", "-A")
    git("commit", "-qm", "A state")


def clean() -> str:
    done = CliRunner().invoke(app, ["clean"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def prompts(project: Project) -> None:
    """Have the study name a file of the project, too."""
    study = project.study(STUDY)
    study["datasets"]["mine"] = {"kind": "file", "path": "mine.jsonl"}
    project.write_study(study, STUDY)


def absolute(project: Project) -> None:
    (project.root / "mine.jsonl").symlink_to("/etc/hostname")


def outward(project: Project) -> None:
    (project.root / "mine.jsonl").symlink_to("../../outside.jsonl")


def loop(project: Project) -> None:
    (project.root / "mine.jsonl").symlink_to("mine.jsonl")


def kept_by_lfs(project: Project) -> None:
    (project.root / "mine.jsonl").write_bytes(LFS)


LINKS = (absolute, outward, loop, kept_by_lfs)


@pytest.mark.parametrize("link", LINKS)
def test_a_link_that_no_study_names_keeps_nothing(
    measured: Project, link: Callable[[Project], None]
) -> None:
    assert "nothing to remove" in clean()
    git("checkout", "-qb", "other")
    link(measured)
    commit()
    git("checkout", "-q", "main")
    (measured.root / "results" / STUDY / "sessions/gone-r1-000000000000.json").write_text("{}")
    shown = clean()
    assert "results/h100-starts/sessions: 1, 2 bytes" in shown
    assert "kept" not in shown


@pytest.mark.parametrize("link", LINKS)
def test_a_study_of_a_branch_that_names_a_link_is_kept_and_said_to_be(
    measured: Project, link: Callable[[Project], None]
) -> None:
    git("checkout", "-qb", "other")
    prompts(measured)
    link(measured)
    commit()
    git("checkout", "-q", "main")
    (measured.root / "results" / STUDY / "sessions/gone-r1-000000000000.json").write_text("{}")
    shown = clean()
    assert "nothing to remove" in shown
    assert f"{STUDY}: kept, as what it names is not known: refs/heads/other: " in shown
    assert "mine.jsonl" in shown


def test_a_study_that_names_a_link_inside_its_branch_is_known(measured: Project) -> None:
    prompts(measured)
    (measured.root / "mine.jsonl").symlink_to("data/all.jsonl")
    (measured.root / "data/all.jsonl").write_text('{"prompt": "One", "output_tokens": 2}\n')
    commit()
    assert "nothing to remove" in clean() and "kept" not in clean()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("studies/h100-starts.yaml", b"\xff\xfe\x00"),
        ("params.yaml", b"[1, 2"),
        ("params.yaml", b"\x1b[2J: \x1b[2J"),
        ("workflow/envs/vllm-0.26.0.arguments.json", b"\xff\xfe"),
        ("workflow/envs/vllm-0.26.0.arguments.json", b"[]"),
        ("studies/\x1b[2J\n\u202enothing to remove.yaml", b"question: what\n"),
    ],
)
def test_a_branch_of_anything_is_a_line(measured: Project, file: str, content: bytes) -> None:
    git("checkout", "-qb", "other")
    (measured.root / file).write_bytes(content)
    commit()
    git("checkout", "-q", "main")
    lines = clean().splitlines()
    assert [line for line in lines if "kept, as what it names is not known" in line]
    assert all(line.isprintable() for line in lines)
    assert lines[-1] == "nothing to remove" and lines.count("nothing to remove") == 1


def test_a_branch_that_git_does_not_have_whole_keeps_everything(measured: Project) -> None:
    for path in (measured.root / ".git/objects").glob("??/*"):
        path.unlink()
    (measured.root / "results" / STUDY / "sessions/gone-r1-000000000000.json").write_text("{}")
    shown = clean()
    assert "nothing to remove" in shown and f"{STUDY}: kept" in shown


def test_a_branch_with_a_program_for_an_engine_starts_it_not(measured: Project) -> None:
    program, mark = measured.root / "python", measured.root / "mark"
    program.write_text(f"#!/bin/sh\ntouch {mark}\necho 0.32.0\n")
    program.chmod(0o755)
    git("checkout", "-qb", "other")
    study = yaml.safe_load((measured.root / f"studies/{STUDY}.yaml").read_text())
    study["engine"] = {"python": str(program)}
    measured.write_study(study, STUDY)
    commit()
    git("checkout", "-q", "main")
    program.touch()
    clean()
    assert not mark.exists()
