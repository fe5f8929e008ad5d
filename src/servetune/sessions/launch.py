"""One launch of a session's server: start it, send what is owed, record each, stop it."""

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from servetune.engines.arguments import as_argv
from servetune.engines.environments import engine_id, read_engine
from servetune.errors import UserError
from servetune.files import write_json, write_table
from servetune.load.client import Clients, LoadClient
from servetune.load.prepare import Prepared, prepare
from servetune.load.registry import GENERATORS
from servetune.models.architecture import read_architecture
from servetune.models.make import checkpoint
from servetune.plan.planned import Measurement, Session
from servetune.progress import about, counted, say
from servetune.records.measurements import MeasurementRecord
from servetune.records.paths import launch_files, quality_path, raw_folder, record_path
from servetune.records.quality import QualityRecord
from servetune.records.sessions import Launch, ServerFacts
from servetune.running import tell
from servetune.sessions import owed
from servetune.sessions.allotment import Allotment
from servetune.sessions.expected import left_s
from servetune.sessions.hardware import describe_host
from servetune.sessions.measure import LOG_TAIL_LINES, Bench, blank_record, failed, measure
from servetune.sessions.provenance import git_state, now
from servetune.sessions.quality.measure import blank_quality, measure_quality
from servetune.sessions.server.ceilings import measured_ceilings
from servetune.sessions.server.process import Server, ServerError
from servetune.telemetry.gpus import Gpus, servers_processes
from servetune.telemetry.sampler import Sampler
from servetune.workloads.datasets import read_requests

OWN_ARGUMENTS = ("enable_prompt_tokens_details",)
"""Turned on where the engine knows them: with it, answers tell their cached prompt tokens."""


class ServerLaunch:
    """A server of a session, from its start until it is gone, and the file that tells of it.

    The file is written again at each event, so that a launch that was interrupted is told too.
    """

    def __init__(self, session: Session, root: Path, allotment: Allotment) -> None:
        """Prepare the session's next launch; `root` is the project's folder, absolute."""
        self._session = session
        self._allotment = allotment
        self._root = root
        self._number = len(launch_files(session.study, session.id, root)) + 1
        self._raw = raw_folder(session.study, session.id, root)
        self._server = self._make_server()
        self._keep_samples: Callable[[], None] = lambda: None
        engine = read_engine(session.engine)
        host = describe_host(allotment.visible)
        draft = checkpoint(session.draft, root) if session.draft else None
        self._launch = Launch(
            launch=self._number,
            status="failed",
            command=self._server.command,
            environment=self._server.environment,
            started_at=now(),
            versions=engine.versions,
            git=git_state(root),
            host=host,
            slot=allotment.slot,
            model=read_architecture(checkpoint(session.model, root)),
            draft=read_architecture(draft) if draft else None,
            ceilings=measured_ceilings(
                engine, host, {**session.environment, **allotment.environment}
            ),
        )

    def run(self, until_s: float) -> None:
        """Measure until nothing is owed, the time is up, or the server is gone."""
        session, server, root = self._session, self._server, self._root
        pending = owed.owed_by(session, root)
        with ExitStack() as stack:
            stack.callback(lambda: self._note(stopped_at=now()))
            stack.callback(server.stop)
            clients = Clients(self._make_client)
            stack.callback(clients.stop)
            tell("starting")
            self._say(f"starting vllm serve; {self._extent(len(pending))} to go")
            devices = Gpus(self._allotment.visible)
            stack.callback(devices.close)
            before = devices.processes()
            server.start()
            for generator in session.generators:
                clients.start(generator)
            loads = _Loads(session, root)
            for measurement in pending:
                loads.prepare(measurement)
            facts = self._wait_ready(pending)
            if facts is None:
                return
            own = [child.pid for child in psutil.Process().children(recursive=True)]
            servers = servers_processes(before, devices.processes(), own)
            sampler = Sampler(server.url, devices, servers)
            sampler.start()
            telemetry = self._raw / f"telemetry-{self._number}.parquet"
            self._keep_samples = lambda: write_table(telemetry, sampler.samples())
            stack.callback(lambda: write_table(telemetry, sampler.stop()))
            bench = Bench(
                session=session,
                root=root,
                launch=self._number,
                server=server,
                facts=facts,
                clients=clients,
                tokenizer=_checkpoint(session.model, root),
                sampler=sampler,
                allotment=self._allotment,
            )
            if self._send(bench, loads, len(pending), until_s):
                self._measure_quality(bench, until_s)

    def _make_server(self) -> Server:
        session, root = self._session, self._root
        engine = read_engine(session.engine)
        own = {name: True for name in OWN_ARGUMENTS if name in engine.arguments}
        arguments = as_argv({**own, **session.server}, engine.arguments)
        if session.speculative:
            speculative = dict(session.speculative)
            if session.draft:
                speculative["model"] = str(_checkpoint(session.draft, root))
            arguments += ["--speculative-config", json.dumps(speculative)]
        return Server(
            python=engine.python,
            model=str(_checkpoint(session.model, root)),
            arguments=arguments,
            environment=session.environment,
            devices=self._allotment.environment,
            name=f"{session.id}-{self._number}-{os.getpid()}",
            log=self._raw / f"server-{self._number}.log",
            folder=root,
        )

    def _make_client(self, name: str) -> LoadClient:
        generator = GENERATORS[name]
        environment = generator.environment
        engine = engine_id(environment, self._root) if environment else self._session.engine
        return LoadClient(
            python=read_engine(engine).python,
            module=generator.client,
            environment={generator.key_variable: self._server.api_key, "HF_HUB_OFFLINE": "1"},
            log=self._raw / f"{name}-{self._number}.log",
            folder=self._root,
        )

    def _wait_ready(self, pending: list[Measurement]) -> ServerFacts | None:
        """Wait for the server; one that does not start leaves records that say so."""
        session, server = self._session, self._server
        try:
            server.wait_ready(
                session.startup_timeout_s, lambda s: self._say(f"starting for {s:.0f} s")
            )
        except ServerError as error:
            reason = f"the server did not start: {error}"
            self._give_up([*pending, *owed.loops_owed_by(session, self._root)], reason)
            owed.give_up(session, reason, self._root)
            self._give_up_quality(reason)
            return None
        info = server.info()
        facts = server.facts(self._launch.versions.get("vllm"), info)
        self._note(status="ok", server=facts, server_info=info, **server.choices())
        self._say(f"ready after {facts.startup_s:.0f} s, {facts.kv_cache_tokens} KV-cache tokens")
        return facts

    def _send(self, bench: Bench, loads: "_Loads", pending: int, until_s: float) -> bool:
        """Measure each load point and probe; returns whether the server can be asked more."""
        count = 0
        while (measurement := owed.next_owed(self._session, self._root)) is not None:
            began, count = time.monotonic(), count + 1
            if began >= until_s:
                self._say(f"time is up after {count - 1} load points")
                return False
            name = f"{measurement.workload} {measurement.load_point}"
            of = None if measurement.probe else pending
            tell(name, item=measurement.id, position=count, of=of)
            self._say(f"{name}, {_place(measurement, count, pending)}")
            try:
                record = measure(bench, measurement, loads.prepare(measurement))
            except ServerError as error:
                # The load points after this one get a server of their own.
                self._give_up([measurement], f"the server {error}")
                return False
            self._keep(record)
            took_s = time.monotonic() - began
            seconds = left_s(self._session, self._root)
            left = f"; {about(seconds)} left" if seconds else ""
            self._say(f"{name}: {_outcome(record)} in {took_s:.0f} s{left}")
        return True

    def _measure_quality(self, bench: Bench, until_s: float) -> None:
        quality = self._session.quality
        if quality is None or not owed.owes_quality(self._session, self._root):
            return
        if (began := time.monotonic()) >= until_s:
            self._say("time is up before its quality")
            return
        bench.sampler.measurement = quality.id
        tell("quality", item=quality.id)
        self._say(f"quality on {quality.corpus}")
        try:
            record = measure_quality(bench, quality)
        except ServerError as error:
            self._note(status="failed", reason=f"the server {error}")
            self._give_up_quality(f"the server {error}")
            return
        finally:
            bench.sampler.measurement = ""
        self._keep(record)
        outcome = record.reason or f"{len(record.documents)} documents"
        self._say(f"quality: {outcome} in {time.monotonic() - began:.0f} s")

    def _extent(self, pending: int) -> str:
        session = self._session
        searched = (f"{s.workload} ({', '.join(s.settings.slo)})" for s in session.searches)
        parts = [
            *counted({"load point": pending}),
            *([f"the capacity of {', '.join(searched)}"] if session.searches else []),
            *(["quality"] if owed.owes_quality(session, self._root) else []),
        ]
        return " and ".join(parts)

    def _say(self, message: str) -> None:
        repeat = "" if self._session.repeat == 1 else f" r{self._session.repeat}"
        say(f"{self._session.variant}{repeat}: {message}")

    def _note(self, **changes: Any) -> None:
        self._launch = self._launch.model_copy(update=changes)
        write_json(self._raw / f"launch-{self._number}.json", self._launch)

    def _keep(self, record: MeasurementRecord | QualityRecord) -> None:
        study = self._session.study
        if isinstance(record, QualityRecord):
            id, path = record.quality, quality_path(study, record.quality, self._root)
        else:
            id, path = record.measurement, record_path(study, record.measurement, self._root)
        # First, so that no record stands whose samples a kill can lose.
        self._keep_samples()
        write_json(path, record)
        self._note(measured=[*self._launch.measured, id])
        owed.end_finished(self._session, self._root)

    def _give_up(self, measurements: list[Measurement], reason: str) -> None:
        self._say(reason)
        tail = self._server.log_tail(LOG_TAIL_LINES)
        self._note(status="failed", reason=reason, log_tail=tail)
        for measurement in measurements:
            blank = blank_record(self._session, measurement, self._number, self._server)
            self._keep(failed(blank, reason, tail))

    def _give_up_quality(self, reason: str) -> None:
        session = self._session
        if session.quality and owed.owes_quality(session, self._root):
            blank = blank_quality(session, session.quality, self._number, self._server)
            self._keep(failed(blank, reason, self._server.log_tail(LOG_TAIL_LINES)))


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


def _place(measurement: Measurement, count: int, pending: int) -> str:
    if measurement.probe is None:
        return f"load point {count} of {pending}"
    index = measurement.probe.index
    return f"probe {index}" if index else "a closed loop, to predict the capacity"


def _outcome(record: MeasurementRecord) -> str:
    if record.metrics is None:
        return f"failed: {record.reason}"
    outcome = f"{record.metrics.output_throughput_tok_s:.0f} output tok/s"
    if record.probe and record.probe.tier:
        judgement = record.probe.judgements[record.probe.tier]
        outcome = f"{judgement.verdict} ({record.probe.tier}: {judgement.binding}), {outcome}"
    return outcome if record.status == "ok" else f"{record.status} ({record.reason}), {outcome}"


def _checkpoint(id: str, root: Path) -> Path:
    """Return where a checkpoint lies, as the processes of a session are told it."""
    path = checkpoint(id, root)
    return path.relative_to(root) if path.is_relative_to(root) else path
