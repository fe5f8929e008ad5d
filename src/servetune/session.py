"""One session: serve a variant, send it every load point that it still owes, record each.

A session does not fail because of what it measures: a server that cannot start, dies or hangs
leaves records that say so. Each record is written when its load point ends, so a session that
was interrupted goes on where it was.
"""

import json
import math
import os
import time
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from servetune import searches
from servetune.arguments import as_argv
from servetune.ceilings import measured_ceilings
from servetune.engines import engine_id, read_engine
from servetune.errors import UserError
from servetune.hardware import check_hardware, describe_host, gpus, sole_use
from servetune.insight.architecture import read_architecture
from servetune.load.client import Clients, LoadClient
from servetune.load.prepare import Prepared, prepare
from servetune.load.registry import GENERATORS
from servetune.measure import LOG_TAIL_LINES, Bench, blank_record, failed, measure
from servetune.models.make import checkpoint
from servetune.nvml import Gpus, other_processes
from servetune.paths import quality_path, record_path, session_path
from servetune.plan import Measurement, PlannedSearch, Session
from servetune.probes import scout
from servetune.progress import say
from servetune.provenance import git_state, now
from servetune.quality.measure import blank_quality, measure_quality
from servetune.quality.record import QualityRecord
from servetune.records import Launch, MeasurementRecord, SessionRecord, write_json
from servetune.searches import ended_of, next_probe
from servetune.serve import Server, ServerError
from servetune.telemetry import Sampler, write_samples
from servetune.workloads.datasets import read_requests

OWN_ARGUMENTS = ("enable_prompt_tokens_details",)
"""Turned on where the engine knows them: with it, answers tell their cached prompt tokens."""

VISIBLE = "CUDA_VISIBLE_DEVICES"


def run_session(session: Session, root: Path, until_s: float = math.inf) -> None:
    """Measure what a session owes, then write its record to results/<study>/sessions.

    Args:
        session: what to measure.
        root: the project's folder.
        until_s: no load point begins later, by `time.monotonic`; a session that still owes one
            then has no record.

    Raises:
        UserError: this machine cannot measure it: other hardware, no engine, no model.
    """
    if not is_complete(session, root):
        visible = session.environment.get(VISIBLE)
        check_hardware(session.hardware, visible)
        with sole_use(_accelerators(session, visible)):
            while time.monotonic() < until_s and not is_complete(session, root):
                _launch(session, root.absolute(), until_s)
    if is_complete(session, root):
        write_session(session, root)


def _accelerators(session: Session, visible: str | None) -> list[str]:
    """Return the UUIDs of the GPUs that a session uses; empty on a CPU."""
    if session.hardware == "cpu":
        return []
    return [gpu["uuid"] for gpu in gpus(visible)]


def write_session(session: Session, root: Path) -> None:
    """Write the record of a session that owes nothing."""
    write_json(session_path(session.study, session.id, root), _summary(session, root))


def owed_by(session: Session, root: Path) -> list[Measurement]:
    """Return the measurements of a session that have no record yet, in their order."""
    return [m for m in session.measurements if not record_path(session.study, m.id, root).is_file()]


def next_owed(session: Session, root: Path) -> Measurement | None:
    """Return what a session has to measure next: its load points, then the probes of searches."""
    for measurement in owed_by(session, root):
        return measurement
    for search in session.searches:
        if (probe := next_probe(session, search, root)) is not None:
            return probe
    return None


def owes_quality(session: Session, root: Path) -> bool:
    """Tell whether a session has the quality of its variant still to measure."""
    quality = session.quality
    return quality is not None and not quality_path(session.study, quality.id, root).is_file()


def is_complete(session: Session, root: Path) -> bool:
    """Tell whether a session has measured all that it owes."""
    return next_owed(session, root) is None and not owes_quality(session, root)


def count_owed(session: Session, root: Path) -> int:
    """Count what a session has to measure: load points, searches that have not ended, quality."""
    searching = sum(next_probe(session, search, root) is not None for search in session.searches)
    return len(owed_by(session, root)) + searching + owes_quality(session, root)


def _raw(session: Session, root: Path) -> Path:
    return root / "results" / "raw" / session.study / session.id


def launch_files(session: Session, root: Path) -> list[Path]:
    """Return the files of a session's launches, each written while it ran."""
    return sorted(_raw(session, root).glob("launch-*.json"))


def _summary(session: Session, root: Path) -> SessionRecord:
    files = launch_files(session, root)
    ended = ended_of(session.study, session.searches, root)
    return SessionRecord(
        session=session.id,
        study=session.study,
        variant=session.variant,
        repeat=session.repeat,
        hardware=session.hardware,
        engine=session.engine,
        order=session.order,
        measurements=[
            *(m.id for m in session.measurements),
            *(id for search in ended for id in search.measurements),
            *(search.search for search in ended),
            *([session.quality.id] if session.quality else []),
        ],
        model={"model": session.model, "draft": session.draft},
        launches=[Launch.model_validate_json(file.read_bytes()) for file in files],
    )


def _launch(session: Session, root: Path, until_s: float) -> None:
    """Start a server and measure until nothing is owed, the time is up, or the server is gone."""
    owed = owed_by(session, root)
    number = len(launch_files(session, root)) + 1
    raw = _raw(session, root)
    label = session.variant if session.repeat == 1 else f"{session.variant} r{session.repeat}"
    server = _server(session, number, root)
    launch = _new_launch(session, number, server, root)

    def note(**changes: Any) -> None:
        nonlocal launch
        launch = launch.model_copy(update=changes)
        write_json(raw / f"launch-{number}.json", launch)

    def keep(record: MeasurementRecord) -> None:
        write_json(record_path(session.study, record.measurement, root), record)
        note(measured=[*launch.measured, record.measurement])

    def give_up(measurements: list[Measurement], reason: str) -> None:
        say(f"{label}: {reason}")
        tail = server.log_tail(LOG_TAIL_LINES)
        note(status="failed", reason=reason, log_tail=tail)
        for measurement in measurements:
            blank = blank_record(session, measurement, number, server.command)
            keep(failed(blank, reason, tail))

    def keep_quality(record: QualityRecord) -> None:
        write_json(quality_path(session.study, record.quality, root), record)
        note(measured=[*launch.measured, record.quality])

    def give_up_quality(reason: str) -> None:
        if session.quality and owes_quality(session, root):
            blank = blank_quality(session, session.quality, number, server.command)
            tail = server.log_tail(LOG_TAIL_LINES)
            keep_quality(blank.model_copy(update={"reason": reason, "log_tail": tail}))

    with ExitStack() as stack:
        stack.callback(lambda: note(stopped_at=now()))
        stack.callback(server.stop)
        clients = Clients(lambda name: _client(session, name, number, server, root))
        stack.callback(clients.stop)
        extent = _extent(owed, session.searches, owes_quality(session, root))
        say(f"{label}: starting vllm serve; {extent} to go")
        devices = Gpus(session.environment.get(VISIBLE))
        stack.callback(devices.close)
        before = devices.processes()
        server.start()
        for generator in session.generators:
            clients.start(generator)
        ready = _Preparation(session, root)
        for early in owed:
            ready.prepare(early)
        try:
            server.wait_ready(
                session.startup_timeout_s, lambda s: say(f"{label}: starting for {s:.0f} s")
            )
        except ServerError as error:
            reason = f"the server did not start: {error}"
            loops = [scout(search) for search in searches.not_ended(session, root)]
            unmade = [m for m in loops if not record_path(session.study, m.id, root).is_file()]
            give_up([*owed, *unmade], reason)
            searches.give_up(session, reason, root)
            give_up_quality(reason)
            return
        info = server.info()
        facts = server.facts(launch.versions.get("vllm"), info)
        note(status="ok", server=facts, server_info=info)
        say(
            f"{label}: ready after {facts.startup_s:.0f} s, {facts.kv_cache_tokens} KV-cache tokens"
        )
        at_ready = devices.processes()

        def neighbours() -> int | None:
            own = [child.pid for child in psutil.Process().children(recursive=True)]
            return other_processes(before, at_ready, devices.processes(), own)

        sampler = Sampler(server.url, devices)
        sampler.start()
        stack.callback(lambda: write_samples(sampler.stop(), raw / f"telemetry-{number}.parquet"))
        tokenizer = _relative(checkpoint(session.model, root), root)
        bench = Bench(session, root, number, server, facts, clients, tokenizer, sampler, neighbours)
        count = 0
        while (measurement := next_owed(session, root)) is not None:
            began, count = time.monotonic(), count + 1
            if began >= until_s:
                say(f"{label}: time is up after {count - 1} load points")
                return
            name = f"{measurement.workload} {measurement.load_point}"
            say(f"{label}: {name}, {_place(measurement, count, len(owed))}")
            prepared = ready.prepare(measurement)
            try:
                if isinstance(prepared, UserError):
                    blank = blank_record(session, measurement, number, server.command)
                    record = failed(blank, str(prepared), [])
                else:
                    record = measure(bench, measurement, prepared)
            except ServerError as error:
                # The load points after this one get a server of their own.
                give_up([measurement], f"the server {error}")
                return
            keep(record)
            say(f"{label}: {name}: {_outcome(record)} in {time.monotonic() - began:.0f} s")
        if session.quality is None or not owes_quality(session, root):
            return
        if (began := time.monotonic()) >= until_s:
            say(f"{label}: time is up before its quality")
            return
        sampler.measurement = session.quality.id
        say(f"{label}: quality on {session.quality.corpus}")
        try:
            scored = measure_quality(session, session.quality, number, server, tokenizer, root)
        except ServerError as error:
            note(status="failed", reason=f"the server {error}")
            give_up_quality(f"the server {error}")
            return
        finally:
            sampler.measurement = ""
        keep_quality(scored)
        outcome = scored.reason or f"{len(scored.documents)} documents"
        say(f"{label}: quality: {outcome} in {time.monotonic() - began:.0f} s")


class _Preparation:
    """Load points made ready to be sent, those that are known early while the server starts."""

    def __init__(self, session: Session, root: Path) -> None:
        self._model = checkpoint(session.model, root)
        self._read = cache(lambda id: read_requests(root / "data" / "workloads" / f"{id}.jsonl"))
        self._ready: dict[str, Prepared | UserError] = {}

    def prepare(self, measurement: Measurement) -> Prepared | UserError:
        """Prepare a load point, once; one that cannot be has its error."""
        if measurement.id not in self._ready:
            try:
                rows = self._read(measurement.load["dataset"])
                self._ready[measurement.id] = prepare(measurement.load, rows, self._model)
            except UserError as error:
                self._ready[measurement.id] = error
        return self._ready[measurement.id]


def _extent(owed: list[Measurement], searches: list[PlannedSearch], has_quality: bool) -> str:
    tiers = ", ".join(f"{each.workload} ({', '.join(each.settings.slo)})" for each in searches)
    parts = [
        *([f"{len(owed)} load points"] if owed else []),
        *([f"the capacity of {tiers}"] if searches else []),
        *(["quality"] if has_quality else []),
    ]
    return " and ".join(parts)


def _place(measurement: Measurement, count: int, owed: int) -> str:
    if measurement.probe is None:
        return f"load point {count} of {owed}"
    index = measurement.probe["index"]
    return f"probe {index}" if index else "a closed loop, to predict the capacity"


def _outcome(record: MeasurementRecord) -> str:
    if record.metrics is None:
        return f"failed: {record.reason}"
    told = f"{record.metrics.output_throughput_tok_s:.0f} output tok/s"
    if record.probe and record.probe.tier:
        judged = record.probe.judgements[record.probe.tier]
        told = f"{judged.verdict} ({record.probe.tier}: {judged.binding}), {told}"
    return told if record.status == "ok" else f"{record.status} ({record.reason}), {told}"


def _new_launch(session: Session, number: int, server: Server, root: Path) -> Launch:
    engine = read_engine(session.engine)
    host = describe_host(session.environment.get(VISIBLE))
    draft = checkpoint(session.draft, root) if session.draft else None
    return Launch(
        launch=number,
        status="failed",
        command=server.command,
        environment=server.environment,
        started_at=now(),
        versions=engine.versions,
        git=git_state(root),
        host=host,
        model=read_architecture(checkpoint(session.model, root)),
        draft=read_architecture(draft) if draft else None,
        ceilings=measured_ceilings(engine, host, session.environment),
    )


def _server(session: Session, number: int, root: Path) -> Server:
    engine = read_engine(session.engine)
    own = {name: True for name in OWN_ARGUMENTS if name in engine.arguments}
    arguments = as_argv({**own, **session.server}, engine.arguments)
    if session.speculative:
        speculative = dict(session.speculative)
        if session.draft:
            speculative["model"] = str(_relative(checkpoint(session.draft, root), root))
        arguments += ["--speculative-config", json.dumps(speculative)]
    return Server(
        python=engine.python,
        model=str(_relative(checkpoint(session.model, root), root)),
        arguments=arguments,
        environment=session.environment,
        name=f"{session.id}-{number}-{os.getpid()}",
        log=_raw(session, root) / f"server-{number}.log",
        folder=root,
    )


def _client(session: Session, name: str, number: int, server: Server, root: Path) -> LoadClient:
    generator = GENERATORS[name]
    environment = generator.environment
    engine = engine_id(environment, root) if environment else session.engine
    return LoadClient(
        python=read_engine(engine).python,
        module=generator.client,
        environment={generator.key_variable: server.api_key, "HF_HUB_OFFLINE": "1"},
        log=_raw(session, root) / f"{name}-{number}.log",
        folder=root,
    )


def _relative(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path
