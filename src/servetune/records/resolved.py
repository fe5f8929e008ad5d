"""What a server made of its launch, by name: configuration, late choices, endpoints."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from servetune.records.sessions import Launch

NONE = "\N{EN DASH}"

CHOSEN, IGNORED = "chosen at start: ", "ignored by the server"
ANSWERS, REFUSES = "answers ", "refuses: "

FIRST = (
    ANSWERS,
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

Values = dict[str, set[str]]
"""What launches told, as text, by name; several where they differ."""


def resolved(launches: Iterable[Launch]) -> Values:
    """Return the values of the resolved configuration."""
    values: Values = {}
    for launch in launches:
        config = launch.server_info.get("vllm_config")
        for name, value in leaves(config) if config else ():
            if _matters(name, value):
                values.setdefault(name, set()).add(show(value))
    return values


def chosen(launches: Iterable[Launch]) -> Values:
    """Return what was chosen only at the start, and ignored; empty: not known."""
    values: Values = {}
    for launch in launches:
        if launch.choices is not None:
            told = "; ".join(sorted(launch.ignored or []))
            values.setdefault(IGNORED, set()).add(told or NONE)
            for name, value in launch.choices.items():
                values.setdefault(f"{CHOSEN}{name}", set()).add(value)
    return values


def answered(launches: Iterable[Launch]) -> Values:
    """Return the endpoints that answer, and those that refuse; empty: not known."""
    values: Values = {}
    for launch in launches:
        for path, how in launch.endpoints.items():
            values.setdefault(f"{ANSWERS}{path}", set()).add(how)
    return values


def rank(name: str) -> tuple[int, str]:
    """Return the place of a name among others."""
    place = next((i for i, start in enumerate(FIRST) if name.startswith(start)), len(FIRST))
    return place, name


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


def _matters(name: str, value: Any) -> bool:
    last = name.rsplit(".", 1)[-1]
    return not (
        last.startswith("_")
        or name.endswith(PER_LAUNCH)
        or name.startswith((*COPIES, *SILENT))
        # A function is shown with its address.
        or " at 0x" in str(value)
    )
