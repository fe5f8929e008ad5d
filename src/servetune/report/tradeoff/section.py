"""Throughput against latency: a line a variant through its load points, and the Pareto front."""

from servetune.analysis.wording import is_batch
from servetune.metrics import PERCENTILES
from servetune.report.grammar import distinct
from servetune.report.latency.charts import LATENCIES
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.tradeoff.charts import tradeoff
from servetune.report.tradeoff.pareto import pareto, unit_of
from servetune.report.tradeoff.runs import Run
from servetune.tables.frames import records_of


def section(measured: Measured) -> Section | None:
    """Make the section; None where no load point has a line to draw."""
    plan, variants = measured.plan, measured.variants
    rows = records_of(measured.comparison)
    runs = [Run(rows, measured.points, plan.devices, measured.in_lockstep)]
    charts = {f"tradeoff-{latency}": tradeoff(runs, variants, latency) for latency in LATENCIES}
    charts["pareto"] = pareto(runs, variants, unit_of(plan))
    if not (charts["tradeoff-ttft"] or charts["tradeoff-e2e"]):
        return None
    words = {
        "captions": {f"tradeoff-{latency}": title for latency, title in LATENCIES.items()},
        "workloads": distinct([r for r in rows if r["ok"] and not is_batch(r)], "workload"),
        "percentiles": [f"p{percentile}" for percentile in PERCENTILES],
        "has_batches": any(row["ok"] and is_batch(row) for row in rows),
        "unit": unit_of(plan),
    }
    return Section("tradeoff", "Throughput against latency", words, charts)
