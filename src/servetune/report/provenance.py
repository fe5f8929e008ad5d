"""Where and with what it was measured: derived from the plan and the session records."""

import json
import re
from collections.abc import Iterable, Iterator

import pandas as pd

from servetune.analysis.wording import plural
from servetune.engines.registry import package_of
from servetune.plan.planned import Plan
from servetune.records.sessions import Alike, Launch, SessionRecord, Way
from servetune.tables.design import design_of
from servetune.tables.frames import PENDING, grouped


def cautions(plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[str]:
    """Warn where rows come from different places, or without the record of their session."""
    launches = launches_of(table, sessions)
    # Engines, and versions of one, are compared on purpose; each should be one on all launches.
    engines = table["session"].map({id: session.engine or "" for id, session in sessions.items()})
    served = (launches_of(rows, sessions) for _, rows in table.groupby(engines))
    versions = (same for of_engine in served for same in _versions_by_name(of_engine))
    kinds = {
        "hosts": hosts_of(launches),
        "GPUs": distinct(map(devices_of, launches)),
        "versions": max(versions, key=len, default=[]),
        "git commits": distinct(map(commit_of, launches)),
    }
    if table["repeat"].max() > 1 and all(launch.slot for launch in launches):
        # They are blocks in the verdicts, which say more.
        del kinds["GPUs"]
    notes = [
        f"The measurements come from {len(told)} different {name}: compare across them with care."
        for name, told in kinds.items()
        if len(told) > 1
    ]
    for name, told in grouped(distinct(locks_of(launches)), _name_of).items():
        if len(told) > 1:
            notes.append(
                f"{name} was installed by {len(told)} different locks: compare its launches with"
                " care."
            )
    notes += _unlike(table, sessions)
    notes += _otherwise(table)
    beside = table["card"].map(lambda text: json.loads(text).get("other_gpus_in_use") or 0)
    # A study that declares neighbours is itself what answers that.
    if beside.max() > 0 and all(s.neighbours is None for s in plan.sessions):
        notes += _of_way("together", (launch.slot.together for launch in launches if launch.slot))
    # So is a study of equal variants.
    ways = list(design_of(plan).served.values())
    if any(way != ways[0] for way in ways):
        known = (
            launch.slot.prepared if launch.slot else None for launch in launches if launch.prepared
        )
        notes += _of_way("prepared", known)
    if absent := sorted(set(table[table["status"] != PENDING]["session"]) - set(sessions)):
        notes.append(f"No record of {plural(len(absent), 'session')}: {', '.join(absent)}.")
    return notes


WAYS: dict[Way, tuple[str, str, str]] = {
    "together": (
        "Sessions ran side by side on one host.",
        "Whether they disturb each other there is",
        "They are proven to disturb each other there: measure them one at a time.",
    ),
    "prepared": (
        "Starts were prepared.",
        "Whether such servers serve as others do on this host is",
        "On this host such servers are proven to serve otherwise than others: compare them with"
        " each other only.",
    ),
}
"""Of a way to measure: that it was used, what is asked of it, and that it is no good there."""


def _of_way(way: Way, known: Iterable[Alike | None]) -> list[str]:
    """Warn where a way to measure is not proven, by what was known of it at each launch."""
    was_used, question, is_bad = WAYS[way]
    told = {
        None: f"{question} not known; servetune interference measures it.",
        "undecided": f"{question} undecided; more repeats may decide, by servetune interference.",
        "disturbed": is_bad,
    }
    states = dict.fromkeys(known)
    return [f"{was_used} {words}" for state, words in told.items() if state in states]


RESOLVED = {
    "kv_cache_tokens": "KV caches of {} tokens",
    "max_num_seqs": "a max_num_seqs of {}",
}
"""What the server resolves by itself, and repeats of a variant should have in common."""

UNLIKE = 0.01
"""Free memory is not the same to the byte at every start."""


def _unlike(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[str]:
    """Warn where a server resolved the same flags otherwise in one repeat than in another."""
    notes = []
    for variant, rows in table.groupby("variant", sort=False):
        servers = [launch.server for launch in launches_of(rows, sessions)]
        for name, words in RESOLVED.items():
            told = sorted({value for server in servers if (value := getattr(server, name))})
            if told and told[-1] > (1 + UNLIKE) * told[0]:
                values = " and ".join(f"{value:,}" for value in (told[0], told[-1]))
                notes.append(
                    f"Launches of {variant} had {words.format(values)} with the same flags:"
                    " they are not repeats of one another."
                )
    return notes


def _otherwise(table: pd.DataFrame) -> list[str]:
    """Warn where a generator sent some loads as it does now, and others as it did before."""
    if "protocol" not in table:
        return []
    sent = table[~table["status"].isin(["failed", PENDING])]
    return [
        f"{name} sent some of its loads as its users run it, and others, recorded before, from"
        " inside a process of servetune's: compare across them as across two generators."
        for name, rows in sent.groupby("generator")
        if rows["protocol"].isna().any() and rows["protocol"].notna().any()
    ]


def versions(plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> str:
    """Write engine and versions on one line."""
    if recorded := distinct(map(versions_of, launches_of(table, sessions))):
        return "; ".join(recorded)
    served = table["vllm_version"].dropna().unique()
    return ", ".join(f"vllm {version}" for version in served) or ", ".join(plan.engines)


def hosts(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[str]:
    """Describe the hosts that measured, each once."""
    return hosts_of(launches_of(table, sessions))


def hosts_of(launches: list[Launch]) -> list[str]:
    """Describe the hosts of launches, each once: by the launch that had most of its cores."""
    most = sorted(launches, key=lambda each: each.host.get("cores") or 0, reverse=True)
    named = {_identity(launch): _host_of(launch) for launch in reversed(most)}
    return distinct(named[_identity(launch)] for launch in launches)


def _identity(launch: Launch) -> str:
    """Return what is the same for all launches on a host, whichever of its GPUs they had."""
    slot = launch.slot
    return slot.host if slot and slot.gpus else _host_of(launch)


def commits(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[str]:
    """Name the git commits that measured, each once."""
    return distinct(map(commit_of, launches_of(table, sessions)))


def checkouts(launches: list[Launch]) -> list[str]:
    """Return the commits that measured, by their hex digits; what Git would not say is left out."""
    recorded = {str(launch.git.get("commit")) for launch in launches}
    return sorted(sha for sha in recorded if re.fullmatch("[0-9a-f]{40}([0-9a-f]{24})?", sha))


def launches_of(table: pd.DataFrame, sessions: dict[str, SessionRecord]) -> list[Launch]:
    """Return the launches that the rows of the table were measured on, in their order."""
    pairs = table[["session", "launch"]].drop_duplicates()
    return [
        launch
        for session, number in pairs.itertuples(index=False)
        if session in sessions
        for launch in sessions[session].launches
        if launch.launch == number
    ]


def distinct(values: Iterable[str]) -> list[str]:
    """Return the values that say something, each once."""
    return list(dict.fromkeys(value for value in values if value))


def _host_of(launch: Launch) -> str:
    """Describe the host of a launch: the kinds of its GPUs, as launches have different ones."""
    host = launch.host
    cores, memory = host.get("cores"), host.get("memory_bytes")
    parts = [
        str(host.get("cpu") or ""),
        plural(cores, "core") if isinstance(cores, int) else "",
        f"{memory / 2**30:.0f} GiB of memory" if isinstance(memory, int | float) else "",
        *distinct(
            gpu.get("name", "GPU") + (f" (driver {gpu['driver']})" if gpu.get("driver") else "")
            for gpu in host.get("gpus") or []
        ),
    ]
    return ", ".join(part for part in parts if part)


def devices_of(launch: Launch) -> str:
    """Name the GPUs of a launch by their UUIDs; empty where none was told."""
    return ", ".join(uuids_of(launch))


def uuids_of(launch: Launch) -> list[str]:
    """Return the UUIDs of the GPUs of a launch."""
    gpus = launch.host.get("gpus") or []
    return sorted(gpu["uuid"] for gpu in gpus if gpu.get("uuid"))


def versions_of(launch: Launch) -> str:
    """List the versions of what ran, the engine first."""
    return ", ".join(f"{name} {version}" for name, version in _named(launch).items())


def _named(launch: Launch) -> dict[str, str]:
    # First and the same for all, also of a server that did not start and so told nothing.
    engine = package_of(launch.versions)
    version = launch.versions.get(engine) or launch.server.vllm_version
    return {engine: version, **launch.versions} if version else launch.versions


def _versions_by_name(launches: Iterable[Launch]) -> Iterator[list[str]]:
    """List the versions of each program that ran, without the launches that did not have it."""
    named = [pair for launch in launches for pair in _named(launch).items()]
    for same in grouped(named, lambda pair: pair[0]).values():
        yield distinct(version for _, version in same)


def locks_of(launches: Iterable[Launch]) -> list[str]:
    """Return the locks by which versions of launches were installed, with their digests."""
    return [launch.engine_lock for launch in launches if launch.engine_lock]


def _name_of(lock: str) -> str:
    return lock.rpartition("-")[0]


def commit_of(launch: Launch) -> str:
    """Name the commit that measured."""
    commit = str(launch.git.get("commit") or "")
    return f"{commit} with uncommitted changes" if commit and launch.git.get("is_dirty") else commit
