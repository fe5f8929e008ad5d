"""What the client can do: 10,000 requests in a load point, 1,000 streams at once, 5,000 on two.

Run: uv run python benchmarks/load_scale.py [--two]

A session of the workflow loads the stand-in server. The client is pinned to one core, everything
else to another. A load is within what the client can do if it stays below 200 MB and its p99 send
delay below 20 ms; of one that is not, the validity card has to say so. With --two both share two
cores, and the card must not name the client as the limit.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.plan.make import make_plan, read_params  # noqa: E402
from servetune.plan.planned import Session  # noqa: E402
from tests.standin.serving import write_tokenizer  # noqa: E402
from tests.workspace import Workspace, make_workspace  # noqa: E402

MEMORY_BYTES = 200e6
SEND_DELAY_P99_MS = 20.0
IS_OF_TWO = "--two" in sys.argv
LOADS: dict[str, dict[str, float]] = {
    "ten-thousand": {"rate_rps": 200, "requests": 10_000},
    "thousand-streams": {"concurrency": 1000, "requests": 3000},
    "too-much": {"rate_rps": 2000, "requests": 6000},
}
TOO_MUCH = "too-much"
if IS_OF_TWO:
    LOADS = {"five-thousand-streams": {"concurrency": 5000, "requests": 15_000}}


def study() -> dict[str, Any]:
    return {
        "question": "How much load can one client make?",
        "hardware": "cpu",
        "engine": {"python": str(ROOT / "tests/standin/python")},
        "baseline": "standin",
        "models": {"standin": {"source": "path", "path": "model"}},
        # Steps that leave the stand-in's core time for its work: at 1,000 streams one of 0.25 s.
        "server": {
            **({"max_num_batched_tokens": 5120} if IS_OF_TWO else {}),
            "max_num_seqs": 5120 if IS_OF_TWO else 1024,
            "max_model_len": 1024,
            "standin_step_ms": 8,
        },
        "variants": {"standin": {"model": "standin"}},
        "datasets": {
            "short": {"kind": "text", "requests": 1000, "input_words": 16, "output_tokens": 4},
            "long": {
                "kind": "text",
                "requests": 1000,
                "input_words": 16,
                "output_tokens": {"min": 8, "max": 40},
            },
        },
        "workloads": {
            name: {
                "dataset": "long" if "concurrency" in load else "short",
                # 5,000 connections that are opened at once are a storm of their own.
                "ramp_up_s": 20 if IS_OF_TWO else 0,
                "load_points": [load],
            }
            for name, load in LOADS.items()
        },
        "validity": {"other_cpu_ratio": None},
    }


def prepare(folder: Path) -> tuple[Workspace, Session]:
    """Make a workspace in which nothing was measured."""
    cache = folder / "cache"
    workspace = make_workspace(folder / "workspace", cache)
    # Not at the same time as another session on this machine.
    workspace.environment.pop("SERVETUNE_LOCKS")
    write_tokenizer(workspace.root / "model")
    workspace.write_study(study())
    workspace.measure("--until", "make_model", "make_workload", "build_engine")
    os.environ["SERVETUNE_CACHE"] = str(cache)
    (session,) = make_plan(read_params(workspace.root), workspace.root).sessions
    return workspace, session


@contextmanager
def running(
    workspace: Workspace, session: Session, cores: set[int]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a session on some cores; it inherits them to all that it starts."""
    with (workspace.root / "session.log").open("w") as log:
        process = subprocess.Popen(
            ["servetune", "session", session.id],
            cwd=workspace.root,
            env=workspace.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def pin(process: psutil.Process, core: int) -> None:
    """Pin all threads of a process to a core."""
    for thread in process.threads():
        os.sched_setaffinity(thread.id, {core})


def measure(workspace: Workspace, session: Session) -> pd.Series:
    """Run the session with its clients on a core of their own.

    Returns:
        The CPU time that the stand-in had used, in seconds, by Unix time.
    """
    server_core, client_core = sorted(os.sched_getaffinity(0))[:2]
    used: dict[float, float] = {}
    pinned: set[int] = set()
    own = {server_core, client_core} if IS_OF_TWO else {server_core}
    with running(workspace, session, own) as process:
        while process.poll() is None:
            server_s = 0.0
            for each in workspace.servers():
                try:
                    if "vllm.entrypoints" in " ".join(each.cmdline()):
                        times = each.cpu_times()
                        server_s = max(server_s, times.user + times.system)
                        continue
                    for one in [each, *each.children(recursive=True)]:
                        if one.pid not in pinned and not IS_OF_TWO:
                            pin(one, client_core)
                            pinned.add(one.pid)
                except (psutil.Error, ProcessLookupError):
                    continue
            used[time.monotonic()] = server_s
            time.sleep(0.5)
        assert process.returncode == 0, (workspace.root / "session.log").read_text()
    return pd.Series(used)


def most_in_flight(requests: pd.DataFrame) -> int:
    ok = requests[requests["is_ok"]]
    ends_s = ok["start_s"] + ok["e2e_ms"] / 1e3
    steps = [(at, 1) for at in ok["start_s"]] + [(at, -1) for at in ends_s]
    return int(np.cumsum([step for _, step in sorted(steps)]).max())


def row(workspace: Workspace, record: dict[str, Any], server_s: pd.Series) -> dict[str, Any]:
    """Say what was seen of one load point."""
    if record["metrics"] is None:
        return {"workload": record["workload"], "status": "failed", "reason": record["reason"]}
    raw = workspace.root / "results/raw/standin" / record["measurement"]
    card, metrics = record["card"], record["metrics"]
    telemetry = f"{record['session']}/telemetry-{record['launch']}.parquet"
    samples = pd.read_parquet(raw.parent / telemetry)
    at_s = samples.loc[samples["measurement"] == record["measurement"], "time_s"]
    within = server_s[(server_s.index >= at_s.min()) & (server_s.index <= at_s.max())]
    busy_s = within.iloc[-1] - within.iloc[0]
    return {
        "workload": record["workload"],
        "requests": metrics["requests"],
        "streams": most_in_flight(pd.read_parquet(raw / "requests.parquet")),
        "duration_s": metrics["duration_s"],
        "chunks_s": metrics["output_throughput_tok_s"],
        "memory_mb": card["client_memory_bytes"] / 1e6,
        "client_cpu": card["client_cpu_ratio"],
        "server_cpu": busy_s / (within.index[-1] - within.index[0]),
        "delay_p50_ms": card["send_delay_p50_ms"],
        "delay_p99_ms": card["send_delay_p99_ms"],
        "status": record["status"],
        "reason": record["reason"] or "",
    }


def verdict(seen: dict[str, Any]) -> str:
    """Say whether the bar holds: within what a client can do, or told to be not."""
    if seen["status"] == "failed":
        return "DOES NOT HOLD: it failed"
    is_told = "client-bound" in seen["reason"]
    if seen["workload"] == TOO_MUCH:
        return "holds: the card says client-bound" if is_told else "DOES NOT HOLD: not told"
    if IS_OF_TWO:
        return "DOES NOT HOLD: client-bound" if is_told else "holds: the client is not the limit"
    is_within = seen["memory_mb"] * 1e6 < MEMORY_BYTES and seen["delay_p99_ms"] < SEND_DELAY_P99_MS
    if is_within and not is_told:
        return "holds: one client can do it"
    return "holds, but only as the card says client-bound" if is_told else "DOES NOT HOLD"


def main() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("this needs two cores: one for the client, one for all else")
    with tempfile.TemporaryDirectory() as folder:
        workspace, session = prepare(Path(folder))
        server_s = measure(workspace, session)
        records = workspace.records()
        rows = [row(workspace, records[m.id], server_s) for m in session.measurements]
    table = pd.DataFrame(rows)
    print(table.drop(columns="reason").round(2).to_string(index=False))
    for each in rows:
        print(f"{each['workload']}: {verdict(each)}")
        if each["reason"]:
            print(f"    {each['reason']}")


if __name__ == "__main__":
    main()
