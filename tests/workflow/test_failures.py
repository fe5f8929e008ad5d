"""What goes wrong is recorded and leaves the rest alone."""

import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.sessions.pool import hold
from tests.workspace import PATIENCE_S, Workspace, make_workspace

TOO_LONG = {"max_model_len": 10_000_000}

FAULTS: dict[str, dict[str, Any]] = {
    "cannot-start": TOO_LONG,
    # Each load point sends one warm-up request: the fourteenth request is in the second one.
    "dies-late": {"standin_fault": "die-slowly", "standin_fault_after": 13},
    "dies-early": {"standin_fault": "die-under-load", "standin_fault_after": 2},
    "hangs": {"standin_fault": "hang-under-load", "standin_fault_after": 3},
    "ignores-sigterm": {"standin_fault": "ignore-sigterm"},
    "wrong-name": {"standin_fault": "wrong-name"},
    "fails-requests": {"standin_fault": "fail-requests", "standin_fault_after": 4},
}


def table(workspace: Workspace) -> pd.DataFrame:
    return pd.read_parquet(workspace.root / "results/standin/load_points.parquet")


def only(rows: pd.DataFrame, variant: str) -> pd.DataFrame:
    return rows[rows["variant"] == variant]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    """A study whose servers misbehave each in its way, between two that do not, measured."""
    made = make_workspace(tmp_path_factory.mktemp("faulty") / "w", engine_cache)
    study = made.study
    study["variants"] = {
        "plain": {"model": "standin"},
        **{name: {"model": "standin", "server": fault} for name, fault in FAULTS.items()},
        "last": {"model": "standin", "server": {"max_model_len": 512}},
    }
    once = study["workloads"]["random"]
    study["workloads"]["once"] = {**once, "load_points": once["load_points"][:1]}
    for name, variant in study["variants"].items():
        # A server that hangs is waited for in each load point.
        variant["workloads"] = ["once"] if name == "hangs" else ["random"]
    made.write_study(study)
    made.first_output = made.measure()
    return made


def test_what_goes_wrong_costs_no_other_variant_anything(faulty: Workspace) -> None:
    for variant in ("plain", "last"):
        assert set(only(table(faulty), variant)["status"]) == {"ok"}
    assert faulty.servers() == []
    assert "Nothing to be done" in faulty.dry_run()


def test_a_server_that_cannot_start_is_a_row_that_says_why(faulty: Workspace) -> None:
    bad = only(table(faulty), "cannot-start")
    assert set(bad["status"]) == {"failed"}
    for reason in bad["reason"]:
        assert "did not start" in reason and "max seq len (10000000)" in reason
    assert all("KV cache" in tail for tail in bad["log_tail"])
    assert "max seq len (10000000)" in (faulty.root / "reports/summary.html").read_text()
    assert "failed" in faulty.first_output


def test_a_server_that_dies_under_load_costs_only_the_load_point(faulty: Workspace) -> None:
    bad = only(table(faulty), "dies-late")
    assert list(bad["status"]) == ["ok", "failed"]
    assert "died under load" in bad["reason"].iloc[1]


def test_load_points_after_a_death_get_a_server_of_their_own(faulty: Workspace) -> None:
    bad = only(table(faulty), "dies-early")
    assert list(bad["status"]) == ["failed", "failed"]
    assert list(bad["launch"]) == [1, 2]


def test_a_server_that_hangs_is_ended_by_the_watchdog(faulty: Workspace) -> None:
    bad = only(table(faulty), "hangs")
    assert list(bad["status"]) == ["failed"]
    assert "hangs: /health has not answered" in bad["reason"].iloc[0]


def test_a_server_that_ignores_sigterm_is_killed(faulty: Workspace) -> None:
    assert set(only(table(faulty), "ignores-sigterm")["status"]) == {"ok"}


def test_an_answer_from_another_server_is_never_taken(faulty: Workspace) -> None:
    bad = only(table(faulty), "wrong-name")
    assert set(bad["status"]) == {"failed"}
    assert all("another server has it" in reason for reason in bad["reason"])


def test_a_measurement_with_failed_requests_is_invalid_and_in_no_metric(
    faulty: Workspace,
) -> None:
    bad = only(table(faulty), "fails-requests")
    assert set(bad["status"]) == {"invalid"}
    assert set(bad["rule"]) == {"failed-requests"}
    assert faulty.metrics()["fails-requests"]["random"]["c8"] == {"ok": 0}


def test_a_failure_is_kept_until_it_is_asked_to_be_tried_again(workspace: Workspace) -> None:
    study = workspace.study
    study["variants"]["fp8-kv"]["server"] = TOO_LONG
    workspace.write_study(study)
    workspace.collect()
    launches = workspace.launches()
    workspace.collect()
    assert workspace.launches() == launches
    assert "2 failed and 0 invalid records forgotten" in workspace.check("servetune", "retry")
    assert "no failed or invalid record" in workspace.check("servetune", "retry")
    workspace.collect()
    assert workspace.launches() == launches + 1
    assert set(only(table(workspace), "plain")["status"]) == {"ok"}


def test_retrying_a_study_that_was_never_measured_is_one_line(measured: Workspace) -> None:
    done = measured.run("servetune", "retry", "--study", "standim")
    assert done.returncode == 2
    assert done.stderr == ("servetune: standim: nothing was measured; expected one of standin\n")


def test_two_runs_at_once_take_turns_on_the_machine(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sessions by hand, as two experiments would start them, while a third one measures."""
    monkeypatch.setenv("SERVETUNE_LOCKS", workspace.cold["SERVETUNE_LOCKS"])
    workspace.collect("--until", "make_model", "make_workload", "build_engine")
    ids = [
        line.split()[1]
        for line in workspace.check("servetune", "plan").splitlines()
        if "session " in line
    ]
    with hold(["cpu"], 1):
        running = [
            subprocess.Popen(
                ["servetune", "session", id],
                cwd=workspace.root,
                env=workspace.cold,
                stderr=subprocess.PIPE,
                text=True,
            )
            for id in ids
        ]
        for process in running:
            assert process.stderr is not None
            waits = "waiting for another session on this host"
            assert any(waits in line for line in process.stderr)
    for process in running:
        process.communicate(timeout=PATIENCE_S)
    assert [process.returncode for process in running] == [0, 0]
    assert {record["status"] for record in workspace.records().values()} == {"ok"}
    times = sorted(
        (launch["started_at"], launch["stopped_at"])
        for session in workspace.sessions()
        for launch in session["launches"]
    )
    assert times[0][1] <= times[1][0]
