"""Which share of the requests keeps a declared SLO, where no rate sets the pace."""

from collections.abc import Iterator

from servetune.analysis.wording import listed, place_of
from servetune.numbers import NBSP, known, number
from servetune.report.measured import Measured
from servetune.report.verdicts import few
from servetune.tables.frames import grouped


def within_slo(measured: Measured) -> Iterator[tuple[str, str]]:
    """Say it of the loads that decide by throughput: where, with the limits, and what.

    At a rate or in a trace the share decides the study itself.
    """
    limits = {(m.workload, m.load_point): m.limits_ms for m in measured.plan.measurements}
    for place, (decision, *_) in grouped(measured.decisions, lambda d: place_of(d.row)).items():
        rows = [row for row in measured.compared if place_of(row) == place]
        shares = [
            f"{row['variant']} {number(share)}{NBSP}%"
            for row in rows
            if (share := known(row["slo_attainment_percent"])) is not None
        ]
        if decision.is_by_throughput and limits.get(place) and shares:
            within = listed(f"{name.upper()} ≤ {ms:,g} ms" for name, ms in limits[place].items())
            yield f"{decision.place} ({within})", f"Requests within the SLO: {few(shares)}."
