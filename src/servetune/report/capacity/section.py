"""The capacity within the SLO: a row a variant in each tier, and the probes behind it."""

from servetune.numbers import number, percent, share, whole
from servetune.plan.planned import Plan
from servetune.report.capacity.charts import drawn, observations
from servetune.report.capacity.launches import before_each
from servetune.report.capacity.probes import sent
from servetune.report.capacity.view import METHOD, Found, not_told
from servetune.report.gfm import table_of
from servetune.report.grammar import distinct
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Styled, Table

TITLE = "Capacity within the SLO"


def section(measured: Measured) -> Section | None:
    """Make the section; None of a study that searches for nothing."""
    searched, results, plan = measured.searched, measured.found, measured.plan
    if searched is None or not results:
        return None
    seen = observations(searched, measured.table)
    method = f"{METHOD} {not_told(results)}".rstrip()
    rows = before_each(results)
    flat = _flat(plan, rows, several=bool(measured.gpus))
    return Section(
        "capacity",
        TITLE,
        {
            "method": method,
            "table": _table(plan, rows, several=bool(measured.gpus)),
            "sent": sent(measured.table, searched),
            "objectives": distinct(seen, "objective"),
        },
        drawn(results, seen, measured.variants),
        lambda fit: f"### {TITLE}\n\n{table_of(measured, flat, fit.rows, after=method)}",
        link="Capacity",
    )


def _table(plan: Plan, results: list[Found], *, several: bool) -> Table:
    """Make the table of the page, the tiers above their rows."""
    rows = [
        _row(plan, each, Styled(each.capacity, "verdict"), each.interval, several=several)
        for each in results
    ]
    groups = {
        index: f"{each.place}: {each.within}; in {each.unit},"
        f" intervals at {share(each.row['confidence'])}"
        for index, each in enumerate(results)
        if not index or each.place != results[index - 1].place
    }
    return Table(
        *(TITLE, _heads(plan, several=several), rows, ("Variant", "Limited by", "Search")),
        css=("", "dense"),
        groups=groups,
    )


def _flat(plan: Plan, results: list[Found], *, several: bool) -> Table:
    """Make the table of the Markdown, each row with its tier and its unit."""
    rows = []
    for each in results:
        interval = f"{each.interval} ({percent(each.row['confidence'])})"
        capacity = f"{each.capacity} {each.unit}"
        rows.append([each.place, *_row(plan, each, capacity, interval, several=several)])
    heads = ["SLO", *_heads(plan, several=several)]
    return Table(TITLE, heads, rows, texts=heads[:-3])


def _heads(plan: Plan, *, several: bool) -> list[str]:
    """Name the columns; `several` tells that variants have other numbers of GPUs."""
    repeat = ["Repeat"] if plan.repeats > 1 else []
    per_gpu = ["Per GPU"] if several else []
    gain = [] if plan.tuning else ["Gain"]
    cost = ["USD/1k requests"] if plan.price_usd_per_hour else []
    heads = ["Variant", *repeat, "Capacity", *gain, "Capacity interval", *per_gpu, *cost]
    return [*heads, "Limited by", "Search", "Probes", "Requests", "Seconds"]


def _gain(plan: Plan, each: Found) -> Cell:
    is_baseline = each.row["variant"] == plan.baseline
    return Styled("baseline", "muted") if is_baseline else each.gained


def _row(plan: Plan, each: Found, capacity: Cell, interval: str, *, several: bool) -> list[Cell]:
    row = each.row
    return [
        Name(row["variant"]),
        *([str(row["repeat"])] if plan.repeats > 1 else []),
        capacity,
        *([] if plan.tuning else [_gain(plan, each)]),
        interval,
        *([each.per_gpu] if several else []),
        *([each.cost] if plan.price_usd_per_hour else []),
        each.binding,
        Styled(each.ended, "why failed" if each.has_no_answer and not each.is_pending else "why"),
        *(whole(row["probes"]), whole(row["requests"]), number(row["seconds"])),
    ]
