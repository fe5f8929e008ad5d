"""Where the clients of a closed loop run in lockstep, so that TTFT tells nothing of a variant.

It is then the time of a wave of prompts (`servetune.sessions.lockstep`).
"""

import json
from typing import Any

import pandas as pd

from servetune.analysis.wording import variants_by_place
from servetune.tables.frames import PENDING, records_of

CROWDED = 1.5
"""So many times as often as by chance, clients that send close together are in lockstep."""

LOCKSTEP = "lockstep"
"""What stands for the verdict on a TTFT there."""


def is_in_lockstep(row: dict[str, Any]) -> bool:
    """Tell whether clients are known to send together, from a row of the tidy table."""
    card = row.get("card")
    crowding = json.loads(card).get("send_crowding") if isinstance(card, str) else None
    return row["status"] not in ("failed", PENDING) and (crowding or 0.0) >= CROWDED


def waves(table: pd.DataFrame) -> dict[tuple[str, str], list[str]]:
    """Name the variants in lockstep by workload and load point; one launch is enough.

    None of a table without validity cards, where nothing is known of it.
    """
    return variants_by_place(filter(is_in_lockstep, records_of(table)))


def is_of_wave(metric: str) -> bool:
    """Tell whether a metric tells nothing where clients run in lockstep."""
    return metric.startswith("ttft")
