"""The main job, from a clone to a report, with a real model on real vLLM on this machine's CPU."""

import json
from collections.abc import Iterator

import pytest

from clone import ROOT, Clone, make_clone
from servetune.engines import engine_id, read_engine

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    """A clone in which the quickstart study was measured once."""
    made = make_clone(tmp_path_factory.mktemp("clone") / "servetune")
    print(made.measure())
    yield made


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
    assert (table["ttft_p50_ms"] < 0.5 * table["e2e_p50_ms"]).all()


def test_more_clients_get_more_tokens_a_second(clone: Clone) -> None:
    table = clone.table()
    text = table[table["workload"] == "text"].set_index(["variant", "load_point"])
    throughput = text["output_throughput_tok_s"].unstack()
    assert (throughput["c8"] > 1.5 * throughput["c1"]).all()


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


def test_immediately_after_there_is_nothing_to_be_done(clone: Clone) -> None:
    told = clone.run("snakemake", "-n", "--cores", "1", "reports/summary.html")
    assert "Nothing to be done" in told


def test_the_recorded_arguments_are_those_of_the_engines_own_parser(clone: Clone) -> None:
    engine = read_engine(engine_id("vllm-cpu", ROOT))
    recorded = json.loads((ROOT / "workflow/envs/vllm.arguments.json").read_text())
    found = {name: argument.model_dump() for name, argument in engine.arguments.items()}
    assert found == recorded


def test_an_experiment_measures_again_and_going_back_measures_nothing(clone: Clone) -> None:
    clone.edit_params(variants=["bf16"])
    clone.run("dvc", "repro")
    clone.commit("Baseline")
    before, launches = clone.table(), clone.launches()
    assert launches == 4
    clone.run("dvc", "exp", "run", "-S", "max_num_seqs=2")
    after = clone.table()
    assert clone.launches() == launches + 1
    at_8 = (after["load_point"] == "c8") & (after["workload"] == "text")
    assert after[at_8]["ttft_p50_ms"].item() > 2 * before[at_8]["ttft_p50_ms"].item()
    assert "max_num_seqs" in clone.run("dvc", "params", "diff", "HEAD")
    assert "bf16.text.c8.ttft_p50_ms" in clone.run("dvc", "metrics", "diff", "HEAD")
    clone.run("dvc", "exp", "run", "-S", "max_num_seqs=null")
    assert clone.launches() == launches + 1
    assert clone.table().equals(before)


def test_a_context_beyond_the_kv_cache_is_a_row_that_says_why(clone: Clone) -> None:
    study = clone.study()
    study["variants"]["too-long"] = {
        "model": "tiny",
        "server": {"max_model_len": 10_000_000},
        "environment": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"},
    }
    clone.write_study(study)
    clone.edit_params(variants=["bf16", "too-long"], max_num_seqs=None)
    clone.measure()
    table = clone.table().set_index("variant")
    assert set(table.loc["bf16", "status"]) == {"ok"}
    assert set(table.loc["too-long", "status"]) == {"failed"}
    for reason in table.loc["too-long", "reason"]:
        assert "max seq len" in reason and "KV cache" in reason
    assert "max seq len" in (clone.root / "reports/summary.html").read_text()
