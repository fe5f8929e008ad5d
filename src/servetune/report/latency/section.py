"""Distributions of latency, and its percentiles with intervals."""

from dataclasses import dataclass

from servetune.report.grammar import Places
from servetune.report.latency.charts import LATENCIES, distribution
from servetune.report.latency.words import percentile_table
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Table


@dataclass(frozen=True)
class Latency:
    """What the template takes."""

    captions: dict[str, str]
    places: Places
    percentiles: Table


def section(measured: Measured) -> Section | None:
    """Make the section; None where no request has a latency."""
    of = measured.distributions, measured.variants
    charts = {f"distribution-{latency}": distribution(*of, latency) for latency in LATENCIES}
    if not (charts["distribution-ttft"] or charts["distribution-e2e"]):
        return None
    words = Latency(
        {f"distribution-{latency}": title for latency, title in LATENCIES.items()},
        Places.of(measured.distributions),
        percentile_table(measured.points, *of),
    )
    return Section("latency", "Latency distributions", words, charts, link="Latency")
