"""What `servetune status` says of DVC's queue, which DVC itself fills."""

import subprocess
import sys
from pathlib import Path

import pytest

from servetune.status.queue import QUEUE, queued_experiments

STAGE = "stages:\n  benchmark: {cmd: echo done, params: [max_num_seqs]}\n"


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two experiments in its queue."""
    root = tmp_path_factory.mktemp("queue")

    def run(*words: str) -> None:
        subprocess.run(words, cwd=root, check=True, capture_output=True)

    run("git", "init", "--quiet")
    (root / "dvc.yaml").write_text(STAGE)
    (root / "params.yaml").write_text("max_num_seqs: 1\n")
    dvc = (sys.executable, "-m", "dvc")
    run(*dvc, "init", "--quiet")
    run("git", "add", "--all")
    run("git", "commit", "--quiet", "--message", "a baseline")
    for name, value in (("seqs-2", 2), ("seqs-4", 4)):
        run(*dvc, "exp", "run", "--queue", "--name", name, "--set-param", f"max_num_seqs={value}")
    return root


def test_experiments_that_wait_are_named_in_their_order(queue: Path) -> None:
    assert queued_experiments(queue) == ["seqs-2", "seqs-4"]


def test_a_message_that_is_none_is_passed_over(queue: Path) -> None:
    (queue / QUEUE / "1_x.celery.msg").write_text("half a mess")
    assert queued_experiments(queue) == ["seqs-2", "seqs-4"]


def test_a_project_without_a_queue_has_none(tmp_path: Path) -> None:
    assert queued_experiments(tmp_path) == []
