"""The capacity within the SLO as Markdown."""

from servetune.plan.planned import Plan
from servetune.report.answer.words import marked
from servetune.report.capacity import words as slo
from servetune.report.gfm import bullets, left, pipe_table, text
from servetune.report.wording import number, percent, whole


def answer(plan: Plan, results: list[slo.Found]) -> str:
    """Write the sentence of each tier."""
    return bullets(
        [
            f"**{text(each.place)}** ({text(each.within)}): {text(each.said)}"
            for each in slo.sentences(plan, results)
        ]
    )


def capacity_table(
    plan: Plan, results: list[slo.Found], dummies: set[str], most: int | None
) -> str | None:
    """Write the table of capacities, at most so many rows; None without a search."""
    if not results:
        return None
    is_repeated = plan.repeats > 1
    cells = [
        [
            text(each.place),
            text(marked(each.row["variant"], dummies)),
            *([str(each.row["repeat"])] if is_repeated else []),
            f"{each.capacity} {each.unit}",
            f"{each.interval} ({percent(each.row['confidence'])})",
            "baseline" if each.row["variant"] == plan.baseline else text(each.gained),
            *([each.cost] if plan.price_usd_per_hour else []),
            text(each.binding),
            text(each.ended),
            whole(each.row["probes"]),
            whole(each.row["requests"]),
            number(each.row["seconds"]),
        ]
        for each in results[:most]
    ]
    repeat = ["Repeat"] if is_repeated else []
    cost = ["USD/1k requests"] if plan.price_usd_per_hour else []
    heads = ["SLO", "Variant", *repeat, "Capacity", "Interval", "Gain", *cost]
    heads += ["Limited by", "Search", "Probes", "Requests", "Seconds"]
    table = pipe_table(heads, cells, numeric_from=len(heads) - 3)
    return f"### Capacity within the SLO\n\n{table}\n\n{slo.METHOD}{left(results, cells)}"
