"""Result files of any tool side by side, judged by the rules of our own launches.

A side is a name with its files; each file is a launch. What was measured at the same load point is
compared.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from servetune.analysis.comparison import compare as compare_means
from servetune.analysis.launches import launch_values, percentile_intervals
from servetune.analysis.verdicts import compare
from servetune.analysis.wording import listed, plural
from servetune.errors import UserError
from servetune.files import sha256
from servetune.imports.read import read_results
from servetune.imports.run import Run
from servetune.load.request_table import attained, quantiles
from servetune.metrics import LATENCIES, METRIC, QUANTILE_PROBABILITIES
from servetune.tables.frames import grouped, records_of

WORKLOAD = "load"
"""Stands for what was sent, which a file does not identify."""

ALIKE = 0.05
"""Relative: mean lengths that differ by more are of another load."""

_NAMED = re.compile(r"([\w.+-]{1,64})=(.+)", re.DOTALL)


@dataclass(frozen=True)
class FileComparison:
    """Sides by name, the first of which is the baseline; their runs, and what they prove."""

    baseline: str
    runs: dict[str, list[Run]]
    table: pd.DataFrame
    means: list[dict[str, Any]]
    intervals: pd.DataFrame
    verdicts: pd.DataFrame
    equivalence: float
    cautions: list[str]

    def count(self, *verdicts: str) -> int:
        """Count the comparisons with one of some verdicts."""
        return int(self.verdicts["verdict"].isin(verdicts).sum())


def files_of(words: Iterable[str]) -> dict[str, list[Path]]:
    """Read sides from words: FILE, a pattern such as 'old-*.json', or NAME=FILE, again for more.

    Raises:
        UserError: a pattern that fits no file, or fewer than two sides.
    """
    given: list[tuple[str, str]] = []
    for word in words:
        named = None if Path(word).exists() else _NAMED.fullmatch(word)
        given.append((named[1], named[2]) if named else ("", word))
    stems = [Path(files).stem for name, files in given if not name]
    sides: dict[str, list[Path]] = {}
    for name, files in given:
        stem = Path(files).stem
        side = name or (stem if stems.count(stem) == 1 else files)
        sides.setdefault(side, []).extend(_matched(files))
    if len(sides) < 2:
        raise UserError(
            f"compare: {next(iter(sides), 'nothing')} is one side; expected two or more, as in"
            " `servetune compare A.json B.json`, or NAME=FILE for each, a name again for a launch"
            " more: before=1.json before=2.json after=3.json after=4.json"
        )
    return sides


def _matched(files: str) -> list[Path]:
    path = Path(files)
    if path.exists() or not re.search(r"[*?\[]", files):
        return [path]
    found = sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))
    if not found:
        raise UserError(f"{files}: no file has such a name")
    return found


def read_sides(sides: Mapping[str, list[Path]]) -> dict[str, list[Run]]:
    """Read the files of each side; raises UserError as `read_results`, or for a run given twice."""
    runs: dict[str, list[Run]] = {}
    for name, paths in sides.items():
        runs[name] = [run for path in paths for run in read_results(path)]
        digests = grouped(paths, sha256)
        for same in digests.values():
            if len(same) > 1:
                raise UserError(
                    f"{same[0]} and {same[1]}: the same file, given as two launches of {name}"
                )
        for same_runs in grouped(runs[name], _likeness).values():
            if len(same_runs) > 1 and _likeness(same_runs[0]):
                one, other = same_runs[:2]
                raise UserError(
                    f"{one.file} and {other.file}: the same run, given as two launches of {name};"
                    " name one of its files"
                )
    return runs


def _likeness(run: Run) -> tuple[str, ...]:
    """Return what two runs never have in common: means of latencies to nine digits."""
    means = [getattr(run.figures, f"{latency}_mean_ms") for latency in LATENCIES]
    return tuple(
        f"{latency}{mean:.9g}" for latency, mean in zip(LATENCIES, means, strict=True) if mean
    )


def compare_runs(
    runs: Mapping[str, list[Run]], limits_ms: dict[str, float], equivalence: float
) -> FileComparison:
    """Compare sides with the first of them.

    `limits_ms` are of latencies, by `ttft`, `tpot`, `itl` and `e2e`: the share of the requests
    within them is known of a file that tells its requests. `equivalence` is the smallest relative
    difference of interest.

    Raises:
        UserError: no load point was measured on two sides.
    """
    baseline = next(iter(runs))
    rows: list[dict[str, Any]] = []
    curves: list[tuple[str, str, float, float]] = []
    for name, point, run in _placed(runs):
        row = _row(name, point, run, len(rows), limits_ms)
        rows.append(row)
        if run.requests is not None and row["status"] == "ok":
            curves += _curves(row["measurement"], run)
    table = pd.DataFrame(rows)
    table["repeat"] = table.groupby(["variant", "load_point"]).cumcount() + 1
    shared = table.groupby("load_point")["variant"].agg(lambda names: baseline in set(names))
    others = table[(table["variant"] != baseline) & table["load_point"].map(shared).astype(bool)]
    if others.empty:
        told = "; ".join(
            f"{name} has {listed(dict.fromkeys(here['load_point']))}"
            for name, here in table.groupby("variant", sort=False)
        )
        raise UserError(f"compare: no load point was measured on both sides: {told}")
    distributions = pd.DataFrame(
        curves, columns=["measurement", "latency", "probability", "value_ms"]
    )
    values = launch_values(table, distributions)
    return FileComparison(
        baseline=baseline,
        runs={**runs},
        table=table,
        means=records_of(compare_means(table, baseline)),
        intervals=percentile_intervals(table, distributions),
        verdicts=compare(values, baseline, equivalence, has_rounds=False),
        equivalence=equivalence,
        cautions=[*_cautions(runs)],
    )


def _placed(runs: Mapping[str, list[Run]]) -> list[tuple[str, str, Run]]:
    """Give each run its load point: one that does not tell its own has the only one there is."""
    points = {run.load_point for side in runs.values() for run in side} - {"load"}
    only = next(iter(points)) if len(points) == 1 else None
    return [
        (name, only if only and run.load_point == "load" else run.load_point, run)
        for name, side in runs.items()
        for run in side
    ]


def _row(
    name: str, point: str, run: Run, order: int, limits_ms: dict[str, float]
) -> dict[str, Any]:
    status, reason = run.problem or ("ok", None)
    share = attained(run.requests, limits_ms) if run.requests is not None else None
    return {
        "variant": name,
        "workload": WORKLOAD,
        "load_point": point,
        "measurement": f"{order}",
        "session": run.file,
        "order": order,
        "started_at": run.started_at,
        "status": status,
        "rule": None,
        "reason": reason,
        "concurrency": run.concurrency,
        "rate_rps": run.rate_rps,
        "completed_requests": run.completed_requests or 0,
        **dict.fromkeys(METRIC, math.nan),
        **run.figures.known,
        "slo_attainment_percent": 100 * share.ratio if share else math.nan,
    }


def _curves(measurement: str, run: Run) -> list[tuple[str, str, float, float]]:
    assert run.requests is not None
    return [
        (measurement, column.removesuffix("_ms"), probability, value)
        for column, values in quantiles(run.requests).items()
        for probability, value in zip(QUANTILE_PROBABILITIES, values, strict=True)
    ]


def _cautions(runs: Mapping[str, list[Run]]) -> Iterable[str]:
    every = [run for side in runs.values() for run in side]
    tools = list(dict.fromkeys(run.tool for run in every))
    if len(tools) > 1:
        yield f"Measured by different tools: {listed(tools)}. What is theirs is part of the ratios."
    models = list(dict.fromkeys(run.model for run in every if run.model))
    if len(models) > 1:
        yield f"Different models answered: {listed(models)}."
    if any(run.load_point == "load" for run in every):
        files = listed(dict.fromkeys(run.file for run in every if run.load_point == "load"))
        yield f"At which concurrency or rate is not known of {files}: it may be another load."
    for name, what in (("input", "Prompts"), ("output", "Answers")):
        lengths = {side: _mean_length(runs[side], f"{name}_tokens") for side in runs}
        known = {side: length for side, length in lengths.items() if length}
        if known and max(known.values()) > (1 + ALIKE) * min(known.values()):
            told = listed(f"{length:.4g} in {side}" for side, length in known.items())
            yield f"{what} have other lengths, in tokens as each tool counts them: {told}."
    for run in every:
        if run.problem:
            yield f"{run.file}, {run.load_point}: {': '.join(run.problem)}; it counts for nothing."
        elif run.failed_requests:
            failed = plural(run.failed_requests, "failed request")
            yield f"{run.file}, {run.load_point}: {failed}, in no latency."
    yield from (f"{note}." for note in dict.fromkeys(note for run in every for note in run.notes))
    if any(len(side) > 1 for side in runs.values()):
        yield (
            "Each file counts as a launch. Runs against one launch of a server vary less than"
            " launches do: verdicts on them say too much."
        )
    yield (
        "Nobody saw the files being measured: which settings, which machine, and what else it did,"
        " is not known."
    )


def _mean_length(side: list[Run], column: str) -> float | None:
    """Return the mean tokens of a request's prompt or answer; None where a run does not tell."""
    totals = [getattr(run.figures, column) for run in side]
    counts = [run.completed_requests for run in side]
    if any(not value for value in (*totals, *counts)):
        return None
    return float(sum(totals)) / sum(count or 0 for count in counts)


def parse_limits(words: Iterable[str]) -> dict[str, float]:
    """Read limits as `vllm bench serve --goodput` has them: ttft:200, in ms.

    Raises:
        UserError: another form, or another latency.
    """
    limits_ms: dict[str, float] = {}
    for word in words:
        name, _, value = word.partition(":")
        latency = {"e2el": "e2e"}.get(name, name)
        try:
            limit_ms = float(value)
        except ValueError:
            limit_ms = math.nan
        if latency not in LATENCIES or not 0 < limit_ms < math.inf:
            raise UserError(
                f"--goodput {word}: expected a latency and its limit in ms, as ttft:200; latencies"
                f" are {listed(LATENCIES)}"
            )
        limits_ms[latency] = limit_ms
    return limits_ms
