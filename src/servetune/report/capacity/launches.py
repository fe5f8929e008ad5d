"""Searches of one variant on several launches, taken together: a row, and where it is shown."""

from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from servetune.analysis.capacities import gains_over_launches
from servetune.numbers import known
from servetune.records.sessions import SEVERAL
from servetune.report.capacity.view import Found
from servetune.tables.capacity import together
from servetune.tables.frames import grouped

ALL = "all"
"""The repeat of the row of all launches together."""

SUMMED = ("probes", "launches", "requests", "seconds")


def with_launches(results: list[Found], capacities: pd.DataFrame, baseline: str) -> list[Found]:
    """Give each search of a variant with several what they say together, as its `over`."""
    joint = together(capacities)
    gained = gains_over_launches(capacities, baseline) if any(of.gain for of in results) else {}
    found = []
    for key, here in grouped(results, _measured).items():
        if interval := joint.get(key):
            rows = [each.row for each in here if not each.has_no_answer]
            gain = gained.get(key) if any(each.gain for each in here) else None
            over = replace(here[0], row={**rows[0], **asdict(interval), **_summed(rows)}, gain=gain)
            here = [replace(each, over=over) for each in here]
        found += here
    return found


def _measured(each: Found) -> tuple[str, str, str]:
    return each.row["workload"], each.row["tier"], each.row["variant"]


def _summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what the row of several searches has beside their capacity."""
    sums = {name: sum(row[name] for row in rows) for name in SUMMED}
    devices = dict.fromkeys(row["device"] for row in rows if row["device"])
    bindings, ended = ({row[name] for row in rows} for name in ("binding", "ended"))
    steady = [known(row["is_steady"]) for row in rows]
    preemptions = [count for row in rows if (count := known(row["preemptions"])) is not None]
    return {
        **sums,
        "repeat": ALL,
        "ended": "found" if "found" in ended else rows[0]["ended"],
        "device": SEVERAL.join(devices) or None,
        "binding": bindings.pop() if len(bindings) == 1 else "",
        "is_steady": False if 0 in steady else None if None in steady else True,
        "preemptions": sum(preemptions) if preemptions else None,
    }


def launches_together(results: list[Found]) -> list[Found]:
    """Return a row a variant where its launches can be taken together, and else one a search."""
    rows = [each.over or each for each in results]
    return list({id(row.row): row for row in rows}.values())


def before_each(results: list[Found]) -> list[Found]:
    """Return the searches, those of several launches below the row of all together."""
    said: list[Found] = []
    for here in grouped(results, _measured).values():
        said += [each for each in [here[0].over] if each]
        said += here
    return said
