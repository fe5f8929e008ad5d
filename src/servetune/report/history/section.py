"""History: the judged metrics over the commits that measured this study, and where they moved."""

from dataclasses import dataclass

from servetune.analysis.wording import listed, plural, where_of
from servetune.metrics import METRIC
from servetune.report.gfm import details, table_of, text
from servetune.report.grammar import heaviest, places_of
from servetune.report.history.charts import over_commits
from servetune.report.history.view import (
    METHOD,
    change_of,
    date_of,
    has_moved,
    name_of,
    over_time,
    reviewed_changes,
    value_of,
)
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Name, Table
from servetune.tables.frames import records_of
from servetune.tables.reviewed import KEY as BY

TITLE = "History"

REVIEWED = (
    "Capacities and quality over the commits that changed them. A capacity moved where its interval"
    " and the one before do not overlap."
)

HERE = "this report"
"""The last commit: a report is rendered before what it shows is committed, and again after."""


@dataclass(frozen=True)
class History:
    """What the template takes."""

    said: str
    figures: dict[str, str]
    places: list[str]
    place: str
    moved: Table
    reviewed: Table


def section(measured: Measured) -> Section | None:
    """Make the section; None where nothing was measured in two commits."""
    several, reviewed = over_time(measured.followed), _reviewed(measured)
    if several.empty:
        return _of_reviewed(measured, reviewed) if reviewed.rows else None
    commits = list(dict.fromkeys(several["commit"]))
    named = {
        commit: HERE if commit == measured.history[-1].commit else name_of(commit)
        for commit in commits
    }
    labels = list(named.values())
    rows = [{**row, "label": named[row["commit"]]} for row in records_of(several)]
    moves = [row for row in rows if has_moved(row)]
    place = heaviest(several)
    judged = [metric.name for metric in measured.metrics if metric.judged]
    charts = {
        f"history-{name}": over_commits(
            [row for row in rows if row["metric"] == name],
            *(labels, METRIC[name], measured.variants, place),
        )
        for name in judged
    }
    heads = ("Variant", "Load point", "Metric", "Commit", "Measured", "vLLM", "Value", "Change")
    cells = [
        [
            *(Name(row["variant"]), where_of(row), METRIC[row["metric"]].title, row["label"]),
            *(date_of(row), row["vllm_version"], f"{value_of(row)} {METRIC[row['metric']].unit}"),
            change_of(row),
        ]
        for row in moves
    ]
    table = Table("Where a metric moved", heads, cells, texts=heads, css=("tall", ""))
    said = _said(
        labels, sorted({row["vllm_version"] for row in rows if row["vllm_version"]}), len(moves)
    )
    words = History(
        said,
        {f"history-{name}": METRIC[name].title for name in judged},
        places_of(several),
        place,
        table,
        reviewed,
    )
    return Section(
        "history",
        TITLE,
        words,
        charts,
        lambda fit: details(
            TITLE,
            "\n\n".join(
                [text(said)]
                + [table_of(measured, of, fit.rows) for of in (table, reviewed) if of.rows]
            ),
        ),
    )


def _of_reviewed(measured: Measured, table: Table) -> Section:
    """Make the section of a study without load points of several commits."""
    return Section(
        *("history", TITLE, Plain(REVIEWED, table)),
        markdown=lambda fit: details(
            TITLE, f"{text(REVIEWED)}\n\n{table_of(measured, table, fit.rows)}"
        ),
    )


def _reviewed(measured: Measured) -> Table:
    """Make a row a commit of each capacity and number of quality that several commits have."""
    rows = measured.read_changes()
    several = rows[rows.groupby(BY)["commit"].transform("size") > 1]
    last = rows["commit"].iloc[-1] if len(rows) else ""
    heads = ("Variant", "Of", "Number", "Commit", "Value", "Change")
    cells = [
        [
            *(Name(row["variant"]), row["workload"], row["metric"].replace("_", " ")),
            HERE if row["commit"] == last else name_of(row["commit"]),
            *(value_of(row), row["change"]),
        ]
        for row in reviewed_changes(several.sort_values(BY, kind="stable"))
        if row["variant"] in measured.variants
    ]
    return Table("Capacity and quality over commits", heads, cells, texts=heads, css=("tall", ""))


def _said(labels: list[str], engines: list[str], moves: int) -> str:
    what = f"moved {plural(moves, 'time')}" if moves else "moved nowhere"
    engine = f", with vLLM {listed(engines)}" if engines else ""
    return (
        f"{plural(len(labels), 'commit')} measured these load points{engine}; a metric {what}."
        f" {METHOD} Intervals are at 95\N{NO-BREAK SPACE}%; a ring marks where a metric moved."
    )
