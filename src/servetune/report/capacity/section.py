"""All that the page shows of the capacity within the SLO, in one value for its template."""

from dataclasses import dataclass

from servetune.report.capacity import charts as slo_charts
from servetune.report.capacity import words as slo
from servetune.report.grammar import Spec, distinct
from servetune.report.measured import Measured


@dataclass(frozen=True)
class Section:
    """What `section.html.j2` takes: results by workload and tier, and the choices of its charts."""

    sentences: list[slo.Sentence]
    tiers: dict[str, list[slo.Found]]
    sent: list[slo.Sent]
    objectives: list[tuple[str, str]]
    charts: dict[str, Spec]
    method: str = slo.METHOD


def section(measured: Measured, variants: list[str]) -> Section | None:
    """Gather the section; None of a study that searches for nothing."""
    searched, results = measured.searched, measured.found
    if searched is None or not results:
        return None
    tiers: dict[str, list[slo.Found]] = {}
    for each in results:
        tiers.setdefault(each.place, []).append(each)
    seen = slo_charts.observations(searched, measured.table)
    return Section(
        sentences=slo.sentences(measured.plan, results),
        tiers=tiers,
        sent=slo.sent(measured.table, searched),
        objectives=[(place, place) for place in distinct(seen, "where")],
        charts=slo_charts.drawn(results, seen, variants),
    )
