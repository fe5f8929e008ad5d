"""Quality as a reader sees it: who keeps the bounds, and values with their intervals."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

from servetune.analysis.wording import TIMES, first_sentence, listed, ratio
from servetune.numbers import NBSP, NONE, known
from servetune.plan.planned import Plan
from servetune.report.marks import POOR
from servetune.tables.frames import PENDING, records_of

FAILS = {
    "perplexity_ratio": ("perplexity_verdict", "its perplexity is {} that of {baseline}"),
    "top1_agreement": (
        "top1_verdict",
        "its most likely token is that of {baseline} at {} of positions",
    ),
    "accuracy_change": (
        "accuracy_verdict",
        "its share of right answers changed by {} from that of {baseline}",
    ),
}
"""By column: that of its verdict, and how a variant fails the bound."""

ASKED = {
    "perplexity_ratio": "a perplexity of at most {} its own",
    "top1_agreement": "its most likely token at {} of positions or more",
    "accuracy_change": "a share of right answers at most {} lower",
}
"""What a bound asks, by column."""


def bounds(plan: Plan) -> dict[str, str]:
    """Write the bounds as they were declared, by column: 1.02 times, 95 %."""
    asked = plan.quality
    written = {}
    if asked and asked.max_perplexity_ratio is not None:
        written["perplexity_ratio"] = f"{asked.max_perplexity_ratio:g}{TIMES}"
    if asked and asked.min_top1_agreement is not None:
        written["top1_agreement"] = f"{asked.min_top1_agreement * 100:g}{NBSP}%"
    if asked and asked.max_accuracy_drop is not None:
        written["accuracy_change"] = f"{asked.max_accuracy_drop * 100:g}{NBSP}pp"
    return written


def failing(plan: Plan, table: pd.DataFrame | None) -> dict[str, str]:
    """Say by variant which bounds it fails: its perplexity is 1.31 times the baseline's, ..."""
    if table is None or plan.quality is None:
        return {}
    bound, failed = bounds(plan), {}
    for row in records_of(table):
        broken = [
            f"{said.format(WRITTEN[name](row[name]), baseline=plan.baseline)} (bound {bound[name]})"
            for name, (verdict, said) in FAILS.items()
            if row[verdict] == "fails"
        ]
        if broken:
            failed[row["variant"]] = listed(broken)
    return failed


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
            f"The quality of {row['variant']} is undecided: {first_sentence(why)}."
            for row in records_of(table)
            if (why := absent(row)) and row["status"] != PENDING
        ),
    ]


def absent(row: dict[str, Any]) -> str:
    """Say why a variant is not compared; nothing of one that is, or of the baseline."""
    return next((row[key] for key in ("reason", "no_ratio") if isinstance(row[key], str)), "")


def method(plan: Plan) -> str:
    """Say what was asked, and what the bounds are."""
    asked = [ASKED[name].format(bound) for name, bound in bounds(plan).items()]
    bounded = (
        f"Bounds, against {plan.baseline}: {listed(asked)}. A bound is kept or failed if the whole"
        f" 95{NBSP}% interval is on that side of it; otherwise it is undecided."
        if asked
        else "The study declares no bound, so quality is not judged."
    )
    if plan.quality is None or plan.quality.corpus is None:
        return bounded
    return (
        "Each variant scored the same documents token by token, and continued each greedily."
        f" Lower perplexity is better. {bounded}"
    )


def agreement(value: Any) -> str:
    """Write a share of positions with a decimal: 98.4 %."""
    value = known(value)
    return NONE if value is None else f"{value * 100:.1f}{NBSP}%"


def points(value: Any) -> str:
    """Write a change of a share in percentage points: -2.5 pp."""
    value = known(value)
    if value is None:
        return NONE
    return f"{value * 100:+.1f}{NBSP}pp".replace("-", "\N{MINUS SIGN}")


WRITTEN: dict[str, Callable[[Any], str]] = {
    # To three decimals, as a bound may be as near to 1 as 1.005.
    "perplexity_ratio": partial(ratio, digits=3),
    "top1_agreement": agreement,
    "accuracy_change": points,
}


def estimate(row: dict[str, Any], name: str) -> str:
    """Write a value with its interval, by the name of its column."""
    return " ".join(filter(None, estimated(row, name)))


def estimated(row: dict[str, Any], name: str) -> tuple[str, str]:
    """Write a value, and its interval where it has one."""
    write = WRITTEN[name]
    value, low, high = (known(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
    if low is None or high is None:
        return write(value), ""
    ends = (write(each).rstrip(f"{TIMES}%p{NBSP}") for each in (low, high))
    return write(value), f"[{', '.join(ends)}]"
