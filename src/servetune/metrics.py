"""The table of metrics: what is kept of a load's requests, and where each number is shown.

A metric is a row here and a field of `servetune.records.measurements.Metrics`, which
`servetune.load.request_table.aggregate` fills, or one of `servetune.tables.figures`.
"""

from dataclasses import dataclass
from typing import Literal

LATENCIES = ("ttft", "tpot", "itl", "e2e")
"""TTFT, TPOT, ITL and E2E latency; `docs/methodology.md` holds their definitions."""

PERCENTILES = (50, 90, 95, 99)
"""Those in which service levels are written, by convention; a record has more (below)."""

QUANTILE_PROBABILITIES = tuple(i / 100 for i in range(101))
"""Where a record keeps the quantiles of each latency, so that a report can draw distributions."""


PER_GPU = "output_throughput_tok_s_per_gpu"

WHOLE_LOAD = "whole_load_output_throughput_tok_s"
"""What `vllm bench serve` prints: tokens / duration, the end of a closed loop included."""


@dataclass(frozen=True)
class Metric:
    """One number of a measurement, by its column in the tidy table.

    Args:
        name: the column.
        title: what a reader calls it.
        unit: of its values; empty for a ratio or a count.
        better: which way is better; with None it gets no ratio to the baseline.
        head: a shorter title, for a table's head.
        key: a shorter name, for `summary.json`.
        compared: a column in the comparison of variants; a judged metric is one anyway.
        reviewed: in `metrics.json`, which a reviewer diffs.
        judged: gets a verdict. Metrics that move together would only cost power.
        drawn: as a chart of ratios to the baseline.
        is_cost: shown beside the others where it is known: with a price, where variants have
            other numbers of GPUs, or where a GPU tells its power.
        is_pooled: only of loads whose answers have no tokens: embeddings, reranks.
        needs_slo: only of loads whose workload has an SLO, and judged where a rate or a trace sets
            the pace.
    """

    name: str
    title: str
    unit: str = ""
    better: Literal["lower", "higher"] | None = None
    head: str = ""
    key: str = ""
    compared: bool = False
    reviewed: bool = False
    judged: bool = False
    drawn: bool = False
    is_cost: bool = False
    needs_slo: bool = False
    is_pooled: bool = False

    @property
    def column(self) -> str:
        """The head of its column, with the unit."""
        head = self.head or self.title
        return f"{head}, {self.unit}" if self.unit else head


METRICS = (
    Metric("ttft_p50_ms", "TTFT p50", "ms", "lower", reviewed=True, judged=True, drawn=True),
    Metric("ttft_p90_ms", "TTFT p90", "ms", "lower"),
    Metric("ttft_p95_ms", "TTFT p95", "ms", "lower"),
    Metric("ttft_p99_ms", "TTFT p99", "ms", "lower", reviewed=True),
    Metric("tpot_p50_ms", "TPOT p50", "ms", "lower", reviewed=True, judged=True, drawn=True),
    Metric("tpot_p90_ms", "TPOT p90", "ms", "lower"),
    Metric("tpot_p95_ms", "TPOT p95", "ms", "lower"),
    Metric("tpot_p99_ms", "TPOT p99", "ms", "lower"),
    Metric("e2e_p50_ms", "E2E p50", "ms", "lower", compared=True, reviewed=True),
    Metric("e2e_p90_ms", "E2E p90", "ms", "lower"),
    Metric("e2e_p95_ms", "E2E p95", "ms", "lower"),
    Metric("e2e_p99_ms", "E2E p99", "ms", "lower"),
    Metric("request_throughput_rps", "Request throughput", "requests/s", "higher"),
    Metric(
        *("output_throughput_tok_s", "Output throughput", "tok/s", "higher", "Output", "tok_s"),
        reviewed=True,
        judged=True,
        drawn=True,
    ),
    Metric(WHOLE_LOAD, "Output over the whole load", "tok/s", "higher", compared=True),
    Metric("total_throughput_tok_s", "Total throughput", "tok/s", "higher"),
    Metric(
        *("slo_attainment_percent", "SLO attainment", "%", "higher", "", "slo_percent"),
        reviewed=True,
        judged=True,
        needs_slo=True,
    ),
    Metric(
        *("input_throughput_rps", "Input throughput", "inputs/s", "higher", "Inputs"),
        reviewed=True,
        judged=True,
        is_pooled=True,
    ),
    Metric(
        *("pooling_p50_ms", "E2E p50 of whole answers", "ms", "lower", "Whole answer"),
        reviewed=True,
        judged=True,
        is_pooled=True,
    ),
    Metric("acceptance_length", "Acceptance length", reviewed=True),
    Metric("acceptance_ratio", "Acceptance ratio"),
    Metric("tokens_per_step", "Tokens per step"),
    Metric("duration_s", "Duration", "s"),
    Metric("cost_usd_per_million_output_tokens", "USD/1M output", is_cost=True),
    Metric("cost_usd_per_million_total_tokens", "USD/1M total", is_cost=True),
    Metric("cost_usd_per_thousand_requests", "USD/1k requests", is_cost=True),
    Metric(PER_GPU, "Output per GPU", "tok/s", "higher", is_cost=True),
    Metric("energy_j_per_output_token", "J/output token", is_cost=True),
)

METRIC = {metric.name: metric for metric in METRICS}
COMPARED = tuple(metric for metric in METRICS if metric.compared or metric.judged)
REVIEWED = tuple(metric.name for metric in METRICS if metric.reviewed)
COSTS = tuple(metric for metric in METRICS if metric.is_cost)
DRAWN = tuple(metric for metric in METRICS if metric.drawn)
WITH_RATIO = tuple(metric.name for metric in METRICS if metric.better)

JUDGED = tuple(
    metric.name
    for metric in sorted(METRICS, key=lambda metric: metric.better != "higher")
    if metric.judged
)
"""Throughput first, as it is asked for first."""
