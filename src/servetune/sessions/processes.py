"""The processes of a launch as its session declares them: the target, and the load clients."""

import json
import os
from dataclasses import replace
from pathlib import Path

from servetune.engines.arguments import as_argv
from servetune.engines.environments import engine_id, read_engine
from servetune.engines.registry import dialect_of
from servetune.load.client.driver import HEADERS
from servetune.load.process import LoadClient
from servetune.load.registry import driver_of
from servetune.models.make import checkpoint
from servetune.plan.arguments import check_served_arguments
from servetune.plan.identity import digest
from servetune.plan.planned import PlannedCommand, PlannedGateway, Session
from servetune.records.paths import raw_folder
from servetune.serving.command_gateway import CommandGateway
from servetune.serving.endpoint import Endpoint
from servetune.serving.fleet import Fleet
from servetune.serving.gateway import Gateway, GatewayProcess
from servetune.serving.ledger import Account
from servetune.serving.server import Server
from servetune.serving.target import Target
from servetune.sessions.allocation import GpuAllocation
from servetune.sessions.passed import from_caller, secrets_of_endpoint
from servetune.sessions.spending import recorded_spending
from servetune.study.engines import LAUNCH_FOLDER, ServerArguments
from servetune.study.gateways import KV_AWARE
from servetune.study.generators import GENERATORS
from servetune.study.targets import DeclaredEndpoint

OWN_ARGUMENTS = ("enable_prompt_tokens_details",)
"""Turned on where the engine knows them: with it, answers tell their cached prompt tokens."""


def servers_of(
    session: Session, number: int, root: Path, allocation: GpuAllocation
) -> list[Server]:
    """Return the servers of a session's launch, not started; launches count from 1.

    Replicas share a name and a key, and each has its part of the host. An endpoint has none.

    Raises:
        UserError: the caller lacks a variable that the servers are to get.
    """
    if session.endpoint:
        return []
    server = _server_of(session, number, root, allocation)
    if session.gateway is None and session.servers is None:
        return [server]
    if session.has_kv_events:
        server = replace(server, arguments=[*server.arguments, *server.dialect.kv_events])
    words = [
        each.arguments
        for pool in session.roles.values()
        for each in [_server_of(session, number, root, allocation, pool.server)] * pool.replicas
    ] or [server.arguments] * session.replicas
    logs = raw_folder(session.study, session.id, root)
    return [
        replace(
            server,
            arguments=words[replica - 1],
            devices=part.environment,
            cores=part.cores,
            replica=replica,
            log=logs / f"server-{number}-{replica}.log",
        )
        for replica, part in enumerate(allocation.parts(session.replicas), 1)
    ]


def target_of(session: Session, servers: list[Server], number: int, root: Path) -> Target:
    """Return what the loads of a session's launch go to, before these servers.

    Raises:
        UserError: the caller lacks a variable that holds a key.
    """
    if session.endpoint:
        return _endpoint_of(session, session.endpoint, root)
    if (gateway := session.gateway) is None:
        return servers[0]
    log = raw_folder(session.study, session.id, root) / f"gateway-{number}.log"
    return Fleet(
        servers=servers,
        gateway=_gateway_of(gateway, log, root),
        has_kv_events=gateway.policy == KV_AWARE,
        prefill=session.roles["prefill"].replicas if session.roles else 0,
    )


def _endpoint_of(session: Session, endpoint: DeclaredEndpoint, root: Path) -> Endpoint:
    values = secrets_of_endpoint(session)
    ledger = ledger_of(session.study, endpoint)
    return Endpoint(
        address=endpoint.url,
        name=endpoint.model,
        api_key=values.get("key_env", ""),
        metrics=endpoint.metrics,
        headers={name: values[f"headers_env.{name}"] for name in endpoint.headers_env},
        ca=str(endpoint.ca or ""),
        dialect=endpoint.dialect,
        apis=session.apis,
        account=Account(
            ledger,
            endpoint.limits,
            endpoint.price,
            lambda: recorded_spending(session.study, ledger, root),
        ),
    )


def ledger_of(study: str, endpoint: DeclaredEndpoint) -> str:
    """Return what identifies the ledger of a study's endpoint, in its block."""
    return digest({"study": study, **endpoint.identity})


def _gateway_of(gateway: PlannedGateway | PlannedCommand, log: Path, root: Path) -> GatewayProcess:
    if isinstance(gateway, PlannedGateway):
        return Gateway(
            python=read_engine(gateway.environment).python,
            policy=gateway.policy,
            arguments=gateway.arguments,
            log=log,
            folder=root,
        )
    environment = gateway.environment
    return CommandGateway(
        words=gateway.command,
        settings=gateway.settings,
        bin=str(read_engine(environment).python.parent) if environment else None,
        ready=gateway.ready,
        names_replicas=gateway.names_replicas,
        metrics=gateway.metrics,
        own_port=gateway.port,
        log=log,
        folder=root,
    )


def launch_folder(session: Session, number: int, root: Path) -> Path:
    """Return the folder that a launch may have for itself, which is gone after it."""
    return root / ".servetune" / "launches" / f"{session.id}-{number}"


def _server_of(
    session: Session,
    number: int,
    root: Path,
    allocation: GpuAllocation,
    given: ServerArguments | None = None,
) -> Server:
    """Return one server; `given` are arguments in place of the session's."""
    assert session.engine and session.model, "a session without an endpoint has both"
    engine = read_engine(session.engine)
    own = {name: True for name in OWN_ARGUMENTS if name in engine.arguments}
    check_served_arguments(session, engine)
    arguments = as_argv({**own, **(session.server if given is None else given)}, engine.arguments)
    own_folder = str(launch_folder(session, number, root).absolute())
    arguments = [word.replace(LAUNCH_FOLDER, own_folder) for word in arguments]
    if session.speculative:
        speculative = dict(session.speculative)
        if session.draft:
            speculative["model"] = str(checkpoint_path(session.draft, root))
        arguments += ["--speculative-config", json.dumps(speculative)]
    if session.adapters:
        paths = {name: checkpoint_path(id, root) for name, id in session.adapters.items()}
        arguments += ["--enable-lora", "--lora-modules"]
        arguments += [f"{name}={path}" for name, path in paths.items()]
    return Server(
        dialect=dialect_of(engine.versions),
        python=engine.python,
        model=str(checkpoint_path(session.model, root)),
        arguments=arguments,
        environment=session.environment,
        devices=allocation.environment,
        passed=from_caller(session.environment_from),
        name=f"{session.id}-{number}-{os.getpid()}",
        log=raw_folder(session.study, session.id, root) / f"server-{number}.log",
        folder=root,
    )


def start_client(
    generator: str, session: Session, number: int, root: Path, target: Target
) -> LoadClient:
    """Start the client of a load generator, by its name, that is to load the target of a launch."""
    driver = driver_of(generator)
    return LoadClient(
        module=driver.client,
        environment={
            **driver.settings,
            driver.key_variable: target.api_key,
            **({HEADERS: json.dumps(target.headers)} if target.headers else {}),
            "HF_HUB_OFFLINE": "1",
        },
        log=raw_folder(session.study, session.id, root) / f"{generator}-{number}.log",
        folder=root,
    )


def program_of(generator: str, session: Session, root: Path) -> list[str]:
    """Return how a generator of others is run, before its arguments; ours is its client."""
    program = driver_of(generator).program
    if not program:
        return []
    environment = GENERATORS[generator].environment
    engine = engine_id(environment, root) if environment else session.engine
    assert engine, "an endpoint is loaded by our own client alone"
    return [str(read_engine(engine).python), *program]


def checkpoint_path(id: str, root: Path) -> Path:
    """Return where a checkpoint lies, as the processes of a session are told it."""
    path = checkpoint(id, root)
    return path.relative_to(root) if path.is_relative_to(root) else path
