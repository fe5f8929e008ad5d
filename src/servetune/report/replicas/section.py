"""Replicas behind a gateway: what each did, what the gateway did and cost, and deaths."""

from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.replicas.view import (
    by_gateway,
    by_hits,
    by_replica,
    costs,
    deaths,
    fleets_of,
)
from servetune.report.section import Fit, Section

TITLE = "Replicas behind a gateway"

IN_MARKDOWN = {
    head: head
    for head in ("Load point", "Variant", "Hits", "Hits by replica", "Requests by replica")
}

NOTES = {"deaths": " (the last two times are since the death)"}


def section(measured: Measured) -> Section | None:
    """Make the section; None without a fleet."""
    fleets = fleets_of(measured)
    if (table := by_replica(fleets)) is None:
        return None
    others = {
        "hits": by_hits(measured),
        "gateway": by_gateway(fleets),
        "costs": costs(measured),
        "deaths": deaths(fleets),
    }

    def markdown(fit: Fit) -> str:
        parts = [f"### {TITLE}", table_of(measured, table.pick(IN_MARKDOWN), fit.rows)]
        for name in ("hits", "costs", "deaths"):
            if more := others[name]:
                parts += [f"{more.label}{NOTES.get(name, '')}:", table_of(measured, more, fit.rows)]
        return "\n\n".join(parts)

    return Section(
        "replicas", TITLE, {"table": table, **others}, markdown=markdown, link="Replicas"
    )
