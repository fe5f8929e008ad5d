"""One schema of per-request records for every load generator, and what is computed from it.

Columns of a request table (`raw/<measurement>/requests.parquet`), one row a counted request:

- `request` int, its place in the order of sending; `is_ok` bool; `error` text or None
- `start_s` float, when it was sent, in seconds since the first one was
- `input_tokens`, `output_tokens` int, as the server counted them
- `ttft_ms` time to first token: from sending to the first chunk that carries text
- `e2e_ms` end-to-end latency: from sending to the last such chunk
- `tpot_ms` time per output token: (e2e - ttft) / (output tokens - 1); null for a single token
- `itl_ms` list of the gaps between chunks; under speculation a chunk holds several tokens

The definitions are vLLM's (`vllm bench serve`) and are applied to every generator alike.
"""

from typing import Any

import numpy as np
import pandas as pd

from servetune.records import LATENCIES, PERCENTILES, QUANTILE_PROBABILITIES, Metrics
from servetune.telemetry import Counters

COLUMNS = (
    *("request", "is_ok", "error", "start_s", "input_tokens", "output_tokens"),
    *("ttft_ms", "e2e_ms", "tpot_ms", "itl_ms"),
)


def request_row(
    request: int,
    error: str | None,
    start_s: float,
    input_tokens: int,
    output_tokens: int,
    ttft_s: float | None,
    e2e_s: float | None,
    itl_s: list[float],
) -> dict[str, Any]:
    """Make one row of the request table from times in seconds; TPOT is computed here alone."""
    is_ok = error is None and ttft_s is not None and e2e_s is not None
    tpot_ms = None
    if is_ok and output_tokens > 1:
        tpot_ms = 1e3 * (e2e_s - ttft_s) / (output_tokens - 1)  # type: ignore[operator]
    return {
        "request": request,
        "is_ok": is_ok,
        "error": None if is_ok else (error or "no token received"),
        "start_s": start_s,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "ttft_ms": 1e3 * ttft_s if is_ok and ttft_s is not None else None,
        "e2e_ms": 1e3 * e2e_s if is_ok and e2e_s is not None else None,
        "tpot_ms": tpot_ms,
        "itl_ms": [1e3 * gap for gap in itl_s] if is_ok else [],
    }


def request_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Order rows by the time of sending and let `start_s` begin at 0."""
    table = pd.DataFrame(rows, columns=list(COLUMNS)).sort_values("start_s", ignore_index=True)
    if len(table):
        table["start_s"] -= table["start_s"].iloc[0]
        table["request"] = range(len(table))
    return table


def latencies(requests: pd.DataFrame) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return each latency of the requests that are ok, in ms: `ttft`, `tpot`, `itl`, `e2e`.

    Shapes: (requests,) for ttft and e2e, at most that for tpot, (all gaps,) for itl.
    """
    ok = requests[requests["is_ok"]]
    gaps = [np.asarray(each, dtype=float) for each in ok["itl_ms"]]
    found = {name: ok[f"{name}_ms"].dropna().to_numpy(float) for name in ("ttft", "tpot", "e2e")}
    found["itl"] = np.concatenate(gaps) if gaps else np.empty(0)
    return {name: found[name] for name in LATENCIES}


def aggregate(requests: pd.DataFrame, grown: Counters) -> Metrics:
    """Aggregate one measurement.

    Args:
        requests: its request table.
        grown: what the server's counters grew by while it ran.

    Returns:
        Metrics over the requests that are ok. The duration runs from the first request sent
        to the last token received, so that every generator's throughput means the same.
    """
    ok = requests[requests["is_ok"]]
    ends_s = ok["start_s"] + ok["e2e_ms"].astype(float) / 1e3
    duration_s = float(ends_s.max()) if len(ok) else 0.0
    input_tokens, output_tokens = int(ok["input_tokens"].sum()), int(ok["output_tokens"].sum())

    def per_second(amount: float) -> float:
        return amount / duration_s if duration_s else 0.0

    spread: dict[str, float] = {}
    for name, values_ms in latencies(requests).items():
        if len(values_ms):
            spread[f"{name}_mean_ms"] = float(values_ms.mean())
            for percentile in PERCENTILES:
                spread[f"{name}_p{percentile}_ms"] = float(np.percentile(values_ms, percentile))
    return Metrics(
        requests=len(requests),
        completed_requests=len(ok),
        failed_requests=len(requests) - len(ok),
        duration_s=duration_s,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        request_throughput_rps=per_second(len(ok)),
        output_throughput_tok_s=per_second(output_tokens),
        total_throughput_tok_s=per_second(input_tokens + output_tokens),
        **spread,  # type: ignore[arg-type]
        **_from_counters(grown),
    )


def _from_counters(grown: Counters) -> dict[str, Any]:
    found: dict[str, Any] = {}
    drafts, accepted = grown.get("drafts", 0), grown.get("accepted_tokens", 0)
    if drafts:
        found["acceptance_length"] = 1 + accepted / drafts
        found["acceptance_ratio"] = accepted / max(grown.get("draft_tokens", 0), 1)
        at = sorted(
            (int(name.removeprefix("accepted_tokens_at_")), value)
            for name, value in grown.items()
            if name.startswith("accepted_tokens_at_")
        )
        found["acceptance_by_position"] = [value / drafts for _, value in at]
    if grown.get("prefix_cache_queries"):
        found["prefix_cache_hit_ratio"] = (
            grown.get("prefix_cache_hits", 0) / grown["prefix_cache_queries"]
        )
    if "preemptions" in grown:
        found["preemptions"] = int(grown["preemptions"])
    return found


def quantiles(requests: pd.DataFrame) -> dict[str, list[float]]:
    """Return the values of each latency at QUANTILE_PROBABILITIES, to five digits."""
    return {
        f"{name}_ms": [float(f"{q:.5g}") for q in np.quantile(values_ms, QUANTILE_PROBABILITIES)]
        for name, values_ms in latencies(requests).items()
        if len(values_ms)
    }
