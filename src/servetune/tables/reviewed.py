"""Capacities and quality over commits, as `metrics.json` in Git holds them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from servetune.tables.history import versions_of

KEY = ["variant", "workload", "metric"]
COLUMNS = (*KEY, "commit", "value", "low", "high")
_ENDS = ("_lower", "_upper", "_not_steady")


def read_reviewed(study: str, root: Path) -> pd.DataFrame:
    """Return a row a (commit, variant, workload, metric), oldest first, where a number changed.

    `workload` is `quality` for a variant's quality. `low` and `high` are the interval of a
    capacity; NaN of quality, whose interval is in `quality.csv`. The working tree is the last
    commit, and its name empty.
    """
    last: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    rows = []
    for file in versions_of(f"results/{study}/metrics.json", root):
        for *place, value, low, high in _numbers(file.content):
            variant, workload, metric = place
            if last.get((variant, workload, metric)) != (value, low, high):
                last[variant, workload, metric] = value, low, high
                rows.append((*place, file.commit, value, low, high))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype(dict.fromkeys(("value", "low", "high"), float))


def no_changes() -> pd.DataFrame:
    """Return the same of nothing."""
    return pd.DataFrame(columns=list(COLUMNS))


def _numbers(content: bytes | None) -> Iterator[tuple[Any, ...]]:
    """Yield what is no load point; nothing of a file that is absent or damaged."""
    try:
        nested = json.loads(content or b"{}")
        for variant, workloads in nested.items():
            for workload, values in workloads.items():
                for name, value in values.items():
                    if isinstance(value, int | float) and not name.endswith(_ENDS):
                        ends = (values.get(f"{name}{end}") for end in _ENDS[:2])
                        yield (variant, workload, name, value, *ends)
    except (ValueError, AttributeError):
        return
