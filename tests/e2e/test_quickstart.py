"""The main job, from a clone to a report, with a real model on real vLLM on this machine's CPU."""

import json
from typing import Any

import pandas as pd
import pytest

from servetune.engines.environments import engine_id, read_engine
from servetune.tables.frames import first_of
from tests.e2e.clone import Clone
from tests.paths import ROOT
from tests.rows import rows_by

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def clone(quickstart: Clone) -> Clone:
    return quickstart


def test_every_variant_is_measured_on_real_vllm(clone: Clone) -> None:
    table = clone.table()
    assert list(table["variant"].unique()) == ["bf16", "w8a8", "fp8-kv", "eagle3"]
    assert len(table) == 20
    assert set(table["status"]) == {"ok"}, table[["variant", "load_point", "reason"]].to_string()
    assert set(table["vllm_version"]) == {"0.32.0+cpu"}
    assert (table["output_tokens"] == 64 * table["requests"]).all()
    for name in ("ttft_p50_ms", "tpot_p50_ms", "e2e_p50_ms"):
        assert (table[name] > 0).all()
    assert (table["e2e_p50_ms"] > table["ttft_p50_ms"]).all()
    assert clone.launches() == 4


def test_tokens_are_streamed_one_after_another_and_not_in_one_burst(clone: Clone) -> None:
    """TPOT accounts for most of the time after the first token, as 63 tokens follow it."""
    table = clone.table()
    decode_ms = table["e2e_p50_ms"] - table["ttft_p50_ms"]
    share = 63 * table["tpot_p50_ms"] / decode_ms
    assert share.between(0.5, 2).all(), table[["variant", "load_point", "tpot_p50_ms"]].to_string()
    # At a rate that a slow machine cannot keep up with, requests wait, and TTFT may be most.
    closed = table[table["workload"] == "text"]
    assert (closed["ttft_p50_ms"] < 0.5 * closed["e2e_p50_ms"]).all()


def test_more_clients_get_more_tokens_a_second(clone: Clone) -> None:
    table = clone.table()
    text = table[table["workload"] == "text"].set_index(["variant", "load_point"])
    throughput = text["output_throughput_tok_s"].unstack()
    assert (throughput["c8"] > 1.5 * throughput["c1"]).all()


def test_every_variant_of_the_quickstart_keeps_the_bounds_of_quality(clone: Clone) -> None:
    table = pd.read_parquet(clone.root / "results/quickstart/quality.parquet")
    assert set(table["status"]) == {"ok"}, table["reason"].to_string()
    others = table[table["variant"] != "bf16"]
    assert set(others["verdict"]) == {"passes"}, others.to_string()
    found = rows_by(table, "variant")
    # The model knows its language: a guess among its 2,048 tokens would have that perplexity.
    assert found["bf16"]["perplexity"] < 20
    # A verified draft changes no greedy answer, but for how sums are rounded.
    assert found["eagle3"]["greedy_identical_ratio"] > 0.8


def test_the_trained_draft_is_accepted(clone: Clone) -> None:
    table = clone.table()
    eagle3 = table[table["variant"] == "eagle3"]
    assert (eagle3["acceptance_length"] > 1.3).all()
    assert table[table["variant"] != "eagle3"]["acceptance_length"].isna().all()


def test_an_fp8_kv_cache_holds_about_twice_the_tokens(clone: Clone) -> None:
    tokens = clone.table().groupby("variant")["kv_cache_tokens"].first()
    assert tokens["fp8-kv"] / tokens["bf16"] == pytest.approx(2, rel=0.05)


def test_the_prefix_cache_is_cold_at_each_load_point(clone: Clone) -> None:
    assert (clone.table()["prefix_cache_hit_ratio"] < 0.05).all()


def test_no_api_key_is_written_anywhere(clone: Clone) -> None:
    for session in (clone.root / "results/quickstart/sessions").glob("*.json"):
        assert "API_KEY" not in session.read_text()


def test_the_session_says_how_the_server_resolved_its_configuration(clone: Clone) -> None:
    (path,) = (clone.root / "results/quickstart/sessions").glob("bf16-*.json")
    (launch,) = json.loads(path.read_text())["launches"]
    assert launch["server_info"]["vllm_config"]["scheduler_config"]["max_num_seqs"] == 8
    assert launch["versions"]["vllm"] == "0.32.0+cpu"
    assert launch["host"]["cores"] >= 1
    assert launch["command"][:2] == ["env", "HF_HUB_OFFLINE=1"]


def test_the_report_holds_the_answer_and_fetches_nothing(clone: Clone) -> None:
    page = (clone.root / "reports/summary.html").read_text()
    assert len(page) < 5_000_000
    assert "eagle3" in page and "vllm serve" in page
    summary = (clone.root / "reports/summary.md").read_text()
    assert "| eagle3 |" in summary.replace("`", "")


def test_the_report_says_why_with_findings_a_timeline_and_rooflines(clone: Clone) -> None:
    page = (clone.root / "reports/summary.html").read_text()
    for section in ("findings", "timeline", "roofline", "speculation", "startup"):
        assert f'<section id="{section}">' in page
    assert "The KV cache is under-used: the server has room for more requests." in page
    assert "Decode is bound by neither memory nor arithmetic, but by what each step costs." in page
    assert "eagle3 against bf16, text: " in page
    assert "not possible" not in page


def test_telemetry_is_sampled_four_times_a_second_with_the_clients_load(clone: Clone) -> None:
    loads = clone.table()["measurement"]
    for path in (clone.root / "results/raw/quickstart").glob("*/telemetry-1.parquet"):
        samples = pd.read_parquet(path)
        loaded = samples[samples["measurement"].isin(loads)]
        assert loaded["time_s"].diff().median() == pytest.approx(0.25, abs=0.1)
        for _, load in loaded.groupby("measurement"):
            # By the last sample of a load its client may have ended.
            assert load["client_cpu_s"].iloc[:-1].notna().all()
            assert load["client_cpu_s"].dropna().is_monotonic_increasing
        assert samples["engine_steps"].iloc[-1] > 64


def test_every_session_knows_its_model_and_what_this_machine_can_do(clone: Clone) -> None:
    for path in (clone.root / "results/quickstart/sessions").glob("*.json"):
        (launch,) = json.loads(path.read_text())["launches"]
        assert launch["model"]["linear_parameters"] == 2_949_120
        assert launch["ceilings"]["source"] == "measured"
        assert launch["ceilings"]["memory_bandwidth_gb_s"] > 1


def test_immediately_after_there_is_nothing_to_be_done(clone: Clone) -> None:
    told = clone.run("snakemake", "-n", "--cores", "1", "reports/summary.html")
    assert "Nothing to be done" in told


def test_the_recorded_arguments_are_those_of_the_engines_own_parser(clone: Clone) -> None:
    engine = read_engine(engine_id("vllm-cpu", ROOT))
    recorded = json.loads((ROOT / "workflow/envs/vllm.arguments.json").read_text())
    found = {name: argument.model_dump() for name, argument in engine.arguments.items()}
    assert found == recorded


def assert_told_to_be_throttled(clone: Clone, seen: dict[str, Any]) -> None:
    """max_num_seqs 1 at concurrency 8 is found, with its queue time."""
    found = clone.findings("bf16", "text", "c8")
    assert "kv-bound" not in found
    told = found["throttled-by-max-num-seqs"]
    evidence = dict(told.evidence)
    assert evidence["max_num_seqs"] == "1"
    # With seven ahead of it, a request waits for most of the load.
    assert seen["queue_time_s"] > 3 * seen["duration_s"]
    assert evidence["queue time, all requests"] == f"{seen['queue_time_s']:.3g} s"
    assert told.attempts == ("raise max_num_seqs to 8 or more",)
    page = (clone.root / "reports/summary.html").read_text()
    assert "The server is throttled: max_num_seqs 1 keeps requests waiting." in page


def test_an_experiment_measures_again_and_going_back_measures_nothing(clone: Clone) -> None:
    launches = clone.launches()
    clone.edit_params(variants=["bf16"])
    clone.run("dvc", "repro")
    clone.commit("Baseline")
    before = clone.table()
    assert clone.launches() == launches
    clone.run("dvc", "exp", "run", "-S", "max_num_seqs=1")
    after = clone.table()
    assert clone.launches() == launches + 1
    at_8 = (after["load_point"] == "c8") & (after["workload"] == "text")
    assert after[at_8]["ttft_p50_ms"].item() > 2 * before[at_8]["ttft_p50_ms"].item()
    assert "max_num_seqs" in clone.run("dvc", "params", "diff", "HEAD")
    assert "bf16.text.c8.ttft_p50_ms" in clone.run("dvc", "metrics", "diff", "HEAD")
    assert_told_to_be_throttled(clone, first_of(after[at_8]))
    clone.run("dvc", "exp", "run", "-S", "max_num_seqs=null")
    assert clone.launches() == launches + 1
    assert clone.table().equals(before)
