"""Conversations by turn, their repeats taken together."""

import pandas as pd

from servetune.tables.frames import numbers

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
