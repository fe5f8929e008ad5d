"""Published numbers beside measured ones, each with its own ratio to its own baseline."""

import pandas as pd

from servetune.analysis.wording import ratio
from servetune.numbers import known, number
from servetune.plan.planned import Plan
from servetune.report import provenance
from servetune.report.context.section import published_metrics
from servetune.report.gfm import bullets, details, table_of, text
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Name, Table
from servetune.tables.frames import numbers, records_of
from servetune.tables.published import Published

EXPLAINED = (
    "Numbers that others published, beside those measured here. They were made under other"
    " conditions, enter nothing else in this report, and are no baseline. Where hardware or"
    " weights differ, compare what each variant did against its own baseline. A dash stands for"
    " what was not measured here, or has no number of a baseline beside it."
)

KEY = ["variant", "workload", "load_point", "metric"]


def section(measured: Measured) -> Section | None:
    """Make the section; None where the study names no published numbers."""
    published = measured.published
    if published is None:
        return None
    source, conditions = published.source, _conditions(measured, published)
    both = _table(beside(measured.plan, measured.points, published))
    words = {
        "explained": EXPLAINED,
        "title": source.title,
        "conditions": conditions,
        "differs": source.differs,
        "numbers": both,
    }
    blocks = [
        f"{EXPLAINED} Source: {text(source.title)}.",
        table_of(measured, conditions),
        bullets(list(map(text, source.differs))),
    ]
    return Section(
        "published",
        "Published numbers",
        words,
        markdown=lambda fit: details(
            "Published numbers beside measured ones",
            "\n\n".join([*blocks, table_of(measured, both, fit.rows)]),
        ),
        link="Published",
    )


def _conditions(measured: Measured, published: Published) -> Table:
    """Make the table of what differs."""
    plan, source = measured.plan, published.source
    is_dummy = all(
        session.model and plan.models[session.model].source.is_dummy for session in plan.sessions
    )
    versions = provenance.versions(plan, measured.table, measured.sessions)
    rows = (
        ("Hardware", source.hardware, plan.hardware),
        ("Engine", source.engine, versions),
        ("Weights", source.weights, "dummy weights" if is_dummy else "see the server commands"),
    )
    heads = ("What differs", "Published", "Measured here")
    return Table("What differs", heads, rows, texts=heads)


def _table(both: pd.DataFrame) -> Table:
    rows = []
    for row in records_of(both):
        spread = f" ({number(row['low'])} to {number(row['high'])}, {row['runs']} runs)"
        rows.append(
            [
                Name(row["variant"]),
                ", ".join(filter(None, (row["workload"], row["load_point"]))),
                row["metric"],
                number(row["published"]) + (spread if row["runs"] > 1 else ""),
                number(row["measured"]),
                ratio(row["measured_over_published"]),
                ratio(row["published_ratio"]),
                ratio(row["measured_ratio"]),
            ]
        )
    heads = (
        *("Variant", "Where", "Metric", "Published", "Measured", "Measured / published"),
        *("Published over its baseline", "Measured over its baseline"),
    )
    return Table("Published and measured numbers", heads, rows, heads[:3], ("tall", "dense"))


def beside(plan: Plan, table: pd.DataFrame, published: Published) -> pd.DataFrame:
    """Put each published number beside the mean of what was measured in its place.

    Args:
        plan: what was asked.
        table: a row a measurement, as `servetune.tables.write.load_points` makes it.
        published: the numbers, whose metrics are columns of the table, or told by lines of TPOT
            over context, where they were measured.

    Returns:
        Columns `KEY`, published, runs, low, high (over the runs), measured (over the launches that
        are ok), measured_over_published, and published_ratio and measured_ratio, over that of the
        baseline in the same column. What is not known is NaN.
    """
    ok = table[table["status"] == "ok"]
    lines = published_metrics(ok, plan.baseline)
    runs = published.numbers.groupby(KEY, sort=False)["value"]
    both = runs.agg(published="mean", runs="size", low="min", high="max").reset_index()
    both["measured"] = [
        lines.get((variant, metric), _measured(ok, variant, workload, point, metric))
        for variant, workload, point, metric in both[KEY].itertuples(index=False)
    ]
    values = ["published", "measured"]
    both[values] = both[values].apply(numbers)
    base = both.loc[both["variant"] == plan.baseline, [*KEY[1:], *values]]
    both = both.merge(base, on=KEY[1:], how="left", suffixes=("", "_base"))
    is_other = both["variant"] != plan.baseline
    for name in values:
        both[f"{name}_ratio"] = _over(both[name], both[f"{name}_base"]).where(is_other)
    return both.assign(measured_over_published=_over(both["measured"], both["published"]))


def _measured(
    ok: pd.DataFrame, variant: str, workload: str, point: str, metric: str
) -> float | None:
    """Return the mean over the launches; a number of a variant as a whole needs no place."""
    if metric not in ok.columns:
        return None
    here = ok[ok["variant"] == variant]
    if workload:
        here = here[(here["workload"] == workload) & (here["load_point"] == point)]
    return known(numbers(here[metric]).mean())


def _over(values: "pd.Series[float]", base: "pd.Series[float]") -> "pd.Series[float]":
    return values / base.where(base != 0)
