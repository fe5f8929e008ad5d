"""A load point of one run as another tool wrote it, and what its requests say of it."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from servetune.metrics import LATENCIES, PERCENTILES, WHOLE_LOAD
from servetune.percentiles import Values, latency_summary

MOST = 1e12
"""No number of a result is larger: more tokens, or milliseconds, than any load has."""

ROUNDING = 0.005
"""Relative: so much may what a file sums up differ from its own requests. GuideLLM keeps six
digits of a second, and a duration is not taken at the same moment by all."""


def _unless_nan(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


Gap = Annotated[float, Field(ge=0, le=MOST, strict=True, allow_inf_nan=False)]
"""A time between chunks, which is always known."""

Amount = Annotated[Gap | None, BeforeValidator(_unless_nan)]
"""A number of a result; None, which is also what its writer says by NaN: not known."""

Count = Annotated[int, Field(ge=0, le=10**12, strict=True)] | None


class Foreign(BaseModel):
    """What is read of another tool's file; the rest of it is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Figures(Foreign):
    """The metrics of a run, by the columns of our tables and in their units; None: not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    duration_s: Amount = None
    input_tokens: Amount = None
    output_tokens: Amount = None
    request_throughput_rps: Amount = None
    output_throughput_tok_s: Amount = None
    total_throughput_tok_s: Amount = None
    ttft_mean_ms: Amount = None
    ttft_p50_ms: Amount = None
    ttft_p90_ms: Amount = None
    ttft_p95_ms: Amount = None
    ttft_p99_ms: Amount = None
    tpot_mean_ms: Amount = None
    tpot_p50_ms: Amount = None
    tpot_p90_ms: Amount = None
    tpot_p95_ms: Amount = None
    tpot_p99_ms: Amount = None
    itl_mean_ms: Amount = None
    itl_p50_ms: Amount = None
    itl_p90_ms: Amount = None
    itl_p95_ms: Amount = None
    itl_p99_ms: Amount = None
    e2e_mean_ms: Amount = None
    e2e_p50_ms: Amount = None
    e2e_p90_ms: Amount = None
    e2e_p95_ms: Amount = None
    e2e_p99_ms: Amount = None
    acceptance_length: Amount = None

    @property
    def known(self) -> dict[str, float]:
        """The metrics that are known; the output throughput is over the whole load."""
        figures: dict[str, float] = self.model_dump(exclude_none=True)
        output = figures.get("output_throughput_tok_s")
        return figures if output is None else {**figures, WHOLE_LOAD: output}


class Run(BaseModel):
    """One load point of one run.

    `version` is the tool's, `started_at` in ISO 8601 (UTC), `rate_rps` is infinite where all was
    sent at once. `requests` has the columns `is_counted`, `is_ok`, `error`, `start_s`,
    `input_tokens`, `output_tokens`, `ttft_ms`, `tpot_ms`, `itl_ms` and `e2e_ms` of a request table
    (`servetune.load.request_table`), with NaN for what is not known; None where the file has
    aggregates alone. `notes` say where the tool's numbers do not mean what ours do.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    file: str
    tool: str
    version: str | None = None
    model: str | None = None
    started_at: str | None = None
    concurrency: int | None = None
    rate_rps: float | None = None
    completed_requests: Count = None
    failed_requests: Count = None
    figures: Figures
    requests: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()

    @property
    def load_point(self) -> str:
        """The name of its load point, as a study has it: c8, r2.5, c8-r2.5, or rinf at once."""
        cap = f"c{self.concurrency}" if self.concurrency is not None else ""
        rate = f"r{self.rate_rps:g}" if self.rate_rps is not None else ""
        return "-".join(filter(None, (cap, rate))) or "load"

    @property
    def problem(self) -> tuple[str, str] | None:
        """Why its numbers count for nothing, as a status and a reason; None where they do."""
        if self.completed_requests == 0:
            return "failed", "no request was answered"
        if self.requests is not None and (reason := contradiction(self.figures, self.requests)):
            return "invalid", reason
        return None


def requests_of(rows: list[dict[str, Any]]) -> pd.DataFrame | None:
    """Make the requests of a run from rows with some of its columns; None without rows."""
    if not rows:
        return None
    numbers = ("start_s", "input_tokens", "output_tokens", "ttft_ms", "tpot_ms", "e2e_ms")
    columns = ["is_ok", "error", *numbers, "itl_ms"]
    table = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(numbers, "float64"))
    table["itl_ms"] = [gaps if isinstance(gaps, list) else [] for gaps in table["itl_ms"]]
    return table.assign(is_counted=True, is_ok=table["is_ok"].astype(bool))


def completed(figures: Mapping[str, float | None], requests: pd.DataFrame | None) -> Figures:
    """Return what a file sums up, with what its requests tell where it sums up nothing."""
    of_requests = summary(requests) if requests is not None else {}
    stated = {name: value for name, value in figures.items() if value is not None}
    return Figures(**{**of_requests, **stated})


def summary(requests: pd.DataFrame) -> dict[str, float]:
    """Aggregate the latencies of the requests that are ok, as we do of our own loads."""
    return latency_summary(_latencies(requests))


def contradiction(figures: Figures, requests: pd.DataFrame) -> str | None:
    """Say where what a file sums up is not what its requests say; None where the two agree.

    A percentile agrees that lies within a request of its own place: tools differ in how they read
    one between two requests.
    """
    for name, values_ms in _latencies(requests).items():
        if not len(values_ms):
            continue
        ordered = np.sort(values_ms)
        last = len(ordered) - 1
        bounds = {}
        for percentile in PERCENTILES:
            at = percentile / 100 * last
            around = max(math.floor(at) - 1, 0), min(math.ceil(at) + 1, last)
            bounds[f"{name}_p{percentile}_ms"] = ordered[around[0]], ordered[around[1]]
        bounds[f"{name}_mean_ms"] = (ordered.mean(), ordered.mean())
        for column, (low, high) in bounds.items():
            value = getattr(figures, column)
            # A mean may be weighted by tokens: it lies among the values all the same.
            if column == "tpot_mean_ms":
                low, high = ordered[0], ordered[-1]
            if value is not None and not low * (1 - ROUNDING) <= value <= high * (1 + ROUNDING):
                told = f"{low:.5g}" if low == high else f"{low:.5g} to {high:.5g}"
                return f"its summary says {column} {value:.5g}, its requests {told}"
    return None


def _latencies(requests: pd.DataFrame) -> dict[str, Values]:
    ok = requests[requests["is_ok"]]
    return {name: ok[f"{name}_ms"].explode().dropna().to_numpy(float) for name in LATENCIES}
