"""What is told of each class of a load's requests, and of what their answers hold."""

from typing import Any

import pandas as pd

from servetune.records.loads import Load
from servetune.records.measurements import ClassMetrics

_LATENCIES = ("ttft", "ttfat", "tpot", "e2e")


def by_class(requests: pd.DataFrame, load: Load) -> list[ClassMetrics]:
    """Aggregate the counted requests, first all of them and then each class, in their order.

    Empty where there is one kind of request alone, and no answer holds more than text.
    """
    counted = requests[requests["is_counted"]]
    names = [*dict.fromkeys([*load.classes, *counted["class"].dropna()])]
    holds = counted[["reasoning_tokens", "is_valid"]].notna().any(axis=None)
    if not names and not holds and not counted["tool_calls"].fillna(0).any():
        return []
    with_grammar = [name for name, kind in load.classes.items() if kind.has_grammar]
    first = requests[requests["class"].isin(with_grammar)].drop_duplicates("class")
    tokens = int(counted.loc[counted["is_ok"], "output_tokens"].sum())
    parts = {None: counted} | {name: counted[counted["class"] == name] for name in names}
    return [_metrics(name, rows, first, tokens) for name, rows in parts.items() if len(rows)]


def _metrics(
    name: str | None, rows: pd.DataFrame, first: pd.DataFrame, tokens: int
) -> ClassMetrics:
    """Aggregate one class; `first` holds the first request of each grammar."""
    ok = rows[rows["is_ok"]]
    output_tokens = int(ok["output_tokens"].sum())
    steady = ok if name is None else ok[~ok.index.isin(first.index)]
    of_first = first.loc[(first["class"] == name) & first["is_ok"], "ttft_ms"]
    told: dict[str, Any] = {}
    for latency in _LATENCIES:
        values_ms = steady[f"{latency}_ms"].dropna()
        if len(values_ms):
            told[f"{latency}_p50_ms"] = float(values_ms.quantile(0.5))
            told[f"{latency}_p99_ms"] = float(values_ms.quantile(0.99))
    reasoning, calls, valid = (
        ok[column].dropna() for column in ("reasoning_tokens", "tool_calls", "is_valid")
    )
    return ClassMetrics(
        name=name,
        requests=len(rows),
        completed_requests=len(ok),
        output_share_ratio=output_tokens / tokens if tokens else 0.0,
        first_ttft_ms=float(of_first.iloc[0]) if len(of_first) else None,
        reasoning_ratio=min(1.0, int(reasoning.sum()) / output_tokens) if len(reasoning) else None,
        tool_calls=int(calls.sum()) or None,
        valid_answers_ratio=float(valid.mean()) if len(valid) else None,
        **told,
    )
