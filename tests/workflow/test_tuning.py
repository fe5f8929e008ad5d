"""A tuning goes from its declaration to an answer in rounds, and survives whoever kills it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from servetune.locks import locked
from servetune.plan.rounds_lock import rounds_lock
from tests.workflow.test_kills import kill_at
from tests.workspace import Workspace, make_workspace

SPACE = {
    "max_num_seqs": [8],
    "max_num_batched_tokens": [4, 2048],
    "standin_fault": ["none", "refuse-arguments"],
    "max_model_len": [1024, *range(1_000_000, 1_600_000, 40_000)],
}
"""32 candidates, of which one can start.

No KV cache holds a context of a million tokens. 32 more are none, as vLLM is known to refuse steps
of fewer tokens than sequences.
"""

LAUNCHES = 24


def declare(workspace: Workspace) -> None:
    """Declare the tuning of a workspace."""
    study = workspace.study
    study["server"] = {"max_num_seqs": 2, "max_model_len": 1024, "standin_step_ms": 50}
    study["server"] |= {"max_num_batched_tokens": 2048, "standin_fault": "none"}
    study["variants"] = {"plain": {"model": "standin"}}
    study["workloads"]["random"]["load_points"] = [{"concurrency": 8, "requests": 16}]
    study["tune"] = {
        "base": "plain",
        "space": SPACE,
        "maximize": "output_throughput_tok_s",
        "at": "c8",
        "budget": {"server_minutes": 600, "launches": LAUNCHES},
        "confirm": {"best": 1, "repeats": 3},
    }
    workspace.write_study(study)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    """A tuning that was killed while its second session ran, and then went on to its report."""
    made = make_workspace(tmp_path_factory.mktemp("tuning") / "w", engine_cache)
    declare(made)
    kill_at(made, 2)
    made.first_output = made.measure()
    return made


def rounds(workspace: Workspace) -> list[dict[str, Any]]:
    files = sorted((workspace.root / "results/standin/tuning").glob("round-?.json"))
    return [json.loads(file.read_text())["round"] for file in files]


def test_a_tuning_that_was_killed_goes_on_and_measures_nothing_twice(tuned: Workspace) -> None:
    asked = [trial for each in rounds(tuned) for trial in each["trials"]]
    sessions = tuned.sessions()
    assert len(sessions) == len(asked)
    # The one that was killed before its load ended was launched again, and none of the others.
    assert sorted(len(session["launches"]) for session in sessions)[-2:] in ([1, 1], [1, 2])
    measured = [id for session in sessions for id in session["measurements"]]
    assert sorted(measured) == sorted(tuned.records())
    assert "Nothing to be done" in tuned.dry_run()


def test_it_ends_with_an_answer_though_most_of_its_space_cannot_start(tuned: Workspace) -> None:
    last = rounds(tuned)[-1]
    assert last["ended"] == "confirmed"
    assert last["incumbent"] == "max_num_seqs-8"
    assert len(tuned.sessions()) <= LAUNCHES
    ended = [each for each in last["left"] if "could not serve" in each["reason"]]
    assert len(ended) >= 10


def test_of_two_runs_at_once_the_second_ends_in_one_line_and_changes_nothing(
    workspace: Workspace,
) -> None:
    declare(workspace)
    path = rounds_lock("standin", workspace.root)
    path.parent.mkdir()
    with locked(path):
        refused = workspace.run("snakemake", "--cores", "1", "reports/summary.html")
        # Who only looks is in nobody's way.
        assert "choose_round" in workspace.dry_run()
        workspace.check("snakemake", "--unlock", "--cores", "1")
        workspace.check("servetune", "status")
        # Nor is a run that chooses nothing.
        workspace.set_params(study="fixed")
        fixed = workspace.study
        del fixed["tune"]
        (workspace.root / "studies/fixed.yaml").write_text(yaml.safe_dump(fixed))
        workspace.check("snakemake", "--cores", "1", "results/fixed/metrics.json")
    assert refused.returncode == 1
    (line,) = [each for each in refused.stderr.splitlines() if each.startswith("servetune: ")]
    assert f"another run in this folder chooses its rounds: process {os.getpid()} of " in line
    assert "wait until it ends" in line and "Traceback" not in refused.stderr
    assert not (workspace.root / "results/standin").exists()
    assert workspace.launches() == 0


def test_the_winner_is_confirmed_on_requests_that_the_race_did_not_send(tuned: Workspace) -> None:
    confirming = [each for each in rounds(tuned) if each["on_other_requests"]]
    assert {trial["level"] for each in confirming for trial in each["trials"]} == {"confirm"}
    sent: dict[bool, set[str]] = {False: set(), True: set()}
    for record in tuned.records().values():
        file = tuned.root / "data/workloads" / f"{record['load']['dataset']}.jsonl"
        rows = map(json.loads, file.read_text().splitlines())
        sent[record["workload"] == "random"] |= {str(row["prompt"]) for row in rows}
    assert sent[True] and sent[False] and not sent[True] & sent[False]
    summary = (tuned.root / "reports/summary.md").read_text()
    assert "fresh launches of each and requests that the race did not send" in summary
    assert "server minutes are paid for after" in summary


def test_what_vllm_is_known_to_refuse_is_not_launched(tuned: Workspace) -> None:
    asked = {trial["candidate"] for each in rounds(tuned) for trial in each["trials"]}
    assert not any("max_num_batched_tokens-4" in name for name in asked)
    told = (tuned.root / "killed.log").read_text()
    assert "32 by max_num_batched_tokens < max_num_seqs, which vLLM refuses" in told


def test_failures_are_told_by_kind(tuned: Workspace) -> None:
    records = tuned.records().values()
    failed = {record["variant"] for record in records if record["status"] == "failed"}
    refused = {variant for variant in failed if "refuse-arguments" in variant}
    summary = (tuned.root / "reports/summary.md").read_text()
    assert f"refused: {len(refused)}" in summary
    assert "could not serve" in summary
    assert f"does not fit: {len(failed - refused)}" in summary


def test_a_changed_space_is_tuned_again_and_finds_what_it_measured(tuned: Workspace) -> None:
    study = tuned.study
    study["tune"]["budget"]["launches"] = LAUNCHES + 1
    tuned.write_study(study)
    launches = tuned.launches()
    tuned.measure()
    assert rounds(tuned)[-1]["ended"]
    assert tuned.launches() == launches
