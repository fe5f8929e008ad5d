"""A tuning is run in parts, on hosts that have nothing but its bundle."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.test_bundle import ENGINE, Host, export
from tests.workflow.test_kills import wait_for
from tests.workspace import Workspace

LAUNCHES = 8


@pytest.fixture
def tuning(workspace: Workspace) -> Workspace:
    """A tuning of 112 candidates, of which the base is a poor one.

    Its steps are so long that what a busy machine adds to them hides no gain.
    """
    study = workspace.study
    study["server"] = {"max_num_seqs": 1, "max_model_len": 1024, "standin_step_ms": 40}
    study["variants"] = {"plain": {"model": "standin"}}
    study["workloads"]["random"]["load_points"] = [{"concurrency": 8, "requests": 16}]
    study["tune"] = {
        "base": "plain",
        "space": {
            "max_num_seqs": [4, 5, 6, 7, 8, 9, 10],
            "max_num_batched_tokens": {"low": 1024, "high": 8704, "step": 512},
        },
        "maximize": "output_throughput_tok_s",
        "at": "c8",
        "budget": {"server_minutes": 600, "launches": LAUNCHES},
        "confirm": {"best": 1, "repeats": 3},
    }
    workspace.write_study(study)
    workspace.commit("Tune")
    return workspace


def rounds(workspace: Workspace) -> list[dict[str, Any]]:
    files = (workspace.root / "results/standin/tuning").glob("round-*.json")
    return sorted((json.loads(file.read_text())["round"] for file in files), key=_number)


def _number(told: dict[str, Any]) -> int:
    return int(told["number"])


def interrupted(host: Host, bundle: Path, launches: int) -> Path:
    """Run a bundle until so many servers were launched, and end it as a loan ends it."""
    words = [sys.executable, str(bundle), "--python", ENGINE, "--results", "results.tar.gz"]
    with (host.root / "log").open("w") as log:
        run = subprocess.Popen(words, cwd=host.root, env=host.environment, stdout=log, stderr=log)
    raw = host.root / "standin/project/results/raw/standin"
    wait_for(lambda: len(list(raw.glob("*/launch-*.json"))) >= launches)
    run.send_signal(signal.SIGTERM)
    run.wait()
    return host.root / "results.tar.gz"


def test_a_tuning_goes_on_from_loan_to_loan_to_its_answer_and_launches_nothing_twice(
    tuning: Workspace, tmp_path: Path
) -> None:
    results = Host(tmp_path / "first").measure(export(tuning), "--stop-after", "0")
    assert "1 rounds of a tuning" in tuning.check("servetune", "bundle", "import", str(results))
    assert (len(rounds(tuning)), tuning.launches()) == (1, 0)

    results = interrupted(Host(tmp_path / "second"), export(tuning), launches=3)
    tuning.check("servetune", "bundle", "import", str(results))
    begun = rounds(tuning)
    assert begun and "ended" not in [key for key, value in begun[-1].items() if value]

    results = Host(tmp_path / "third").measure(export(tuning))
    tuning.check("servetune", "bundle", "import", str(results))
    ended = rounds(tuning)
    assert ended[: len(begun)] == begun
    assert ended[-1]["ended"] == "confirmed"
    sessions = tuning.sessions()
    assert len(sessions) == sum(len(each["trials"]) for each in ended) <= LAUNCHES
    assert sum(len(each["launches"]) for each in sessions) <= len(sessions) + 1
    assert "everything is measured" in tuning.run("servetune", "bundle", "export").stderr
    again = tuning.dry_run()
    assert "collect_tables" in again
    assert "rule measure_session" not in again and "choose_round:" not in again
