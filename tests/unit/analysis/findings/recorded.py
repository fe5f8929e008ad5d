"""What the rules find in a recorded study."""

import pandas as pd

from servetune.analysis.findings.gather import Case, cases, find
from servetune.records.sessions import read_session
from tests.recorded import results_of


def recorded_cases(study: str) -> list[Case]:
    """The load points of a recorded study, one a launch."""
    results = results_of(study)
    table = pd.read_parquet(results / "load_points.parquet")
    read = map(read_session, (results / "sessions").glob("*.json"))
    return cases(table, {session.session: session for session in read}, None)


def recorded(study: str) -> dict[str, set[str]]:
    """The variants and workloads of a recorded study at which each rule finds something."""
    told: dict[str, set[str]] = {}
    for each in recorded_cases(study):
        for rule in find(each):
            told.setdefault(rule, set()).add(f"{each.row['variant']} {each.row['workload']}")
    return told
