"""What a table tells of endpoints: which they are, when a load ended, and those that changed."""

import pandas as pd

from servetune.plan.planned import Plan
from servetune.records.measurements import MeasurementRecord

CHANGED = "another-endpoint"
"""In the place of a rule, of a measurement that is not joined with the others of its variant."""

REASON = (
    "the endpoint was another one than in the first measurement of its block (model, version, cache"
    " or start differ), so that this one is joined with none of them; name another block"
)


def with_endpoints(
    table: pd.DataFrame, plan: Plan, records: dict[str, MeasurementRecord]
) -> pd.DataFrame:
    """Return a table with `endpoint`, the fingerprint of one, and `ended_at`.

    Of a variant with several fingerprints only the one that was measured first stays ok. Sessions
    refuse another one before they load it; branches that are merged can bring some.
    """
    endpoints = {session.variant for session in plan.sessions if session.endpoint}
    prints = [records[id].fingerprint for id in table["measurement"]]
    told = [
        (fingerprint or "") if variant in endpoints else None
        for fingerprint, variant in zip(prints, table["variant"], strict=True)
    ]
    ended = pd.Series([records[id].ended_at for id in table["measurement"]], dtype=object)
    made = table.assign(endpoint=pd.Series(told, dtype=object), ended_at=ended)
    ok = made[(made["status"] == "ok") & made["endpoint"].notna()]
    first = ok.sort_values("started_at").groupby("variant")["endpoint"].first()
    is_other = made["endpoint"] != made["variant"].map(first)
    changed = ok.index[is_other.loc[ok.index]]
    made.loc[changed, ["status", "rule", "reason"]] = ["invalid", CHANGED, REASON]
    return made
