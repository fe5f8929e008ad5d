"""What AIPerf writes: aggregates (`profile_export_aiperf.json`, `.csv`), `profile_export.jsonl`.

Latencies are in ms. What it calls inter-token latency is TPOT here and in vLLM; what it calls
inter-chunk latency is ITL. Of the aggregates, `avg` of a rate or a count is its value.
"""

import csv
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from servetune.imports.run import Amount, Count, Figures, Foreign, Gap, Run, completed, requests_of
from servetune.metrics import PERCENTILES

TOOL = "AIPerf"

NOTES = ("AIPerf counts the tokens of answers by its tokenizer, not by the server's usage",)

_LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "inter_token_latency",
    "itl": "inter_chunk_latency",
    "e2e": "request_latency",
}

_IN_CSV = {
    "total_input_sequence_length": "total_isl",
    "total_output_sequence_length": "total_osl",
}
"""The names in a CSV that are others in JSON, in small letters and without units."""

ROUNDED = "a CSV of AIPerf holds two decimals, and not the load: concurrency and rate"

PROFILING = "profiling"
"""The phase that counts; the others warm up."""


class _Metric(Foreign):
    unit: str | None = None
    avg: Amount = None
    p50: Amount = None
    p90: Amount = None
    p95: Amount = None
    p99: Amount = None


class _Phase(Foreign):
    name: str | None = None
    kind: str | None = None
    concurrency: Count = None
    rate: Amount = None
    request_rate: Amount = None


class _Names(Foreign):
    items: list[dict[str, Any]] = []


class _Loadgen(Foreign):
    concurrency: Count = None
    request_rate: Amount = None


class _Config(Foreign):
    models: _Names | None = None
    phases: list[_Phase] = []
    loadgen: _Loadgen | None = None


class Export(Foreign):
    """The keys of the aggregates that are read."""

    aiperf_version: str | None = None
    start_time: datetime | None = None
    request_throughput: _Metric
    request_latency: _Metric
    request_count: _Metric
    error_request_count: _Metric = _Metric()
    request_error_rate: _Metric = _Metric()
    time_to_first_token: _Metric = _Metric()
    inter_token_latency: _Metric = _Metric()
    inter_chunk_latency: _Metric = _Metric()
    output_token_throughput: _Metric = _Metric()
    total_token_throughput: _Metric = _Metric()
    benchmark_duration: _Metric = _Metric()
    total_isl: _Metric = _Metric()
    total_osl: _Metric = _Metric()
    input_config: _Config = _Config()


class _Metadata(Foreign):
    request_start_ns: int
    request_end_ns: int
    benchmark_phase: str = PROFILING
    was_cancelled: bool = False


class _Value(Foreign):
    value: Amount = None


class _Gaps(Foreign):
    value: list[Gap] | Gap | None = None


class _RecordMetrics(Foreign):
    time_to_first_token: _Value = _Value()
    inter_token_latency: _Value = _Value()
    inter_chunk_latency: _Gaps = _Gaps()
    request_latency: _Value = _Value()
    input_sequence_length: _Value = _Value()
    output_sequence_length: _Value = _Value()


class Record(Foreign):
    """The keys of a request's line that are read."""

    metadata: _Metadata
    metrics: _RecordMetrics = _RecordMetrics()
    error: dict[str, Any] | str | None = None


def is_export(content: Any) -> bool:
    """Tell whether JSON looks like AIPerf's aggregates."""
    return isinstance(content, dict) and (
        "aiperf_version" in content
        or (
            {"request_latency", "request_throughput", "input_config"} <= set(content)
            and isinstance(content["request_latency"], dict)
        )
    )


def is_record(content: Any) -> bool:
    """Tell whether JSON looks like a line of AIPerf's requests."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return isinstance(metadata, dict) and "request_start_ns" in metadata


def read(content: Any, file: str) -> list[Run]:
    """Read aggregates; raises pydantic's ValidationError, or ValueError, if they are damaged."""
    export = Export.model_validate(content)
    concurrency, rate_rps = _load(export.input_config)
    figures: dict[str, float | None] = {
        "duration_s": export.benchmark_duration.avg,
        "input_tokens": export.total_isl.avg,
        "output_tokens": export.total_osl.avg,
        "request_throughput_rps": export.request_throughput.avg,
        "output_throughput_tok_s": export.output_token_throughput.avg,
        "total_throughput_tok_s": export.total_token_throughput.avg,
    }
    for ours, theirs in _LATENCIES.items():
        metric: _Metric = getattr(export, theirs)
        if metric.unit not in (None, "ms"):
            raise ValueError(f"{theirs}.unit: {metric.unit}: expected ms")
        figures[f"{ours}_mean_ms"] = metric.avg
        figures |= {f"{ours}_p{p}_ms": getattr(metric, f"p{p}") for p in PERCENTILES}
    answered = int(export.request_count.avg or 0)
    models = export.input_config.models
    name = models.items[0].get("name") if models and models.items else None
    return [
        Run(
            file=file,
            tool=TOOL,
            version=export.aiperf_version,
            model=name if isinstance(name, str) else None,
            started_at=export.start_time.replace(tzinfo=UTC).isoformat()
            if export.start_time
            else None,
            concurrency=concurrency,
            rate_rps=rate_rps,
            completed_requests=answered,
            failed_requests=_failed(export),
            figures=completed(figures, None) if answered else Figures(),
            notes=NOTES,
        )
    ]


def is_csv(text: str) -> bool:
    """Tell whether a CSV looks like AIPerf's aggregates."""
    return text.startswith("Metric,avg,")


def read_csv(text: str, file: str) -> list[Run]:
    """Read aggregates from their CSV, which tells no load and no version; raises as `read`."""
    content: dict[str, Any] = {}
    heads: list[str] = []
    for label, *cells in (row for row in csv.reader(StringIO(text)) if row):
        if label == "Endpoint":
            # What its GPUs did follows.
            break
        if label == "Metric":
            heads = ["avg" if head == "Value" else head for head in cells]
        elif parts := re.fullmatch(r"(.+?)(?: \((.*)\))?", label):
            name = parts[1].lower().replace(" ", "_")
            told = {head: float(cell) for head, cell in zip(heads, cells, strict=False) if cell}
            content[_IN_CSV.get(name, name)] = {"unit": parts[2], **told}
    return [run.model_copy(update={"notes": (*NOTES, ROUNDED)}) for run in read(content, file)]


def _failed(export: Export) -> int | None:
    if (count := export.error_request_count.avg) is not None:
        return int(count)
    return 0 if export.request_error_rate.avg == 0 else None


def _load(config: _Config) -> tuple[int | None, float | None]:
    counted = [phase for phase in config.phases if (phase.kind or phase.name) == PROFILING]
    if counted:
        rate = counted[0].rate if counted[0].rate is not None else counted[0].request_rate
        return counted[0].concurrency, rate
    old = config.loadgen or _Loadgen()
    return old.concurrency, old.request_rate


def read_records(lines: Iterable[Any], file: str) -> list[Run]:
    """Read requests; raises pydantic's ValidationError, or ValueError, if they are damaged."""
    records = [Record.model_validate(line) for line in lines]
    counted = [one for one in records if one.metadata.benchmark_phase == PROFILING]
    if not counted:
        raise ValueError("it holds no request that counts: all are of a warm-up")
    begun_ns = min(one.metadata.request_start_ns for one in counted)
    duration_s = (max(one.metadata.request_end_ns for one in counted) - begun_ns) / 1e9
    requests = requests_of([_row(one, begun_ns) for one in counted])
    assert requests is not None
    answered = requests[requests["is_ok"]]
    tokens = answered[["input_tokens", "output_tokens"]].sum(min_count=len(answered))
    known = {name: None if value != value else float(value) for name, value in tokens.items()}
    output = known["output_tokens"]
    figures: dict[str, float | None] = {
        "duration_s": duration_s,
        **{str(name): value for name, value in known.items()},
        "request_throughput_rps": len(answered) / duration_s if duration_s else None,
        "output_throughput_tok_s": output / duration_s if duration_s and output else None,
    }
    return [
        Run(
            file=file,
            tool=TOOL,
            started_at=datetime.fromtimestamp(begun_ns / 1e9, UTC).isoformat(),
            completed_requests=len(answered),
            failed_requests=len(requests) - len(answered),
            figures=completed(figures, requests) if len(answered) else Figures(),
            requests=requests,
            notes=(*NOTES, "AIPerf's requests do not tell the load: concurrency and rate"),
        )
    ]


def _row(record: Record, begun_ns: int) -> dict[str, Any]:
    metrics = record.metrics
    gaps = metrics.inter_chunk_latency.value
    error = record.error or ("cancelled" if record.metadata.was_cancelled else None)
    is_ok = error is None and metrics.request_latency.value is not None
    return {
        "is_ok": is_ok,
        "error": str(error)[:200] if error else None,
        "start_s": (record.metadata.request_start_ns - begun_ns) / 1e9,
        "input_tokens": metrics.input_sequence_length.value,
        "output_tokens": metrics.output_sequence_length.value,
        "ttft_ms": metrics.time_to_first_token.value,
        "tpot_ms": metrics.inter_token_latency.value,
        "itl_ms": gaps if isinstance(gaps, list) else [] if gaps is None else [gaps],
        "e2e_ms": metrics.request_latency.value,
    }
