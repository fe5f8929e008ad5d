"""What inference-perf writes of a stage or of all of them: `*_lifecycle_metrics.json`.

Latencies are in s; its time per output token is TPOT here and in vLLM.
"""

from typing import Any

from servetune.imports.run import Amount, Count, Figures, Foreign, Run, completed
from servetune.metrics import PERCENTILES

TOOL = "inference-perf"

_LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}


class _Summary(Foreign):
    mean: Amount = None
    median: Amount = None
    p90: Amount = None
    p95: Amount = None
    p99: Amount = None


class _Latency(Foreign):
    request_latency: _Summary | None = None
    time_to_first_token: _Summary | None = None
    time_per_output_token: _Summary | None = None
    inter_token_latency: _Summary | None = None


class _Throughput(Foreign):
    output_tokens_per_sec: Amount = None
    total_tokens_per_sec: Amount = None
    requests_per_sec: Amount = None


class _Load(Foreign):
    requested_rate: Amount = None
    concurrency: Count = None


class _Successes(Foreign):
    count: Count
    latency: _Latency
    throughput: _Throughput = _Throughput()
    prompt_len: _Summary | None = None
    output_len: _Summary | None = None


class _Failures(Foreign):
    count: Count = None


class Report(Foreign):
    """The keys of a report that are read."""

    benchmark_time_seconds: Amount = None
    load_summary: _Load = _Load()
    successes: _Successes
    failures: _Failures = _Failures()


def is_report(content: Any) -> bool:
    """Tell whether JSON looks like a report of inference-perf."""
    successes = content.get("successes") if isinstance(content, dict) else None
    return isinstance(successes, dict) and "latency" in successes


def read(content: Any, file: str) -> list[Run]:
    """Read a report; raises pydantic's ValidationError, or ValueError, if it is damaged."""
    report = Report.model_validate(content)
    answered, throughput = report.successes, report.successes.throughput
    load = report.load_summary
    count = answered.count or 0
    rate = throughput.requests_per_sec
    figures: dict[str, float | None] = {
        # Its rates are over this time, which older versions do not write.
        "duration_s": report.benchmark_time_seconds or (count / rate if rate else None),
        "input_tokens": _total(answered.prompt_len, count),
        "output_tokens": _total(answered.output_len, count),
        "request_throughput_rps": rate,
        "output_throughput_tok_s": throughput.output_tokens_per_sec,
        "total_throughput_tok_s": throughput.total_tokens_per_sec,
    }
    for ours, theirs in _LATENCIES.items():
        told: _Summary = getattr(answered.latency, theirs) or _Summary()
        values = {f"p{p}": getattr(told, f"p{p}") for p in PERCENTILES if p != 50}
        for name, value in {"mean": told.mean, "p50": told.median, **values}.items():
            figures[f"{ours}_{name}_ms"] = None if value is None else 1e3 * value
    return [
        Run(
            file=file,
            tool=TOOL,
            concurrency=load.concurrency,
            rate_rps=None if load.concurrency is not None else load.requested_rate,
            completed_requests=count,
            failed_requests=report.failures.count,
            figures=completed(figures, None) if count else Figures(),
        )
    ]


def _total(lengths: _Summary | None, count: int) -> float | None:
    return None if lengths is None or lengths.mean is None else lengths.mean * count
