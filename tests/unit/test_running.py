"""What a step tells of itself while it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import servetune.running
from servetune.files import write_json
from servetune.running import Running, read_running, running, tell, this_node, update

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
        elsewhere = elsewhere.replace(f'"node": "{this_node()}"', '"node": "another"')
        assert str(os.getpid()) in elsewhere
        (folder / "session-there.json").write_text(elsewhere)
        (folder / "session-cut.json").write_text(mine[:20])
        runs, gone = read_running(tmp_path)
    assert {step.name for step in runs} == {"here", "there"}
    assert [step.name for step in gone] == ["killed"]


def test_a_step_of_an_earlier_boot_of_this_host_runs_no_more(tmp_path: Path) -> None:
    with running("session", "bf16-r1", tmp_path):
        (path,) = (tmp_path / ".servetune/running").iterdir()
        before = path.read_text().replace('"process": "', '"process": "an-earlier-')
        (path.parent / "session-rebooted.json").write_text(before)
        runs, gone = read_running(tmp_path)
    assert len(runs) == 1 and [step.process for step in gone] == [f"an-earlier-{runs[0].process}"]


@pytest.mark.parametrize(
    "changed",
    [
        *({"process": "1"}, {"process": f"boot:pid:{10**30}:5"}, {"began_at": "yesterday"}),
        *({"told_at": "2026-01-01T10:00:00"}, {"doing_since": ""}, {"node": None}),
    ],
)
def test_a_file_that_no_step_wrote_is_no_step(tmp_path: Path, changed: dict[str, str]) -> None:
    with running("session", "bf16-r1", tmp_path):
        (path,) = (tmp_path / ".servetune/running").iterdir()
        other = json.loads(path.read_text()) | {"name": "other", **changed}
        (path.parent / "session-other.json").write_text(json.dumps(other))
        runs, gone = read_running(tmp_path)
    assert [step.name for step in runs + gone] == ["bf16-r1"]


FILLED = """
import sys
from pathlib import Path
from servetune.running import running, tell, update
root = Path(sys.argv[1])
with running("session", "bf16-r1", root):
    tell("text c8")
    try:
        (root / "rest").write_bytes(bytes(2**20))
        raise SystemExit("not full")
    except OSError:
        pass
    update(requests_done=40, requests=64)
with running("session", "another-" + 100 * "long-", root):
    update(requests_done=1)
print("measured")
"""


def test_a_full_disk_does_not_end_what_is_measured(tmp_path: Path) -> None:
    alone = ["unshare", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size=16k none {tmp_path}"
    if subprocess.run([*alone, "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("this user may mount nothing")
    measure = [sys.executable, "-c", FILLED, str(tmp_path)]
    command = [*alone, "sh", "-c", f'{mount} && exec "$@"', "sh", *measure]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("measured\n", "")


def test_a_folder_that_cannot_be_made_does_not_end_what_is_measured(tmp_path: Path) -> None:
    (tmp_path / ".servetune").write_text("no folder")
    with running("session", "bf16-r1", tmp_path):
        tell("text c8")
    assert (tmp_path / ".servetune").read_text() == "no folder"
