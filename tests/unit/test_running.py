"""What a step tells of itself while it runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import servetune.running
from servetune.files import write_json
from servetune.running import Running, read_running, running, tell, update

KILLED = """
import os, signal, sys
from pathlib import Path
from servetune.running import running
with running("session", "killed", Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_step_is_seen_from_elsewhere_while_it_runs_and_not_after(tmp_path: Path) -> None:
    with running("session", "bf16-r1", tmp_path):
        tell("text c8", item="bf16-text-c8", position=3, of=5)
        update(requests_done=40, requests=64, tokens_per_s=812.0)
        (step,), gone = read_running(tmp_path)
        assert (step.name, step.doing, step.position, step.of) == ("bf16-r1", "text c8", 3, 5)
        assert (step.requests_done, step.requests, step.tokens_per_s) == (40, 64, 812.0)
        tell("quality")
        (step,), _ = read_running(tmp_path)
        assert step.item is None and step.requests is None
    tell("nothing that anyone sees")
    assert read_running(tmp_path) == ([], []) and gone == []


def test_a_step_that_is_stopped_as_it_begins_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_and_stop(path: Path, told: Running) -> None:
        write_json(path, told)
        sys.exit(143)

    monkeypatch.setattr(servetune.running, "write_json", write_and_stop)
    with pytest.raises(SystemExit), running("session", "bf16-r1", tmp_path):
        pass
    assert read_running(tmp_path) == ([], [])


def test_a_killed_step_is_told_from_one_that_runs_and_from_one_on_another_host(
    tmp_path: Path,
) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    with running("session", "here", tmp_path):
        folder = tmp_path / ".servetune/running"
        mine = (folder / "session-here.json").read_text()
        elsewhere = mine.replace('"process": "', '"process": "other-').replace("here", "there")
        assert str(os.getpid()) in elsewhere
        (folder / "session-there.json").write_text(elsewhere)
        (folder / "session-cut.json").write_text(mine[:20])
        runs, gone = read_running(tmp_path)
    assert {step.name for step in runs} == {"here", "there"}
    assert [step.name for step in gone] == ["killed"]
