"""Random kills of everything that a run consists of, and runs that go on after them.

    uv run python benchmarks/kills.py --kills 200 --seed 0        on the stand-in
    uv run python benchmarks/kills.py --kills 10 --real           on vLLM for the CPU
    uv run python benchmarks/kills.py --steps [--real]            kill -9 in each step

A round has a clone of its own and takes a few kills in the order of its steps. The run that is
killed is started again, and that one killed; the last one has to end by itself with exit code 0
and everything measured. The moment of a kill is drawn from the time for which such a process was
there in a first run, which nobody disturbs. The writer of a file is killed once it writes it. A
tenth are `kill -9` of `uv run` in its first ten seconds. A kill whose moment did not come is tried
again, earlier, in a later round.

The table has a row for each kind of process. Orphans are still there 10 s after the end of the one
who started them, or were asked to stop and are there 15 s later. What only imports when `uv run` is
killed in its first ten seconds may end its imports, and is an orphan once it begins a step. The
last columns count the kills of rounds that did not end as they have to, and those after which a
traceback was printed.
"""

import argparse
import random
import signal
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from killing import (  # noqa: E402
    PATIENCE_S,
    SIGNALS,
    START,
    STARTERS,
    STEPS,
    Kill,
    Ledger,
    Outcome,
    Run,
    marked,
)

from tests.workspace import Workspace, make_workspace  # noqa: E402

WITHIN = {"trainer": "model step"}
"""The step that a process belongs to, if not to the session."""

FILES = {
    "workload step": ["data/workloads/*"],
    "session": [
        *("results/*/records/*", "results/*/sessions/*"),
        *("results/raw/*/[!.]*/*telemetry*", "results/raw/*/[!.]*/*launch*"),
    ],
}
"""The files that the steps write, beside those of tables and report."""

SURVIVED = ("client", "server", "engine core")
"""What a session goes on without, or with another one of."""

WRITERS_SHARE = 0.4

EARLY_SHARE = 0.1
EARLY_WITHIN_S = 10.0

T = TypeVar("T")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--round", type=int, default=20, help="kills before a run to the end")
    parser.add_argument("--steps", action="store_true", help="kill -9 the command in each step")
    parser.add_argument("--real", action="store_true", help="vLLM for the CPU, not the stand-in")
    options = parser.parse_args()
    # Stopped early, it still prints the table.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def workspace(folder: str) -> Workspace:
        return clone(Path(folder), options.real, has_engines=options.real and not options.steps)

    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        first = workspace(folder)
        durations = Run(first, by_dvc=False).durations()
        # vLLM changes nothing about who writes files.
        files = {} if options.real else {**FILES, **made_by_reporting(first)}
    print({kind: round(seconds, 1) for kind, seconds in durations.items()}, flush=True)
    if options.steps:
        kills = [Kill("uv run", step, "kill -9", step, durations[step] / 2) for step in STEPS]
    else:
        kills = drawn(options.kills, random.Random(options.seed), durations, files)
    outcomes: list[Outcome] = []
    try:
        while kills:
            now, kills = kills[: options.round], kills[options.round :]
            with tempfile.TemporaryDirectory(prefix="kills-") as folder:
                here = workspace(folder)
                try:
                    done, missed = play(here, now)
                finally:
                    for process in marked(here):
                        process.kill()
            outcomes += done
            kills += missed
            print(f"{len(outcomes)} done, {len(kills)} to do, {len(missed)} missed", flush=True)
    finally:
        print(table(outcomes), flush=True)


def drawn(
    count: int, draw: random.Random, durations: dict[str, float], files: dict[str, list[str]]
) -> list[Kill]:
    """Draw kills: each kind, each file and each signal in its turn."""
    kinds = in_turn(draw, sorted({*durations, *STARTERS}))
    phases = in_turn(draw, sorted({*durations} - {*STARTERS}))
    writers = in_turn(draw, [(step, file) for step, some in sorted(files.items()) for file in some])
    signs = ["kill -9", "SIGTERM", "Ctrl-C"]
    turns: dict[str, Iterator[str]] = {}
    early = round(count * EARLY_SHARE)
    kills = [
        Kill("uv run", START, "kill -9", START, EARLY_WITHIN_S * (number + draw.random()) / early)
        for number in range(early)
    ]
    for number in range(count - early):
        if files and (number + 1) * WRITERS_SHARE % 1 < WRITERS_SHARE:
            step, file = next(writers)
            folder, _, name = file.rpartition("/")
            kind = f"writer of {name.strip('*') or Path(folder).name}"
            during, after_s, writes = step, 0.0, file
        else:
            kind, writes = next(kinds), None
            during = next(phases) if kind in STARTERS else kind
            step = during if during in STEPS else WITHIN.get(during, "session")
            after_s = draw.random() * durations[during]
        # A terminal sends SIGINT to all; Snakemake has to stop for one that it alone gets, too.
        some = [*signs, "SIGINT"] if kind == "snakemake" else signs
        turn = turns.setdefault(kind, in_turn(draw, some))
        kills.append(Kill(kind, step, next(turn), during, after_s, writes))
    # So that each round has some of the early ones, of runs by Snakemake and by DVC.
    return draw.sample(kills, len(kills))


def in_turn(draw: random.Random, items: list[T]) -> Iterator[T]:
    """Yield all items, shuffled, again and again."""
    while True:
        yield from draw.sample(items, len(items))


def made_by_reporting(workspace: Workspace) -> dict[str, list[str]]:
    """Return patterns of the files that tables and report wrote in a run that ended."""
    tables = sorted(path.name for path in workspace.root.glob("results/*/*.*"))
    reports = sorted(path.name for path in workspace.root.glob("reports/*.*"))
    return {
        "tables": [f"results/*/*{name}*" for name in tables],
        "report": [f"reports/*{name}*" for name in reports],
    }


def play(workspace: Workspace, kills: list[Kill]) -> tuple[list[Outcome], list[Kill]]:
    """Kill a run again and again, then let it end; returns what came of it, and what was missed."""
    ledger = Ledger(workspace)
    by_dvc = any(kill.kind == "dvc" for kill in kills)
    run, is_hurt = Run(workspace, by_dvc), False
    outcomes: list[Outcome] = []
    missed = []
    for kill in sorted(kills, key=_place):
        victim = run.wait_for(kill)
        for _ in range(2):
            if victim is None and run.process.poll() is not None:
                if not is_hurt:
                    add_repeat(workspace)
                run, is_hurt = Run(workspace, by_dvc), False
                victim = run.wait_for(kill)
        outcome = run.strike(kill, victim) if victim else None
        if outcome is None:
            missed.append(replace(kill, after_s=kill.after_s / 2))
            continue
        changed, doubled = ledger.check()
        outcomes.append(replace(outcome, changed=changed, doubled=doubled))
        is_hurt = True
    run.process.wait(PATIENCE_S)
    last = Run(workspace, by_dvc)
    code = last.process.wait(PATIENCE_S)
    changed, doubled = ledger.check()
    to_measure = workspace.check("servetune", "plan").count(": to measure")
    is_whole = code == 0 and to_measure == 0 and (workspace.root / "reports/summary.html").is_file()
    if not is_whole or changed or doubled or any(o.has_traceback or o.orphans for o in outcomes):
        print(f"{code=} {to_measure=} {changed=} {doubled=}\n{last.log.read_text()[-20000:]}")
    ended = [
        replace(o, changed=o.changed + changed, doubled=o.doubled + doubled, is_whole=is_whole)
        for o in outcomes
    ]
    return ended, missed


def _place(kill: Kill) -> tuple[int, bool]:
    # What a run survives comes first in each step.
    return [START, *STEPS].index(kill.step), kill.kind not in SURVIVED


def clone(folder: Path, is_real: bool, has_engines: bool) -> Workspace:
    """Make a clone with a study of one session, on the stand-in or of the quickstart's baseline."""
    workspace = make_workspace(folder / "clone", folder / "cache")
    study = workspace.study
    # With a child, as the engine core is one of vLLM's.
    study["server"] |= {"standin_step_ms": 20, "standin_fault": "leave-child"}
    # Long enough for telemetry to have samples of each.
    points = [{"concurrency": clients, "requests": 4 * clients} for clients in (1, 2, 3, 4)]
    study["workloads"]["random"]["load_points"] = points
    if is_real:
        study = yaml.safe_load((ROOT / "studies/quickstart.yaml").read_text())
        del study["quality"]
        study["workloads"] = {"text": study["workloads"]["text"]}
        del workspace.cold["SERVETUNE_LOCKS"]
    study["variants"] = {study["baseline"]: study["variants"][study["baseline"]]}
    if has_engines:
        del workspace.cold["SERVETUNE_CACHE"]
    workspace.write_study(study)
    workspace.commit("The study")
    return workspace


def add_repeat(workspace: Workspace) -> None:
    """Have something to measure where all is measured; the records of that stay."""
    study = workspace.study
    workspace.write_study({**study, "repeats": study.get("repeats", 1) + 1})


def table(outcomes: list[Outcome]) -> str:
    """Return a row for each kind of process, and one of all."""
    rows: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        of = outcome.kill
        rows[f"{of.kind}, first 10 s" if of.during == START else of.kind].append(outcome)
    lines = [
        "| killed | kill -9 | SIGTERM | Ctrl-C | SIGINT alone | orphans after 10 s |"
        " last one gone after, s | records changed or without samples | doubled |"
        " not whole in the end | tracebacks |",
        "| --- " * 11 + "|",
    ]
    for name, some in [*sorted(rows.items()), ("all", outcomes)] if outcomes else []:
        cells = [
            *(sum(o.kill.sign == sign for o in some) for sign in SIGNALS),
            sum(o.orphans for o in some),
            f"{max(o.last_s for o in some):.1f}",
            *(sum(o.changed for o in some), sum(o.doubled for o in some)),
            *(sum(not o.is_whole for o in some), sum(o.has_traceback for o in some)),
        ]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
