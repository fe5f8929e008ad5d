"""What the rules find in a recorded study."""

from collections.abc import Sequence

import pandas as pd

from servetune.analysis.findings.gather import cases, find
from servetune.records.sessions import read_session
from tests.recorded import results_of


def recorded(study: str, by: Sequence[str] = ("variant", "workload")) -> dict[str, set[str]]:
    """The places of a recorded study, by these columns, at which each rule finds something."""
    results = results_of(study)
    table = pd.read_parquet(results / "load_points.parquet")
    read = map(read_session, (results / "sessions").glob("*.json"))
    told: dict[str, set[str]] = {}
    for each in cases(table, {session.session: session for session in read}, None):
        for rule in find(each):
            told.setdefault(rule, set()).add(" ".join(str(each.row[name]) for name in by))
    return told
