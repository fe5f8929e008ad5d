"""Conversations by turn: what each turn costs, and how much of it the prefix cache saves."""

from typing import Any

import pandas as pd

from servetune.report.wording import number, share, whole
from servetune.tables.frames import numbers, records_of

KEY = ["variant", "workload", "load_point", "turn"]
METRICS = ("prefix_cache_hit_ratio", "ttft_p50_ms", "input_tokens_mean", "tpot_p50_ms")


def by_turn(turns: pd.DataFrame) -> pd.DataFrame:
    """Reduce the repeats: a row a (variant, workload, load point, turn), in the table's order.

    Metrics are means over the repeats, and `requests` their sum.
    """
    if turns.empty:
        return pd.DataFrame(columns=[*KEY, "requests", *METRICS])
    typed = turns.assign(**{metric: numbers(turns[metric]) for metric in METRICS})
    how = {"requests": "sum", **dict.fromkeys(METRICS, "mean")}
    reduced = typed.groupby(KEY, sort=False).agg(how).reset_index()
    return reduced.astype({"turn": int, "requests": int})


def first_and_last(reduced: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a row a (variant, load point): its number of turns, and its first and last turn."""
    found = []
    for _, group in reduced.groupby(KEY[:3], sort=False):
        rows = records_of(group.sort_values("turn"))
        found.append({**rows[0], "turns": rows[-1]["turn"], "first": rows[0], "last": rows[-1]})
    return found


def from_to(row: dict[str, Any], metric: str) -> str:
    """Write a metric in the first turn and in the last."""
    texts = [told(metric, row[at][metric]) for at in ("first", "last")]
    return texts[0] if row["turns"] == 1 else " \N{RIGHTWARDS ARROW} ".join(texts)


def told(metric: str, value: Any) -> str:
    """Write a metric of a turn."""
    return {"prefix_cache_hit_ratio": share, "requests": whole}.get(metric, number)(value)
