"""The probes of searches for the capacity, as rows of the report."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.numbers import NONE, known
from servetune.report.capacity.view import STOPPED, UNITS, Searched, objective
from servetune.tables.frames import grouped, records_of


@dataclass(frozen=True)
class Sent:
    """One probe: its row of the table, its load, the tier that it was sent for, why it stopped.

    `verdicts` holds tier, verdict and the objective that binds.
    """

    row: dict[str, Any]
    load: float | None
    unit: str
    sent_for: str
    stopped: str
    verdicts: list[tuple[str, str, str]]


def sent(table: pd.DataFrame, searched: Searched) -> list[Sent]:
    """Return the probes in their order, failed ones and closed loops before the first included."""
    judged = grouped(records_of(searched.probes), lambda row: row["measurement"])
    result = []
    for row in records_of(table[table["probe"].notna()]):
        tiers = {each["tier"]: each for each in judged.get(row["measurement"], [])}
        first = next(iter(tiers.values()), {"sent_for": NONE, "stopped": NONE})
        rate, concurrency = known(row["rate_rps"]), known(row["concurrency"])
        result.append(
            Sent(
                row=row,
                load=concurrency if rate is None else rate,
                unit=UNITS["concurrency" if rate is None else "rate"],
                sent_for=first["sent_for"],
                stopped=STOPPED.get(first["stopped"], NONE),
                verdicts=[
                    (tier, each["verdict"], objective(each["binding"]) if each["binding"] else "")
                    for tier, each in tiers.items()
                ],
            )
        )
    return result
