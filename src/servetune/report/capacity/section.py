"""The capacity within the SLO: a row a variant in each tier, and the probes behind it."""

from dataclasses import dataclass

from servetune.plan.planned import Plan
from servetune.report.capacity.charts import drawn, observations
from servetune.report.capacity.words import METHOD, Found, Sent, sent
from servetune.report.gfm import table_of
from servetune.report.grammar import distinct
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Styled, Table
from servetune.report.wording import number, percent, share, whole

TITLE = "Capacity within the SLO"


@dataclass(frozen=True)
class Capacities:
    """What the template takes: results, probes, and the objectives that a reader selects from."""

    table: Table
    sent: list[Sent]
    objectives: list[str]
    method: str = METHOD


def section(measured: Measured) -> Section | None:
    """Make the section; None of a study that searches for nothing."""
    searched, results, plan = measured.searched, measured.found, measured.plan
    if searched is None or not results:
        return None
    seen = observations(searched, measured.table)
    words = Capacities(
        table=_table(plan, results),
        sent=sent(measured.table, searched),
        objectives=distinct(seen, "where"),
    )
    flat = _flat(plan, results)
    return Section(
        "capacity",
        TITLE,
        words,
        drawn(results, seen, measured.variants),
        lambda fit: f"### {TITLE}\n\n{table_of(measured, flat, fit.rows, after=METHOD)}",
        link="Capacity",
    )


def _table(plan: Plan, results: list[Found]) -> Table:
    """Make the table of the page, the tiers above their rows."""
    groups: dict[str, str] = {}
    for each in results:
        held = f"in {each.unit}, intervals at {share(each.row['confidence'])}"
        groups.setdefault(each.place, f"{each.place}: {each.within}; {held}")
    places = [each.place for each in results]
    rows = [
        [
            *_named(plan, each),
            *(Styled(each.capacity, "verdict"), each.interval),
            *_others(plan, each),
        ]
        for each in results
    ]
    above = {places.index(place): title for place, title in groups.items()}
    return Table(TITLE, _heads(plan), rows, ("Variant", "Limited by", "Search"), groups=above)


def _flat(plan: Plan, results: list[Found]) -> Table:
    """Make the table of the Markdown, each row with its tier and its unit."""
    rows = [
        [
            *(each.place, *_named(plan, each), f"{each.capacity} {each.unit}"),
            f"{each.interval} ({percent(each.row['confidence'])})",
            *_others(plan, each),
        ]
        for each in results
    ]
    heads = ["SLO", *_heads(plan)]
    return Table(TITLE, heads, rows, texts=heads[:-3])


def _heads(plan: Plan) -> list[str]:
    repeat = ["Repeat"] if plan.repeats > 1 else []
    cost = ["USD/1k requests"] if plan.price_usd_per_hour else []
    heads = ["Variant", *repeat, "Capacity", "Interval", "Gain", *cost]
    return [*heads, "Limited by", "Search", "Probes", "Requests", "Seconds"]


def _named(plan: Plan, each: Found) -> list[Cell]:
    repeat = [str(each.row["repeat"])] if plan.repeats > 1 else []
    return [Name(each.row["variant"]), *repeat]


def _others(plan: Plan, each: Found) -> list[Cell]:
    row = each.row
    return [
        Styled("baseline", "muted") if row["variant"] == plan.baseline else each.gained,
        *([each.cost] if plan.price_usd_per_hour else []),
        each.binding,
        Styled(each.ended, "why failed" if row["ended"] == "failed" else ""),
        *(whole(row["probes"]), whole(row["requests"]), number(row["seconds"])),
    ]
