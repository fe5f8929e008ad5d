"""Seeded, plausible records for the quickstart study, and the tables made from them."""

import atexit
import math
import random
import shutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pandas as pd
import pytest

import servetune.plan.checks
from servetune.metrics import QUANTILE_PROBABILITIES
from servetune.plan.make import make_plan
from servetune.plan.planned import Measurement, Plan, Session
from servetune.records.measurements import (
    Card,
    ConversationMetrics,
    MeasurementRecord,
    Metrics,
    Signals,
    TurnMetrics,
)
from servetune.records.sessions import (
    Architecture,
    Ceilings,
    Launch,
    ServerFacts,
    SessionRecord,
)
from servetune.records.validity import check_measurement
from servetune.report.measured import Measured
from servetune.tables import write
from servetune.tables.timeline import COLUMNS
from tests.project import Project

# Time to the first token and per token at concurrency 1, and what a server's cache holds.
SPEED = {"bf16": (38.0, 9.8), "w8a8": (31.0, 7.9), "fp8-kv": (39.5, 9.9), "eagle3": (44.0, 6.1)}
CACHE = {"fp8-kv": 1_048_576, "eagle3": 419_424}
ACCEPTED = [0.71, 0.46, 0.27]
TINY = Architecture(
    layers=4,
    attention_width=256,
    kv_values_per_token=1024,
    linear_parameters=2_949_120,
    linear_bytes=5_902_848,
    head_parameters=524_288,
    head_bytes=1_048_576,
    stored_bytes=8_000_000,
)
DRAFT = TINY.model_copy(update={"layers": 1, "kv_values_per_token": 256, "linear_bytes": 2_131_968})
CPU = Ceilings(memory_bandwidth_gb_s=23.0, bf16_tflop_s=0.22, source="measured")


@dataclass(frozen=True, eq=False)
class ReportData(Measured):
    """What the renderers take, and the records that it is made from."""

    records: dict[str, MeasurementRecord] = field(default_factory=dict, repr=False)


def make_quickstart_plan(monkeypatch: pytest.MonkeyPatch | None = None, **params: Any) -> Plan:
    """Plan the quickstart without an engine's argument parser, which is not what is tested."""
    params = {"study": "quickstart", **params}
    if monkeypatch is None:
        with pytest.MonkeyPatch.context() as patch:
            return make_quickstart_plan(patch, **params)
    monkeypatch.setattr(servetune.plan.checks, "known_parser", lambda *_: None)
    return make_plan(params, _project())


@cache
def _project() -> Path:
    folder = mkdtemp(prefix="quickstart-")
    atexit.register(shutil.rmtree, folder)
    return Project(Path(folder)).root


def with_load(plan: Plan, workload: str, *points: str) -> Plan:
    """Add a workload whose load points are told by their names, such as c8, r2.5, rinf or t1."""
    sessions = []
    for session in plan.sessions:
        first = session.measurements[0]
        added = [
            Measurement(
                id=f"{session.variant}-{workload}-{point}-r{session.repeat}-x",
                workload=workload,
                load_point=point,
                load=first.load.model_copy(update={**_load(point), "requests": 40}),
            )
            for point in points
        ]
        measurements = [*session.measurements, *added]
        sessions.append(session.model_copy(update={"measurements": measurements}))
    return plan.model_copy(update={"sessions": sessions})


def _load(point: str) -> dict[str, Any]:
    told = {part[0]: part[1:] for part in point.split("-")}
    return {
        "concurrency": int(told["c"]) if "c" in told else None,
        "rate_rps": float(told["r"]) if "r" in told else None,
        "time_scale": float(told["t"]) if "t" in told else None,
    }


def make_all_kinds() -> Plan:
    """Plan every kind of load, with conversations and a price."""
    plan = with_load(make_quickstart_plan(), "chat", "c2", "c8")
    plan = with_load(plan, "open", "r2.5", "c8-r6", "rinf")
    return with_load(plan, "replay", "t1").model_copy(update={"price_usd_per_hour": 2.5})


def make_data(
    plan: Plan | None = None,
    *,
    failed: dict[str, str] | None = None,
    invalid: dict[str, str] | None = None,
    cards: dict[str, dict[str, Any]] | None = None,
    log_tail: list[str] | None = None,
    command: list[str] | None = None,
    host: str = "AMD EPYC 7R13",
) -> ReportData:
    """Make the tables of a plan (by default the quickstart's).

    `failed` and `invalid` map a variant, or the beginning of a measurement's id, to a reason;
    `cards` maps it to what its validity card shows instead. An invalid measurement has one
    failed request, whose error is the reason. Workloads named chat hold conversations.
    """
    plan = plan or make_quickstart_plan()
    records = {}
    for session in plan.sessions:
        for measurement in session.measurements:
            died, broke, seen = (
                _of(told, session, measurement) for told in (failed, invalid, cards)
            )
            record = _record(plan, session, measurement, died, broke, seen, command)
            if record.status != "ok":
                tail = log_tail or ["INFO starting", "ERROR no room"]
                record = record.model_copy(update={"log_tail": tail})
            records[measurement.id] = record
    return ReportData(
        plan=plan,
        table=write.load_points(plan, records),
        quantiles=write.quantiles(write.ok_records(plan, records)),
        sessions={s.id: _session(s, records, host) for s in plan.sessions},
        turns=write.turns(write.ok_records(plan, records)),
        classes=write.classes(write.ok_records(plan, records)),
        over_time=_over_time(records),
        records=records,
    )


def _over_time(records: dict[str, MeasurementRecord]) -> pd.DataFrame:
    """Telemetry of half a minute for each measurement, one after another in its session."""
    rows: list[dict[str, Any]] = []
    began: dict[str, float] = {}
    for record in records.values():
        if record.metrics is None:
            continue
        start = began.get(record.session, 0.0)
        began[record.session] = start + 32
        place = {name: getattr(record, name) for name in COLUMNS if hasattr(record, name)}
        speculates = record.metrics.acceptance_length is not None
        for step in range(60):
            wave = math.sin(step / 5)
            rows.append(
                {
                    **place,
                    "time_s": start + step / 2,
                    "requests_running": record.signals.running_mean,
                    "requests_waiting": max(0.0, 2 * wave),
                    "kv_cache_usage_ratio": 0.3 + 0.2 * wave,
                    "output_throughput_tok_s": record.metrics.output_throughput_tok_s,
                    "acceptance_length": 2.4 + 0.1 * wave if speculates else None,
                    "acceptance_by_position": ACCEPTED if speculates else None,
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of(told: dict[str, Any] | None, session: Session, measurement: Measurement) -> Any:
    """What was told of a measurement, by its variant or how its id begins; the last counts."""
    found = [
        value
        for key, value in (told or {}).items()
        if key == session.variant or measurement.id.startswith(key)
    ]
    return found[-1] if found else None


def _record(
    plan: Plan,
    session: Session,
    measurement: Measurement,
    failed: str | None,
    invalid: str | None,
    seen: dict[str, Any] | None,
    command: list[str] | None,
) -> MeasurementRecord:
    samples = _sample(session, measurement)
    # Not validated: the report escapes names that no record may have.
    record = MeasurementRecord.model_construct(
        measurement=measurement.id,
        study=plan.study,
        variant=session.variant,
        workload=measurement.workload,
        load_point=measurement.load_point,
        repeat=session.repeat,
        status="failed",
        reason=failed,
        session=session.id,
        launch=1,
        load=measurement.load,
        server_command=command or _server_command(session),
        load_command=_load_command(session, measurement),
        started_at="2026-11-03T10:00:00+00:00",
        ended_at="2026-11-03T10:00:20+00:00",
    )
    if failed is not None:
        return record
    metrics = _metrics(samples, measurement, session.speculative is not None, invalid is not None)
    card = _card(measurement, metrics).model_copy(update={"first_error": invalid, **(seen or {})})
    status, rule, reason = check_measurement(metrics, card, plan.validity)
    return record.model_copy(
        update={
            "status": status,
            "rule": rule,
            "reason": reason,
            "server": _server(session),
            "metrics": metrics,
            "quantiles": {k: _quantiles(v) for k, v in samples.items()},
            "card": card,
            "signals": _signals(measurement),
            "turns": _turns(session.variant, samples) if measurement.workload == "chat" else [],
            "conversations": CONVERSATIONS if measurement.workload == "chat" else None,
        }
    )


def _card(measurement: Measurement, metrics: Metrics) -> Card:
    """What an undisturbed machine shows, without a GPU."""
    rng = random.Random(measurement.id.rsplit("-", 1)[0])
    rate_rps = None if measurement.load.is_at_once else measurement.load.rate_rps
    return Card(
        prefix_cache_was_reset=True,
        counters_were_read=True,
        ended_early=False,
        implied_prefix_cache_hit_ratio=max(0.0, (metrics.prefix_cache_hit_ratio or 0) - 0.004),
        offered_rate_rps=rate_rps,
        sent_rate_rps=rate_rps * rng.uniform(0.985, 1.015) if rate_rps else None,
        send_delay_p50_ms=rng.uniform(0.1, 0.6),
        send_delay_p99_ms=rng.uniform(0.8, 6),
        client_cpu_ratio=rng.uniform(0.08, 0.45),
        client_wait_ratio=rng.uniform(0.001, 0.04),
        client_memory_bytes=int(rng.uniform(2.1e8, 3.4e8)),
        wrong_length_requests=0,
        other_cpu_ratio=rng.uniform(0.004, 0.05),
    )


def _signals(measurement: Measurement) -> Signals:
    """A server that is as busy as it was asked to be, with its cache nearly empty."""
    running = min(8.0, float(_in_flight(measurement)))
    return Signals(
        samples=60,
        busy_s=30.0,
        running_mean=running,
        running_max=running,
        waiting_mean=0.0,
        waiting_max=0.0,
        waiting_share_ratio=0.0,
        kv_cache_usage_mean_ratio=0.01 * running,
        kv_cache_usage_max_ratio=0.02 * running,
        context_mean_tokens=92.0,
        context_max_tokens=130,
    )


CONVERSATIONS = ConversationMetrics(
    conversations=4,
    turns_at_once_max=1,
    e2e_p50_s=31.5,
    e2e_p99_s=42.5,
    busy_p50_s=1.5,
    busy_p99_s=2.5,
)
"""Users who think for 30 seconds in all."""


def _turns(variant: str, samples: dict[str, list[float]]) -> list[TurnMetrics]:
    """Six turns, each of which finds most of the earlier ones in the prefix cache."""
    ttft, tpot = (_quantile(samples[name], 0.5) for name in ("ttft_ms", "tpot_ms"))
    return [
        TurnMetrics(
            turn=turn,
            requests=8 if turn < 5 else 4,
            input_tokens_mean=120.0 + 190 * (turn - 1),
            prefix_cache_hit_ratio=0.0 if turn == 1 else 0.95 - 0.7 / turn - len(variant) / 100,
            ttft_p50_ms=ttft * (1 + 0.05 * (turn - 1)),
            tpot_p50_ms=tpot,
        )
        for turn in range(1, 7)
    ]


def _server(session: Session) -> ServerFacts:
    tokens = CACHE.get(session.variant, 524_288)
    return ServerFacts(
        vllm_version="0.32.0",
        kv_cache_tokens=tokens,
        kv_cache_max_concurrency=tokens / 1024,
        kv_cache_gib=1.0,
        kv_cache_dtype="fp8" if session.variant == "fp8-kv" else "auto",
        max_num_seqs=8,
        max_num_batched_tokens=2048,
        max_model_len=1024,
        startup_s=52.0 + session.order,
        startup_imports_s=38.0 + session.order,
        startup_weights_s=1.5,
        startup_compilation_s=9.0,
        startup_profiling_s=3.5,
    )


def _server_command(session: Session) -> list[str]:
    arguments = [
        part
        for key, value in session.server.items()
        for part in (f"--{key.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]
    return [
        "env",
        *(f"{name}={value}" for name, value in session.environment.items()),
        "vllm",
        "serve",
        f"data/models/{session.model}",
        "--host",
        "127.0.0.1",
        *arguments,
        "--hf-overrides",
        '{"rope_scaling": null, "note": "it\'s quoted"}',
    ]


def _load_command(session: Session, measurement: Measurement) -> list[str]:
    return [
        "vllm",
        "bench",
        "serve",
        "--backend",
        "openai",
        "--max-concurrency",
        str(measurement.load.concurrency),
        "--num-prompts",
        str(measurement.load.requests),
        "--seed",
        str(measurement.load.seed),
    ]


def _sample(session: Session, measurement: Measurement) -> dict[str, list[float]]:
    """Latencies in ms of each request: lognormal around a value that grows with the load."""
    # An id's digest changes with every engine lock; the numbers of a test should not.
    rng = random.Random(measurement.id.rsplit("-", 1)[0])
    seed = sum(map(ord, session.variant)) % 7
    ttft, tpot = SPEED.get(session.variant, (36.0 + seed, 8.0 + seed / 3))
    load = _in_flight(measurement)
    requests = measurement.load.requests
    assert requests is not None
    crowd = 1 + 0.16 * (load - 1) * (1.5 if session.speculative else 1)
    ttfts = [ttft * crowd**1.3 * math.exp(rng.gauss(0, 0.22)) for _ in range(requests)]
    tpots = [tpot * crowd * math.exp(rng.gauss(0, 0.07)) for _ in range(requests)]
    return {
        "ttft_ms": ttfts,
        "tpot_ms": tpots,
        "itl_ms": [t * math.exp(rng.gauss(0, 0.15)) for t in tpots],
        "e2e_ms": [a + 63 * b for a, b in zip(ttfts, tpots, strict=True)],
    }


def _in_flight(measurement: Measurement) -> float:
    """About how many requests are in flight: a batch sends all at once."""
    load = measurement.load
    assert load.requests is not None
    return min(load.concurrency or load.rate_rps or 4, load.requests)


def _quantiles(values: list[float]) -> list[float]:
    told: list[float] = np.quantile(values, QUANTILE_PROBABILITIES).tolist()
    return told


def _quantile(values: list[float], probability: float) -> float:
    ordered = sorted(values)
    position = probability * (len(ordered) - 1)
    low, high = math.floor(position), math.ceil(position)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def _metrics(
    samples: dict[str, list[float]], measurement: Measurement, speculative: bool, one_fails: bool
) -> Metrics:
    requests = measurement.load.requests
    assert requests is not None
    duration = sum(samples["e2e_ms"]) / 1000 / _in_flight(measurement)
    latencies = {
        f"{name[:-3]}_p{p}_ms": _quantile(values, p / 100)
        for name, values in samples.items()
        for p in (50, 90, 95, 99)
    }
    means = {f"{n[:-3]}_mean_ms": sum(values) / len(values) for n, values in samples.items()}
    return Metrics(
        requests=requests,
        completed_requests=requests - one_fails,
        failed_requests=int(one_fails),
        duration_s=duration,
        input_tokens=requests * 60,
        output_tokens=requests * 64,
        request_throughput_rps=requests / duration,
        output_throughput_tok_s=requests * 64 / duration,
        total_throughput_tok_s=requests * 124 / duration,
        **latencies,
        **means,
        acceptance_length=1 + sum(ACCEPTED) if speculative else None,
        acceptance_ratio=sum(ACCEPTED) / 3 if speculative else None,
        acceptance_by_position=ACCEPTED if speculative else None,
        prefix_cache_hit_ratio=0.61 if measurement.workload == "chat" else 0.004,
        preemptions=0,
    )


def _session(session: Session, records: dict[str, MeasurementRecord], host: str) -> SessionRecord:
    measurements = [m.id for m in session.measurements]
    first = records[measurements[0]]
    launch = Launch.model_construct(
        launch=1,
        status="ok" if first.status == "ok" else "failed",
        command=first.server_command,
        environment=session.environment,
        started_at="2026-11-03T09:59:00+00:00",
        server=first.server,
        versions={"python": "3.11.13", "vllm": "0.32.0", "torch": "2.13.0+cpu"},
        git={"commit": "0b4e11e6a7c1f20d9f0d5c1be7e7bb3a0c9d1e2f", "is_dirty": False},
        host={"cpu": host, "cores": 2, "memory_bytes": 33_000_000_000, "gpus": []},
        model=TINY,
        draft=DRAFT if session.speculative else None,
        ceilings=CPU,
        measured=measurements,
    )
    return SessionRecord.model_construct(
        session=session.id,
        study=session.study,
        variant=session.variant,
        repeat=session.repeat,
        hardware=session.hardware,
        engine=session.engine,
        measurements=measurements,
        launches=[launch],
    )


def make_twelve_variants(plan: Plan) -> Plan:
    """Plan the four variants three times, under other names."""
    plans = [plan]
    for model in ("-small", "-large"):
        renamed = rename_variants(plan, {name: name + model for name in plan.variants})
        sessions = [s.model_copy(update={"id": s.id + model}) for s in renamed.sessions]
        plans.append(renamed.model_copy(update={"sessions": sessions}))
    return plan.model_copy(
        update={
            "variants": [name for each in plans for name in each.variants],
            "sessions": [session for each in plans for session in each.sessions],
        }
    )


HOSTILE = (
    "</script><script>window.broken = 1</script>",
    "<!-- <img src=x onerror='window.broken = 1'> & \"quoted\" 'single'",
    "a.b[0]|c*d_e`f`",
    "{{ 7 * 7 }} ${window.broken = 1}",
)
"""Text that would break a page, a template, a chart or a Markdown table."""


def rename_variants(plan: Plan, names: dict[str, str]) -> Plan:
    """Rename variants beyond what a study allows: a renderer trusts no name."""
    sessions = [
        s.model_copy(
            update={
                "variant": names.get(s.variant, s.variant),
                "measurements": [
                    m.model_copy(update={"id": m.id.replace(s.variant, names.get(s.variant, "x"))})
                    for m in s.measurements
                ],
            }
        )
        for s in plan.sessions
    ]
    return plan.model_copy(
        update={
            "sessions": sessions,
            "variants": [names.get(v, v) for v in plan.variants],
            "baseline": names.get(plan.baseline, plan.baseline),
        }
    )


def make_hostile_data() -> ReportData:
    """Make tables in which every text that comes from users or logs attacks."""
    plan = make_quickstart_plan()
    plan = rename_variants(plan, dict(zip(plan.variants, HOSTILE, strict=True)))
    plan = plan.model_copy(update={"question": HOSTILE[0], "study": HOSTILE[1]})
    return make_data(
        plan,
        failed={HOSTILE[1]: HOSTILE[0]},
        invalid={HOSTILE[2]: HOSTILE[1]},
        log_tail=list(HOSTILE),
        command=["vllm", "serve", *HOSTILE, "it's\n two lines"],
        host=HOSTILE[0],
    )
