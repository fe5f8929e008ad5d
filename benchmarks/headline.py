"""The table of the README: what 8-bit weights and an fp8 KV cache buy on an H200, from the results.

Run: uv run python benchmarks/headline.py [--study NAME]

It prints Markdown, a column a variant: the load points with the fewest and the most clients of a
study in `gallery/results`, and the capacity where it was searched for. Output is over the time in
which all clients are busy, with the most clients also over the whole load, as `vllm bench serve`
prints it. Intervals are at 95 %, over launches where there are several.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from servetune.analysis.findings.gather import cases
from servetune.analysis.judgement import judge_study
from servetune.analysis.launches import intervals, launch_values
from servetune.metrics import WHOLE_LOAD
from servetune.numbers import NONE, known
from servetune.plan.make import make_plan, read_params
from servetune.plan.planned import Plan
from servetune.records.paths import session_path
from servetune.records.sessions import SessionRecord, read_session
from servetune.report.capacity.launches import launches_together
from servetune.report.capacity.view import Found
from servetune.report.reading import read_measured
from servetune.report.verdicts import interval
from servetune.tables.design import design_of
from servetune.tables.frames import grouped, records_of

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.paths import GALLERY  # noqa: E402
from tests.recorded import RECORDED, results_of  # noqa: E402

STUDY = "h200-headline"
OUTPUT, UNDECIDED = "output_throughput_tok_s", "undecided"
PAIR = {"ttft_p99_ms", "tpot_p99_ms"}

Row = dict[str, Any]

Line = tuple[str, dict[str, str]]
"""What a row of the table is of, and its cell of each variant."""


@dataclass(frozen=True)
class Place:
    """A load point of a workload, and its clients."""

    workload: str
    load_point: str
    clients: int

    @property
    def head(self) -> str:
        """What a column of its output is of."""
        return f"{self.clients} client{'' if self.clients == 1 else 's'}, output tok/s"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--study", default=STUDY, help=f"by default {STUDY}")
    study = parser.parse_args().study
    if study not in RECORDED:
        sys.exit(f"{study}: not recorded whole; expected one of {', '.join(RECORDED)}")
    plan = make_plan({**read_params(GALLERY), "study": study}, GALLERY)
    table = pd.read_parquet(results_of(study) / "load_points.parquet")
    rows = [*load_rows(plan, table), *searched_rows(plan)]
    if not rows:
        sys.exit(
            f"{study}: has neither a load of clients nor a capacity, which is all that it prints"
        )
    print(line(["", *plan.variants]))
    print(line(["---"] * (1 + len(plan.variants))))
    for head, cell_of in [("launches", launches(table)), *rows]:
        print(line([head, *(cell_of.get(variant, NONE) for variant in plan.variants)]))


def load_rows(plan: Plan, table: pd.DataFrame) -> Iterator[Line]:
    """Yield the rows of the load points with the fewest and the most clients."""
    quantiles = pd.read_parquet(results_of(plan.study) / "quantiles.parquet")
    places = ends_of(table)
    if not places:
        return
    values = launch_values(table, quantiles, (OUTPUT, WHOLE_LOAD))
    judged = [
        row
        for row in records_of(judge_study(design_of(plan), table, quantiles).verdicts)
        if row["metric"] == OUTPUT
    ]
    for place in places:
        here = [row for row in records_of(intervals(values)) if is_at(row, place)]
        yield place.head, {row["variant"]: estimate(row) for row in here if row["metric"] == OUTPUT}
        ratios = {row["variant"]: ratio_of(row) for row in judged if is_at(row, place)}
        yield f"over {plan.baseline}", ratios
        if place == places[0]:
            yield "of the bandwidth ceiling", bandwidth_shares(plan, table, place)
        if place == places[-1]:
            whole = {row["variant"]: estimate(row) for row in here if row["metric"] == WHOLE_LOAD}
            yield f"{place.clients} clients, over the whole load", whole


def ends_of(table: pd.DataFrame) -> list[Place]:
    """Return the fewest and the most clients of the first workload that has any."""
    declared = table[table["concurrency"].notna() & table["probe"].isna()]
    places = [
        Place(str(row["workload"]), str(row["load_point"]), int(row["concurrency"]))
        for row in records_of(declared)
    ]
    here = [place for place in places if place.workload == places[0].workload]
    here = sorted({*here}, key=lambda place: place.clients)
    return list(dict.fromkeys([*here[:1], *here[-1:]]))


def is_at(row: Row, place: Place) -> bool:
    """Tell whether a row is of a load point."""
    return (row["workload"], row["load_point"]) == (place.workload, place.load_point)


def estimate(row: Row) -> str:
    """Write a mean over launches with its interval; one launch tells none."""
    ends = [known(row[end]) for end in ("low", "high")]
    within = f" [{ends[0]:,.0f}, {ends[1]:,.0f}]" if None not in ends else ""
    return f"{row['value']:,.0f}{within}"


def ratio_of(verdict: Row) -> str:
    """Write a ratio with its interval, and that it decides nothing if so."""
    words = {UNDECIDED: f", {UNDECIDED}", "none": ", no verdict"}
    return f"{interval(verdict)}{words.get(verdict['verdict'], '')}"


def launches(rows: pd.DataFrame) -> dict[str, str]:
    """Count the launches behind a table's rows, by variant."""
    each = rows[["variant", "session", "launch"]].drop_duplicates()
    return {str(name): str(count) for name, count in each.groupby("variant").size().items()}


def bandwidth_shares(plan: Plan, table: pd.DataFrame, place: Place) -> dict[str, str]:
    """Write the MBU of decode at a load point, by variant: the mean over the launches."""
    named = {id: session_path(plan.study, id, GALLERY) for id in table["session"].unique()}
    sessions: dict[str, SessionRecord] = {id: read_session(path) for id, path in named.items()}
    here = table[(table["workload"] == place.workload) & (table["load_point"] == place.load_point)]
    at = cases(here, sessions, plan.ceilings)
    told = [(case.row["variant"], case.attained.decode.mbu) for case in at if case.attained]
    values = pd.DataFrame(told, columns=["variant", "value"]).assign(
        workload=place.workload, load_point=place.load_point, metric="mbu", in_lockstep=False
    )
    values["value"] *= 100
    values = values.assign(log_value=np.log(values["value"]), request_variance=np.nan)
    return {row["variant"]: f"{estimate(row)} %" for row in records_of(intervals(values))}


def searched_rows(plan: Plan) -> Iterator[Line]:
    """Yield the rows of the capacity within each SLO, and of its gain."""
    measured = read_measured(plan, results_of(plan.study).parents[1])
    rows = launches_together(measured.found)
    answered = [each for each in rows if known(each.row["capacity"]) is not None]
    for found in grouped(answered, lambda each: each.place).values():
        yield slo_of(found[0]), {each.row["variant"]: capacity(each) for each in found}
        yield f"over {plan.baseline}", {each.row["variant"]: each.gained for each in found}


def slo_of(found: Found) -> str:
    """Write what a capacity is within: req/s within 500/30 ms, of TTFT and TPOT p99."""
    limits: dict[str, float] = json.loads(found.row["slo"])
    unit = "req/s" if found.row["over"] == "rate" else "clients"
    if limits.keys() == PAIR:
        return f"{unit} within {limits['ttft_p99_ms']:g}/{limits['tpot_p99_ms']:g} ms"
    return f"{unit} within {found.within}"


def capacity(each: Found) -> str:
    """Write a capacity with its interval, or what it is at least."""
    ends = str(each.interval)
    return ends if each.is_lower_bound else f"{each.capacity} [{ends.replace(' to ', ', ')}]"


def line(cells: Any) -> str:
    """Write a line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
