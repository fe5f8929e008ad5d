"""Random kills of everything that a run consists of, each followed by a run that goes on.

    uv run python benchmarks/kills.py --kills 200 --seed 0        on the stand-in
    uv run python benchmarks/kills.py --kills 10 --real           on vLLM for the CPU

Each kill has a clone of its own. A run is started, by Snakemake or DVC; once a process of the kind
that is drawn is there, and a drawn time has passed, it gets the signal that is drawn. Snakemake and
DVC are there all the time, and get it while a process of another kind is. Then the same command
runs again. The table has a row a kind: how many were hit, processes that were still there
10 s after the one who started them had ended, how long the last one took, records that changed or
that have a double, and next runs that did not end with exit code 0 and every record.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import psutil
import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.workspace import Workspace, make_workspace  # noqa: E402

MARK = "SERVETUNE_KILLS"
BOUND_S = 10.0
PATIENCE_S = 900.0

KINDS = {
    "snakemake": "/snakemake ",
    "dvc": "/dvc ",
    "session": " session ",
    "guard": "servetune.lifetime.guard",
    "server": "vllm.entrypoints",
    "engine core": "EngineCore|sleep 600",
    "client": "servetune.load.",
    "trainer": "servetune.models.inside",
    "engine step": " engine ",
    "model step": " model ",
    "workload step": " workload ",
    "tables": " tables ",
    "report": " report ",
}
"""Each kind of process by what its command line holds."""

ALWAYS = ("snakemake", "dvc")

SIGNALS = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}


@dataclass(frozen=True)
class Kill:
    """One kill and what came of it."""

    kind: str
    sign: str
    was_hit: bool
    orphans: int
    last_s: float
    changed: int
    doubled: int
    incomplete: bool


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", action="store_true", help="vLLM for the CPU, not the stand-in")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    kinds = [kind for kind in KINDS if options.real or kind != "trainer"]
    done = []
    for number in range(options.kills):
        # Each kind in its turn, so that a few kills hit as many of them as they can.
        if number % len(kinds) == 0:
            draw.shuffle(kinds)
        kind, sign = kinds[number % len(kinds)], draw.choice(list(SIGNALS))
        phase = draw.choice([each for each in kinds if each not in ALWAYS])
        phase = phase if kind in ALWAYS else kind
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            kill = try_kill(Path(folder), kind, phase, sign, draw.random(), options.real)
        done.append(kill)
        print(f"{number + 1}: {kill}", flush=True)
    print(table(done))


def try_kill(folder: Path, kind: str, phase: str, sign: str, moment: float, is_real: bool) -> Kill:
    """Kill a process of a kind; `moment` in [0, 1] says how long after one of `phase` was seen."""
    workspace = clone(folder, is_real)
    environment = {**workspace.cold, MARK: str(folder)}
    command = ["dvc", "repro"] if kind == "dvc" else ["snakemake", "--cores", "1"]

    def start() -> subprocess.Popen[bytes]:
        with (folder / "output.txt").open("a") as output:
            return subprocess.Popen(
                command,
                cwd=workspace.root,
                env=environment,
                stdout=output,
                stderr=output,
                process_group=0,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    started = start()
    was_hit = strike(started, folder, kind, phase, sign, moment * (20.0 if is_real else 1.0))
    started.wait(PATIENCE_S)
    ended_s = time.monotonic()
    while (left := ours(folder)) and time.monotonic() < ended_s + BOUND_S:
        time.sleep(0.05)
    last_s = time.monotonic() - ended_s
    for process in left:
        process.kill()
    before = records(workspace)
    lost = without_samples(workspace, before)
    code = start().wait(PATIENCE_S)
    after = records(workspace)
    report = workspace.root / "reports/summary.html"
    words = workspace.check("servetune", "plan")
    incomplete = code != 0 or not report.is_file() or ": to measure" in words
    if incomplete or left or lost:
        print((folder / "output.txt").read_text()[-4000:], flush=True)
    measured = [json.loads(text)["measurement"] for text in after.values()]
    return Kill(
        kind=kind,
        sign=sign,
        was_hit=was_hit,
        orphans=len(left),
        last_s=last_s,
        changed=lost + sum(after.get(path) != text for path, text in before.items()),
        doubled=len(measured) - len(set(measured)),
        incomplete=incomplete,
    )


def clone(folder: Path, is_real: bool) -> Workspace:
    """Make a clone with a study of two sessions."""
    workspace = make_workspace(folder / "clone", folder / "cache")
    study = workspace.study
    # With a child, as the engine core is one of vLLM's.
    study["server"] |= {"standin_step_ms": 20, "standin_fault": "leave-child"}
    if is_real:
        study = yaml.safe_load((ROOT / "studies/quickstart.yaml").read_text())
        study["variants"] = {name: study["variants"][name] for name in [study["baseline"]]}
        for name in ("SERVETUNE_CACHE", "SERVETUNE_LOCKS"):
            del workspace.cold[name]
    workspace.write_study(study)
    workspace.commit("The study")
    return workspace


def strike(
    started: subprocess.Popen[bytes], folder: Path, kind: str, phase: str, sign: str, after_s: float
) -> bool:
    """Send the signal once there is somebody to send it to; tells whether there was."""
    while started.poll() is None:
        time.sleep(0.02)
        if not any(is_kind(process, phase) for process in ours(folder)):
            continue
        time.sleep(after_s)
        found = [process for process in ours(folder) if is_kind(process, kind)]
        if found and sign == "Ctrl-C":
            # A terminal sends it to everyone in the foreground.
            os.killpg(started.pid, signal.SIGINT)
            return True
        if found:
            with contextlib.suppress(psutil.NoSuchProcess):
                found[-1].send_signal(SIGNALS[sign])
                return True
    return False


def is_kind(process: psutil.Process, kind: str) -> bool:
    try:
        words = " ".join(process.cmdline()) + " "
    except psutil.Error:
        return False
    # A guard names what it guards, and a step's shell the step.
    is_other = "lifetime.guard" in words and kind != "guard"
    is_shell = words.startswith(("/bin/", "/usr/bin/bash", "bash", "tee"))
    return not is_other and not is_shell and any(part in words for part in KINDS[kind].split("|"))


def ours(folder: Path) -> list[psutil.Process]:
    """Find what was started for a clone and still runs, by a mark of this benchmark's own."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(folder) and process.status() != "zombie":
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def records(workspace: Workspace) -> dict[str, str]:
    """Read the records that there are."""
    files = workspace.root.glob("results/*/records/*.json")
    return {str(path): path.read_text() for path in files}


def without_samples(workspace: Workspace, before: dict[str, str]) -> int:
    """Count the records of a load that was measured whose telemetry is lost."""
    files = workspace.root.glob("results/raw/*/*/telemetry-*.parquet")
    sampled = {name for path in files for name in pd.read_parquet(path)["measurement"]}
    told = map(json.loads, before.values())
    return sum(r["status"] == "ok" and r["measurement"] not in sampled for r in told)


def table(kills: list[Kill]) -> str:
    """Return a row a kind and signal, and one of all."""
    rows: defaultdict[str, list[Kill]] = defaultdict(list)
    for kill in kills:
        rows[kill.kind].append(kill)
    lines = [
        "| killed | kills | hit | orphans after 10 s | last one gone after, s |"
        " records changed or without samples | doubled | next run incomplete |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, some in [*sorted(rows.items()), ("all", kills)]:
        counts = [
            *(len(some), sum(k.was_hit for k in some), sum(k.orphans for k in some)),
            f"{max(k.last_s for k in some):.1f}",
            *(sum(k.changed for k in some), sum(k.doubled for k in some)),
            sum(k.incomplete for k in some),
        ]
        lines.append(f"| {name} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
