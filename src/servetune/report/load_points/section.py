"""Every load point: verdicts, what the repeats can show, ratios, and the variants side by side."""

from typing import Any

from servetune.analysis.wording import load_of, place_of, valued, where_of
from servetune.metrics import DRAWN, METRIC, WHOLE_LOAD, Metric
from servetune.numbers import NONE, known, number
from servetune.report import lockstep, verdicts
from servetune.report.gfm import bullets, left, pipe_table, table_of, text
from servetune.report.grammar import Spec
from servetune.report.marks import at_front_end
from servetune.report.measured import Measured
from servetune.report.ratios import forest, ratios
from servetune.report.section import Fit, Section
from servetune.report.table import Table
from servetune.tables.frames import grouped

TITLE = "Every load point"

PRINTED = (
    "Output is over the part of a load in which all clients are busy. Over the whole load it is"
    " what vllm bench serve prints: less, where a load ends with few clients."
)

EXPLAINED = (
    "USD/1M: per million tokens generated, and per million of input and output; USD/1k: per"
    " thousand requests; at"
)


class LoadPoints:
    """What the template and the Markdown take.

    `groups` holds the rows of the comparison by load point; `idle_power_w` is of a server without
    load, by variant.
    """

    explained = EXPLAINED

    def __init__(self, measured: Measured) -> None:
        plan, judgement = measured.plan, measured.judgement
        drawn = sorted(DRAWN, key=lambda metric: metric.better != "higher")
        groups = grouped(measured.compared, place_of)
        self.columns = measured.metrics
        self.printed = PRINTED if METRIC[WHOLE_LOAD] in measured.metrics else ""
        self.compared = measured.compared
        self.heads = {m.name: m.title for m in measured.metrics if m.judged}
        self.judged = verdicts.rows(judgement) if judgement.has_intervals else []
        self.method = verdicts.method(plan, judgement)
        self.power = verdicts.power_table(judgement.resolution)
        self.remarks = [
            sentence
            for sentence in (
                verdicts.POWERED if self.power else "",
                verdicts.checked(judgement),
                verdicts.unseen(judgement.verdicts),
            )
            if sentence
        ]
        # A race screens candidates by one launch on purpose.
        is_owed = plan.repeats > 1 and plan.tuning is None
        self.without = verdicts.without(judgement) if is_owed else []
        self.behind_front_end = measured.behind_front_end
        self.waves = measured.in_lockstep
        self.figures = {f"ratio-{metric.name}": metric.title for metric in drawn}
        self.groups = {
            f"{at[0]}, {load_of(rows[0])}{self.mark(rows[0])}": rows for at, rows in groups.items()
        }
        self.costs = measured.costs
        self.idle_power_w = {
            case.row["variant"]: power
            for case in measured.served
            if (power := case.value("gpu_power_idle_w")) is not None
        }

    def mark(self, row: dict[str, Any]) -> str:
        """Return the mark of a load point that the front end limits."""
        return at_front_end(row, self.behind_front_end)

    def doubt(self, row: dict[str, Any], metric: str) -> str:
        """Return the mark of a metric that tells nothing there; empty of one that does."""
        return lockstep.mark(row, metric, self.waves)

    absent = staticmethod(verdicts.absent)


def section(measured: Measured) -> Section | None:
    """Make the section; None of a study without load points."""
    if not measured.compared:
        return None
    words = LoadPoints(measured)
    compared = _comparison(measured, words)
    charts = {f"ratio-{metric.name}": _ratios(measured, metric) for metric in DRAWN}
    return Section(
        *("load-points", TITLE, words, charts),
        markdown=lambda fit: _markdown(measured, words, compared, fit),
    )


def _ratios(measured: Measured, metric: Metric) -> Spec | None:
    """Draw the ratios with their intervals, or without where there are none."""
    of = (measured.variants, metric.name, metric.head or metric.title, measured.in_lockstep)
    return forest(measured.judgement, *of) or ratios(measured.comparison, *of)


def _markdown(measured: Measured, words: LoadPoints, compared: Table, fit: Fit) -> str:
    blocks = [
        f"### {TITLE}",
        _verdicts(measured, words, fit.rows),
        bullets([text(why) for why in words.without]),
        text(words.method),
        table_of(measured, words.power) if words.power else "",
        text(" ".join(words.remarks)),
        table_of(measured, compared, fit.rows, after=_note(measured, words.printed)),
    ]
    return "\n\n".join(block for block in blocks if block)


def _verdicts(measured: Measured, words: LoadPoints, most: int | None) -> str:
    if not words.judged:
        return ""
    cells = [
        [
            text(where_of(row) + words.mark(row)),
            text(measured.marked(row["variant"])),
            *(verdicts.verdict_cell(row["cells"], metric) for metric in words.heads),
        ]
        for row in words.judged[:most]
    ]
    heads = ["Load point", "Variant", *words.heads.values()]
    return f"{pipe_table(heads, cells, numeric_from=len(heads))}{left(words.judged, cells)}"


def _comparison(measured: Measured, words: LoadPoints) -> Table:
    """Make the table of each variant at each load point, with ratios to the baseline."""
    rows, baseline = measured.compared, measured.plan.baseline
    heads = ["Workload", "Load point", "Variant", "Status", "Requests"]
    more = dict(measured.costs)
    if any(known(row["acceptance_length"]) is not None for row in rows):
        more = {"acceptance_length": "Acceptance length", **more}
    cells = []
    for row in rows:
        workload, load_point = place_of(row)
        name = measured.marked(row["variant"])
        several = f", {row['ok']} of {row['measurements']}" if row["measurements"] > 1 else ""
        cells.append(
            [
                *(workload, load_point + at_front_end(row, measured.behind_front_end)),
                f"{name} (baseline)" if row["variant"] == baseline else name,
                row["status"] + several,
                f"{row['requests']:,}" if row["ok"] else NONE,
                *(
                    f"{valued(row, metric.name, baseline)} {words.doubt(row, metric.name)}".rstrip()
                    for metric in measured.metrics
                ),
                *(number(row[column]) for column in more),
            ]
        )
    columns = [*heads, *(metric.column for metric in measured.metrics), *more.values()]
    return Table("Comparison of variants", columns, cells, texts=heads[:4])


def _note(measured: Measured, printed: str) -> str:
    """Explain the ratios and the costs of the comparison."""
    note = (
        f"In brackets: ratio to {text(measured.plan.baseline)} at the same load point"
        " (of a latency lower is better, of all else higher)."
    )
    price = measured.plan.price_usd_per_hour
    per = " of a GPU" if max(measured.plan.devices.values()) > 1 else ""
    costs = f" {EXPLAINED} {number(price)} USD an hour{per}." if measured.costs and price else ""
    return " ".join(filter(None, (note, printed))) + costs
