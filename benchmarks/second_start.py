"""How much faster a variant starts again, because vLLM keeps what it compiled: seconds to ready.

Run: uv run python benchmarks/second_start.py

Real vLLM serves the tiny model on this machine's CPU. Each repeat of a study is a session with a
server of its own. A variant without compilation starts first, so that nobody's first start reads
vLLM's libraries from the disk; then one that compiles starts twice, with a VLLM_CACHE_ROOT that is
empty at first.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.engines.environments import build_engine  # noqa: E402
from servetune.plan.make import make_plan, read_params  # noqa: E402
from servetune.plan.planned import Session  # noqa: E402
from tests.workspace import Workspace, make_workspace  # noqa: E402

STARTS = (("eager", 1), ("compiled", 1), ("compiled", 2))
"""Variants and repeats, in the order of their starts."""


def study(cache: Path) -> dict[str, Any]:
    quickstart = yaml.safe_load((ROOT / "studies/quickstart.yaml").read_text())
    server = {k: v for k, v in quickstart["server"].items() if k != "enforce_eager"}
    return {
        "question": "How long does a second start take?",
        "hardware": quickstart["hardware"],
        "engine": quickstart["engine"],
        "baseline": "eager",
        "models": {"tiny": {"source": "tiny"}},
        "server": server,
        "environment": {**quickstart["environment"], "VLLM_CACHE_ROOT": str(cache)},
        "variants": {
            "eager": {"model": "tiny", "server": {"enforce_eager": True}},
            "compiled": {"model": "tiny"},
        },
        "datasets": {
            "text": {"kind": "text", "requests": 8, "input_words": 16, "output_tokens": 8}
        },
        "workloads": {
            "text": {
                "dataset": "text",
                "load_points": [{"concurrency": 1, "requests": 4}],
            }
        },
        "startup_timeout_s": 900,
    }


def prepare(folder: Path, cache: Path) -> tuple[Workspace, list[Session]]:
    """Make a workspace with engine, model and dataset, and the sessions in their order."""
    workspace = make_workspace(folder, Path.home() / ".cache" / "servetune")
    workspace.environment.pop("SERVETUNE_LOCKS")
    workspace.environment.pop("SERVETUNE_CACHE")
    workspace.write_study(study(cache))
    workspace.set_params(repeats=2)
    build_engine("vllm-cpu", workspace.root)
    plan = make_plan(read_params(workspace.root), workspace.root)
    made = [f"data/models/{id}/servetune.json" for id in plan.sessions[0].models]
    made += [f"data/workloads/{id}.jsonl" for id in plan.sessions[0].datasets]
    for file in made:
        if file.startswith("data/models") and (ROOT / file).is_file():
            shutil.copytree((ROOT / file).parent, (workspace.root / file).parent)
    workspace.check("snakemake", "--cores", "1", *made, timeout_s=1800)
    by_name = {(session.variant, session.repeat): session for session in plan.sessions}
    return workspace, [by_name[each] for each in STARTS]


def start(workspace: Workspace, session: Session, cache: Path) -> tuple[float, float]:
    """Measure one session; returns when its server was ready, and how long all of it took."""
    if session.repeat == 1:
        shutil.rmtree(cache, ignore_errors=True)
    began = time.monotonic()
    print(workspace.check("servetune", "session", session.id, timeout_s=1800), file=sys.stderr)
    seconds = time.monotonic() - began
    told = {each["session"]: each for each in workspace.sessions()}[session.id]
    (launch,) = told["launches"]
    assert launch["status"] == "ok", launch["reason"]
    return launch["server"]["startup_s"], seconds


def megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "vllm-cache")
        workspace, sessions = prepare(Path(folder, "workspace"), cache)
        ready_s: dict[tuple[str, int], float] = {}
        for session in sessions:
            at = session.variant, session.repeat
            ready_s[at], all_s = start(workspace, session, cache)
            print(
                f"{session.variant:8} start {session.repeat}  ready after"
                f" {ready_s[at]:6.1f} s, whole session {all_s:6.1f} s,"
                f" cache {megabytes(cache):6.1f} MB, load average {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    first_s, second_s = ready_s["compiled", 1], ready_s["compiled", 2]
    print(f"compiled, first start / second start  {first_s / second_s:5.2f}")


if __name__ == "__main__":
    main()
