"""The commands behind each row: the server, and the load that was sent to it."""

import json
import re
from itertools import dropwhile
from operator import itemgetter
from typing import Any

from servetune.analysis.wording import comment, listed, plural, shell, where_of
from servetune.engines.registry import DIALECTS
from servetune.report.gfm import details, fence, text
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.study.generators import GENERATORS
from servetune.tables.frames import PENDING, grouped, records_of

Row = dict[str, Any]


def section(measured: Measured) -> Section:
    """Make the section: the rows by server, in the order of the table."""
    servers = grouped(
        records_of(measured.table[measured.table["status"] != PENDING]),
        itemgetter("session", "server_command"),
    )
    words = [
        {
            **rows[0],
            "command": command_of(rows[0]["server_command"]),
            "passed": listed(names) if (names := _passed(measured, rows[0])) else "",
            "loads": [{**row, "command": command_of(row["load_command"])} for row in rows],
        }
        for rows in servers.values()
    ]
    return Section(
        "commands",
        "Commands",
        words,
        markdown=lambda fit: _markdown(words) if fit.commands else None,
        counts=plural(len(words), "server"),
    )


def command_of(words: Any) -> str:
    """Return a command that a table holds as JSON, for a shell; empty where there is none.

    What servetune does not run, or a line cannot hold, is not shown: others may have written it.
    """
    command = json.loads(words) if isinstance(words, str) and words else []
    if not command:
        return ""
    if not _is_ours(command):
        return comment("not shown: not a command of servetune")
    try:
        return shell(command)
    except ValueError:
        return comment("not shown: an argument has a control character")


def _is_ours(command: Any) -> bool:
    """Tell whether a command is what servetune runs: a server with variables, or a generator."""
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        return False
    words = [*command]
    if words[0] == "env":
        words = [*dropwhile(re.compile(r"[A-Za-z_][A-Za-z0-9_]*=").match, words[1:])]
    servers = (dialect.command for dialect in DIALECTS.values())
    programs = (*servers, *(generator.command for generator in GENERATORS.values()))
    return any(tuple(words[: len(program)]) == program for program in programs)


def _passed(measured: Measured, row: Row) -> list[str]:
    """Name the variables that a server had from its caller."""
    session = measured.sessions.get(row["session"])
    launches = session.launches if session else []
    names = (each.environment_from for each in launches if each.launch == row["launch"])
    return next(names, [])


def _markdown(servers: list[Row]) -> str:
    parts = []
    first = min((server["repeat"] for server in servers), default=1)
    for server in (server for server in servers if server["repeat"] == first):
        loads = [
            f"{comment(where_of(load))}\n{load['command']}"
            for load in server["loads"]
            if load["command"]
        ]
        passed = f", with {text(server['passed'])} of the caller" if server["passed"] else ""
        parts.append(f"**{text(server['variant'])}**{passed}")
        parts.append(fence("\n".join(filter(None, [server["command"], *loads])), "sh"))
    if any(server["repeat"] != first for server in servers):
        parts.append(f"These are of repeat {first}; summary.html holds the others.")
    return details("Server and load commands", "\n\n".join(parts))
