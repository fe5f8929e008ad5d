"""What a reader has to know before reading any number."""

from servetune.analysis.wording import listed, text_of, where_of
from servetune.report import choices, provenance, throughput, verdicts
from servetune.report.marks import DUMMY, FRONT_END
from servetune.report.measured import Measured
from servetune.report.quality.words import warnings
from servetune.report.validity import words as validity
from servetune.tables.frames import grouped


def notes(measured: Measured) -> list[str]:
    """Say it, a sentence each."""
    lacking = [row for row in measured.compared if row["ok"] and text_of(row["no_ratio"])]
    return [
        *warnings(measured.plan, measured.answers),
        *verdicts.cautions(measured.plan, measured.judgement),
        *throughput.cautions(measured.points),
        *([DUMMY] if measured.dummies else []),
        *(
            f"{FRONT_END} At {' · '.join(place)} the front end limits {listed(variants)}, not the"
            " engine: ratios there compare front ends as much as variants (see the findings)."
            for place, variants in measured.behind_front_end.items()
        ),
        *(
            f"No ratios at {listed(dict.fromkeys(map(where_of, rows)))}: {why}."
            for why, rows in grouped(lacking, lambda row: row["no_ratio"]).items()
        ),
        *choices.cautions(measured.sessions),
        *validity.warnings(measured.table),
        *provenance.cautions(measured.table, measured.sessions),
    ]
