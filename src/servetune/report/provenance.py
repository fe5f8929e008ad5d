"""What was measured, where, with what: derived from the plan and the session records."""

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.plan.planned import Plan
from servetune.records.loads import Load
from servetune.records.sessions import Launch, SessionRecord
from servetune.report.wording import plural, shell, where_of
from servetune.study.models import ModelSource
from servetune.tables.frames import records_of

REPORT = "uv run snakemake --cores 1 reports/summary.html"


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


def setup(
    plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]
) -> list[tuple[str, list[str]]]:
    """List what was asked and what answered: a term and its values (several where they differ)."""
    launches = launches_of(table, sessions)
    params = {key: value for key, value in plan.params if value is not None}
    items: list[tuple[str, list[str]]] = [
        ("Study", [f"{plan.study} (studies/{plan.study}.yaml)"]),
        (
            "Hardware",
            [
                f"{plan.hardware} (declared)",
                *_distinct(map(_host, launches)),
                *_distinct(map(_devices, launches)),
            ],
        ),
        ("Engine", [*plan.engines, *_distinct(map(_versions, launches))]),
        ("Models", [_model(id, model.source) for id, model in plan.models.items()]),
        ("Workloads", _workloads(plan)),
        ("Parameters", [f"{key}: {json.dumps(value)}" for key, value in params.items()]),
        ("Git commit", _distinct(map(_commit, launches)) or ["not recorded"]),
        ("Measured", _when(table)),
    ]
    return [(term, values) for term, values in items if values]


def mixed(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[str]:
    """Warn where the rows of one table come from different places."""
    launches = launches_of(table, sessions)
    kinds = (
        ("hosts", _host),
        ("GPUs", _devices),
        ("versions", _versions),
        ("git commits", _commit),
    )
    return [
        f"These rows were measured on {count} different {name}: compare across them with care."
        for name, read in kinds
        if (count := len(_distinct(map(read, launches)))) > 1
    ]


def missing_sessions(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> str | None:
    """Say which rows come without the record of their session, in a sentence."""
    absent = sorted(set(table["session"]) - set(sessions))
    if not absent:
        return None
    return f"No record of {plural(len(absent), 'session')}: {', '.join(absent)}."


def versions(plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> str:
    """Write engine and versions on one line."""
    found = _distinct(map(_versions, launches_of(table, sessions)))
    if found:
        return "; ".join(found)
    told = table["vllm_version"].dropna().unique()
    return ", ".join(f"vllm {version}" for version in told) or ", ".join(plan.engines)


def hosts(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[str]:
    """Describe the hosts that measured, each once."""
    return _distinct(map(_host, launches_of(table, sessions)))


def commits(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[str]:
    """Name the git commits that measured, each once."""
    return _distinct(map(_commit, launches_of(table, sessions)))


def launches_of(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[Launch]:
    """Return the launches that the rows of the table were measured on, in their order."""
    pairs = table[["session", "launch"]].drop_duplicates()
    wanted = [(row["session"], int(row["launch"])) for row in records_of(pairs)]
    return [
        launch
        for session, number in wanted
        if session in sessions
        for launch in sessions[session].launches
        if launch.launch == number
    ]


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


def reproduction(
    plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]
) -> list[tuple[str, str]]:
    """Give the commands that reproduce the report and vary it: purpose and command."""
    launches = launches_of(table, sessions)
    found = dict.fromkeys(sha for launch in launches if (sha := launch.git.get("commit")))
    checkout = [("Take the code that measured", f"git checkout {sha}") for sha in found]
    return [
        *(checkout if len(checkout) == 1 else []),
        ("Measure what is missing and render this report", REPORT),
        ("Measure with another value of one parameter", "uv run dvc exp run -S max_num_seqs=16"),
        ("Compare its metrics with these", "uv run dvc metrics diff"),
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


def _distinct(values: Any) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def _host(launch: Launch) -> str:
    host = launch.host
    cores, memory = host.get("cores"), host.get("memory_bytes")
    parts = [
        str(host.get("cpu") or ""),
        plural(cores, "core") if isinstance(cores, int) else "",
        f"{memory / 2**30:.0f} GiB of memory" if isinstance(memory, int | float) else "",
        *(_gpu(gpu) for gpu in host.get("gpus") or []),
    ]
    return ", ".join(part for part in parts if part)


def _gpu(gpu: Any) -> str:
    if not isinstance(gpu, dict):
        return str(gpu)
    driver = f" (driver {gpu['driver']})" if gpu.get("driver") else ""
    return f"{gpu.get('name', 'GPU')}{driver}"


def _devices(launch: Launch) -> str:
    """Name the GPUs of a launch by their UUIDs; empty where none was told."""
    gpus = [gpu for gpu in launch.host.get("gpus") or [] if isinstance(gpu, dict)]
    return ", ".join(sorted(gpu["uuid"] for gpu in gpus if gpu.get("uuid")))


def _versions(launch: Launch) -> str:
    # First and the same for all, also of a server that did not start and so told nothing.
    vllm = launch.versions.get("vllm") or launch.server.vllm_version
    named = {"vllm": vllm, **launch.versions} if vllm else launch.versions
    return ", ".join(f"{name} {version}" for name, version in named.items())


def _commit(launch: Launch) -> str:
    commit = str(launch.git.get("commit") or "")
    return f"{commit} with uncommitted changes" if commit and launch.git.get("is_dirty") else commit


def _model(id: str, source: ModelSource) -> str:
    details = ", ".join(
        f"{key}: {value}" for key, value in source if key != "source" and value is not None
    )
    return f"{id} ({source.source}{f'; {details}' if details else ''})"


def _workloads(plan: Plan) -> list[str]:
    described: dict[str, str] = {}
    points: dict[str, list[str]] = {}
    for measurement in plan.measurements:
        load, name = measurement.load, measurement.workload
        text = f"{measurement.load_point} ({_extent(load)})"
        if text not in points.setdefault(name, []):
            points[name].append(text)
        described[name] = f"{load.generator}, dataset {load.dataset}"
    return [f"{name}: {text}, {', '.join(points[name])}" for name, text in described.items()]


def _extent(load: Load) -> str:
    parts = [
        plural(load.requests, "request") if load.requests else "",
        f"{load.duration_s:g} s" if load.duration_s else "",
    ]
    return ", at most ".join(part for part in parts if part)


def _when(table: pd.DataFrame) -> list[str]:
    starts = pd.to_datetime(table["started_at"], utc=True, errors="coerce").dropna()
    if starts.empty:
        return []
    first, last = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (starts.min(), starts.max()))
    return [first if first == last else f"{first} to {last}"]
