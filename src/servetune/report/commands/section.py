"""The commands behind each row: the server, and the load that was sent to it."""

import json
from operator import itemgetter
from typing import Any

from servetune.analysis.wording import plural, shell, where_of
from servetune.report.gfm import details, fence, text
from servetune.report.measured import Measured
from servetune.report.section import Section
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
            "environment": _environment(measured, rows[0]),
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
    """Return a command that a table holds as JSON, for a shell; empty where there is none."""
    return shell(json.loads(words)) if isinstance(words, str) and words else ""


def _environment(measured: Measured, row: Row) -> str:
    """Write the variables that were set for a server, unless its command sets them itself."""
    if command_of(row["server_command"]).startswith("env "):
        return ""
    session = measured.sessions.get(row["session"])
    launches = session.launches if session else []
    recorded = [launch.environment for launch in launches if launch.launch == row["launch"]]
    planned = [s.environment for s in measured.plan.sessions if s.id == row["session"]]
    variables = next(iter([*recorded, *planned]), {})
    return " ".join(f"{name}={shell([value])}" for name, value in sorted(variables.items()))


def _markdown(servers: list[Row]) -> str:
    parts = []
    first = min((server["repeat"] for server in servers), default=1)
    for server in (server for server in servers if server["repeat"] == first):
        environment = f"{server['environment']} " if server["environment"] else ""
        loads = [
            f"# {where_of(load)}\n{load['command']}" for load in server["loads"] if load["command"]
        ]
        parts.append(f"**{text(server['variant'])}**")
        parts.append(fence("\n".join([f"{environment}{server['command']}", *loads]), "sh"))
    if any(server["repeat"] != first for server in servers):
        parts.append(f"These are of repeat {first}; summary.html holds the others.")
    return details("Server and load commands", "\n\n".join(parts))
