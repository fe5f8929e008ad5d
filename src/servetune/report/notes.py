"""What a reader has to know before reading any number."""

from servetune.analysis.wording import listed, text_of, where_of
from servetune.report import provenance, verdicts
from servetune.report.marks import DUMMY
from servetune.report.measured import Measured
from servetune.report.quality.words import warnings
from servetune.tables.frames import grouped


def notes(measured: Measured) -> list[str]:
    """Say it, a sentence each."""
    lacking = [row for row in measured.compared if row["ok"] and text_of(row["no_ratio"])]
    return [
        *warnings(measured.plan, measured.answers),
        *verdicts.cautions(measured.plan, measured.judgement),
        *([DUMMY] if measured.dummies else []),
        *(
            f"No ratios at {listed(dict.fromkeys(map(where_of, rows)))}: {why}."
            for why, rows in grouped(lacking, lambda row: row["no_ratio"]).items()
        ),
        *provenance.cautions(measured.table, measured.sessions),
    ]
