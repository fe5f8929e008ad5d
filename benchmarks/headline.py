"""The tables of the README: what fp8, EAGLE-3 and 8-bit weights buy on one H200, from the results.

Run: uv run python benchmarks/headline.py

It prints Markdown. The numbers are of `results/h200-llama8b-graphs` and `results/h200-capacity`.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from servetune.analysis.comparison import compare
from servetune.analysis.findings.gather import cases
from servetune.analysis.judgement import judge_study
from servetune.analysis.wording import NONE, number, percent, ratio
from servetune.plan.make import make_plan, read_params
from servetune.plan.planned import Plan
from servetune.records.paths import session_path
from servetune.records.sessions import SessionRecord, read_session
from servetune.report.capacity.words import Found
from servetune.report.reading import read_measured
from servetune.report.verdicts import interval
from servetune.tables.frames import known, records_of

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.recorded import results_of  # noqa: E402

LOADS, CAPACITY = "h200-llama8b-graphs", "h200-capacity"
LOW, HIGH = "c1", "c128"
TIERS = ("interactive", "server")
EAGLE3 = "eagle3-"
HEADS = (
    "Variant",
    "1 client, output tok/s",
    "over bf16",
    "of the bandwidth ceiling",
    "128 clients, output tok/s",
    "over bf16",
    "req/s within 500/30 ms",
    "req/s within 2000/100 ms",
)

Row = dict[str, Any]


def main() -> None:
    """Print the tables."""
    plan = make_plan({**read_params(ROOT), "study": LOADS}, ROOT)
    results = results_of(LOADS)
    table = pd.read_parquet(results / "load_points.parquet")
    quantiles = pd.read_parquet(results / "quantiles.parquet")
    compared = records_of(compare(table, plan.baseline))
    means = {(row["variant"], row["load_point"]): row for row in compared}
    judged = {
        (row["variant"], row["load_point"]): row
        for row in records_of(judge_study(plan, table, quantiles).verdicts)
        if row["metric"] == "output_throughput_tok_s"
    }
    mbu, within = bandwidth_shares(plan, table), capacities()
    print(line(HEADS))
    print(line(["---"] * len(HEADS)))
    searched = (variant for variant, _ in within)
    for variant in dict.fromkeys([*plan.variants, *searched]):
        cells = [variant]
        for place in (LOW, HIGH):
            row = means.get((variant, place), {})
            throughput = number(row.get("output_throughput_tok_s"))
            verdict = judged.get((variant, place))
            cells += [throughput, interval(verdict) if verdict else NONE]
            if place == LOW:
                cells.append(percent(mbu.get(variant)))
        print(line([*cells, *(within.get((variant, tier), NONE) for tier in TIERS)]))
    print()
    print(line(("EAGLE-3 with acceptance length", "output tok/s ahead of bf16 up to")))
    print(line(("---", "---")))
    for variant in filter(is_speculating, plan.variants):
        at = {
            row["concurrency"]: judged[name]["ratio"]
            for name, row in means.items()
            if name[0] == variant
        }
        print(line((variant.removeprefix(EAGLE3), ahead_until(at))))


@dataclass(frozen=True)
class Crossing:
    """Between which two measured loads a ratio falls below 1, and where about.

    `at` is on the straight line between the two, with the logarithms of load and ratio.
    """

    last_ahead: float
    first_behind: float
    at: float


def falls_below_one(loads: Sequence[float], ratios: Sequence[float]) -> Crossing | None:
    """Find where a ratio falls below 1 for good; None where it does not, or was never above.

    Args:
        loads: ascending and positive, such as concurrencies.
        ratios: variant / baseline of a throughput at each.
    """
    ahead = [index for index, ratio in enumerate(ratios) if ratio >= 1]
    if not ahead or ahead[-1] == len(ratios) - 1:
        return None
    last = ahead[-1]
    (low, high), (above, below) = loads[last : last + 2], ratios[last : last + 2]
    share = math.log(above) / (math.log(above) - math.log(below))
    return Crossing(low, high, low * (high / low) ** share)


def is_speculating(variant: str) -> bool:
    """Tell whether a variant speculates."""
    return variant.startswith(EAGLE3)


def ahead_until(ratios: dict[float, float]) -> str:
    """Say up to how many clients a variant's output throughput is above the baseline's.

    `ratios` is variant / baseline, by the number of clients.
    """
    loads = sorted(ratios)
    crossing = falls_below_one(loads, [ratios[load] for load in loads])
    if crossing is None:
        return f"{loads[-1]:.0f} clients and more ({ratio(ratios[loads[-1]])} there)"
    bounds = f"between {crossing.last_ahead:.0f} and {crossing.first_behind:.0f}"
    return f"about {crossing.at:.0f} clients ({bounds})"


def bandwidth_shares(plan: Plan, table: pd.DataFrame) -> dict[str, float]:
    """Return the MBU of decode with one client, by variant: the mean over the launches."""
    named = {id: session_path(plan.study, id, ROOT) for id in table["session"].unique()}
    sessions: dict[str, SessionRecord] = {id: read_session(path) for id, path in named.items()}
    alone = cases(table[table["load_point"] == LOW], sessions, plan.ceilings)
    told = [(case.row["variant"], case.attained.decode.mbu) for case in alone if case.attained]
    return dict(pd.DataFrame(told, columns=["variant", "mbu"]).groupby("variant")["mbu"].mean())


def capacities() -> dict[tuple[str, str], str]:
    """Return the capacity with its interval, by variant and tier."""
    plan = make_plan({**read_params(ROOT), "study": CAPACITY}, ROOT)
    measured = read_measured(plan, results_of(CAPACITY).parents[1])
    return {
        (each.row["variant"], each.row["tier"]): capacity(each)
        for each in measured.found
        if known(each.row["capacity"]) is not None
    }


def capacity(each: Found) -> str:
    """Write a capacity with its interval, or what it is at least."""
    if each.is_lower_bound:
        return each.interval
    return f"{each.capacity} [{each.interval}]"


def line(cells: Any) -> str:
    """Write a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
