"""The tables of the README: what 8-bit weights and EAGLE-3 buy on H200s, from the results.

Run: uv run python benchmarks/headline.py [--study NAME]

It prints Markdown: of a study in `gallery/results`, the load points with the fewest and the most
clients, and the capacity where it was searched for; without a name also that of another study.
Output is over the time in which all clients are busy, with the most clients in brackets also over
the whole load, as `vllm bench serve` prints it. Intervals are over launches, where there are
several.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from servetune.analysis.comparison import compare
from servetune.analysis.findings.gather import cases
from servetune.analysis.judgement import judge_study
from servetune.metrics import WHOLE_LOAD
from servetune.numbers import NONE, known, number, percent
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

LOADS, CAPACITY = "h200-llama8b-graphs", "h200-capacity"
OUTPUT, UNDECIDED = "output_throughput_tok_s", "undecided"
PAIR = {"ttft_p99_ms", "tpot_p99_ms"}

Row = dict[str, Any]


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
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--study", help=f"one study alone, in place of {LOADS} and {CAPACITY}")
    named = parser.parse_args().study
    if named and named not in RECORDED:
        sys.exit(f"{named}: not recorded whole; expected one of {', '.join(RECORDED)}")
    study_table(named or LOADS)
    if named is None:
        print()
        capacity_table(CAPACITY)


def study_table(study: str) -> None:
    """Print a row a variant: throughputs, and the capacity where it was searched for."""
    plan = make_plan({**read_params(GALLERY), "study": study}, GALLERY)
    table = pd.read_parquet(results_of(study) / "load_points.parquet")
    columns = [*load_columns(plan, table), *searched_columns(plan)]
    if not columns:
        sys.exit(
            f"{study}: has neither a load of clients nor a capacity, which is all that it prints"
        )
    counts = launches(table)
    print(line(["Variant", "Launches", *(head for head, _ in columns)]))
    print(line(["---"] * (2 + len(columns))))
    for variant in plan.variants:
        cells = (cell_of.get(variant, NONE) for _, cell_of in columns)
        print(line([variant, counts.get(variant, 0), *cells]))


Column = tuple[str, dict[str, str]]


def load_columns(plan: Plan, table: pd.DataFrame) -> Iterator[Column]:
    """Yield the columns of the load points with the fewest and the most clients."""
    quantiles = pd.read_parquet(results_of(plan.study) / "quantiles.parquet")
    places = ends_of(table)
    if not places:
        return
    means = records_of(compare(table, plan.baseline))
    judged = [
        row
        for row in records_of(judge_study(design_of(plan), table, quantiles).verdicts)
        if row["metric"] == OUTPUT
    ]
    for place in places:
        here = {row["variant"]: row for row in means if is_at(row, place)}
        whole = {
            variant: f" ({number(row.get(WHOLE_LOAD))})" if place == places[-1] else ""
            for variant, row in here.items()
        }
        head = f"{place.head}{' (whole load)' if place == places[-1] else ''}"
        yield head, {name: f"{number(row.get(OUTPUT))}{whole[name]}" for name, row in here.items()}
        ratios = {row["variant"]: ratio_of(row) for row in judged if is_at(row, place)}
        yield f"over {plan.baseline}", ratios
        if place == places[0]:
            shares = bandwidth_shares(plan, table, place)
            yield "of the bandwidth ceiling", {name: percent(of) for name, of in shares.items()}


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


def searched_columns(plan: Plan) -> Iterator[Column]:
    """Yield the columns of the capacity within each SLO, and of its gain."""
    for here in found_in(plan):
        yield slo_of(here), {name: capacity(each) for name, each in here.items()}
        yield f"over {plan.baseline}", {name: each.gained for name, each in here.items()}


def ratio_of(verdict: Row) -> str:
    """Write a ratio with its interval, and that it decides nothing if so."""
    words = {UNDECIDED: f", {UNDECIDED}", "none": ", no verdict"}
    return f"{interval(verdict)}{words.get(verdict['verdict'], '')}"


def capacity_table(study: str) -> None:
    """Print a row a variant with the capacity within each SLO."""
    plan = make_plan({**read_params(GALLERY), "study": study}, GALLERY)
    columns = found_in(plan)
    print(line(["Variant", *map(slo_of, columns)]))
    print(line(["---"] * (1 + len(columns))))
    for variant in plan.variants:
        found = [here.get(variant) for here in columns]
        print(line([variant, *(capacity(each) if each else NONE for each in found)]))


def launches(rows: pd.DataFrame) -> dict[str, int]:
    """Count the launches behind a table's rows, by variant."""
    each = rows[["variant", "session", "launch"]].drop_duplicates()
    return dict(each.groupby("variant").size())


def bandwidth_shares(plan: Plan, table: pd.DataFrame, place: Place) -> dict[str, float]:
    """Return the MBU of decode at a load point, by variant: the mean over the launches."""
    named = {id: session_path(plan.study, id, GALLERY) for id in table["session"].unique()}
    sessions: dict[str, SessionRecord] = {id: read_session(path) for id, path in named.items()}
    here = table[(table["workload"] == place.workload) & (table["load_point"] == place.load_point)]
    at = cases(here, sessions, plan.ceilings)
    told = [(case.row["variant"], case.attained.decode.mbu) for case in at if case.attained]
    return dict(pd.DataFrame(told, columns=["variant", "mbu"]).groupby("variant")["mbu"].mean())


def found_in(plan: Plan) -> list[dict[str, Found]]:
    """Return what was searched for within each SLO, by variant; of all launches where it can be."""
    measured = read_measured(plan, results_of(plan.study).parents[1])
    rows = launches_together(measured.found)
    answered = [each for each in rows if known(each.row["capacity"]) is not None]
    places = grouped(answered, lambda each: each.place).values()
    return [{each.row["variant"]: each for each in here} for here in places]


def slo_of(here: dict[str, Found]) -> str:
    """Write what a capacity is within: req/s within 500/30 ms, of TTFT and TPOT p99."""
    first = next(iter(here.values()))
    limits: dict[str, float] = json.loads(first.row["slo"])
    unit = "req/s" if first.row["over"] == "rate" else "clients"
    if limits.keys() == PAIR:
        return f"{unit} within {limits['ttft_p99_ms']:g}/{limits['tpot_p99_ms']:g} ms"
    return f"{unit} within {first.within}"


def capacity(each: Found) -> str:
    """Write a capacity with its interval, or what it is at least."""
    if each.is_lower_bound:
        return each.interval
    return f"{each.capacity} [{each.interval}]"


def line(cells: Any) -> str:
    """Write a line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
