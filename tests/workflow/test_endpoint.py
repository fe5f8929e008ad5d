"""An endpoint beside a server of servetune's own: what it does not tell is told as not known."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.standin.serving import KEY, Server, serving, write_model
from tests.workflow.test_secrets import holding
from tests.workspace import Workspace, make_workspace

KEY_ENV = "STANDIN_KEY"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that was started by hand; its key is long enough to be a secret."""
    folder = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STANDIN_PYTHON", sys.executable)
        with serving(write_model(folder), folder) as started:
            yield started


def endpoint(server: Server, **more: Any) -> dict[str, Any]:
    own = {"url": f"{server.http.base_url}/v1", "model": "it", "key_env": KEY_ENV}
    return {**own, "limits": {"requests": 100}, **more}


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory, engine_cache: Path, server: Server
) -> Workspace:
    made = make_workspace(tmp_path_factory.mktemp("endpoint") / "w", engine_cache)
    study = made.study
    page = f"{server.http.base_url}/metrics"
    study["variants"] = {
        "plain": {"model": "standin"},
        "prod": {"endpoint": endpoint(server)},
        "counted": {"endpoint": endpoint(server, metrics=[page])},
        "dead": {"endpoint": endpoint(server, url="http://127.0.0.1:9/v1")},
        "other-model": {"endpoint": endpoint(server, model="that")},
    }
    made.write_study(study)
    made.environment[KEY_ENV] = KEY
    made.first_output = made.measure()
    return made


def rows(workspace: Workspace, variant: str) -> pd.DataFrame:
    table = pd.read_parquet(workspace.root / "results/standin/load_points.parquet")
    return table[table["variant"] == variant]


def test_the_load_points_of_an_endpoint_are_measured_as_those_of_a_server(
    measured: Workspace,
) -> None:
    for variant in ("plain", "prod", "counted"):
        assert list(rows(measured, variant)["status"]) == ["ok", "ok"]
        assert (rows(measured, variant)["output_throughput_tok_s"] > 0).all()
    assert "Nothing to be done" in measured.dry_run()


def test_what_an_endpoint_does_not_tell_is_not_known(measured: Workspace) -> None:
    card = json.loads(rows(measured, "prod")["card"].iloc[0])
    for name in (
        *("prefix_cache_was_reset", "counters_were_read", "counters_went_back"),
        *("server_output_ratio", "server_in_flight_mean", "tokens_per_step"),
        "text_output_error_ratio",
    ):
        assert card[name] is None, name
    checks = {
        check["rule"]: check for check in json.loads(rows(measured, "prod")["checks"].iloc[0])
    }
    for rule in ("server-counters", "coarse-chunks", "unserved-load", "preemptions"):
        assert checks[rule]["value"] is None, rule
    row = rows(measured, "prod").iloc[0]
    assert pd.isna(row["startup_s"]) and pd.isna(row["kv_cache_tokens"])
    assert json.loads(row["server_command"]) == []
    assert "not known" in (measured.root / "reports/summary.html").read_text()


def test_a_report_names_the_address_of_an_endpoint(measured: Workspace, server: Server) -> None:
    page = (measured.root / "reports/summary.html").read_text()
    assert f"prod: it at {server.http.base_url}/v1" in page


def test_metrics_of_a_known_engine_are_read(measured: Workspace) -> None:
    card = json.loads(rows(measured, "counted")["card"].iloc[0])
    assert card["counters_were_read"] is True
    assert card["server_output_ratio"] == 1.0
    assert card["prefix_cache_was_reset"] is None


def test_prompts_to_an_endpoint_carry_a_salt_in_place_of_a_reset(measured: Workspace) -> None:
    records = measured.records().values()
    salted = {record["variant"]: record["load"].get("prompt_salt", False) for record in records}
    assert salted["prod"] and salted["counted"] and not salted["plain"]
    hits = rows(measured, "counted")["prefix_cache_hit_ratio"]
    assert (hits.fillna(0) == 0).all()


def test_a_dead_endpoint_is_a_failed_record_with_one_line(measured: Workspace) -> None:
    for record in measured.records().values():
        if record["variant"] == "dead":
            assert record["status"] == "failed" and record["metrics"] is None
            start = "the endpoint does not answer at http://127.0.0.1:9/v1/models: "
            assert record["reason"].startswith(start) and "\n" not in record["reason"]
    assert set(rows(measured, "dead")["status"]) == {"failed"}
    assert rows(measured, "dead")["output_throughput_tok_s"].isna().all()


def test_a_model_that_an_endpoint_does_not_serve_is_named(measured: Workspace) -> None:
    reasons = set(rows(measured, "other-model")["reason"])
    assert reasons == {"the endpoint has no model that; expected one of it"}


def test_the_key_of_an_endpoint_is_in_no_file(measured: Workspace) -> None:
    assert holding(KEY, measured.root) == []


def test_a_run_without_the_key_is_one_line_before_anything_is_sent(
    workspace: Workspace, server: Server
) -> None:
    study = workspace.study
    study["variants"] = {"plain": {"endpoint": endpoint(server)}}
    workspace.write_study(study)
    told = f"variants.plain.endpoint.key_env: {KEY_ENV}: not set here; a run needs a value"
    assert told in workspace.check("servetune", "plan")
    done = workspace.run("snakemake", "--cores", "1", "reports/summary.html")
    assert done.returncode != 0
    line = f"servetune: endpoint.key_env: {KEY_ENV}: not set; export it in the shell that runs this"
    assert line in done.stderr and "Traceback" not in done.stderr
    assert workspace.records() == {}


def requests_of(server: Server) -> int:
    return int(server.counter("vllm:request_success_total", finished_reason="length"))


def reasons(workspace: Workspace) -> set[str]:
    return {record["reason"] for record in workspace.records().values()}


def endpoint_alone(workspace: Workspace, **endpoint: Any) -> None:
    """Write a study of one endpoint, which needs neither engine nor models."""
    study = workspace.study
    for key in ("engine", "models", "server"):
        study.pop(key, None)
    study["variants"] = {"plain": {"endpoint": endpoint}}
    workspace.write_study(study)
    workspace.environment[KEY_ENV] = KEY


def test_limits_hold_over_clones_on_this_machine_and_elsewhere(
    workspace: Workspace, server: Server, engine_cache: Path, tmp_path: Path
) -> None:
    # 4 and 16, with a warm-up each, and a small first request.
    limited = endpoint(server, limits={"requests": 30}, block="limits")
    endpoint_alone(workspace, **limited)
    before = requests_of(server)
    workspace.collect()
    assert {record["status"] for record in workspace.records().values()} == {"ok"}
    assert requests_of(server) - before == 23
    assert max(r["spent"]["requests"] for r in workspace.records().values()) == 23

    here = make_workspace(tmp_path / "here", engine_cache)
    elsewhere = make_workspace(tmp_path / "elsewhere", tmp_path / "cache")
    shutil.copytree(workspace.root / "results", elsewhere.root / "results", dirs_exist_ok=True)
    for clone in (here, elsewhere):
        endpoint_alone(clone, **limited)
        # Other prompts: the records that a clone has are of none of its measurements.
        clone.set_params(seed=1)
        before = requests_of(server)
        clone.collect()
        told = {reason for reason in reasons(clone) if reason}
        assert any("limits.requests: 1 of 30 requests are left" in reason for reason in told)
        assert requests_of(server) - before <= 7


def test_a_study_that_sends_more_than_its_limits_is_refused_by_the_plan(
    workspace: Workspace, server: Server
) -> None:
    endpoint_alone(workspace, **endpoint(server, limits={"requests": 30}))
    workspace.write_study({**workspace.study, "repeats": 2})
    done = workspace.run("servetune", "plan")
    told = "limits.requests: 30 is below the 46 that this study sends it"
    assert done.returncode == 2 and told in done.stderr and done.stderr.count("\n") == 1


def test_an_endpoint_that_refuses_is_left_alone(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STANDIN_PYTHON", sys.executable)
        fails = ("--standin-fault", "fail-requests", "--standin-fault-after", "3")
        with serving(write_model(tmp_path), tmp_path, *fails) as server:
            endpoint_alone(workspace, **endpoint(server))
            study = workspace.study
            study["workloads"]["random"]["load_points"][0]["requests"] = 40
            workspace.write_study(study)
            workspace.collect()
            assert requests_of(server) < 20
    told = "the endpoint refused 5 of the last 13 requests, so the load ended: HTTP 500"
    first, second = sorted(reasons(workspace), key=len)
    assert first.startswith(told) and second.startswith(f"not sent, as {told}")


def test_another_server_behind_an_address_is_not_loaded_in_the_same_block(
    workspace: Workspace, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STANDIN_PYTHON", sys.executable)
        with serving(write_model(tmp_path), tmp_path) as server:
            address, port = endpoint(server), server.http.base_url.port
            endpoint_alone(workspace, **address)
            workspace.collect()
        shorter = ("--max-model-len", "512")
        with serving(tmp_path, tmp_path, *shorter, port=port) as server:
            workspace.write_study({**workspace.study, "repeats": 2})
            workspace.collect()
            # The small first request alone.
            assert requests_of(server) == 1
    statuses = {record["repeat"]: record["status"] for record in workspace.records().values()}
    assert statuses == {1: "ok", 2: "failed"}
    told = "the endpoint is another one than before in its block: its max_model_len was 4096, and"
    assert any((reason or "").startswith(told) for reason in reasons(workspace))


def test_two_endpoints_are_measured_in_turn_and_have_a_verdict(
    workspace: Workspace, server: Server, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STANDIN_PYTHON", sys.executable)
        slow = ("--standin-step-ms", "40")
        with serving(write_model(tmp_path), tmp_path, *slow) as slower:
            endpoint_alone(workspace, **endpoint(server, block="turns"))
            study = workspace.study
            study["variants"]["slow"] = {"endpoint": endpoint(slower, block="turns")}
            study["repeats"] = 3
            workspace.write_study(study)
            workspace.measure()
    records = sorted(workspace.records().values(), key=lambda record: record["started_at"])
    order = list(dict.fromkeys((record["variant"], record["repeat"]) for record in records))
    first, second = order[0][0], order[1][0]
    assert [variant for variant, _ in order] == [first, second, second, first, *order_of(order)]
    assert "slower" in (workspace.root / "reports/summary.md").read_text()


def order_of(order: list[tuple[str, int]]) -> list[str]:
    """Return the variants of the third round, which is shuffled anew."""
    third = [variant for variant, repeat in order if repeat == 3]
    assert set(third) == {"plain", "slow"}
    return third


def test_an_endpoint_that_dies_under_load_is_a_failed_record_and_never_zeros(
    workspace: Workspace, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STANDIN_PYTHON", sys.executable)
        dies = ("--standin-fault", "die-under-load", "--standin-fault-after", "3")
        with serving(write_model(tmp_path), tmp_path, *dies) as server:
            study = workspace.study
            study["variants"] = {"plain": {"endpoint": endpoint(server)}}
            workspace.write_study(study)
            workspace.environment[KEY_ENV] = KEY
            workspace.collect()
    for record in workspace.records().values():
        assert record["status"] == "failed" and record["metrics"] is None
        assert record["reason"].startswith("the endpoint does not answer")
