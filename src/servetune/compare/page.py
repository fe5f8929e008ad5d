"""A comparison of revisions as a page: the report's charts over load, both in one, and the rest."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from servetune.analysis.wording import is_batch
from servetune.compare.comparison import Comparison
from servetune.compare.gfm_html import as_html
from servetune.compare.markdown import answer, evidence, study_of
from servetune.compare.sides import Side
from servetune.metrics import PER_GPU, PERCENTILES
from servetune.numbers import known
from servetune.plan.planned import Plan
from servetune.report.grammar import Spec, distinct
from servetune.report.html import render_page
from servetune.report.lacks import UNDRAWN, lack
from servetune.report.latency.charts import LATENCIES
from servetune.report.palette import SIDE_SHAPES, styles
from servetune.report.setup.section import when_measured
from servetune.report.tradeoff.charts import tradeoff
from servetune.report.tradeoff.pareto import pareto, unit_of
from servetune.report.tradeoff.runs import Run


def render_html(comparison: Comparison, plan: Plan, stale: Sequence[str] = ()) -> str:
    """Render a comparison as one self-contained page, with the words of its Markdown.

    `plan` is that of this side. `stale` says why results are not those of params.yaml.
    """
    here, base = _run(comparison, comparison.here), _run(comparison, comparison.base)
    runs = [here, base]
    means = [*here.means, *base.means]
    variants = distinct(means, "variant")
    # The shape tells which side it is.
    looks = [replace(look, shape=SIDE_SHAPES[0]) for look in styles(variants, plan.baseline)]
    unit = unit_of(plan)
    charts = _charts(runs, [look.variant for look in looks], unit)
    captions = {f"tradeoff-{latency}": title for latency, title in LATENCIES.items()}
    return render_page(
        "compare/page.html.j2",
        looks,
        {name: spec for name, spec in charts.items() if UNDRAWN not in spec},
        lacks=[
            lack(f"The chart {name}", spec[UNDRAWN])
            for name, spec in charts.items()
            if UNDRAWN in spec
        ],
        labels={},
        dummies=set(),
        failing={},
        study=study_of(comparison),
        sides=[
            {"label": side.label, "shape": shape, "measured": when_measured(side.table)}
            for side, shape in zip((comparison.here, comparison.base), SIDE_SHAPES, strict=True)
        ],
        captions=captions | {"pareto": f"Tokens per second of a user and of a {unit}"},
        workloads=distinct([r for r in means if r["ok"] and not is_batch(r)], "workload"),
        percentiles=[f"p{percentile}" for percentile in PERCENTILES],
        answer=as_html(answer(comparison, stale)),
        evidence=as_html(evidence(comparison)),
    )


def _charts(runs: list[Run], variants: list[str], unit: str) -> dict[str, Spec]:
    specs = {f"tradeoff-{latency}": tradeoff(runs, variants, latency) for latency in LATENCIES}
    specs["pareto"] = pareto(runs, variants, unit)
    return {name: spec for name, spec in specs.items() if spec}


def _run(comparison: Comparison, side: Side) -> Run:
    """Return what the charts draw of a side, under its label."""
    rows = comparison.rows
    both = (row.here if side is comparison.here else row.base for row in rows)
    means = [row for row in both if row]
    return Run(means, side.table, _devices(means), comparison.in_lockstep, side.label)


def _devices(means: list[dict[str, Any]]) -> dict[str, int]:
    """Return how many devices each variant has, where its throughput per GPU is known."""
    devices = {}
    for row in means:
        throughput, per_gpu = known(row["output_throughput_tok_s"]), known(row[PER_GPU])
        if throughput and per_gpu:
            devices[row["variant"]] = round(throughput / per_gpu)
    return devices
