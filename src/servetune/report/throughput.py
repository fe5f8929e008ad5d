"""Over which part of a load its throughputs are, and where they are to be doubted."""

from typing import Any

import pandas as pd

from servetune.analysis.wording import is_closed_loop, place_of, places, text_of
from servetune.numbers import known
from servetune.tables.frames import records_of


def window_of(row: dict[str, Any]) -> str:
    """Say over which part of the load the throughputs of a row are."""
    window = text_of(row.get("throughput_window"))
    return f"{window}, uncertain" if known(row.get("throughput_is_uncertain")) else window


def cautions(table: pd.DataFrame) -> list[str]:
    """Warn of throughputs that loads were too short for, a sentence each kind."""
    uncertain = [row for row in records_of(table) if known(row.get("throughput_is_uncertain"))]
    kinds = (
        (
            uncertain,
            "is uncertain: the load was not busy and even for long enough. Five requests a client"
            " are usually enough, ten where lengths vary widely; none are where answers get faster"
            " as a cache fills",
        ),
        (
            with_ends(table),
            "includes the end of the load, when fewer requests are in flight: where lengths vary"
            " it is too low, the more so with few requests a client",
        ),
    )
    return [f"Throughput at {places(map(place_of, rows))} {why}." for rows, why in kinds if rows]


def with_ends(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the closed loops of older records, whose throughput was not judged."""
    return [
        row
        for row in records_of(table[table["status"] == "ok"])
        if is_closed_loop(row)
        and row["concurrency"] > 1
        and known(row.get("throughput_is_uncertain")) is None
    ]
