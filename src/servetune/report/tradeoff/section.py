"""Throughput against latency: a line a variant through its load points."""

from dataclasses import dataclass

from servetune.metrics import PERCENTILES
from servetune.report.latency.charts import LATENCIES
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.tradeoff.charts import tradeoff
from servetune.report.wording import is_batch
from servetune.tables.frames import records_of


@dataclass(frozen=True)
class Tradeoff:
    """What the template takes: the captions of its charts, and what a reader selects."""

    captions: dict[str, str]
    workloads: list[str]
    percentiles: list[str]
    has_batches: bool


def section(measured: Measured) -> Section | None:
    """Make the section; None where no load point has a line to draw."""
    rows = [row for row in records_of(measured.comparison) if row["ok"]]
    drawn = [row for row in rows if not is_batch(row)]
    of = measured.points, records_of(measured.comparison), measured.variants
    charts = {f"tradeoff-{latency}": tradeoff(*of, latency) for latency in LATENCIES}
    if not (charts["tradeoff-ttft"] or charts["tradeoff-e2e"]):
        return None
    words = Tradeoff(
        {f"tradeoff-{latency}": title for latency, title in LATENCIES.items()},
        list(dict.fromkeys(row["workload"] for row in drawn)),
        [f"p{percentile}" for percentile in PERCENTILES],
        has_batches=len(drawn) < len(rows),
    )
    return Section("tradeoff", "Throughput against latency", words, charts)
