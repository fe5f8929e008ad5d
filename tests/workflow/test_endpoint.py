"""An endpoint beside a server of servetune's own: what it does not tell is told as not known."""

import json
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
    return {"url": f"{server.http.base_url}/v1", "model": "it", "key_env": KEY_ENV, **more}


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
