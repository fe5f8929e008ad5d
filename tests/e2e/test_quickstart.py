"""The main job, from a clone to a report, with a real model on real vLLM on this machine's CPU."""

import json
import re

import pandas as pd
import pytest

from servetune.engines.environments import engine_id, read_engine
from tests.e2e.clone import Clone
from tests.paths import ROOT
from tests.rows import rows_by

pytestmark = pytest.mark.e2e


DECLARED = ["w8a8", "bf16", "eagle3", "fp8-kv"]
"""The variants that are fit, beside which the same clone has unfit ones."""


def declared(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["variant"].isin(DECLARED)]


def test_every_variant_is_measured_on_real_vllm(quickstart: Clone) -> None:
    table = declared(quickstart.table())
    assert list(table["variant"].unique()) == DECLARED
    assert len(table) == 4 * 3
    assert set(table["status"]) == {"ok"}, table[["variant", "load_point", "reason"]].to_string()
    assert set(table["vllm_version"]) == {"0.32.0+cpu"}
    assert (table["output_tokens"] == 64 * table["requests"]).all()
    for name in ("ttft_p50_ms", "tpot_p50_ms", "e2e_p50_ms"):
        assert (table[name] > 0).all()
    assert (table["e2e_p50_ms"] > table["ttft_p50_ms"]).all()
    # The four, and an unfit one.
    assert quickstart.launches() == 5


def test_tokens_are_streamed_one_after_another_and_not_in_one_burst(quickstart: Clone) -> None:
    """The mean TPOT of the client is that of the server, which a burst would bring to nothing.

    As the median over a variant's load points: other work of the machine comes between the two.
    """
    table = declared(quickstart.table())
    ratio = table["tpot_mean_ms"] / table["server_tpot_mean_ms"]
    shown = table[["variant", "load_point", "tpot_mean_ms", "server_tpot_mean_ms"]].to_string()
    assert ratio.groupby(table["variant"]).median().between(0.8, 1.25).all(), shown
    share = table["ttft_p50_ms"] / table["e2e_p50_ms"]
    assert (share.groupby(table["variant"]).median() < 0.5).all(), share.to_string()


def test_more_clients_get_more_tokens_a_second(quickstart: Clone) -> None:
    table = declared(quickstart.table()).set_index(["variant", "load_point"])
    throughput = table["output_throughput_tok_s"].unstack()
    assert (throughput["c8"] > 1.5 * throughput["c1"]).all()


def test_every_variant_of_the_quickstart_keeps_the_bounds_of_quality(quickstart: Clone) -> None:
    table = declared(pd.read_parquet(quickstart.root / "results/quickstart/quality.parquet"))
    assert set(table["status"]) == {"ok"}, table["reason"].to_string()
    others = table[table["variant"] != "bf16"]
    assert set(others["verdict"]) == {"passes"}, others.to_string()
    found = rows_by(table, "variant")
    # The model knows its language: a guess among its 2,048 tokens would have that perplexity.
    assert found["bf16"]["perplexity"] < 20
    # A verified draft changes no greedy answer, but for how sums are rounded.
    assert found["eagle3"]["greedy_identical_ratio"] > 0.8


def test_the_trained_draft_is_accepted(quickstart: Clone) -> None:
    table = declared(quickstart.table())
    eagle3 = table[table["variant"] == "eagle3"]
    assert (eagle3["acceptance_length"] > 1.3).all()
    assert table[table["variant"] != "eagle3"]["acceptance_length"].isna().all()


def test_an_fp8_kv_cache_holds_about_twice_the_tokens(quickstart: Clone) -> None:
    tokens = declared(quickstart.table()).groupby("variant")["kv_cache_tokens"].first()
    assert tokens["fp8-kv"] / tokens["bf16"] == pytest.approx(2, rel=0.05)


def test_the_prefix_cache_is_cold_at_each_load_point(quickstart: Clone) -> None:
    assert (declared(quickstart.table())["prefix_cache_hit_ratio"] < 0.05).all()


def test_no_api_key_is_written_anywhere(quickstart: Clone) -> None:
    for session in (quickstart.root / "results/quickstart/sessions").glob("*.json"):
        assert "API_KEY" not in session.read_text()


def test_the_session_says_how_the_server_resolved_its_configuration(quickstart: Clone) -> None:
    (path,) = (quickstart.root / "results/quickstart/sessions").glob("bf16-*.json")
    (launch,) = json.loads(path.read_text())["launches"]
    assert launch["server_info"]["vllm_config"]["scheduler_config"]["max_num_seqs"] == 8
    assert launch["versions"]["vllm"] == "0.32.0+cpu"
    assert launch["host"]["cores"] >= 1
    assert launch["command"][:2] == ["env", "HF_HUB_OFFLINE=1"]


def test_the_report_holds_the_answer_and_fetches_nothing(quickstart: Clone) -> None:
    page = (quickstart.root / "reports/summary.html").read_text()
    assert len(page) < 5_000_000
    assert "eagle3" in page and "vllm serve" in page
    summary = (quickstart.root / "reports/summary.md").read_text()
    assert "| eagle3 |" in summary.replace("`", "")


def test_the_report_says_why_with_findings_a_timeline_and_rooflines(quickstart: Clone) -> None:
    page = (quickstart.root / "reports/summary.html").read_text()
    for section in ("findings", "timeline", "roofline", "speculation", "startup"):
        assert f'<section id="{section}">' in page
    assert "<code>kv-under-used</code>" in page
    assert "<code>decode-far-from-the-ceiling</code>" in page
    summary = (quickstart.root / "reports/summary.md").read_text()
    assert re.search(r"^\| eagle3 \| bf16 \| text \| TPOT p50 \|", summary, re.MULTILINE)


def test_telemetry_is_sampled_four_times_a_second_with_the_clients_load(quickstart: Clone) -> None:
    loads = quickstart.table()["measurement"]
    for path in (quickstart.root / "results/raw/quickstart").glob("*/telemetry-1.parquet"):
        samples = pd.read_parquet(path)
        loaded = samples[samples["measurement"].isin(loads)]
        # No closer than a quarter of a second, and on a busy machine later.
        assert 0.2 < loaded["time_s"].diff().median() < 2.5
        for _, load in loaded.groupby("measurement"):
            # By the last sample of a load its client may have ended.
            assert load["client_cpu_s"].iloc[:-1].notna().all()
            assert load["client_cpu_s"].dropna().is_monotonic_increasing
        assert samples["engine_steps"].iloc[-1] > 64


def test_every_session_knows_its_model_and_what_this_machine_can_do(quickstart: Clone) -> None:
    for path in (quickstart.root / "results/quickstart/sessions").glob("*.json"):
        (launch,) = json.loads(path.read_text())["launches"]
        assert launch["model"]["linear_parameters"] == 2_949_120
        assert launch["ceilings"]["source"] == "measured"
        assert launch["ceilings"]["memory_bandwidth_gb_s"] > 1


def test_immediately_after_there_is_nothing_to_be_done(quickstart: Clone) -> None:
    told = quickstart.run("snakemake", "-n", "--cores", "1", "reports/summary.html")
    assert "Nothing to be done" in told


def test_the_recorded_arguments_are_those_of_the_engines_own_parser(quickstart: Clone) -> None:
    engine = read_engine(engine_id("vllm-cpu", ROOT))
    recorded = json.loads((ROOT / "workflow/envs/vllm-0.32.0.arguments.json").read_text())
    found = {name: argument.model_dump() for name, argument in engine.arguments.items()}
    assert found == recorded
