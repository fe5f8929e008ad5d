"""servetune's own client as a generator: its words for a load point, and its result."""

import json
from dataclasses import asdict
from pathlib import Path

from servetune.load.generator import Destination, Driver, Reply
from servetune.records.loads import Load
from servetune.study.generators import PATHS

RESULT = "replies.jsonl"

HEADERS = "SERVETUNE_HEADERS"
"""The variable that holds further headers of each request, as JSON: they may be secrets."""

FRESH = "fresh"
"""One connection a request: one that is kept may be closed just as the next is sent on it."""


def arguments(load: Load, destination: Destination) -> list[str]:
    """Write a load point as the words of the client."""
    return [
        *("--url", destination.url + PATHS[load.endpoint], "--model", destination.served_name),
        *("--schedule", str(destination.schedule), "--result", str(destination.raw / RESULT)),
        *("--load", load.model_dump_json(exclude_defaults=True)),
        *(() if destination.keeps_connections else ("--connections", FRESH)),
        *(("--ca", destination.ca) if destination.ca else ()),
    ]


def write(replies: list[Reply], path: Path) -> None:
    """Write replies as JSONL, in the order of sending."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(reply)) + "\n" for reply in replies)


def read(raw: Path) -> list[Reply]:
    """Read the replies; raises KeyError, TypeError, ValueError or OSError if they are bad."""
    with (raw / RESULT).open(encoding="utf-8") as file:
        return [Reply(**json.loads(line)) for line in file]


DRIVER = Driver(
    client="servetune.load.client.http",
    key_variable="SERVETUNE_API_KEY",
    arguments=arguments,
    read=read,
)
