"""A measurement that is not what it says to be is flagged, and enters no number of a report."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.records.measurements import Card, MeasurementRecord
from servetune.records.validity import status_of
from servetune.study.validity import Limits
from tests.rows import Row, rows_by
from tests.workspace import QUIET, Workspace, make_workspace

OK, FAILED, SHORT, UNRESET = "plain", "fails", "short", "keeps-cache"
REFUSED = "refuses"
COMPILES, COMPILES_ONCE = "compiles", "compiles-once"
MEMORY, DISK = "memory-tier", "disk-tier"

FAULTS = {
    OK: {},
    FAILED: {"standin_fault": "fail-requests", "standin_fault_after": 4},
    # Two refusals are so far apart that four clients get an answer between them.
    REFUSED: {"standin_fault": "refuse-requests", "standin_fault_after": 5},
    SHORT: {"standin_fault": "short-answers", "standin_fault_after": 4},
    UNRESET: {"standin_fault": "no-reset"},
    COMPILES: {"standin_fault": "compile", "standin_fault_after": 8},
    # Of its loads of 16 requests the second has the 30th request, and the third none such.
    COMPILES_ONCE: {"standin_fault": "compile", "standin_fault_after": 30},
}
UNSALTED = ("first", "again-cold", "again-warm", "too-few")
TIERS: dict[str, dict[str, Any]] = {
    MEMORY: {"kv_transfer_config": {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}},
    DISK: {"kv_transfer_config": {"kv_connector": "ExampleConnector", "kv_role": "kv_both"}},
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
        # A warm-up would have the failures of the load.
        **{
            name: {"model": "standin", "server": fault, "workloads": [*UNSALTED]}
            for name, fault in FAULTS.items()
        },
        **{name: {"model": "standin", "server": tier} for name, tier in TIERS.items()},
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
        "salted": {**once, "warmup_requests": 4, "prompt_salt": True},
        # A quarter of a minute: sixteen short requests take a moment.
        "too-few": {**once, "load_points": [{"concurrency": 4, "duration_s": 15}]},
    }
    workspace.write_study(study)
    workspace.first_output = workspace.measure()
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


def test_a_tier_of_the_kv_cache_is_emptied_with_it(judged: Workspace) -> None:
    for workload in ("first", "again-cold", "salted"):
        row = table(judged)[MEMORY, workload]
        assert row["status"] == "ok", row["reason"]
        assert row["prefix_cache_hit_ratio"] == 0


def test_of_a_tier_that_cannot_be_emptied_the_refusal_says_what_to_do(judged: Workspace) -> None:
    row = table(judged)[DISK, "again-cold"]
    assert (row["status"], row["rule"]) == ("invalid", "warm-prefix-cache")
    assert row["prefix_cache_hit_ratio"] > 0.5, "hits in the tier count"
    assert "as ExampleConnector cannot be emptied; set prompt_salt: true" in row["reason"]
    card = Card.model_validate_json(row["card"])
    assert card.kept_tiers == ["ExampleConnector"]
    assert card.tier_hit_ratio == row["prefix_cache_hit_ratio"]


def test_a_salt_makes_a_load_cold_whatever_a_tier_keeps(judged: Workspace) -> None:
    row = table(judged)[DISK, "salted"]
    assert row["status"] == "ok", row["reason"]
    assert row["prefix_cache_hit_ratio"] == 0


def test_failed_requests_are_flagged(judged: Workspace) -> None:
    row = table(judged)[FAILED, "first"]
    assert (row["status"], row["rule"]) == ("invalid", "failed-requests")
    assert row["reason"] == ("4 of 16 requests failed: HTTP 500: EngineCore encountered an issue.")
    assert "EngineCore encountered an issue." in judged.first_output
    assert "EngineCore encountered an issue." in (judged.root / "reports/summary.html").read_text()
    assert row["completed_requests"] == 12


def test_a_load_that_is_refused_ends_early_and_its_repeats_are_warned_of(
    judged: Workspace,
) -> None:
    row = table(judged)[REFUSED, "first"]
    assert (row["status"], row["rule"]) == ("invalid", "failed-requests")
    refused = "requests failed: HTTP 400: This prompt is too long.; ended early"
    assert refused in row["reason"] and row["requests"] < 16
    told = [line for line in judged.first_output.splitlines() if "were refused before" in line]
    assert told, "other variants load the same"
    assert all("HTTP 400: This prompt is too long." in line for line in told)
    # One that ended early is not valid by any limit.
    record = next(r for r in judged.records().values() if r["card"].get("given_up"))
    measured = MeasurementRecord.model_validate(record)
    assert status_of(measured, Limits(failed_ratio=1.0))[:2] == ("invalid", "given-up")


def test_answers_that_are_too_short_are_flagged(judged: Workspace) -> None:
    row = table(judged)[SHORT, "first"]
    assert (row["status"], row["rule"]) == ("invalid", "output-length")
    assert "4 of 16 answers are not as long as was asked for" in row["reason"]


def test_a_load_in_which_kernels_are_compiled_is_measured_again(judged: Workspace) -> None:
    assert table(judged)[COMPILES_ONCE, "first"]["status"] == "ok"
    again = table(judged)[COMPILES_ONCE, "again-cold"]
    assert again["status"] == "ok", again["reason"]
    assert json.loads(again["card"])["compiled_kernels"] == []
    told = [line for line in judged.first_output.splitlines() if "measured again" in line]
    assert any(COMPILES_ONCE in line and "kernel_30" in line for line in told)


def test_a_load_in_which_kernels_are_compiled_each_time_is_invalid(judged: Workspace) -> None:
    row = table(judged)[COMPILES, "first"]
    assert (row["status"], row["rule"]) == ("invalid", "compiled-kernels")
    assert "compiled kernel_24, kernel_32 during the load" in row["reason"]


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
    assert set(quantiles["variant"]) == {OK, COMPILES_ONCE, *TIERS}


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


def test_a_client_that_takes_more_of_its_core_than_allowed_is_told_to_be_the_limit(
    judged: Workspace,
) -> None:
    declared = judged.study
    try:
        judged.write_study({**declared, "validity": {**QUIET, "client_cpu_ratio": 1e-6}})
        judged.collect()
        row = table(judged)[OK, "first"]
        assert (row["status"], row["rule"]) == ("invalid", "client-cpu")
        assert "client-bound" in row["reason"]
        assert judged.metrics()[OK]["first"]["c4"] == {"ok": 0}
    finally:
        judged.write_study(declared)
        judged.collect()
