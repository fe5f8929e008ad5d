"""From a study's records to what a prediction is fitted to, and held against."""

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random

import numpy as np

from servetune.load.arrivals import arrival_times
from servetune.predict.bounds import bounds_of
from servetune.predict.fit import ALLOWED, Observed
from servetune.predict.server import Counts, Floats, Requests, Scheduler
from servetune.records.loads import Load
from servetune.records.measurements import MeasurementRecord, Metrics, draft_share, read_measurement
from servetune.records.paths import session_path
from servetune.records.sessions import Launch, read_session
from servetune.records.validity import status_of
from servetune.study.datasets import RandomDataset
from servetune.study.study import Study
from servetune.workloads.draws import draw_length

Recorded = tuple[MeasurementRecord, Observed]
"""A record, and its load as a prediction takes it."""


def read_loads(study: Study, name: str, root: Path) -> dict[str, list[Recorded]]:
    """Read what a study recorded of each variant's first launches, by variant, light loads first.

    Left out are loads that failed or are invalid, conversations, and launches of which the
    checkpoint's or the device's figures are not known.
    """
    launches: dict[tuple[str, int], Launch] = {}
    found: dict[str, list[Recorded]] = defaultdict(list)
    for path in sorted((root / "results" / name / "records").glob("*.json")):
        record = read_measurement(path)
        if record.repeat != 1:
            continue
        at = (record.session, record.launch)
        if at not in launches:
            launches |= _launches(session_path(name, record.session, root))
        # None: another host's, before this one went on, or of a session that has not ended.
        launch = launches.get(at)
        if launch and (observed := observe(record, launch, study)):
            found[record.variant].append((record, observed))
    return {name: light_first(loads) for name, loads in found.items()}


def _launches(path: Path) -> dict[tuple[str, int], Launch]:
    """Return a session's launches by its id and their numbers; none where it has no record."""
    session = read_session(path) if path.is_file() else None
    return {(path.stem, of.launch): of for of in session.launches} if session else {}


def launch_of(record: MeasurementRecord, name: str, root: Path) -> Launch:
    """Read the launch of a study in which a load was measured."""
    session = read_session(session_path(name, record.session, root))
    return next(launch for launch in session.launches if launch.launch == record.launch)


def light_first(loads: Iterable[Recorded]) -> list[Recorded]:
    """Return loads by how much was in flight."""
    return sorted(loads, key=lambda load: (load[1].in_flight, load[0].measurement))


def observe(record: MeasurementRecord, launch: Launch, study: Study) -> Observed | None:
    """Return a recorded load as a prediction takes it; None if too little is known of it.

    So it is of a load that is not ok by the study's limits, and of conversations.
    """
    if status_of(record, study.validity)[0] != "ok" or record.turns:
        return None
    metrics, bounds = record.metrics, bounds_of(launch)
    if not (metrics and bounds and metrics.itl_p50_ms and metrics.e2e_mean_ms):
        return None
    due_s = _due(record.load)
    count = len(due_s) if due_s is not None else record.load.requests or metrics.requests
    inputs, outputs = lengths(record, study, count)
    return Observed(
        requests=Requests(inputs, outputs, record.load.concurrency, due_s),
        counted=metrics.requests,
        in_flight=metrics.request_throughput_rps * metrics.e2e_mean_ms / 1e3,  # Little 1961
        devices=launch.server.tensor_parallel_size or 1,
        scheduler=scheduler_of(launch, metrics),
        processes=launch.setting("parallel_config", "_api_process_count", int) or 1,
        bounds=bounds,
        figures=recorded_figures(metrics),
        window=metrics.throughput_window,
    )


def recorded_figures(metrics: Metrics) -> dict[str, float]:
    """Return those figures of a load that a fit takes, as far as they are known."""
    names = (*ALLOWED, "ttft_p99_ms", "tpot_p99_ms")
    values = {name: getattr(metrics, name, None) for name in names}
    known = {name: value for name, value in values.items() if value is not None}
    match (metrics.ttft_mean_ms, metrics.queue_time_mean_ms, metrics.prefill_time_mean_ms):
        case (float(ttft_ms), float(queue_ms), float(prefill_ms)):
            known["front_end_mean_ms"] = ttft_ms - queue_ms - prefill_ms
    return known


def scheduler_of(launch: Launch, metrics: Metrics) -> Scheduler:
    """Return the settings that a launch resolved, and what was seen of drafts and prefixes."""
    default = Scheduler()
    is_chunked = launch.setting("scheduler_config", "enable_chunked_prefill", bool)
    found = draft_share(metrics.acceptance_length, metrics.tokens_per_step)
    return Scheduler(
        max_num_seqs=launch.server.max_num_seqs or default.max_num_seqs,
        max_num_batched_tokens=launch.server.max_num_batched_tokens
        or default.max_num_batched_tokens,
        kv_blocks=launch.setting("cache_config", "num_gpu_blocks", int),
        block_tokens=launch.setting("cache_config", "block_size", int) or default.block_tokens,
        is_chunked=is_chunked is not False,
        is_async=launch.setting("scheduler_config", "async_scheduling", bool) or False,
        accepted=tuple(found * share for share in metrics.acceptance_by_position or ()),
        hit_ratio=metrics.prefix_cache_hit_ratio or 0.0,
    )


def lengths(record: MeasurementRecord, study: Study, count: int) -> tuple[Counts, Counts]:
    """Return lengths of so many requests: as their dataset draws them, or else their means."""
    dataset = study.datasets.get(record.load.dataset.rpartition("-")[0])
    if isinstance(dataset, RandomDataset) and dataset.shared_prefix is None:
        random = Random(record.load.seed)
        drawn = [
            (draw_length(random, dataset.input_tokens), draw_length(random, dataset.output_tokens))
            for _ in range(count)
        ]
        inputs, outputs = np.array(drawn).T
        return inputs, outputs
    metrics = record.metrics
    assert metrics is not None
    means = (metrics.input_tokens, metrics.output_tokens)
    inputs, outputs = (np.full(count, max(1, round(tokens / metrics.requests))) for tokens in means)
    return inputs, outputs


def _due(load: Load) -> Floats | None:
    """Return when the requests of an open loop were due, as `load.schedule` has them."""
    if load.rate_rps is None:
        return None
    count = load.requests
    if count is None:
        count = math.ceil(load.rate_rps * (load.duration_s or 0))
    due_s = arrival_times(load, count)
    return due_s if load.duration_s is None else due_s[due_s <= load.duration_s]
