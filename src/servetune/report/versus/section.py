"""What a workload costs beside another: the requests that both have, launch by launch."""

import math

from servetune.analysis.versus import HITS, Place, Versus
from servetune.analysis.wording import ratio
from servetune.metrics import METRIC
from servetune.numbers import number, percent
from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Cell, Name, Styled, Table
from servetune.report.verdicts import interval_of

TITLE = "With and without"

SAID = (
    "The same requests under two loads of the same launches, as the mean of each, and their ratio"
    " with its 95\N{NO-BREAK SPACE}% interval over the launches (paired). Verdicts hold for the"
    " whole table, beyond the smallest difference of interest; they take three launches."
)


def section(measured: Measured) -> Section | None:
    """Make the section; None where no workload names another."""
    if not measured.versus:
        return None
    cells: list[list[Cell]] = [
        [
            *(Name(each.variant), _place(each.place), _place(each.other)),
            *(each.kind or "all", "Prefix-cache hits" if each.metric == HITS else _head(each)),
            *(_written(each.metric, value) for value in (each.value, each.other_value)),
            _ratio(each),
            Styled(each.verdict or "", f"verdict {each.verdict}" if each.verdict else ""),
            str(each.launches),
        ]
        for each in measured.versus
    ]
    heads = ("Variant", "With", "Without", "Class", "Metric", "With it", "Without it", "Ratio")
    texts = ("Variant", "With", "Without", "Class", "Metric", "Verdict")
    table = Table(TITLE, (*heads, "Verdict", "Launches"), cells, texts=texts, css=("tall", ""))
    return Section(
        "versus",
        TITLE,
        Plain(SAID, table),
        markdown=lambda fit: f"### {TITLE}\n\n{SAID}\n\n{table_of(measured, table, fit.rows)}",
    )


def _head(each: Versus) -> str:
    metric = METRIC[each.metric]
    return f"{metric.title}, {metric.unit}" if metric.unit else metric.title


def _place(place: Place) -> str:
    return " ".join(place)


def _written(metric: str, value: float) -> str:
    return percent(value) if metric == HITS else number(value)


def _ratio(each: Versus) -> str:
    if math.isnan(each.ratio):
        return ""
    if math.isnan(each.low):
        return f"{ratio(each.ratio)} (one launch)"
    return interval_of(each.ratio, each.low, each.high)
