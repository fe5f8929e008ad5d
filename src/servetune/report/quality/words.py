"""Quality as a reader sees it: who keeps the bounds, the table, and intervals against a bound."""

import json
from typing import Any

import pandas as pd

from servetune.plan.planned import Plan
from servetune.report.marks import POOR
from servetune.report.wording import NONE, TIMES, first_sentence, listed, ratio
from servetune.tables.frames import known, records_of


def failing(plan: Plan, table: pd.DataFrame | None) -> dict[str, str]:
    """Say by variant which bounds it fails: its perplexity is 1.31 times the baseline's, ..."""
    if table is None or plan.quality is None:
        return {}
    found = {}
    for row in records_of(table):
        broken = []
        if row["perplexity_verdict"] == "fails":
            broken.append(
                f"its perplexity is {times(row['perplexity_ratio'])} that of {plan.baseline}"
                f" (bound {ratio_bound(plan.quality.max_perplexity_ratio)})"
            )
        if row["top1_verdict"] == "fails":
            broken.append(
                f"its most likely token is that of {plan.baseline} at"
                f" {agreement(row['top1_agreement'])} of positions"
                f" (bound {share_bound(plan.quality.min_top1_agreement)})"
            )
        if broken:
            found[row["variant"]] = listed(broken)
    return found


def warnings(plan: Plan, table: pd.DataFrame | None) -> list[str]:
    """Say what a reader has to know before any speed: bounds that are failed, answers missing."""
    if table is None or plan.quality is None:
        return []
    return [
        *(
            f"{POOR} {variant} fails the bounds of quality: {why}."
            for variant, why in failing(plan, table).items()
        ),
        *(
            f"{row['variant']} has no verdict on its quality: {first_sentence(why)}."
            for row in records_of(table)
            if (why := absent(row))
        ),
    ]


def absent(row: dict[str, Any]) -> str:
    """Say why a variant is not compared; nothing of one that is, or of the baseline."""
    return next((row[key] for key in ("reason", "no_ratio") if isinstance(row[key], str)), "")


def method(plan: Plan) -> str:
    """Say what was asked, and what the bounds are."""
    asked = plan.quality
    bounds = []
    if asked and asked.max_perplexity_ratio is not None:
        bounds.append(f"a perplexity of at most {ratio_bound(asked.max_perplexity_ratio)} its own")
    if asked and asked.min_top1_agreement is not None:
        least = share_bound(asked.min_top1_agreement)
        bounds.append(f"its most likely token at {least} of positions or more")
    told = (
        f"Bounds, against {plan.baseline}: {listed(bounds)}. A bound is kept or failed where the"
        " whole 95\N{NO-BREAK SPACE}% interval is on that side of it; else it is undecided."
        if bounds
        else "The study declares no bound, so there is no verdict."
    )
    return (
        "Each variant scored the same documents, every token given those before it, and continued"
        f" each greedily. Lower perplexity is better. {told}"
    )


def tasks(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row a (variant, task, metric) of lm-evaluation-harness, with `why` if it failed."""
    found: list[dict[str, Any]] = []
    for row in rows:
        variant = {"variant": row["variant"], "why": ""}
        found += [{**variant, **each} for each in json.loads(row["tasks"])]
        if isinstance(row["tasks_failed"], str):
            found.append({**variant, "why": row["tasks_failed"]})
    return found


def times(value: Any) -> str:
    """Write a ratio of perplexities to three decimals: a bound may be as near to 1 as 1.005."""
    return ratio(value, digits=3)


def agreement(value: Any) -> str:
    """Write a share of positions with a decimal: 98.4 %."""
    value = known(value)
    return NONE if value is None else f"{value * 100:.1f}\N{NO-BREAK SPACE}%"


def ratio_bound(bound: float | None) -> str:
    """Write a bound of a ratio as it was declared: 1.02 times."""
    return NONE if bound is None else f"{bound:g}{TIMES}"


def share_bound(bound: float | None) -> str:
    """Write a bound of a share as it was declared: 95 %."""
    return NONE if bound is None else f"{bound * 100:g}\N{NO-BREAK SPACE}%"


def estimate(row: dict[str, Any], name: str) -> str:
    """Write a value with its interval, by the name of its column."""
    write = WRITTEN[name]
    value, low, high = (known(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if low is None or high is None:
        return write(value)
    ends = (write(each).rstrip(f"{TIMES}%\N{NO-BREAK SPACE}") for each in (low, high))
    return f"{write(value)} [{', '.join(ends)}]"


WRITTEN = {"perplexity_ratio": times, "top1_agreement": agreement}
