"""The answer: capacities, verdicts, what is highest and lowest, and the table of variants."""

from functools import partial
from itertools import groupby

from servetune.metrics import COMPARED, DRAWN, Metric
from servetune.report import verdicts
from servetune.report.answer.charts import forest, ratios
from servetune.report.answer.markdown import markdown
from servetune.report.answer.words import Answer, Group, by_variant, headline
from servetune.report.capacity.words import sentences
from servetune.report.grammar import Spec
from servetune.report.measured import Measured
from servetune.report.notes import notes
from servetune.report.section import Section
from servetune.report.wording import load_of, place_of, state


def section(measured: Measured) -> Section:
    """Make the section."""
    plan, judgement = measured.plan, measured.judgement
    drawn = sorted(DRAWN, key=lambda metric: metric.better != "higher")
    groups = groupby(measured.compared, place_of)
    words = Answer(
        notes=notes(measured),
        capacities=sentences(plan, measured.found),
        judged=verdicts.rows(judgement) if judgement.has_intervals else [],
        heads=verdicts.HEADS,
        method=verdicts.method(plan, judgement) if len(measured.points) else "",
        remarks=[verdicts.checked(judgement), verdicts.resolved(judgement.resolution)],
        without=verdicts.without(judgement) if plan.repeats > 1 else [],
        headline=headline(plan, measured.comparison, measured.failing),
        by_variant=by_variant(plan, measured.comparison),
        state=state(measured.table),
        has_problems=bool((measured.table["status"] != "ok").any()),
        figures={f"ratio-{metric.name}": metric.title for metric in drawn},
        columns=COMPARED,
        groups=[
            Group(f"{place[0]}, {load_of(rows[0])}", rows)
            for place, grouped in groups
            for rows in [list(grouped)]
        ],
        costs=measured.costs,
        idle_power_w={
            case.row["variant"]: power
            for case in measured.served
            if (power := case.value("gpu_power_idle_w")) is not None
        },
    )
    charts = {f"ratio-{metric.name}": _ratios(measured, metric) for metric in drawn}
    return Section("answer", "Answer", words, charts, partial(markdown, measured, words))


def _ratios(measured: Measured, metric: Metric) -> Spec | None:
    """Draw the ratios with their intervals, or without where there are none."""
    of = measured.variants, metric.name, metric.head or metric.title
    return forest(measured.judgement, *of) or ratios(measured.comparison, *of)
