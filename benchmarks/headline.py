"""The tables of the README: what 8-bit weights and EAGLE-3 buy on H200s, from the results.

Run: uv run python benchmarks/headline.py [--study NAME]

It prints Markdown: of a study in `gallery/results`, the load points with the fewest and the most
clients, and the capacity where it was searched for; without a name also that of another study.
Output is over the time in which all clients are busy, with 128 clients in brackets also over the
whole load, as `vllm bench serve` prints it. Intervals are over launches.
"""

import argparse
import sys
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
from servetune.tables.frames import records_of

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.paths import GALLERY  # noqa: E402
from tests.recorded import results_of  # noqa: E402

LOADS, CAPACITY = "h200-llama8b-graphs", "h200-capacity"
LOW, HIGH = "c1", "c128"
TIERS = ("interactive", "server")
OUTPUT, UNDECIDED = "output_throughput_tok_s", "undecided"
HEADS = (
    "Variant",
    "Launches",
    "1 client, output tok/s",
    "over bf16",
    "of the bandwidth ceiling",
    "128 clients, output tok/s (whole load)",
    "over bf16",
)
CAPACITY_HEADS = ("Variant", "req/s within 500/30 ms", "req/s within 2000/100 ms")
SEARCHED_HEADS = (CAPACITY_HEADS[1], "over bf16")

Row = dict[str, Any]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--study", help=f"one study alone, in place of {LOADS} and {CAPACITY}")
    named = parser.parse_args().study
    load_table(named or LOADS)
    if named is None:
        print()
        capacity_table(CAPACITY)


def load_table(study: str) -> None:
    """Print a row a variant: throughputs, and the capacity where it was searched for."""
    plan = make_plan({**read_params(GALLERY), "study": study}, GALLERY)
    results = results_of(study)
    table = pd.read_parquet(results / "load_points.parquet")
    quantiles = pd.read_parquet(results / "quantiles.parquet")
    compared = records_of(compare(table, plan.baseline))
    means = {(row["variant"], row["load_point"]): row for row in compared}
    judged = {
        (row["variant"], row["load_point"]): row
        for row in records_of(judge_study(design_of(plan), table, quantiles).verdicts)
        if row["metric"] == OUTPUT
    }
    mbu, launched = bandwidth_shares(plan, table), launches(table)
    searched = found_in(study)
    heads = (*HEADS, *SEARCHED_HEADS) if searched else HEADS
    print(line(heads))
    print(line(["---"] * len(heads)))
    for variant in plan.variants:
        cells = [variant, launched[variant]]
        for place in (LOW, HIGH):
            row = means.get((variant, place), {})
            verdict = judged.get((variant, place))
            whole = f" ({number(row.get(WHOLE_LOAD))})" if place == HIGH else ""
            cells += [f"{number(row.get(OUTPUT))}{whole}"]
            cells += [ratio_of(verdict) if verdict else NONE]
            if place == LOW:
                cells.append(percent(mbu.get(variant)))
        if found := searched.get((variant, TIERS[0])):
            cells += [capacity(found), found.gained]
        print(line(cells))


def ratio_of(verdict: Row) -> str:
    """Write a ratio with its interval, and that it decides nothing if so."""
    is_open = verdict["verdict"] == UNDECIDED
    return f"{interval(verdict)}{f', {UNDECIDED}' if is_open else ''}"


def capacity_table(study: str) -> None:
    """Print a row a variant with the capacity within each tier."""
    found = found_in(study)
    print(line(CAPACITY_HEADS))
    print(line(["---"] * len(CAPACITY_HEADS)))
    for variant in dict.fromkeys(variant for variant, _ in found):
        tiers = [found.get((variant, tier)) for tier in TIERS]
        print(line([variant, *(capacity(each) if each else NONE for each in tiers)]))


def launches(rows: pd.DataFrame) -> dict[str, int]:
    """Count the launches behind a table's rows, by variant."""
    each = rows[["variant", "session", "launch"]].drop_duplicates()
    return dict(each.groupby("variant").size())


def bandwidth_shares(plan: Plan, table: pd.DataFrame) -> dict[str, float]:
    """Return the MBU of decode with one client, by variant: the mean over the launches."""
    named = {id: session_path(plan.study, id, GALLERY) for id in table["session"].unique()}
    sessions: dict[str, SessionRecord] = {id: read_session(path) for id, path in named.items()}
    alone = cases(table[table["load_point"] == LOW], sessions, plan.ceilings)
    told = [(case.row["variant"], case.attained.decode.mbu) for case in alone if case.attained]
    return dict(pd.DataFrame(told, columns=["variant", "mbu"]).groupby("variant")["mbu"].mean())


def found_in(study: str) -> dict[tuple[str, str], Found]:
    """Return what was searched for, by variant and tier; of all launches together if there are."""
    plan = make_plan({**read_params(GALLERY), "study": study}, GALLERY)
    measured = read_measured(plan, results_of(study).parents[1])
    return {
        (each.row["variant"], each.row["tier"]): each
        for each in launches_together(measured.found)
        if known(each.row["capacity"]) is not None
    }


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
