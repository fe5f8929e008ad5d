"""The turn of one session on running servers: its gateway, its load points, its records."""

import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import psutil

from servetune.engines.environments import check_lock, read_engine
from servetune.errors import UserError
from servetune.load.process import Clients
from servetune.models.architecture import count_checkpoint
from servetune.models.make import checkpoint
from servetune.models.shape import UncountedError
from servetune.plan.kept import next_launch
from servetune.plan.pending import Pending
from servetune.plan.planned import Measurement, Session
from servetune.plan.refused import refused_before
from servetune.progress import about, counted, say
from servetune.records.measurements import MeasurementRecord
from servetune.records.rules import COMPILED
from servetune.records.sessions import Architecture, Launch, ServerFacts
from servetune.running import tell
from servetune.serving.server import Server
from servetune.serving.target import (
    SCRAPE_TIMEOUT_S,
    EndedError,
    GatewayError,
    ServerError,
    Target,
)
from servetune.sessions.ahead import NextLaunch
from servetune.sessions.allocation import GpuAllocation
from servetune.sessions.ceilings import measured_ceilings
from servetune.sessions.expected import left_s
from servetune.sessions.hardware import describe_host
from servetune.sessions.measure import Bench, measure
from servetune.sessions.processes import checkpoint_path, target_of
from servetune.sessions.provenance import git_state, now
from servetune.sessions.quality.measure import measure_quality
from servetune.sessions.recorder import Recorder
from servetune.sessions.spending import changed_since
from servetune.telemetry.gpus import Gpus, servers_processes
from servetune.telemetry.sampler import Sampler
from servetune.workloads.datasets import read_requests
from servetune.workloads.prepare import Prepared, prepare
from servetune.workloads.salt import salt_of

Outcome = Literal["measured", "gateway lost", "servers lost", "not started", "time is up"]
"""How a turn ended; a session whose gateway was lost can have another turn on the same servers."""


@dataclass(frozen=True)
class LaunchedServers:
    """What the turns of a launch share; `name` is its own where its servers are shared.

    `before` are the processes that the devices had before the servers were started. `ahead` is
    what prepares the launch after this one, if any.
    """

    processes: list[Server]
    name: str | None
    allocation: GpuAllocation
    clients: Clients
    devices: Gpus
    before: list[int] | None
    ahead: NextLaunch | None = None


class ChangedError(Exception):
    """An endpoint is another one than before; the message says what changed."""


class Turn:
    """A target of a session before running servers; the first turn of a launch starts them."""

    def __init__(self, pending: Pending, servers: LaunchedServers) -> None:
        """Prepare the next launch of a session that owes something."""
        self._session = session = pending.session
        self._servers = servers
        self._allocation = servers.allocation
        self._root = root = pending.root
        self._number = next_launch(session, root)
        self._target = target_of(session, servers.processes, self._number, root)
        launch = _described(session, self._number, root, servers, self._target)
        self._recorder = Recorder(pending, self._target, launch)
        self.reason = ""
        self._refusal: str | None = None

    @property
    def target(self) -> Target:
        """What its loads go to."""
        return self._target

    @property
    def pending(self) -> Pending:
        """What the session still owes."""
        return self._recorder.pending

    def stopped(self) -> None:
        """Note that it has ended."""
        self._recorder.note(stopped_at=now())

    def give_up(self, reason: str) -> None:
        """Record that nothing could be loaded, for this reason."""
        self.reason = reason
        self._recorder.give_up(reason)

    def run(self, until_s: float, *, kills: bool) -> Outcome:
        """Measure until nothing is owed, the time is up, or what is loaded is gone.

        What kills a replica is left unless `kills`.
        """
        session, target, root = self._session, self._target, self._root
        load_points = self._recorder.pending.load_points
        clients = self._servers.clients
        with ExitStack() as stack:
            stack.callback(target.leave)
            tell("starting")
            self._say(f"{target.opening}; {self._extent()} to go")
            self._warn_of_refused()
            ahead = self._servers.ahead
            self._start()
            for generator in session.generators:
                clients.start(generator)
            loads = _Loads(session, self._number, root)
            for measurement in load_points:
                loads.prepare(measurement)
            try:
                facts = self._wait_ready()
            except ChangedError as error:
                self._say(str(error))
                self.give_up(str(error))
                return "not started"
            except ServerError as error:
                reason = f"the {target.kind} {error}"
                self._say(reason)
                self.give_up(reason)
                return "measured" if isinstance(error, GatewayError) else "not started"
            tiers = target.tiers(self._recorder.launch.server_info, session.server)
            self._allocation.wait_for_neighbours()
            if ahead:
                ahead.settle()
            own = {child.pid for child in psutil.Process().children(recursive=True)}
            own -= ahead.pids if ahead else set()
            devices = self._servers.devices
            processes = servers_processes(self._servers.before, devices.processes(), own)
            client = target.client(SCRAPE_TIMEOUT_S)
            sampler = Sampler(client, target.scrape, devices, processes)
            stack.enter_context(self._recorder.sampling(sampler))
            bench = Bench(
                session=session,
                root=root,
                launch=self._number,
                servers=self._servers.name,
                target=target,
                facts=facts,
                clients=clients,
                tokenizer=checkpoint_path(session.model, root) if session.model else None,
                sampler=sampler,
                allocation=self._allocation,
                tiers=tiers,
            )
            outcome = self._send(bench, loads, len(load_points), until_s, kills=kills)
            return self._measure_quality(bench, until_s) if outcome == "measured" else outcome

    def _start(self) -> None:
        """Start the target; while its servers start, what the next launch needs is prepared."""
        servers = self._servers.processes
        is_first = any(server.startup_s is None for server in servers)
        self._target.start()
        self._note_prepared(is_new=is_first)
        if is_first and self._servers.ahead:
            self._servers.ahead.begin()

    def _note_prepared(self, *, is_new: bool) -> None:
        """Note whether the start is a prepared one; say why it is not, unless that is old."""
        prepared = [server.ahead for server in self._servers.processes if server.ahead]
        told = {"prepared": bool(prepared) and all(each.has_begun for each in prepared)}
        self._recorder.launch = self._recorder.launch.model_copy(update=told)
        refusal = next((each.refusal for each in prepared if each.refusal), None)
        if is_new and refusal and refusal != self._refusal:
            self._say(f"a plain start, as the process that was prepared {refusal}")
        self._refusal = refusal

    def _say_starting(self, since_s: float) -> None:
        self._say(f"starting for {since_s:.0f} s")

    def _wait_ready(self) -> ServerFacts:
        """Wait for the target; raises ServerError where it does not start."""
        session, target = self._session, self._target
        try:
            target.wait_ready(session.startup_timeout_s, self._say_starting)
        finally:
            self._note_prepared(is_new=True)
        if changed := changed_since(session, target, self._root):
            raise ChangedError(changed)
        info = target.info()
        facts = target.facts(self._recorder.launch.versions, info)
        replicas = target.replicas(self._recorder.launch.versions, info)
        fleet = {"replicas": replicas, "gateway_command": target.gateway_command}
        self._recorder.note(
            status="ok",
            server=facts,
            server_info=info,
            **target.choices(),
            **(fleet if replicas else {}),
        )
        self._say(_ready(facts))
        return facts

    def _send(
        self, bench: Bench, loads: "_Loads", load_points: int, until_s: float, *, kills: bool
    ) -> Outcome:
        """Measure each load point and probe."""
        count = 0
        while (measurement := self._recorder.pending.next) is not None:
            if measurement.load.kill and not kills:
                break
            began, count = time.monotonic(), count + 1
            if began >= until_s:
                self._say(f"time is up after {count - 1} load points")
                return "time is up"
            name = f"{measurement.workload} {measurement.load_point}"
            of = None if measurement.probe else load_points
            tell(name, item=measurement.id, position=count, of=of)
            self._say(f"{name}, {_place(measurement, count, load_points)}")
            try:
                record = measure(bench, measurement, loads.prepare(measurement))
                if record.rule == COMPILED:
                    self._say(f"{name}: {record.reason}; measured again, as they are compiled now")
                    record = measure(bench, measurement, loads.prepare(measurement))
            except ServerError as error:
                # The load points after this one get a server, or a gateway, of their own.
                reason = f"the {self._target.kind} {error}"
                self._say(reason)
                self._recorder.fail([measurement], reason)
                if isinstance(error, EndedError):
                    self._recorder.give_up(f"not sent, as {reason}")
                return _lost(error)
            self._recorder.keep(record)
            took_s = time.monotonic() - began
            seconds = left_s(self._session, self._recorder.pending.load_points, self._root)
            left = f"; {about(seconds)} left" if seconds else ""
            self._say(f"{name}: {_outcome(record)} in {took_s:.0f} s{left}")
            if measurement.load.kill:
                return "servers lost"
        return "measured"

    def _measure_quality(self, bench: Bench, until_s: float) -> Outcome:
        quality = self._recorder.pending.quality
        if quality is None:
            return "measured"
        if (began := time.monotonic()) >= until_s:
            self._say("time is up before its quality")
            return "time is up"
        bench.sampler.measurement = quality.id
        tell("quality", item=quality.id)
        self._say(f"quality on {' and '.join(quality.datasets)}")
        try:
            record = measure_quality(bench, quality)
        except ServerError as error:
            reason = f"the {self._target.kind} {error}"
            self._recorder.note(status="failed", reason=reason)
            self._recorder.fail_quality(reason)
            return _lost(error)
        finally:
            bench.sampler.measurement = ""
        self._recorder.keep(record)
        extent = counted({"document": len(record.documents), "question": len(record.answers)})
        outcome = record.reason or " and ".join(extent)
        self._say(f"quality: {outcome} in {time.monotonic() - began:.0f} s")
        return "measured"

    def _warn_of_refused(self) -> None:
        """Say which load points were refused before, once a kind of error."""
        names: dict[str, list[str]] = defaultdict(list)
        refused = refused_before(self._session.study, self._root)
        for point in self._recorder.pending.load_points:
            if error := refused.get((point.workload, point.load_point)):
                names[error].append(f"{point.workload} {point.load_point}")
        for error, those in names.items():
            self._say(
                f"warning: {', '.join(those)}: requests were refused before, and will be again"
                f" unless this variant takes them ({error})"
            )

    def _extent(self) -> str:
        pending = self._recorder.pending
        searched = [f"{s.workload} ({', '.join(s.settings.slo)})" for s in self._session.searches]
        parts = [
            *counted({"load point": len(pending.load_points)}),
            *([f"the capacity of {', '.join(searched)}"] if searched else []),
            *(["quality"] if pending.quality else []),
        ]
        return " and ".join(parts)

    def _say(self, message: str) -> None:
        repeat = "" if self._session.repeat == 1 else f" r{self._session.repeat}"
        say(f"{self._session.variant}{repeat}: {message}")


def _described(
    session: Session, number: int, root: Path, servers: LaunchedServers, target: Target
) -> Launch:
    """Return what is known of a launch before it starts: failed, unless it gets further."""
    engine = read_engine(session.engine) if session.engine else None
    if engine:
        check_lock(engine, root)
    allocation = servers.allocation
    host = describe_host(allocation.visible) if target.is_here else {}
    model, draft, uncounted = _counted(session, root)
    return Launch(
        launch=number,
        servers=servers.name,
        status="failed",
        command=target.command,
        environment=target.environment,
        environment_from=session.environment_from,
        started_at=now(),
        versions={**(engine.versions if engine else {}), **_gateway_version(session)},
        engine_lock=engine.lock if engine else None,
        git=git_state(root),
        host=host,
        slot=allocation.slot,
        model=model,
        draft=draft,
        uncounted=uncounted,
        ceilings=measured_ceilings(engine, host, {**session.environment, **allocation.environment})
        if engine
        else None,
    )


def _gateway_version(session: Session) -> dict[str, str]:
    return {session.gateway.title: session.gateway.version} if session.gateway else {}


def _counted(
    session: Session, root: Path
) -> tuple[Architecture | None, Architecture | None, str | None]:
    """Count model and draft; what is not understood is None, and the text says why."""
    counted: dict[str, Architecture] = {}
    reasons = []
    for id in session.checkpoints:
        try:
            counted[id] = count_checkpoint(checkpoint(id, root))
        except UncountedError as error:
            reasons.append(f"{id.rpartition('-')[0]}: {error}")
    model, draft = (counted.get(id or "") for id in (session.model, session.draft))
    return model, draft, "; ".join(reasons) or None


def _lost(error: ServerError) -> Outcome:
    return "gateway lost" if isinstance(error, GatewayError) else "servers lost"


class _Loads:
    """Load points made ready to be sent, those that are known early while the server starts."""

    def __init__(self, session: Session, launch: int, root: Path) -> None:
        self._launch = launch
        self._model = checkpoint(session.model, root) if session.model else None
        self._read = cache(lambda id: read_requests(root / "data" / "workloads" / f"{id}.jsonl"))
        self._ready: dict[str, Prepared | UserError] = {}

    def prepare(self, measurement: Measurement) -> Prepared | UserError:
        """Prepare a load point, once; one that cannot be has its error."""
        if measurement.id not in self._ready:
            try:
                rows = self._read(measurement.load.dataset)
                salt = salt_of(measurement.id, self._launch)
                self._ready[measurement.id] = prepare(measurement.load, rows, self._model, salt)
            except UserError as error:
                self._ready[measurement.id] = error
        return self._ready[measurement.id]


def _ready(facts: ServerFacts) -> str:
    if facts.startup_s is None:
        return "ready"
    tokens = "unknown" if facts.kv_cache_tokens is None else facts.kv_cache_tokens
    return f"ready after {facts.startup_s:.0f} s, {tokens} KV-cache tokens"


def _place(measurement: Measurement, count: int, load_points: int) -> str:
    if measurement.probe is None:
        return f"load point {count} of {load_points}"
    index = measurement.probe.index
    return f"probe {index}" if index else "a closed loop, to predict the capacity"


def _outcome(record: MeasurementRecord) -> str:
    if record.metrics is None:
        return f"failed: {record.reason}"
    outcome = f"{record.metrics.output_throughput_tok_s:.0f} output tok/s"
    if record.load.is_pooled:
        outcome = f"{record.metrics.request_throughput_rps:.1f} inputs/s"
    if record.probe and record.probe.tier:
        judgement = record.probe.judgements[record.probe.tier]
        outcome = f"{judgement.verdict} ({record.probe.tier}: {judgement.binding}), {outcome}"
    return outcome if record.status == "ok" else f"{record.status} ({record.reason}), {outcome}"
