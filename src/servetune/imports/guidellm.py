"""What GuideLLM writes as JSON or YAML: reports of version 1 (to 0.6) and 2 (from 0.7).

A report holds a benchmark a load point, and a benchmark its metrics by the status of requests; of
those that were answered, latencies are in ms but for `request_latency`, in s. The two versions
differ in what stands around the metrics, which is read from where both have it.
"""

from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from servetune.imports.run import Amount, Count, Figures, Foreign, Run, completed, requests_of
from servetune.metrics import PERCENTILES

TOOL = "GuideLLM"

NOTES = (
    "GuideLLM's E2E latency ends with the stream, after the usage; ours with the last token",
    "GuideLLM weights a request's TPOT by its tokens; in ours each request counts once",
)


class _Percentiles(Foreign):
    p50: Amount = None
    p90: Amount = None
    p95: Amount = None
    p99: Amount = None


class _Distribution(Foreign):
    mean: Amount = None
    median: Amount = None
    count: Amount = None
    total_sum: Amount = None
    percentiles: _Percentiles = _Percentiles()


class _ByStatus(Foreign):
    successful: _Distribution | None = None


class _Counts(Foreign):
    successful: Count = None
    errored: Count = None
    incomplete: Count = None


class _Metrics(Foreign):
    request_totals: _Counts | None = None
    requests_per_second: _ByStatus
    request_latency: _ByStatus
    prompt_token_count: _ByStatus = _ByStatus()
    output_token_count: _ByStatus = _ByStatus()
    time_to_first_token_ms: _ByStatus = _ByStatus()
    inter_token_latency_ms: _ByStatus = _ByStatus()
    output_tokens_per_second: _ByStatus = _ByStatus()
    tokens_per_second: _ByStatus = _ByStatus()


class _Strategy(Foreign):
    type_: str | None = None
    kind: str | None = None
    streams: Count = None
    max_concurrency: Count = None
    rate: Amount = None


class _Backend(Foreign):
    model: str | None = None


class _Config(Foreign):
    strategy: _Strategy = _Strategy()
    backend: _Backend | None = None


class _Request(Foreign):
    request_start_time: Amount = None
    start_time: Amount = None
    prompt_tokens: Amount = None
    output_tokens: Amount = None
    request_latency: Amount = None
    time_to_first_token_ms: Amount = None
    inter_token_latency_ms: Amount = None


class _Requests(Foreign):
    successful: list[_Request] | None = None
    errored: list[_Request] | None = None


class _Benchmark(Foreign):
    config: _Config | None = None
    args: _Config | None = None
    metrics: _Metrics
    request_totals: _Counts | None = None
    requests: _Requests | None = None
    start_time: Amount = None
    duration: Amount = None


class _Metadata(Foreign):
    guidellm_version: str | None = None


class _Arguments(Foreign):
    model: str | None = None


class Report(Foreign):
    """The keys of a report that are read; `args` is of version 1, `metadata` of both."""

    metadata: _Metadata = _Metadata()
    args: _Arguments | None = None
    benchmarks: list[_Benchmark] = Field(min_length=1)


def is_report(content: Any) -> bool:
    """Tell whether JSON or YAML looks like a report of GuideLLM."""
    benchmarks = content.get("benchmarks") if isinstance(content, dict) else None
    return isinstance(benchmarks, list) and (
        not benchmarks or (isinstance(benchmarks[0], dict) and "metrics" in benchmarks[0])
    )


def read(content: Any, file: str) -> list[Run]:
    """Read a report; raises pydantic's ValidationError, or ValueError, if it is damaged."""
    report = Report.model_validate(content)
    return [_run(benchmark, report, file) for benchmark in report.benchmarks]


def _run(benchmark: _Benchmark, report: Report, file: str) -> Run:
    metrics = benchmark.metrics
    totals = metrics.request_totals or benchmark.request_totals or _Counts()
    config = benchmark.config or benchmark.args or _Config()
    concurrency, rate_rps = _load(config.strategy)
    requests = requests_of(_rows(benchmark, totals))
    figures: dict[str, float | None] = {
        "duration_s": benchmark.duration,
        "input_tokens": _of(metrics.prompt_token_count).total_sum,
        "output_tokens": _of(metrics.output_token_count).total_sum,
        "request_throughput_rps": _of(metrics.requests_per_second).mean,
        "output_throughput_tok_s": _of(metrics.output_tokens_per_second).mean,
        "total_throughput_tok_s": _of(metrics.tokens_per_second).mean,
        **_latency("ttft", metrics.time_to_first_token_ms),
        **_latency("tpot", metrics.inter_token_latency_ms),
        **_latency("e2e", metrics.request_latency, 1e3),
    }
    model = config.backend.model if config.backend else None
    start_s = benchmark.start_time
    return Run(
        file=file,
        tool=TOOL,
        version=report.metadata.guidellm_version,
        model=model or (report.args.model if report.args else None),
        started_at=datetime.fromtimestamp(start_s, UTC).isoformat() if start_s else None,
        concurrency=concurrency,
        rate_rps=rate_rps,
        completed_requests=totals.successful,
        failed_requests=totals.errored,
        figures=completed(figures, requests) if totals.successful != 0 else Figures(),
        requests=requests,
        notes=NOTES,
    )


def _of(by_status: _ByStatus) -> _Distribution:
    # What nothing was counted for is written as zeros.
    told = by_status.successful
    return told if told and told.count != 0 else _Distribution()


def _latency(name: str, by_status: _ByStatus, scale: float = 1.0) -> dict[str, float | None]:
    told = _of(by_status)
    values = {f"{name}_p{p}_ms": getattr(told.percentiles, f"p{p}") for p in PERCENTILES}
    values[f"{name}_mean_ms"] = told.mean
    return {key: None if value is None else scale * value for key, value in values.items()}


def _load(strategy: _Strategy) -> tuple[int | None, float | None]:
    """Return the concurrency and the rate of a strategy, in requests a second."""
    match strategy.type_ or strategy.kind:
        case "synchronous":
            return 1, None
        case "concurrent":
            return strategy.streams or strategy.max_concurrency, None
        case "throughput":
            return strategy.max_concurrency, float("inf")
        case "constant" | "poisson" | "async":
            return None, strategy.rate
    return None, None


def _rows(benchmark: _Benchmark, totals: _Counts) -> list[dict[str, Any]]:
    """Return its requests, where it keeps all of those that were answered."""
    requests = benchmark.requests or _Requests()
    answered = requests.successful or []
    # A sample of the requests is no distribution: `sample_size` keeps some of them alone.
    if not answered or len(answered) != totals.successful:
        return []
    starts_s = [one.request_start_time or one.start_time or 0.0 for one in answered]
    begun_s = min(starts_s)
    rows = [
        {
            "is_ok": True,
            "start_s": start_s - begun_s,
            "input_tokens": one.prompt_tokens,
            "output_tokens": one.output_tokens,
            "ttft_ms": one.time_to_first_token_ms,
            "tpot_ms": one.inter_token_latency_ms,
            "e2e_ms": None if one.request_latency is None else 1e3 * one.request_latency,
        }
        for one, start_s in zip(answered, starts_s, strict=True)
    ]
    return [*rows, *({"is_ok": False, "error": "errored"} for _ in requests.errored or [])]
