"""What `vllm bench serve --save-result` writes, the Python one and the one in Rust.

Its definitions are ours (`docs/methodology.md`), but that throughput is over the whole load. The
two differ in what they write of a request: older Python has no `latencies`, which are then the sum
of its gaps, and Rust counts `start_times` from the beginning of the load.
"""

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import ConfigDict

from servetune.imports.run import Amount, Count, Figures, Foreign, Gap, Run, completed, requests_of
from servetune.metrics import PERCENTILES

TOOL = "vllm bench serve"

_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}


class Result(Foreign):
    """The keys of a result that are read, beside the statistics of each latency."""

    model_config = ConfigDict(extra="allow", frozen=True)

    date: str | None = None
    model_id: str | None = None
    request_rate: float | Literal["inf"] | None = None
    max_concurrency: Count = None
    duration: Amount
    completed: Count
    failed: Count = None
    num_prompts: Count = None
    total_input_tokens: Amount = None
    total_output_tokens: Amount = None
    request_throughput: Amount
    output_throughput: Amount = None
    total_token_throughput: Amount = None
    spec_decode_acceptance_length: Amount = None
    errors: list[str | None] | None = None
    start_times: list[Amount] | None = None
    input_lens: list[Amount] | None = None
    output_lens: list[Amount] | None = None
    ttfts: list[Amount] | None = None
    itls: list[list[Gap]] | None = None
    latencies: list[Amount] | None = None


class _Statistics(Foreign):
    mean: Amount = None
    median: Amount = None
    p50: Amount = None
    p90: Amount = None
    p95: Amount = None
    p99: Amount = None


def is_result(content: Any) -> bool:
    """Tell whether JSON looks like a result of `vllm bench serve`."""
    return isinstance(content, dict) and {"request_throughput", "duration", "completed"} <= set(
        content
    )


def read(content: Any, file: str) -> list[Run]:
    """Read a result; raises pydantic's ValidationError, or ValueError, if it is damaged."""
    result = Result.model_validate(content)
    requests = requests_of(_requests(result))
    is_answered = bool(result.completed)
    figures: dict[str, float | None] = {
        "duration_s": result.duration,
        "input_tokens": result.total_input_tokens,
        "output_tokens": result.total_output_tokens,
        "request_throughput_rps": result.request_throughput,
        "output_throughput_tok_s": result.output_throughput,
        "total_throughput_tok_s": result.total_token_throughput,
        "acceptance_length": result.spec_decode_acceptance_length,
        **_statistics(result),
    }
    failed = result.failed
    if failed is None and result.num_prompts is not None and result.completed is not None:
        failed = max(0, result.num_prompts - result.completed)
    is_unpaced = result.request_rate in ("inf", float("inf"))
    return [
        Run(
            file=file,
            tool=TOOL,
            model=result.model_id,
            started_at=_started_at(result.date),
            concurrency=result.max_concurrency,
            rate_rps=_rate(result, is_unpaced),
            completed_requests=result.completed,
            failed_requests=failed,
            # Where nothing was answered it writes zeros.
            figures=completed(figures, requests) if is_answered else Figures(),
            requests=requests,
        )
    ]


def _rate(result: Result, is_unpaced: bool) -> float | None:
    if not is_unpaced:
        return None if result.request_rate is None else float(result.request_rate)
    # Without a limit of clients all is sent at once; with one, clients send once answered.
    return float("inf") if result.max_concurrency is None else None


def _started_at(date: str | None) -> str | None:
    """Read 20261126-163829 (Python, local time of its host, of no known zone) or ISO 8601."""
    if date is None:
        return None
    try:
        return datetime.strptime(date, "%Y%m%d-%H%M%S").replace(tzinfo=UTC).isoformat()
    except ValueError:
        return datetime.fromisoformat(date).astimezone(UTC).isoformat()


def _statistics(result: Result) -> dict[str, float | None]:
    extra = result.model_extra or {}
    figures: dict[str, float | None] = {}
    for theirs, ours in _LATENCIES.items():
        names = ("mean", "median", *(f"p{p}" for p in PERCENTILES))
        told = {name: extra[key] for name in names if (key := f"{name}_{theirs}_ms") in extra}
        read = _Statistics.model_validate(told)
        figures[f"{ours}_mean_ms"] = read.mean
        figures[f"{ours}_p50_ms"] = read.median if read.median is not None else read.p50
        figures |= {f"{ours}_p{p}_ms": getattr(read, f"p{p}") for p in PERCENTILES if p != 50}
    return figures


def _requests(result: Result) -> list[dict[str, Any]]:
    if result.ttfts is None or result.itls is None or result.output_lens is None:
        return []
    count = len(result.ttfts)
    unknown: list[Any] = [None] * count
    columns = (
        result.ttfts,
        result.itls,
        result.output_lens,
        result.input_lens or unknown,
        result.start_times or unknown,
        result.latencies or unknown,
        result.errors or unknown,
    )
    return [_request(*values) for values in zip(*columns, strict=True)]


def _request(
    ttft_s: float | None,
    itl_s: list[float],
    output: float | None,
    input_tokens: float | None,
    start_s: float | None,
    latency_s: float | None,
    error: str | None,
) -> dict[str, Any]:
    # A request without a first token has a TTFT of 0.
    is_ok = not error and bool(ttft_s)
    row: dict[str, Any] = {"is_ok": is_ok, "error": error or None, "start_s": start_s}
    row |= {"input_tokens": input_tokens, "output_tokens": output}
    if not is_ok or ttft_s is None:
        return row
    e2e_s = latency_s if latency_s else ttft_s + sum(itl_s)
    later = (output or 0) - 1
    return row | {
        "ttft_ms": 1e3 * ttft_s,
        "e2e_ms": 1e3 * e2e_s,
        "tpot_ms": 1e3 * (e2e_s - ttft_s) / later if later > 0 else None,
        "itl_ms": [1e3 * gap for gap in itl_s],
    }
