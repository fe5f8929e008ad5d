"""What was measured as llm-d's benchmark reports (version 0.2), one a load point and launch."""

import math
from typing import Any, Literal

from servetune.engines.registry import package_of
from servetune.metrics import PERCENTILES
from servetune.records.loads import Load
from servetune.records.measurements import MeasurementRecord, Metrics
from servetune.records.sessions import Launch, SessionRecord

VERSION = "0.2"

Source = Literal["random", "sampled", "unknown"]
"""Where prompts come from, in llm-d's words."""

_LATENCIES = {
    "ttft": ("time_to_first_token", "ms"),
    "tpot": ("time_per_output_token", "ms/token"),
    "itl": ("inter_token_latency", "ms/token"),
    "e2e": ("request_latency", "ms"),
}


def benchmark_report(
    record: MeasurementRecord, session: SessionRecord, source: Source, version: str
) -> dict[str, Any]:
    """Write a measurement that has metrics; `version` is servetune's.

    What llm-d has no word for stands in the native parts.
    """
    metrics = record.metrics
    assert metrics is not None, "a measurement without numbers is no report"
    launch = next((one for one in session.launches if one.launch == record.launch), None)
    window = metrics.throughput_window or "whole load"
    return {
        "version": VERSION,
        "run": {
            "uid": record.measurement,
            "eid": record.study,
            "time": {"start": record.started_at, "duration": f"PT{metrics.duration_s:.6f}S"},
            "description": f"{record.variant} at {record.workload} {record.load_point}; throughputs"
            f" over: {window}",
            "keywords": [record.variant, record.workload, record.load_point],
        },
        "scenario": {
            "stack": [_engine(record, session, launch)] if launch and session.engine else [],
            "load": {
                "metadata": {"cfg_id": record.load.dataset, "description": record.workload},
                "standardized": _standardized(record.load, metrics, source, version),
                "native": {
                    "args": {"command": record.load_command},
                    "config": record.load.model_dump(mode="json", exclude_defaults=True),
                },
            },
        },
        "results": {"request_performance": {"aggregate": _aggregate(metrics)}},
    }


def _engine(record: MeasurementRecord, session: SessionRecord, launch: Launch) -> dict[str, Any]:
    engine, gpus = package_of(launch.versions), launch.slot.gpus if launch.slot else []
    sizes = {
        short: launch.setting("parallel_config", f"{name}_parallel_size", int) or 1
        for short, name in {"tp": "tensor", "dp": "data", "pp": "pipeline"}.items()
    }
    model = session.model.get("model") or session.variant
    return {
        "metadata": {"label": session.variant, "cfg_id": session.session},
        "standardized": {
            "kind": "inference_engine",
            "tool": engine,
            "tool_version": launch.versions.get(engine, "unknown"),
            "role": "replica",
            "replicas": len(launch.replicas or [None]),
            "model": {"name": model.rpartition("-")[0] or model},
            "accelerator": {"model": session.hardware, "count": len(gpus), "parallelism": sizes},
        },
        "native": {"args": {"command": record.server_command}, "envars": launch.environment},
    }


def _standardized(load: Load, metrics: Metrics, source: Source, version: str) -> dict[str, Any]:
    is_endless = load.rate_rps is None or not math.isfinite(load.rate_rps)
    lengths = {"input": metrics.input_tokens, "output": metrics.output_tokens}
    answered = max(1, metrics.completed_requests)
    told = {
        "tool": load.generator,
        "tool_version": version,
        "source": source,
        "rate_qps": None if is_endless else load.rate_rps,
        "concurrency": load.concurrency,
        **{
            f"{side}_seq_len": {"distribution": "other", "value": round(tokens / answered, 3)}
            for side, tokens in lengths.items()
        },
    }
    return {name: value for name, value in told.items() if value is not None}


def _aggregate(metrics: Metrics) -> dict[str, Any]:
    failed, answered = metrics.failed_requests, metrics.completed_requests
    lengths = {"input_length": metrics.input_tokens, "output_length": metrics.output_tokens}
    rates = {
        "output_token_rate": ("tokens/s", metrics.output_throughput_tok_s),
        "total_token_rate": ("tokens/s", metrics.total_throughput_tok_s),
        "request_rate": ("queries/s", metrics.request_throughput_rps),
    }
    return {
        "requests": {
            "total": answered + failed,
            "failures": failed,
            **{
                name: {"units": "count", "mean": tokens / answered}
                for name, tokens in lengths.items()
                if answered
            },
        },
        "latency": {
            theirs: {"units": units, **values}
            for ours, (theirs, units) in _LATENCIES.items()
            if (values := _statistics(metrics, ours))
        },
        "throughput": {
            name: {"units": units, "mean": value} for name, (units, value) in rates.items()
        },
    }


def _statistics(metrics: Metrics, latency: str) -> dict[str, float]:
    """Return mean and percentiles of a latency; empty where it has none."""
    names = {"mean": f"{latency}_mean_ms", **{f"p{p}": f"{latency}_p{p}_ms" for p in PERCENTILES}}
    values = {short: getattr(metrics, name) for short, name in names.items()}
    known = {short: value for short, value in values.items() if value is not None}
    return known if "mean" in known else {}
