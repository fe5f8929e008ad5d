"""The commands behind each row: the server, and the load that was sent to it."""

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.plan.planned import Plan
from servetune.records.sessions import SessionRecord
from servetune.report.gfm import details, fence, text
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.wording import shell, where_of
from servetune.tables.frames import records_of


@dataclass(frozen=True)
class LoadCommand:
    """The command that measured one row of the table."""

    where: str
    measurement: str
    status: str
    command: str


@dataclass(frozen=True)
class ServerCommand:
    """One start of a server, as a command line, and the rows that were measured on it."""

    variant: str
    repeat: int
    session: str
    command: str
    environment: str
    loads: list[LoadCommand]


def section(measured: Measured) -> Section:
    """Make the section."""
    found = commands(measured.plan, measured.table, measured.sessions)
    return Section(
        "commands",
        "Commands",
        found,
        markdown=lambda fit: _markdown(found) if fit.commands else None,
    )


def commands(
    plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]
) -> list[ServerCommand]:
    """Gather the commands behind the rows by server, in the order of the table."""
    gathered: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in records_of(table):
        gathered.setdefault((row["session"], row["server_command"]), []).append(row)
    return [
        ServerCommand(
            variant=rows[0]["variant"],
            repeat=int(rows[0]["repeat"]),
            session=session,
            command=_command(rows[0]["server_command"]),
            environment=_environment(plan, rows[0], sessions.get(session)),
            loads=[
                LoadCommand(
                    where=where_of(row),
                    measurement=row["measurement"],
                    status=row["status"],
                    command=_command(row["load_command"]),
                )
                for row in rows
            ],
        )
        for (session, _), rows in gathered.items()
    ]


def _command(text: Any) -> str:
    return shell(json.loads(text)) if isinstance(text, str) and text else ""


def _environment(plan: Plan, row: dict[str, Any], session: SessionRecord | None) -> str:
    """Write the variables that were set for a server, unless its command sets them itself."""
    if _command(row["server_command"]).startswith("env "):
        return ""
    launches = session.launches if session else []
    recorded = [launch.environment for launch in launches if launch.launch == row["launch"]]
    planned = [s.environment for s in plan.sessions if s.id == row["session"]]
    variables = next(iter([*recorded, *planned]), {})
    return " ".join(f"{name}={shell([value])}" for name, value in sorted(variables.items()))


def _markdown(commands: list[ServerCommand]) -> str:
    parts = []
    first = min((server.repeat for server in commands), default=1)
    for server in (server for server in commands if server.repeat == first):
        environment = f"{server.environment} " if server.environment else ""
        loads = [f"# {load.where}\n{load.command}" for load in server.loads if load.command]
        parts.append(f"**{text(server.variant)}**")
        parts.append(fence("\n".join([f"{environment}{server.command}", *loads]), "sh"))
    if any(server.repeat != first for server in commands):
        parts.append(f"These are of repeat {first}; summary.html holds the others.")
    return details("Server and load commands", "\n\n".join(parts))
