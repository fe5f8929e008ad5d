"""One load point: warm up, empty the prefix cache, load, read what came back, record it."""

import math
import shutil
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx

from servetune.engines.counters import Counters, difference
from servetune.engines.dialect import Tiers
from servetune.errors import UserError
from servetune.load.by_class import by_class
from servetune.load.client.judge import ended_by
from servetune.load.client.refusals import was_given_up
from servetune.load.generator import Destination, Job, Reply
from servetune.load.process import Clients, LoadError, LoadRefusedError
from servetune.load.registry import driver_of
from servetune.load.request_table import (
    aggregate,
    attained,
    by_turn,
    from_server,
    quantiles,
    request_table,
)
from servetune.load.schedule import SCHEDULE, write_schedule
from servetune.plan.blank import blank_record
from servetune.plan.planned import Measurement, Session
from servetune.records.measurements import DEFINITIONS, MeasurementRecord
from servetune.records.quality import QualityRecord
from servetune.records.sessions import ServerFacts
from servetune.records.validity import check_measurement, limits_of, refusals_allowed
from servetune.serving.fleet import Fleet
from servetune.serving.ledger import LimitError
from servetune.serving.target import EndedError, Target
from servetune.sessions.agreement import (
    counter_of_tokens,
    from_answers,
    from_chunks,
    from_counters,
    in_flight,
)
from servetune.sessions.allocation import GpuAllocation
from servetune.sessions.cached import cached_answers
from servetune.sessions.card import from_requests
from servetune.sessions.conversations import by_conversation
from servetune.sessions.death import Killing
from servetune.sessions.drafts import from_drafts
from servetune.sessions.expected import arrivals_of, expected_s
from servetune.sessions.leavers import leavers, wait_until_idle
from servetune.sessions.probed import found_by
from servetune.sessions.processes import program_of
from servetune.sessions.provenance import now
from servetune.sessions.replicas import by_replica, from_gateway, met
from servetune.sessions.spending import counting, granted, of_load
from servetune.sessions.watch import LoadWatch
from servetune.study.generators import GENERATORS
from servetune.study.secrets import redacted
from servetune.telemetry.processors import UsageWatch
from servetune.telemetry.reduce import gpu_neighbours, read_signals, rested, throttling
from servetune.telemetry.sampler import Sampler, wait_idle
from servetune.workloads.prepare import Prepared, warm_up

# Longer waits than for imports, and for a few answers, on any host that is not stuck.
CLIENT_READY_TIMEOUT_S = 300.0
WARM_UP_TIMEOUT_S = 300.0
START_UP_TIMEOUT_S = 300.0
"""A generator of others takes some 20 s until it sends, and several times that on a busy host."""

LOG_TAIL_LINES = 40
"""Of a server's log in the record of a failure: a traceback and what came before it."""

STEPS_COUNTED_BY = ("api_server_count", "data_parallel_size")
"""Each of several API server processes counts every step that gives it a token, each engine its
own: their sum is not the number of forward passes."""

UNUSABLE = (LoadError, httpx.HTTPError, OSError, KeyError, ValueError)
"""What a load raises that cannot be used."""

GatewayCounts = tuple[dict[str, float], dict[str, float]]
"""What a gateway counted before a load and after it."""

Made = TypeVar("Made", MeasurementRecord, QualityRecord)


@dataclass(frozen=True)
class Bench:
    """What the load points of one launch share. Paths are relative to `root`.

    `servers` names its servers where other sessions share them.
    """

    session: Session
    root: Path
    launch: int
    servers: str | None
    target: Target
    facts: ServerFacts
    clients: Clients
    tokenizer: Path | None
    sampler: Sampler
    allocation: GpuAllocation
    tiers: Tiers = field(default_factory=Tiers)


def measure(
    bench: Bench, measurement: Measurement, prepared: Prepared | UserError
) -> MeasurementRecord:
    """Run one load point and return its record; raw output goes to results/raw/<study>.

    One that could not be prepared, but has an error, is recorded as failed.

    Raises:
        EndedError: the target is another one now, or refused so much that it is left alone.
        ServerError: the target died or hangs.
    """
    record = blank_record(bench.session, measurement, bench.launch, bench.target.command)
    if isinstance(prepared, UserError):
        return failed(record, str(prepared), [])
    load, planned = measurement.load, measurement.probe
    generator, driver = GENERATORS[load.generator], driver_of(load.generator)
    raw = Path("results", "raw", bench.session.study, measurement.id)
    scratch = raw.with_name(f".{raw.name}")
    destination = Destination(
        url=bench.target.url,
        served_name=bench.target.name,
        tokenizer=bench.tokenizer,
        schedule=scratch / SCHEDULE,
        raw=scratch,
        keeps_connections=bench.target.keeps_connections,
        ca=bench.target.ca,
    )
    arguments = driver.arguments(load, destination)
    command = [*generator.command, *arguments]
    record = record.model_copy(
        update={
            "server": bench.facts,
            "device": bench.allocation.slot.device,
            "servers": bench.servers,
            "started_at": now(),
            "protocol": generator.protocol,
            "load_command": [word.replace(str(scratch), str(raw)) for word in command],
        }
    )
    killing: Killing | None = None
    bench.sampler.discard(measurement.id)
    folder = bench.root / scratch
    # What a killed session left is of no use; the lock makes sure that nobody writes there now.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        write_schedule(prepared.schedule, folder / SCHEDULE)
        driver.write_data(prepared.schedule, folder / SCHEDULE)
        rule = planned.rule if planned else None
        argv = [*program_of(load.generator, bench.session, bench.root), *arguments]
        job = Job(argv=argv, schedule=destination.schedule, load=load, probe=rule)
        if planned is None:
            most = refusals_allowed(load, len(prepared.schedule), bench.session.validity)
            job = job.model_copy(update={"refusals": most})
        if load.kill and isinstance(bench.target, Fleet):
            killing = Killing(bench.target, load.kill)
        drop = partial(bench.clients.drop, generator.name)
        with granted(bench.target, of_load(prepared), drop) as may_send:
            if may_send:
                counted = {"ledger": may_send.path, "retries": may_send.retries}
                job = job.model_copy(update=counted)
            loaded = _load(bench, measurement, job, prepared, killing)
            before, after, around, usage, gateway, idle_s = loaded
        replies = driver.read(folder)
        requests = request_table(replies, prepared.schedule, load)
        span_s = _span_s(replies) if generator.startup_s else (0.0, math.inf)
        bench.sampler.keep(measurement.id, *span_s)
        # One that has just died seems to run until its guard has ended.
        if not bench.target.is_healthy():
            bench.target.confirm()
    except LimitError as error:
        shutil.rmtree(folder)
        return failed(record, str(error), [])
    except BaseException as error:
        bench.clients.drop(generator.name)
        shutil.rmtree(folder)
        if not isinstance(error, UNUSABLE):
            raise
        bench.target.confirm()
        if bench.target.account and isinstance(error, LoadRefusedError):
            raise EndedError(redacted(str(error), bench.target.secrets)) from None
        reason = redacted(f"{generator.name}: {error}", bench.target.secrets)
        return failed(record, reason, bench.target.log_tail(LOG_TAIL_LINES))
    probe = found_by(planned, load, requests, ended_by(folder)) if planned else None
    ended = {"given_up": True, "ended_early": None} if was_given_up(folder) else {}
    requests.to_parquet(folder / "requests.parquet", index=False)
    shutil.rmtree(bench.root / raw, ignore_errors=True)
    folder.rename(bench.root / raw)
    grown = difference(before, after)
    is_several = bench.session.replicas != 1
    if is_several or any((bench.session.server.get(n) or 1) != 1 for n in STEPS_COUNTED_BY):
        grown.pop("engine_steps", None)
    metrics = aggregate(requests, grown, load)
    # What a cache of answers before the server kept from it is none of the server's.
    served, reached = requests, replies
    if (cached := cached_answers(requests, replies, prepared.schedule)) is not None:
        served = from_server(requests)
        asked = {*served["scheduled"]}
        reached = [reply for reply in replies if reply.scheduled in asked]
    wordless, interval = int(load.is_chat and generator.counts_role), bench.facts.stream_interval
    is_counted = bench.target.has_counters
    chunks = {}
    if generator.has_itl and not load.is_pooled:
        chunks = from_chunks(served, metrics, interval, wordless, has_counters=is_counted)
    launch = bench.sampler.samples()
    samples, resting = launch[launch["measurement"] == measurement.id], rested(launch)
    ratio, reasons = throttling(samples)
    block_tokens = bench.facts.kv_cache_block_tokens
    is_dummy = bench.session.server.get("load_format") == "dummy"
    # What dummy weights say is no text: its tokens may be encoded otherwise.
    tokenizer = None if is_dummy or bench.tokenizer is None else bench.root / bench.tokenizer
    count = counter_of_tokens(tokenizer) if tokenizer else None
    fleet = by_replica(grown, samples, *gateway)
    if fleet:
        first_sent_s = min(reply.sent_s for reply in replies)
        death = killing.death(requests, first_sent_s) if killing else None
        fleet = fleet.model_copy(update={**met(requests), "death": death})
    card = usage.read(*span_s).model_copy(
        update={
            **around,
            **from_requests(requests, prepared.schedule, load, block_tokens),
            **gpu_neighbours(samples, resting),
            **from_answers(reached, prepared.schedule, load, bench.target.name, count),
            **from_counters(served, metrics, before, after, samples),
            **from_drafts(grown, bench.session.speculative, not requests["is_ok"].all()),
            **chunks,
            **in_flight(requests, load, samples),
            **from_gateway(fleet, bench.session.gateway.policy if bench.session.gateway else None),
            "tier_hit_ratio": _tier_hit_ratio(bench.tiers, grown),
            "throttled_ratio": ratio,
            "throttle_reasons": reasons,
            **ended,
        }
    )
    status, broken_rule, reason = check_measurement(
        metrics, card, limits_of(bench.session.validity, probe, load)
    )
    measured: dict[str, Any] = {
        "status": status,
        "rule": broken_rule,
        "reason": reason,
        "ended_at": now(),
        "card": card,
        "probe": probe,
        "signals": read_signals(samples, resting, grown, requests),
    }
    if status != "failed":
        measured |= {
            "definitions": DEFINITIONS,
            "metrics": metrics,
            "quantiles": quantiles(requests),
            "attained": attained(requests, measurement.limits_ms),
            "turns": by_turn(requests),
            "fleet": fleet,
            "leavers": leavers(requests, grown, idle_s),
            "cached": cached,
            "conversations": by_conversation(requests, prepared.schedule),
            "classes": by_class(requests, load),
        }
    return record.model_copy(update=measured)


def _span_s(replies: list[Reply]) -> tuple[float, float]:
    """Return from when to when a load lasted: a generator's own start-up is no part of it."""
    ends_s = [reply.sent_s + (reply.e2e_s or 0.0) for reply in replies]
    return min((reply.sent_s for reply in replies), default=0.0), max(ends_s, default=math.inf)


def _load(
    bench: Bench,
    measurement: Measurement,
    job: Job,
    prepared: Prepared,
    killing: Killing | None,
) -> tuple[Counters, Counters, dict[str, Any], UsageWatch, GatewayCounts, float | None]:
    """Load the target.

    Returns its counters before and after, fields of its card, who used the processors, what its
    gateway counted before and after, and how long it was busy after clients had left.
    """
    load, target = job.load, bench.target
    startup_s = START_UP_TIMEOUT_S if GENERATORS[load.generator].startup_s else 0.0
    client = bench.clients.start(load.generator)
    client.wait_ready(CLIENT_READY_TIMEOUT_S)
    wait_idle(target.counters)
    with target.client(WARM_UP_TIMEOUT_S) as http:
        warm_up(http, target.name, prepared.warmup, load, counting(target))
    was_reset = None
    if load.reset_prefix_cache:
        was_reset = target.reset_prefix_cache(has_tiers=bool(bench.tiers.connectors))
    before = target.counters(tries=3)
    gateway_before = target.gateway_counters()
    others = bench.allocation.count_others()
    arrivals_s = arrivals_of(prepared.schedule, load)
    usage = UsageWatch(client.pid)
    usage.start()
    watch = LoadWatch(
        target=target,
        usage=usage,
        before=before,
        requests=len(prepared.schedule),
        output_tokens=sum(request.output_tokens for request in prepared.schedule),
        stall_timeout_s=bench.session.stall_timeout_s
        + max((request.delay_s for request in prepared.schedule), default=0.0),
        startup_timeout_s=startup_s,
        load_timeout_s=bench.session.load_timeout_s,
        other_cpu_ratio=bench.session.validity.other_cpu_ratio,
        expected_s=expected_s(bench.session, measurement, bench.root, arrivals_s),
        arrivals_s=arrivals_s,
        finished=killing or (lambda _: None),
    )
    log_began = target.log_size()
    bench.sampler.usage = usage.so_far
    bench.sampler.measurement = measurement.id
    try:
        client.run(job, startup_s + bench.session.load_timeout_s, watch)
    finally:
        bench.sampler.measurement = ""
        bench.sampler.usage = None
        usage.stop()
    idle_s = wait_until_idle(load, target.counters)
    log_ended = target.log_size()
    if killing:
        killing.wait_until_noticed()
    after = target.counters(tries=3)
    # The more of both, as a load is short beside the session that another one is.
    others = None if others is None else max(others, bench.allocation.count_others() or 0)
    around = {
        "other_gpus_in_use": others,
        "prefix_cache_was_reset": was_reset,
        "kept_tiers": list(bench.tiers.kept),
        "counters_were_read": bool(before and after) if target.has_counters else None,
        "rejected_requests": prepared.rejected or None,
        "truncated_requests": prepared.truncated or None,
        **target.load_log(log_began, log_ended),
    }
    return before, after, around, usage, (gateway_before, target.gateway_counters()), idle_s


def _tier_hit_ratio(tiers: Tiers, grown: Counters) -> float | None:
    hits, queries = grown.get("external_prefix_cache_hits"), grown.get("prefix_cache_queries")
    return hits / queries if tiers.connectors and hits is not None and queries else None


def failed(record: Made, reason: str, log_tail: list[str]) -> Made:
    """Return the record of what could not be measured, and why."""
    return record.model_copy(
        update={"status": "failed", "reason": reason, "log_tail": log_tail, "ended_at": now()}
    )
