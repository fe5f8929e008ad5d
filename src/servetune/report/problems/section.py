"""Failed and invalid measurements, gathered by what went wrong."""

from dataclasses import dataclass

import pandas as pd

from servetune.analysis.wording import listed, text_of, where_of
from servetune.report.gfm import details, fence, text
from servetune.report.measured import Measured
from servetune.report.section import Fit, Section
from servetune.tables.frames import broken, grouped, records_of


@dataclass(frozen=True)
class Problem:
    """Measurements that are not ok for one and the same reason.

    `places` holds load points and repeats by variant; `logs` the ends of the servers' logs, each
    with the variants whose log it is.
    """

    status: str
    rule: str
    reason: str
    places: dict[str, list[str]]
    logs: dict[str, list[str]]


def section(measured: Measured) -> Section | None:
    """Make the section; None where all is ok."""
    found = problems(measured.table)
    if not found:
        return None
    return Section(
        "problems",
        "Failed and invalid measurements",
        found,
        markdown=lambda fit: _markdown(found, fit),
        counts=counts(measured.table),
    )


def counts(table: pd.DataFrame) -> str:
    """Say how many measurements failed and are invalid; empty where all are ok."""
    statuses = table["status"].value_counts()
    return ", ".join(
        f"{statuses[status]:,} {status}" for status in ("failed", "invalid") if status in statuses
    )


def problems(table: pd.DataFrame) -> list[Problem]:
    """Gather the failed and invalid measurements by reason."""
    rows = records_of(broken(table))
    same = grouped(rows, lambda row: tuple(text_of(row[k]) for k in ("status", "rule", "reason")))
    return [
        Problem(
            *(status, rule, reason or "The record gives no reason."),
            places={
                variant: [f"{where_of(row)} · repeat {row['repeat']}" for row in those]
                for variant, those in grouped(rows, lambda row: row["variant"]).items()
            },
            logs={
                log: list(dict.fromkeys(row["variant"] for row in those))
                for log, those in grouped(rows, lambda row: text_of(row["log_tail"])).items()
                if log
            },
        )
        for (status, rule, reason), rows in same.items()
    ]


def _markdown(found: list[Problem], fit: Fit) -> str:
    blocks = ["### Failed and invalid"]
    for problem in found:
        rule = f" (rule {text(problem.rule)})" if problem.rule else ""
        places = "; ".join(f"{who} at {', '.join(at)}" for who, at in problem.places.items())
        blocks.append(
            f"**{text(listed(problem.places))} {problem.status}**{rule}: {text(problem.reason)}"
            f" \N{EN DASH} {text(places)}"
        )
        if fit.logs:
            blocks += [
                details(f"End of the server's log, {text(listed(variants))}", fence(log))
                for log, variants in problem.logs.items()
            ]
    return "\n\n".join(blocks)
