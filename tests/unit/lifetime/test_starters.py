"""Who started a pipeline is found, or missed, also where they were killed before it began."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PIPELINE = """\
import sys
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "imports").touch()
(folder / "gate").read_text()
from servetune.lifetime.owners import begin_pipeline
try:
    begin_pipeline()
    print("began", file=(folder / "outcome").open("a"))
except SystemExit as end:
    print(end, file=(folder / "outcome").open("a"))
print("ended", file=(folder / "ended").open("w"))
"""
"""Begins once the gate is opened: until then it imports, as Snakemake does."""

UV = ["uv", "run", "--no-project"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for fifo in ("gate", "ended"):
        os.mkfifo(tmp_path / fifo)
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    return tmp_path


def started(folder: Path, command: list[str], **more: str) -> subprocess.Popen[bytes]:
    """Start what starts a pipeline, as a terminal would, and wait until that imports."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **more},
        process_group=0,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (folder / "imports").exists():
        time.sleep(0.01)
    return process


def outcome(folder: Path) -> str:
    """Let the pipeline begin; returns what came of it."""
    (folder / "gate").write_text("open")
    (folder / "ended").read_text()
    return (folder / "outcome").read_text().strip()


def pipeline(folder: Path) -> list[str]:
    return [sys.executable, str(folder / "pipeline.py"), str(folder)]


def test_a_pipeline_whose_uv_is_killed_while_it_imports_does_not_begin(folder: Path) -> None:
    uv = started(folder, [*UV, *pipeline(folder)])
    uv.kill()
    uv.wait()
    assert outcome(folder) == "servetune: the `uv run` that started this is gone, so it ends too"


def test_a_pipeline_whose_uv_is_killed_below_a_shell_of_another_uv_does_not_begin(
    folder: Path,
) -> None:
    words = " ".join([*UV, *pipeline(folder)])
    shell = started(folder, [*UV, "sh", "-c", f"sh -c 'echo $$ > pid; exec {words}'; true"])
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    shell.wait()
    assert "`uv run`" in outcome(folder)


DVC = """\
import os, subprocess, sys
command = " ".join(sys.argv[1:])
subprocess.run(["sh", "-c", f"{command}; true"], env={**os.environ, "DVC_STAGE": "benchmark"})
"""
"""Starts a stage as DVC does."""


@pytest.mark.parametrize(("killed", "lost"), [("dvc", "DVC"), ("uv", "`uv run`")])
def test_a_pipeline_whose_dvc_or_the_uv_of_that_is_killed_while_it_imports_does_not_begin(
    killed: str, lost: str, folder: Path
) -> None:
    dvc = [sys.executable, "-c", f"open('dvc', 'w').write(str(__import__('os').getpid()))\n{DVC}"]
    uv = started(folder, [*UV, *dvc, *pipeline(folder)])
    os.kill(int((folder / "dvc").read_text()) if killed == "dvc" else uv.pid, signal.SIGKILL)
    uv.wait()
    assert outcome(folder) == f"servetune: the {lost} that started this is gone, so it ends too"


@pytest.mark.parametrize(
    "start",
    [
        pytest.param("setsid {} &", id="setsid"),
        pytest.param("nohup {} > /dev/null &", id="nohup"),
        pytest.param("set -m; {} &", id="job-control"),
        pytest.param("({} &)", id="subshell"),
    ],
)
@pytest.mark.parametrize("by", [UV, []], ids=["uv", "no-uv"])
def test_a_pipeline_that_a_shell_left_in_the_background_begins(
    start: str, by: list[str], folder: Path
) -> None:
    shell = started(folder, [*by, "sh", "-c", start.format(" ".join(pipeline(folder)))])
    assert shell.wait() == 0
    assert outcome(folder) == "began"


def test_a_pipeline_that_uv_runs_in_the_background_of_a_shell_begins(folder: Path) -> None:
    words = " ".join([*UV, *pipeline(folder)])
    shell = started(folder, ["sh", "-c", f"nohup {words} > /dev/null &"])
    assert shell.wait() == 0
    assert outcome(folder) == "began"


def test_a_pipeline_in_a_shell_below_uv_begins(folder: Path) -> None:
    words = " ".join(pipeline(folder))
    with started(folder, [*UV, "sh", "-c", f"{words}; true"]):
        assert outcome(folder) == "began"
