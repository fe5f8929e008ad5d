"""A measurement that is not what it says to be is flagged, and enters no number of a report."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from tests.rows import Row, rows_by
from tests.workspace import QUIET, Workspace, make_workspace

OK, FAILED, SHORT, UNRESET = "plain", "fails", "short", "keeps-cache"

FAULTS = {
    OK: {},
    FAILED: {"standin_fault": "fail-requests", "standin_fault_after": 4},
    SHORT: {"standin_fault": "short-answers", "standin_fault_after": 4},
    UNRESET: {"standin_fault": "no-reset"},
}


def table(workspace: Workspace) -> dict[Any, Row]:
    rows = pd.read_parquet(workspace.root / "results/standin/load_points.parquet")
    return rows_by(rows, "variant", "workload")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    """A study whose variants misbehave each in its way, measured."""
    workspace = make_workspace(tmp_path_factory.mktemp("validity") / "w", engine_cache)
    study = workspace.study
    study["server"]["standin_step_ms"] = 1
    study["variants"] = {
        name: {"model": "standin", "server": fault} for name, fault in FAULTS.items()
    }
    study["datasets"]["random"] = {
        "kind": "random",
        "requests": 16,
        "input_tokens": 128,
        "output_tokens": 8,
    }
    once = study["workloads"]["random"]
    once["warmup_requests"] = 0
    once["load_points"] = [{"concurrency": 4, "requests": 16}]
    study["workloads"] = {
        "first": once,
        "again-cold": once,
        "again-warm": {**once, "reset_prefix_cache": False},
        # A quarter of a minute: sixteen short requests take a moment.
        "too-few": {**once, "load_points": [{"concurrency": 4, "duration_s": 15}]},
    }
    workspace.write_study(study)
    workspace.measure()
    return workspace


def test_a_repeat_without_the_reset_is_flagged_invalid(judged: Workspace) -> None:
    warm = table(judged)[OK, "again-warm"]
    assert (warm["status"], warm["rule"]) == ("invalid", "warm-prefix-cache")
    assert warm["prefix_cache_hit_ratio"] > 0.5
    assert "the cache was warm" in warm["reason"]


def test_a_repeat_with_the_reset_is_valid(judged: Workspace) -> None:
    for workload in ("first", "again-cold"):
        row = table(judged)[OK, workload]
        assert row["status"] == "ok", row["reason"]
        assert row["prefix_cache_hit_ratio"] == 0


def test_a_server_that_refuses_the_reset_is_told(judged: Workspace) -> None:
    for workload in ("first", "again-cold"):
        row = table(judged)[UNRESET, workload]
        assert (row["status"], row["rule"]) == ("invalid", "no-prefix-cache-reset")
    # What was not asked for cannot be refused.
    assert table(judged)[UNRESET, "again-warm"]["rule"] == "warm-prefix-cache"


def test_failed_requests_are_flagged(judged: Workspace) -> None:
    row = table(judged)[FAILED, "first"]
    assert (row["status"], row["rule"]) == ("invalid", "failed-requests")
    assert row["reason"].startswith("4 of 16 requests failed: ")
    assert row["completed_requests"] == 12


def test_answers_that_are_too_short_are_flagged(judged: Workspace) -> None:
    row = table(judged)[SHORT, "first"]
    assert (row["status"], row["rule"]) == ("invalid", "output-length")
    assert "4 of 16 answers are not as long as was asked for" in row["reason"]


def test_a_dataset_that_ends_before_the_duration_is_told(judged: Workspace) -> None:
    row = table(judged)[OK, "too-few"]
    assert (row["status"], row["rule"]) == ("invalid", "ended-early")
    assert "give it more requests" in row["reason"]


def test_what_is_invalid_is_in_the_table_and_in_no_metric(judged: Workspace) -> None:
    rows = table(judged)
    metrics = judged.metrics()
    quantiles = pd.read_parquet(judged.root / "results/standin/quantiles.parquet")
    assert {row["status"] for row in rows.values()} == {"ok", "invalid"}
    for (variant, workload), row in rows.items():
        told = metrics[variant][workload]["c4"]
        is_ok = row["status"] == "ok"
        assert (told == {"ok": 0}) != is_ok
        assert (row["measurement"] in set(quantiles["measurement"])) == is_ok
        assert row["output_throughput_tok_s"] > 0
    assert set(quantiles["variant"]) == {OK}


def test_another_limit_is_another_verdict_and_no_measurement(judged: Workspace) -> None:
    launches, records = judged.launches(), judged.records()
    declared = judged.study
    try:
        limits = {"failed_ratio": 0.3, "prefix_cache_excess_ratio": None}
        judged.write_study({**declared, "validity": {**QUIET, **limits}})
        judged.collect()
        rows = table(judged)
        assert rows[FAILED, "first"]["status"] == "ok"
        assert rows[OK, "again-warm"]["status"] == "ok"
        assert rows[SHORT, "first"]["status"] == "invalid"
        assert judged.metrics()[FAILED]["first"]["c4"]["ok"] == 1
        assert judged.launches() == launches
        assert judged.records() == records
    finally:
        judged.write_study(declared)
        judged.collect()
    assert table(judged)[FAILED, "first"]["status"] == "invalid"
    assert judged.launches() == launches


BUSY_LOOPS = 3


def two_cores() -> tuple[int, int]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("needs two cores: one for the client, one for the server")
    return cores[0], cores[1]


@contextmanager
def busy(core: int) -> Iterator[None]:
    """Keep a core busy."""
    loops = [
        subprocess.Popen(
            [sys.executable, "-c", "while True: pass"],
            preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        )
        for _ in range(BUSY_LOOPS)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def move_client(workspace: Workspace, core: int) -> bool:
    """Pin the load client to a core if there is one."""
    for process in workspace.servers():
        try:
            if "servetune.load" in " ".join(process.cmdline()):
                process.cpu_affinity([core])
                return True
        except psutil.NoSuchProcess:
            continue
    return False


def measure_apart(workspace: Workspace, session: str) -> None:
    """Run a session on the second core, its load client on the first."""
    client_core, server_core = two_cores()
    with (workspace.root / "session.log").open("w") as log:
        running = subprocess.Popen(
            ["servetune", "session", session],
            cwd=workspace.root,
            env=workspace.cold,
            stdout=log,
            stderr=log,
            preexec_fn=lambda: os.sched_setaffinity(0, {server_core}),
        )
        try:
            while running.poll() is None and not move_client(workspace, client_core):
                time.sleep(0.05)
            running.wait(600)
        finally:
            running.kill()
            running.wait()
    assert running.returncode == 0, (workspace.root / "session.log").read_text()


@pytest.fixture
def streaming(workspace: Workspace) -> Workspace:
    """A study whose load needs a good part of a core at the client, for some seconds."""
    study = workspace.study
    study["variants"] = {"plain": {"model": "standin"}}
    study["server"] = {"max_num_seqs": 48, "max_model_len": 1024, "standin_step_ms": 1}
    study["datasets"]["random"] = {
        "kind": "random",
        "requests": 192,
        "input_tokens": 32,
        "output_tokens": {"min": 150, "max": 250},
    }
    study["workloads"]["random"]["load_points"] = [{"concurrency": 48, "requests": 192}]
    study["validity"] = {"other_cpu_ratio": None}
    workspace.write_study(study)
    return workspace


def test_a_client_that_is_starved_of_its_core_is_told_to_be_the_limit(
    streaming: Workspace,
) -> None:
    client_core, _ = two_cores()
    streaming.collect("--until", "make_model", "make_workload", "build_engine")
    plan = streaming.check("servetune", "plan").splitlines()
    (session,) = [line.split()[1] for line in plan if "session " in line]
    with busy(client_core):
        measure_apart(streaming, session)
    streaming.collect()

    row = table(streaming)["plain", "random"]
    assert row["status"] == "invalid"
    assert "client-bound" in row["reason"]
    assert row["rule"] in ("client-late", "client-cpu", "client-starved")
    assert streaming.metrics()["plain"]["random"]["c48"] == {"ok": 0}
