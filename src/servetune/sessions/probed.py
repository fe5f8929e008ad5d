"""What a probe found, by its request table."""

import pandas as pd

from servetune.capacity.pace import slices_of
from servetune.capacity.sequential import Finished, assess_tiers
from servetune.load.generator import CUT
from servetune.plan.planned import PlannedProbe
from servetune.plan.probes import probe_record
from servetune.records.loads import Load
from servetune.records.measurements import Probe


def found_by(
    probe: PlannedProbe, load: Load, requests: pd.DataFrame, ended_by: int | None
) -> Probe:
    """Judge a probe by its request table.

    `ended_by` is the number of requests by which its judge ended it; None if its load was over.
    """
    rule = probe.rule
    if rule is None:
        return probe_record(probe, "requests", {})
    ended = finished(requests)[:ended_by]
    judgements = assess_tiers(
        {name: slo.objectives for name, slo in rule.tiers.items()},
        ended,
        rule.error,
        is_open_loop=rule.is_open_loop,
        is_over=True,
    )
    slices = slices_of(ended)
    if judgements[rule.tier].verdict != "undecided":
        return probe_record(probe, "decided", judgements, slices)
    if ended_by is not None:
        return probe_record(probe, "requests", judgements, slices)
    assert load.requests is not None
    # A low rate may send its last request long before its seconds end.
    is_spent = len(requests) >= load.requests
    return probe_record(probe, "requests" if is_spent else "seconds", judgements, slices)


def finished(requests: pd.DataFrame) -> list[Finished]:
    """Return the requests of a table that ended by themselves, in order, up to the first cut."""
    ended = []
    for index, row in enumerate(requests.sort_values("scheduled").to_dict("records")):
        if row["scheduled"] != index or row["error"] == CUT:
            break
        start_s, e2e_ms = row["start_s"], row["e2e_ms"]
        if not row["is_ok"]:
            ended.append(Finished(index, start_s, start_s, has_failed=True))
            continue
        ended.append(
            Finished(
                index=index,
                arrival_s=start_s,
                finish_s=start_s + e2e_ms / 1e3,
                ttft_ms=row["ttft_ms"],
                tpot_ms=None if pd.isna(row["tpot_ms"]) else row["tpot_ms"],
                e2e_ms=e2e_ms,
                itl_ms=tuple(row["itl_ms"]),
            )
        )
    return ended
