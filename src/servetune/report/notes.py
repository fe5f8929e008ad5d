"""What a reader has to know before reading any number."""

from typing import Any

from servetune.analysis.wording import listed, text_of, where_of
from servetune.report import provenance, verdicts
from servetune.report.marks import DUMMY
from servetune.report.measured import Measured
from servetune.report.quality.words import warnings
from servetune.tables.frames import grouped


def notes(measured: Measured) -> list[str]:
    """Say it, a sentence each."""
    return [
        *warnings(measured.plan, measured.answers),
        *verdicts.cautions(measured.plan, measured.judgement),
        *([DUMMY] if measured.dummies else []),
        *no_ratios(measured.compared),
        *provenance.cautions(measured.table, measured.sessions),
    ]


def no_ratios(compared: list[dict[str, Any]]) -> list[str]:
    """Say why ratios are absent where the variant itself was measured."""
    rows = [row for row in compared if row["ok"] and text_of(row["no_ratio"])]
    reasons = grouped(rows, lambda row: row["no_ratio"])
    return [
        f"No ratios at {listed(dict.fromkeys(map(where_of, same)))}: {why}."
        for why, same in reasons.items()
    ]
