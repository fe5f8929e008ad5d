"""What an endpoint tells of itself, by which another one behind the same address is noticed."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from servetune.engines.dialect import Dialect
from servetune.sentences import sentence

Fingerprint = dict[str, str]
"""What is told, by name; what is not told is absent."""

_OF_MODEL = ("root", "owned_by", "max_model_len", "parent", "meta")
"""What a list of models may tell of one. Not `created`, which some take for the time of day."""

_STARTED = "process_start_time_seconds"
"""By which Prometheus' clients tell when a server started."""


def of_model(model: dict[str, Any]) -> Fingerprint:
    """Return what a list of models tells of a model."""
    told = {name: model[name] for name in _OF_MODEL if model.get(name) not in (None, "")}
    return {name: _word(value) for name, value in told.items()}


def of_pages(dialects: Sequence[Dialect], pages: Sequence[str]) -> Fingerprint:
    """Return what the metrics of all servers tell: when each started, and how its cache is."""
    started = sorted(filter(None, map(_started, pages)))
    caches = [dialect.cache(page) for dialect, page in zip(dialects, pages, strict=False)]
    told = [_word(cache) for cache in caches if cache]
    return {
        **({"started": ", ".join(started)} if started else {}),
        **({"cache": "; ".join(sorted(set(told)))} if told else {}),
    }


def changes(before: Fingerprint, now: Fingerprint) -> str | None:
    """Say what differs between two fingerprints, of what both tell; None: nothing."""
    told = [
        f"its {name} was {before[name]}, and is {now[name]}"
        for name in before
        if name in now and now[name] != before[name]
    ]
    return "; ".join(told) or None


def digest_of(fingerprint: Fingerprint) -> str | None:
    """Return twelve digits that identify a fingerprint; None of an empty one."""
    if not fingerprint:
        return None
    text = json.dumps(fingerprint, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _word(value: Any) -> str:
    """Return a value as one line, without what a server repeats of a request."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return sentence(text)


def _started(page: str) -> str | None:
    for line in page.splitlines():
        name, _, value = line.partition(" ")
        if name == _STARTED:
            return value.strip()
    return None
