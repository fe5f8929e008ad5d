"""Studies plan from a clone, and the four write-ups run for real in a reduced form."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from tests.paths import ROOT, home_of
from tests.standin.serving import write_tokenizer
from tests.workspace import QUIET, STUDY, Workspace, make_workspace

KINDS = ("quickstart", "quickstart-tune", "h200-capacity", "h200-together", "llama70b-slo")
"""Made, fetched and dummy models, a pinned engine and one of a host, searches, a tuning."""

KNOWN = (
    *("max_num_seqs", "max_model_len", "max_num_batched_tokens", "kv_cache_dtype"),
    *("gpu_memory_utilization", "block_size", "quantization", "cpu_offload_gb", "dtype"),
)
"""The server arguments that the stand-in takes; a GPU's others mean nothing to it."""

REDUCED = {
    "granite-latency": ["start", "throttled", "eagle3", "batch"],
    "phi4-throughput": ["expt-1", "expt-8"],
    "llama70b-slo": ["phase0", "phase2-eagle3"],
    "rtx3080-parameters": ["set-1", "set-2", "set-8"],
}


@pytest.mark.parametrize("study", KINDS)
def test_a_dry_run_plans_a_study_of_every_kind(workspace: Workspace, study: str) -> None:
    shutil.copytree(home_of(study) / "studies", workspace.root / "studies", dirs_exist_ok=True)
    # What is recorded may have been sent by a generator that cannot send it any more.
    path = workspace.root / "studies" / f"{study}.yaml"
    path.write_text(path.read_text().replace("generator: vllm-bench", "generator: servetune"))
    workspace.set_params(study=study)
    told = workspace.dry_run()
    # A tuning begins by choosing what to launch.
    begins_with = "choose_round" if study.endswith("-tune") else "measure_session"
    assert begins_with in told and "render_report" in told


def reduced(study: dict[str, Any], variants: list[str]) -> dict[str, Any]:
    """The study on this machine: the stand-in's model, few and short requests, high rates."""

    def known(server: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in server.items() if key in KNOWN}

    def short(lengths: Any) -> Any:
        return max(1, lengths // 20) if isinstance(lengths, int) else {"min": 4, "max": 16}

    made = {**study, "hardware": "cpu", "engine": STUDY["engine"], "validity": QUIET}
    made["models"] = {name: {"source": "path", "path": "model"} for name in study["models"]}
    made["server"] = known(study["server"])
    made["variants"] = {
        name: {**variant, "server": known(variant.get("server", {}))}
        for name, variant in study["variants"].items()
        if name in variants
    }
    for dataset in made["datasets"].values():
        dataset |= {key: 24 for key in ("requests", "conversations") if key in dataset}
        for holder in (dataset, dataset.get("shared_prefix", {}), dataset.get("starters", {})):
            lengths = [key for key in holder if key.endswith(("words", "tokens"))]
            holder |= {key: short(holder[key]) for key in lengths}
    for workload in made["workloads"].values():
        workload |= {"generator": "servetune", "warmup_requests": 1}
        points = workload["load_points"]
        workload["load_points"] = [points[0], *points[1:][-1:]]
        for point in workload["load_points"]:
            point["requests"] = 10
            if point.get("rate_rps", float("inf")) != float("inf"):
                point["rate_rps"] = 20 + point["rate_rps"]
        for key in ("settle_requests", "cooldown_requests"):
            if key in workload:
                workload[key] = 2
    return made


@pytest.mark.parametrize("name", REDUCED)
def test_a_write_up_runs_reduced(name: str, tmp_path: Path, engine_cache: Path) -> None:
    workspace = make_workspace(tmp_path / "w", engine_cache)
    write_tokenizer(workspace.root / "model")
    study = yaml.safe_load((ROOT / f"studies/{name}.yaml").read_text())
    made = reduced(study, REDUCED[name])
    if name == "rtx3080-parameters":
        # As many tokens as fitted into that GPU's KV cache.
        made["variants"]["set-1"]["server"]["num_gpu_blocks_override"] = 1136 // 16
    workspace.write_study(made)
    # Its variants alone declare how often they repeat.
    workspace.set_params(repeats=2 if name == "rtx3080-parameters" else 1)
    workspace.measure()
    table = pd.read_parquet(workspace.root / "results/standin/load_points.parquet")
    failed = table[table["status"] != "ok"]
    page = (workspace.root / "reports/summary.html").read_text()
    assert "Published numbers" in page
    if name == "rtx3080-parameters":
        assert set(failed["variant"]) == {"set-1"}
        assert "30576" in failed["reason"].iloc[0]
        launches = table.groupby("variant")["repeat"].nunique()
        assert dict(launches) == {"set-1": 1, "set-2": 1, "set-8": 2}
    else:
        assert failed.empty, failed[["variant", "load_point", "reason"]].to_string()
    assert set(table["variant"]) == set(REDUCED[name])
    if name == "granite-latency":
        queued = table[table["load_point"] == "c4"].groupby("variant")["queue_time_mean_ms"].mean()
        assert queued["throttled"] > queued["start"]
        drafted = table[table["variant"] == "eagle3"]
        assert (drafted["acceptance_ratio"] > 0).all()
        (batch,) = table[(table["variant"] == "batch") & (table["repeat"] == 1)].to_dict("records")
        assert batch["load_point"] == "rinf"
    if name == "llama70b-slo":
        sweep = table[table["workload"] == "sweep"]
        assert (sweep["rate_rps"] > 0).all()
        assert set(pd.read_parquet(workspace.root / "results/standin/turns.parquet")["turn"]) > {1}
