"""Failed and invalid measurements, gathered by what went wrong."""

from dataclasses import dataclass

import pandas as pd

from servetune.analysis.wording import state, text_of, where_of
from servetune.report.gfm import details, fence, text
from servetune.report.measured import Measured
from servetune.report.section import Fit, Section
from servetune.tables.frames import broken, grouped, records_of


@dataclass(frozen=True)
class Problem:
    """Measurements that are not ok for one and the same reason."""

    variant: str
    status: str
    rule: str
    reason: str
    log_tail: str
    places: list[str]


def section(measured: Measured) -> Section:
    """Make the section; without any problem, it says so."""
    found = problems(measured.table)
    return Section(
        "problems",
        "Failed and invalid measurements",
        {"found": found, "state": state(measured.table)},
        markdown=lambda fit: _markdown(found, fit),
        link="Failed and invalid",
    )


def problems(table: pd.DataFrame) -> list[Problem]:
    """Gather the failed and invalid measurements by variant and reason."""
    keys = ("variant", "status", "rule", "reason", "log_tail")
    rows = records_of(broken(table))
    same = grouped(rows, lambda row: tuple(text_of(row[key]) for key in keys))
    return [
        Problem(
            *(variant, status, rule, reason or "The record gives no reason.", log_tail),
            places=[f"{where_of(row)} · repeat {row['repeat']}" for row in rows],
        )
        for (variant, status, rule, reason, log_tail), rows in same.items()
    ]


def _markdown(found: list[Problem], fit: Fit) -> str | None:
    blocks = ["### Failed and invalid"]
    for problem in found:
        rule = f" (rule {text(problem.rule)})" if problem.rule else ""
        blocks.append(
            f"**{text(problem.variant)} {problem.status}**{rule}: {text(problem.reason)}"
            f" \N{EN DASH} {text('; '.join(problem.places))}"
        )
        if fit.logs and problem.log_tail:
            blocks.append(details("End of the server's log", fence(problem.log_tail)))
    return "\n\n".join(blocks) if found else None
