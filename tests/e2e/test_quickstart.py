"""The main job, from a clone to a report, with a real model on real vLLM on this machine's CPU."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from clone import ROOT, Clone
from servetune.engines import engine_id, read_engine

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


def quality(clone: Clone) -> pd.DataFrame:
    table = pd.read_parquet(clone.root / "results/quickstart/quality.parquet")
    return table.set_index("variant")


def test_every_variant_of_the_quickstart_keeps_the_bounds_of_quality(clone: Clone) -> None:
    found = quality(clone)
    assert set(found["status"]) == {"ok"}, found["reason"].to_string()
    others = found.drop("bf16")
    assert set(others["verdict"]) == {"passes"}, others.to_string()
    # The model knows its language: a guess among its 2,048 tokens would have that perplexity.
    assert found.loc["bf16", "perplexity"] < 20
    # A verified draft changes no greedy answer, but for how sums are rounded.
    assert found.loc["eagle3", "greedy_identical_ratio"] > 0.8


def double_scales(checkpoint: Path, out: Path) -> None:
    """Copy a w8a8 checkpoint, and double the scale of every other channel of its weights."""
    shutil.copytree(checkpoint, out)
    (out / "servetune.json").unlink()
    file = out / "model.safetensors"
    content = bytearray(file.read_bytes())
    length = int.from_bytes(content[:8], "little")
    for name, told in json.loads(content[8 : 8 + length]).items():
        if name.endswith("weight_scale"):
            assert told["dtype"] == "BF16"
            begin, end = (8 + length + offset for offset in told["data_offsets"])
            scales = np.frombuffer(content[begin:end], "<u2").copy()
            # One more in the exponent of a bfloat16, which is above its seven bits of mantissa.
            scales[::2] += 1 << 7
            content[begin:end] = scales.tobytes()
    file.write_bytes(content)


def test_a_broken_quantization_fails_the_bounds_of_quality(clone: Clone) -> None:
    (w8a8,) = (clone.root / "data/models").glob("tiny-w8a8-*")
    double_scales(w8a8, clone.root / "broken")
    study = clone.study()
    broken = {**study, "models": {**study["models"], "b": {"source": "path", "path": "broken"}}}
    broken["variants"] = {**study["variants"], "broken": {"model": "b", "workloads": ["open"]}}
    launches = clone.launches()
    clone.write_study(broken)
    clone.measure()
    assert clone.launches() == launches + 1
    found = quality(clone).loc["broken"]
    assert (found["status"], found["verdict"]) == ("ok", "fails"), found.to_string()
    assert found["perplexity_ratio"] > 1.1
    for report in ("summary.html", "summary.md"):
        assert "broken fails the bounds of quality" in (clone.root / "reports" / report).read_text()
    clone.write_study(study)
    clone.measure()
    assert clone.launches() == launches + 1


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
    launches = clone.launches()
    clone.edit_params(variants=["bf16"])
    clone.run("dvc", "repro")
    clone.commit("Baseline")
    before = clone.table()
    assert clone.launches() == launches
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
