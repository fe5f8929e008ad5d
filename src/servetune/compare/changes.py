"""What differs between two revisions: declared, resolved by the server, and installed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from servetune.compare.sides import Side
from servetune.records.sessions import Launch

NONE = "\N{EN DASH}"

CHOSEN, IGNORED = "chosen at start: ", "ignored by the server"

FIRST = (
    CHOSEN,
    IGNORED,
    "scheduler_config.",
    "cache_config.",
    "compilation_config.cudagraph",
    "compilation_config.max_cudagraph",
    "compilation_config.",
    "attention_config.",
    "model_config.",
    "speculative_config.",
)
"""The sections of the resolved configuration that are shown first."""

PER_LAUNCH = (
    "served_model_name",
    "_port",
    "port_list",
    "compilation_time",
    "cache_dir",
    "traced_files",
    "instance_id",
    "debug_dump_path",
)
"""Ends of keys whose values belong to one launch or host, and decide nothing."""

COPIES = (
    "speculative_config.target_",
    "speculative_config.draft_parallel_config.",
    "speculative_config.draft_model_config.",
)
"""What speculative decoding repeats from the other sections."""

SILENT = ("profiler_config.", "logging_config.", "observability_config.")


@dataclass(frozen=True)
class Change:
    """A value on both sides, as text, and the variants that it holds for (all: empty)."""

    name: str
    base: str
    here: str
    variants: tuple[str, ...] = ()


def declared_changes(base: Side, here: Side) -> list[Change]:
    """List what differs in params.yaml and in the study."""
    changes = []
    for prefix, *sides in (("", base.params, here.params), ("study: ", base.study, here.study)):
        before, after = (dict(leaves(side)) for side in sides)
        changes += [
            Change(f"{prefix}{name}", show(before.get(name)), show(after.get(name)))
            for name in dict.fromkeys([*before, *after])
            if before.get(name) != after.get(name)
        ]
    return changes


def resolved_changes(base: Side, here: Side) -> list[Change]:
    """List what the servers of a variant resolved differently, the same change of many as one.

    A value that varies from launch to launch of one side is not a change.
    """
    changed: dict[tuple[str, str, str], list[str]] = {}
    common = [name for name in here.variants if name in base.variants]
    for variant in common:
        for read in (_resolved, _chosen):
            before, after = read(base, variant), read(here, variant)
            if not before or not after:
                continue
            for name in sorted(before.keys() | after.keys(), key=_rank):
                one, other = before.get(name, {show(None)}), after.get(name, {show(None)})
                if one.isdisjoint(other):
                    change = (name, " or ".join(sorted(one)), " or ".join(sorted(other)))
                    changed.setdefault(change, []).append(variant)
    return [
        Change(*change, () if variants == common else tuple(variants))
        for change, variants in sorted(changed.items(), key=lambda item: _rank(item[0][0]))
    ]


def installed_changes(base: Side, here: Side) -> list[Change]:
    """List changes of engines, versions, checkpoints and hosts."""
    before, after = _installed(base), _installed(here)
    kinds = ["engine", "model", "host", "GPU"]
    names = [*kinds, *sorted((before.keys() | after.keys()) - {*kinds})]
    values = [(name, before.get(name, NONE), after.get(name, NONE)) for name in names]
    return [Change(*change) for change in values if change[1] != change[2]]


def leaves(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings and lists of mappings by their dotted paths."""
    if isinstance(content, dict) and content:
        for name, value in content.items():
            yield from leaves(value, f"{path}.{name}" if path else str(name))
    elif isinstance(content, list) and any(isinstance(value, dict) for value in content):
        for index, value in enumerate(content):
            yield from leaves(value, f"{path}[{index}]")
    else:
        yield path, content


def show(value: Any) -> str:
    """Write a value in one line: a long one shortened in its middle."""
    if value is None or value == {}:
        return NONE
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 80 else f"{text[:45]} … {text[-30:]}"


def _resolved(side: Side, variant: str) -> dict[str, set[str]]:
    """The values of the resolved configuration that the launches of a variant told, by name."""
    values: dict[str, set[str]] = {}
    for launch in _launches(side, variant):
        config = launch.server_info.get("vllm_config")
        for name, value in leaves(config) if config else ():
            if _matters(name, value):
                values.setdefault(name, set()).add(show(value))
    return values


def _chosen(side: Side, variant: str) -> dict[str, set[str]]:
    """What the launches of a variant chose only as they started, and ignored; empty: not known."""
    values: dict[str, set[str]] = {}
    for launch in _launches(side, variant):
        if launch.choices is not None:
            told = "; ".join(sorted(launch.ignored or []))
            values.setdefault(IGNORED, set()).add(told or NONE)
            for name, value in launch.choices.items():
                values.setdefault(f"{CHOSEN}{name}", set()).add(value)
    return values


def _launches(side: Side, variant: str) -> list[Launch]:
    sessions = (session for session in side.sessions.values() if session.variant == variant)
    return [launch for session in sessions for launch in session.launches]


def _matters(name: str, value: Any) -> bool:
    last = name.rsplit(".", 1)[-1]
    return not (
        last.startswith("_")
        or name.endswith(PER_LAUNCH)
        or name.startswith((*COPIES, *SILENT))
        # A function is shown with its address.
        or " at 0x" in str(value)
    )


def _rank(name: str) -> tuple[int, str]:
    place = next((i for i, start in enumerate(FIRST) if name.startswith(start)), len(FIRST))
    return place, name


def _installed(side: Side) -> dict[str, str]:
    """All that the sessions of a side name of each kind, and all versions of each package."""
    sessions = side.sessions.values()
    launches = [launch for session in sessions for launch in session.launches]
    gpus = [gpu for launch in launches for gpu in launch.host.get("gpus", [])]
    installed: dict[str, set[str]] = {
        "engine": {session.engine for session in sessions if session.engine},
        "model": {str(id) for session in sessions for id in session.model.values() if id},
        "host": {launch.host.get("cpu") or NONE for launch in launches if launch.host},
        "GPU": {str(gpu.get("name")) for gpu in gpus},
    }
    for launch in launches:
        for name, version in launch.versions.items():
            installed.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(values)) or NONE for name, values in installed.items()}
