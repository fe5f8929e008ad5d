"""llm-d's benchmark report, of versions 0.1 and 0.2, as YAML or JSON: aggregates of any tool.

Units are named beside each number, ms or s; what the numbers mean is as the tool behind it has it.
"""

import math
import re
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from servetune.imports.run import Amount, Count, Figures, Foreign, Run, completed
from servetune.metrics import PERCENTILES

TOOL = "llm-d's benchmark report"

_MS = {"ms": 1.0, "s": 1e3, "ms/token": 1.0, "s/token": 1e3}

_LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}


class _Statistics(Foreign):
    units: str
    mean: Amount = None
    p50: Amount = None
    p90: Amount = None
    p95: Amount = None
    p99: Amount = None


class _Requests(Foreign):
    total: Count = None
    failures: Count = None
    incomplete: Count = None
    input_length: _Statistics | None = None
    output_length: _Statistics | None = None


class _Latency(Foreign):
    time_to_first_token: _Statistics | None = None
    time_per_output_token: _Statistics | None = None
    inter_token_latency: _Statistics | None = None
    request_latency: _Statistics | None = None


class _Throughput01(Foreign):
    output_tokens_per_sec: Amount = None
    total_tokens_per_sec: Amount = None
    requests_per_sec: Amount = None


class _Throughput02(Foreign):
    output_token_rate: _Statistics | None = None
    total_token_rate: _Statistics | None = None
    request_rate: _Statistics | None = None


class _Time01(Foreign):
    duration: Amount = None
    start: Amount = None


class _Metrics01(Foreign):
    time: _Time01 = _Time01()
    requests: _Requests
    latency: _Latency
    throughput: _Throughput01 = _Throughput01()


class _Named(Foreign):
    name: str | None = None
    type: str | None = None


class _Scenario01(Foreign):
    model: _Named = _Named()
    load: _Named = _Named()


class Report01(Foreign):
    """The keys of version 0.1 that are read."""

    scenario: _Scenario01 = _Scenario01()
    metrics: _Metrics01


class _Time02(Foreign):
    start: datetime | None = None
    duration: str | float | None = None


class _Run02(Foreign):
    time: _Time02 = _Time02()


class _Standardized(Foreign):
    tool: str | None = None
    tool_version: str | None = None
    rate_qps: float | None = None
    concurrency: float | None = None


class _Load02(Foreign):
    standardized: _Standardized = _Standardized()


class _Scenario02(Foreign):
    load: _Load02 | None = None


class _Aggregate(Foreign):
    requests: _Requests
    latency: _Latency
    throughput: _Throughput02 = _Throughput02()


class _Performance(Foreign):
    aggregate: _Aggregate


class _Results(Foreign):
    request_performance: _Performance


class Report02(Foreign):
    """The keys of version 0.2 that are read."""

    run: _Run02 = _Run02()
    scenario: _Scenario02 | None = None
    results: _Results


class _Versioned(Foreign):
    version: str = Field(pattern=r"^0\.[12](\.\d+)?$")


def is_report(content: Any) -> bool:
    """Tell whether JSON or YAML looks like llm-d's benchmark report."""
    return (
        isinstance(content, dict)
        and "version" in content
        and ("scenario" in content or "run" in content)
        and ("metrics" in content or "results" in content)
    )


def read(content: Any, file: str) -> list[Run]:
    """Read a report; raises pydantic's ValidationError, or ValueError, if it is damaged."""
    if _Versioned.model_validate(content).version == "0.1":
        return [_read_01(Report01.model_validate(content), file)]
    return [_read_02(Report02.model_validate(content), file)]


def _read_01(report: Report01, file: str) -> Run:
    metrics = report.metrics
    figures: dict[str, float | None] = {
        "duration_s": metrics.time.duration,
        "request_throughput_rps": metrics.throughput.requests_per_sec,
        "output_throughput_tok_s": metrics.throughput.output_tokens_per_sec,
        "total_throughput_tok_s": metrics.throughput.total_tokens_per_sec,
    }
    start_s = metrics.time.start
    return _run(
        file,
        report.scenario.load.name,
        metrics.requests,
        figures | _latencies(metrics.latency),
        model=report.scenario.model.name,
        started_at=datetime.fromtimestamp(start_s, UTC).isoformat() if start_s else None,
    )


def _read_02(report: Report02, file: str) -> Run:
    aggregate = report.results.request_performance.aggregate
    rates = aggregate.throughput
    load = (report.scenario or _Scenario02()).load or _Load02()
    figures: dict[str, float | None] = {
        "duration_s": _seconds(report.run.time.duration),
        "request_throughput_rps": _rate(rates.request_rate, "queries/s"),
        "output_throughput_tok_s": _rate(rates.output_token_rate, "tokens/s"),
        "total_throughput_tok_s": _rate(rates.total_token_rate, "tokens/s"),
    }
    start = report.run.time.start
    return _run(
        file,
        load.standardized.tool,
        aggregate.requests,
        figures | _latencies(aggregate.latency),
        started_at=start.astimezone(UTC).isoformat() if start else None,
        version=load.standardized.tool_version,
        concurrency=_finite(load.standardized.concurrency),
        rate_rps=load.standardized.rate_qps,
    )


def _run(
    file: str,
    tool: str | None,
    requests: _Requests,
    figures: dict[str, float | None],
    **about: Any,
) -> Run:
    failed = requests.failures
    lost = (failed or 0) + (requests.incomplete or 0)
    answered = None if requests.total is None else max(0, requests.total - lost)
    lengths = {"input_tokens": requests.input_length, "output_tokens": requests.output_length}
    for name, told in lengths.items():
        if told and told.mean is not None and answered is not None:
            figures[name] = told.mean * answered
    return Run(
        file=file,
        tool=f"{tool}, by {TOOL}" if tool else TOOL,
        completed_requests=answered,
        failed_requests=failed,
        figures=completed(figures, None) if answered != 0 else Figures(),
        **about,
    )


def _latencies(latency: _Latency) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    for ours, theirs in _LATENCIES.items():
        told: _Statistics | None = getattr(latency, theirs)
        if told is None:
            continue
        if told.units not in _MS:
            raise ValueError(f"{theirs}.units: {told.units}: expected one of {', '.join(_MS)}")
        names = {"mean": told.mean, **{f"p{p}": getattr(told, f"p{p}") for p in PERCENTILES}}
        for name, value in names.items():
            figures[f"{ours}_{name}_ms"] = None if value is None else _MS[told.units] * value
    return figures


def _rate(told: _Statistics | None, units: str) -> float | None:
    if told is None:
        return None
    if told.units != units:
        raise ValueError(f"throughput: {told.units}: expected {units}")
    return told.mean


def _finite(concurrency: float | None) -> int | None:
    """Return a limit of clients; an infinite one is none."""
    return int(concurrency) if concurrency is not None and math.isfinite(concurrency) else None


def _seconds(duration: str | float | None) -> float | None:
    """Read seconds, or ISO 8601's PT1H2M3.4S."""
    if not isinstance(duration, str):
        return duration
    parts = re.fullmatch(r"PT(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?", duration)
    if not parts:
        return None
    return sum(
        float(part or 0) * scale for part, scale in zip(parts.groups(), (3600, 60, 1), strict=True)
    )
