"""One launch of a session's server: start it, send what is owed, record each, stop it."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from servetune.engines.environments import read_engine
from servetune.errors import UserError
from servetune.files import write_json, write_table
from servetune.load.client import Clients
from servetune.load.prepare import Prepared, prepare
from servetune.models.architecture import read_architecture
from servetune.models.make import checkpoint
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.progress import say
from servetune.records.measurements import MeasurementRecord, ServerFacts
from servetune.records.paths import launch_files, quality_path, raw_folder, record_path
from servetune.records.quality import QualityRecord
from servetune.records.sessions import Launch
from servetune.sessions import searches
from servetune.sessions.hardware import describe_host
from servetune.sessions.measure import LOG_TAIL_LINES, Bench, blank_record, failed, measure
from servetune.sessions.owed import next_owed, owed_by, owes_quality
from servetune.sessions.probes import scout
from servetune.sessions.processes import checkpoint_of, client_of, server_of
from servetune.sessions.provenance import git_state, now
from servetune.sessions.quality.measure import blank_quality, measure_quality
from servetune.sessions.server.ceilings import measured_ceilings
from servetune.sessions.server.process import Server, ServerError
from servetune.telemetry.gpus import Gpus, other_processes
from servetune.telemetry.sampler import Sampler
from servetune.workloads.datasets import read_requests


class ServerLaunch:
    """A server of a session, from its start until it is gone, and the file that tells of it.

    The file is written again at each event, so that a launch that was interrupted is told too.
    """

    def __init__(self, session: Session, root: Path) -> None:
        """Prepare the session's next launch; `root` is the project's folder, absolute."""
        self._session = session
        self._root = root
        self._number = len(launch_files(session.study, session.id, root)) + 1
        self._raw = raw_folder(session.study, session.id, root)
        repeat = "" if session.repeat == 1 else f" r{session.repeat}"
        self._label = f"{session.variant}{repeat}"
        self._server = server_of(session, self._number, root)
        self._told = _new_launch(session, self._number, self._server, root)

    def run(self, until_s: float) -> None:
        """Measure until nothing is owed, the time is up, or the server is gone."""
        session, server, root = self._session, self._server, self._root
        owed = owed_by(session, root)
        with ExitStack() as stack:
            stack.callback(lambda: self._note(stopped_at=now()))
            stack.callback(server.stop)
            clients = Clients(lambda name: client_of(session, name, self._number, server, root))
            stack.callback(clients.stop)
            extent = _extent(owed, session.searches, owes_quality(session, root))
            self._say(f"starting vllm serve; {extent} to go")
            devices = Gpus(session.visible_gpus)
            stack.callback(devices.close)
            before = devices.processes()
            server.start()
            for generator in session.generators:
                clients.start(generator)
            loads = _Loads(session, root)
            for early in owed:
                loads.prepare(early)
            facts = self._wait_ready(owed)
            if facts is None:
                return
            neighbours = _neighbours(devices, before)
            sampler = Sampler(server.url, devices)
            sampler.start()
            telemetry = self._raw / f"telemetry-{self._number}.parquet"
            stack.callback(lambda: write_table(telemetry, sampler.stop()))
            bench = Bench(
                session=session,
                root=root,
                launch=self._number,
                server=server,
                facts=facts,
                clients=clients,
                tokenizer=checkpoint_of(session.model, root),
                sampler=sampler,
                neighbours=neighbours,
            )
            if self._send(bench, loads, len(owed), until_s):
                self._measure_quality(bench, until_s)

    def _wait_ready(self, owed: list[Measurement]) -> ServerFacts | None:
        """Wait for the server; one that does not start leaves records that say so."""
        session, server = self._session, self._server
        try:
            server.wait_ready(
                session.startup_timeout_s, lambda s: self._say(f"starting for {s:.0f} s")
            )
        except ServerError as error:
            reason = f"the server did not start: {error}"
            loops = [scout(search) for search in searches.not_ended(session, self._root)]
            self._give_up([*owed, *(m for m in loops if not self._path(m.id).is_file())], reason)
            searches.give_up(session, reason, self._root)
            self._give_up_quality(reason)
            return None
        info = server.info()
        facts = server.facts(self._told.versions.get("vllm"), info)
        self._note(status="ok", server=facts, server_info=info)
        self._say(f"ready after {facts.startup_s:.0f} s, {facts.kv_cache_tokens} KV-cache tokens")
        return facts

    def _send(self, bench: Bench, loads: "_Loads", owed: int, until_s: float) -> bool:
        """Measure each load point and probe; returns whether the server can be asked more."""
        count = 0
        while (measurement := next_owed(self._session, self._root)) is not None:
            began, count = time.monotonic(), count + 1
            if began >= until_s:
                self._say(f"time is up after {count - 1} load points")
                return False
            name = f"{measurement.workload} {measurement.load_point}"
            self._say(f"{name}, {_place(measurement, count, owed)}")
            prepared = loads.prepare(measurement)
            try:
                if isinstance(prepared, UserError):
                    record = failed(self._blank(measurement), str(prepared), [])
                else:
                    record = measure(bench, measurement, prepared)
            except ServerError as error:
                # The load points after this one get a server of their own.
                self._give_up([measurement], f"the server {error}")
                return False
            self._keep(record)
            self._say(f"{name}: {_outcome(record)} in {time.monotonic() - began:.0f} s")
        return True

    def _measure_quality(self, bench: Bench, until_s: float) -> None:
        session, quality = self._session, self._session.quality
        if quality is None or not owes_quality(session, self._root):
            return
        if (began := time.monotonic()) >= until_s:
            self._say("time is up before its quality")
            return
        bench.sampler.measurement = quality.id
        self._say(f"quality on {quality.corpus}")
        try:
            scored = measure_quality(
                session, quality, self._number, self._server, bench.tokenizer, self._root
            )
        except ServerError as error:
            self._note(status="failed", reason=f"the server {error}")
            self._give_up_quality(f"the server {error}")
            return
        finally:
            bench.sampler.measurement = ""
        self._keep_quality(scored)
        outcome = scored.reason or f"{len(scored.documents)} documents"
        self._say(f"quality: {outcome} in {time.monotonic() - began:.0f} s")

    def _say(self, message: str) -> None:
        say(f"{self._label}: {message}")

    def _path(self, measurement: str) -> Path:
        return record_path(self._session.study, measurement, self._root)

    def _note(self, **changes: Any) -> None:
        self._told = self._told.model_copy(update=changes)
        write_json(self._raw / f"launch-{self._number}.json", self._told)

    def _keep(self, record: MeasurementRecord) -> None:
        write_json(self._path(record.measurement), record)
        self._note(measured=[*self._told.measured, record.measurement])
        if record.probe:
            searches.end_finished(self._session, self._root)

    def _keep_quality(self, record: QualityRecord) -> None:
        write_json(quality_path(self._session.study, record.quality, self._root), record)
        self._note(measured=[*self._told.measured, record.quality])

    def _blank(self, measurement: Measurement) -> MeasurementRecord:
        return blank_record(self._session, measurement, self._number, self._server.command)

    def _give_up(self, measurements: list[Measurement], reason: str) -> None:
        self._say(reason)
        tail = self._server.log_tail(LOG_TAIL_LINES)
        self._note(status="failed", reason=reason, log_tail=tail)
        for measurement in measurements:
            self._keep(failed(self._blank(measurement), reason, tail))

    def _give_up_quality(self, reason: str) -> None:
        session = self._session
        if session.quality and owes_quality(session, self._root):
            blank = blank_quality(session, session.quality, self._number, self._server.command)
            tail = self._server.log_tail(LOG_TAIL_LINES)
            self._keep_quality(blank.model_copy(update={"reason": reason, "log_tail": tail}))


def _neighbours(devices: Gpus, before: list[int] | None) -> Callable[[], int | None]:
    """Return what counts the processes on the GPUs that came later and are not the server's."""
    at_ready = devices.processes()

    def count() -> int | None:
        own = [child.pid for child in psutil.Process().children(recursive=True)]
        return other_processes(before, at_ready, devices.processes(), own)

    return count


class _Loads:
    """Load points made ready to be sent, those that are known early while the server starts."""

    def __init__(self, session: Session, root: Path) -> None:
        self._model = checkpoint(session.model, root)
        self._read = cache(lambda id: read_requests(root / "data" / "workloads" / f"{id}.jsonl"))
        self._ready: dict[str, Prepared | UserError] = {}

    def prepare(self, measurement: Measurement) -> Prepared | UserError:
        """Prepare a load point, once; one that cannot be has its error."""
        if measurement.id not in self._ready:
            try:
                rows = self._read(measurement.load.dataset)
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
    index = measurement.probe.index
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
    host = describe_host(session.visible_gpus)
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
