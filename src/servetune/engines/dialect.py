"""What is particular to an engine: its words, what it tells of itself, how its cache is emptied.

Each engine has a folder beside this file, and a row in `servetune.study.families`. What an engine
does not tell is None or empty, and a card says that it is not known.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from servetune.engines.counters import Counters
from servetune.records.sessions import ServerFacts
from servetune.study.families import EngineFamily


@dataclass(frozen=True)
class Tiers:
    """Tiers of a KV cache beyond its device: memory, disks, other hosts.

    `connectors` are those of a server, `kept` what of them keeps all that it holds whatever it is
    told.
    """

    connectors: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dialect:
    """One engine, by functions of what its server answers and prints.

    Attributes:
        family: the engine's row.
        command: the words before a checkpoint, as one types them.
        program: the same after the engine's Python.
        prepared: the same of a process that first does its imports, and waits for the word
            (`servetune.serving.prepared`); empty where there is no such program.
        placed: the last words, by host, port and served name: where it listens, behind the key of
            its launch.
        key_variable: by which its process gets that key.
        replica_variable: by which one of several gets its number, to name it in a header of its
            answers (`servetune.load.client.http.REPLICA`); None where it does not.
        health: the one path that asks for no key.
        unlocked: why it may answer without the key.
        keeps_connections: False where it closes one after a stream and does not say so.
        environment: variables that servetune sets.
        unset: variables of the caller that it must not have.
        counters: reads its metrics; raises httpx.HTTPError.
        page: reads them from the text of their page; empty where it has none of its names.
        cache: reads how its KV cache is configured, from that page; empty where it does not tell.
        version: asks one that runs for its version; raises httpx.HTTPError, or what JSON raises.
        figures: the names of those that it may have.
        reset: empties its prefix cache, and the tiers behind it if it has some; tells whether the
            server says that it did.
        info: reads its configuration as it resolved it; raises httpx.HTTPError or ValueError.
        facts: reads its start and capacity, by log, page of metrics, configuration, seconds until
            it was ready, and version.
        choices: reads the fields of a launch that its log tells, by log and Python.
        explain: says why it ended, by its last lines and exit code.
        load_log: reads the fields of a card that its log tells, between two sizes of it in bytes.
        tiers: reads the tiers of its KV cache, by its configuration and its arguments.
        kv_events: words by which a server publishes the blocks that it caches, for a gateway.
        is_noise: tells a line of its log that says nothing.
    """

    family: EngineFamily
    command: tuple[str, ...]
    program: tuple[str, ...]
    placed: Callable[[str, int, str], list[str]]
    counters: Callable[[httpx.Client], Counters]
    facts: Callable[[str, str, dict[str, Any], float | None, str | None], ServerFacts]
    explain: Callable[[list[str], int | None], str | None]
    key_variable: str
    prepared: tuple[str, ...] = ()
    page: Callable[[str], Counters] = lambda _: {}
    cache: Callable[[str], Mapping[str, str]] = lambda _: {}
    version: Callable[[httpx.Client], str | None] = lambda _: None
    replica_variable: str | None = None
    health: str = "/health"
    unlocked: str = "this version of the engine does not ask for one"
    keeps_connections: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    reset: Callable[[httpx.Client, bool], bool] = lambda *_: False
    info: Callable[[httpx.Client], dict[str, Any]] = lambda _: {}
    choices: Callable[[str, Path], dict[str, Any]] = lambda *_: {}
    figures: frozenset[str] = frozenset()
    load_log: Callable[[Path, int, int, Iterable[str]], dict[str, Any]] = lambda *_: {}
    tiers: Callable[[Mapping[str, Any], Mapping[str, Any]], Tiers] = lambda *_: Tiers()
    kv_events: tuple[str, ...] = ()
    is_noise: Callable[[str], bool] = lambda _: False
