"""Made-up searches for the capacity, through the functions that make the real tables."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from servetune.capacity.search import Capacity
from servetune.capacity.sequential import Evidence, Judgement, Outcome
from servetune.plan.planned import Plan
from servetune.records.measurements import MeasurementRecord, Probe
from servetune.records.searches import SearchRecord
from servetune.report.capacity.view import Searched
from servetune.tables import capacity
from servetune.tables.write import load_points, ok_records, quantiles
from tests.report_data import ReportData, make_data, make_quickstart_plan, with_load

SLO = {"strict": {"ttft_p99_ms": 100.0, "tpot_p99_ms": 12.0}}
ENDS = {
    "bf16": Capacity("strict", "found", 50.0, 40.0, 62.5, "ttft_p99_ms", "between 40 and 62.5"),
    "w8a8": Capacity("strict", "unbounded", 200.0, 200.0, None, "ttft_p99_ms", "kept"),
    "fp8-kv": Capacity("strict", "zero", 0.0, 0.0, 1.0, "overload", "overloaded"),
    "eagle3": Capacity("strict", "failed", None, 0.0, None, "", "the server did not start"),
}
PROBES = ("c4", "r20", "r50", "r80")
"""The closed loop, and a probe that passes, one that is undecided and one that fails."""
OUTCOMES: tuple[Outcome, ...] = ("go on", "pass", "undecided", "fail")


@dataclass(frozen=True)
class SearchData:
    """What the renderers take of a study that searches."""

    report: ReportData
    searched: Searched

    @property
    def measured(self) -> ReportData:
        return replace(self.report, searched=self.searched)


def make_searches(*, with_points: bool = False, ends: Mapping[str, Capacity] = ENDS) -> SearchData:
    """Make a study whose variants each end a search in another way, the last without a probe."""
    plan = make_quickstart_plan()
    declared = {m.id for m in plan.measurements} if with_points else set()
    plan = with_load(plan, "live", *PROBES)
    data = make_data(plan)
    records = {
        id: _probe(record) if record.workload == "live" else record
        for id, record in data.records.items()
        if id in declared or (record.workload == "live" and record.variant != "eagle3")
    }
    plan = _only(plan, records)
    searches = [_search(variant, end, records) for variant, end in ends.items()]
    report = ReportData(
        plan=plan,
        table=load_points(plan, records),
        quantiles=quantiles(ok_records(plan, records)),
        sessions=data.sessions,
        turns=data.turns,
        classes=data.classes,
        over_time=data.over_time,
        records=records,
    )
    searched = Searched(
        capacities=capacity.capacities(searches, records),
        probes=capacity.probes(list(records.values())),
    )
    return SearchData(report, searched)


def _only(plan: Plan, records: dict[str, MeasurementRecord]) -> Plan:
    kept = [
        session.model_copy(
            update={"measurements": [m for m in session.measurements if m.id in records]}
        )
        for session in plan.sessions
    ]
    return plan.model_copy(update={"sessions": kept})


def _probe(record: MeasurementRecord) -> MeasurementRecord:
    index = PROBES.index(record.load_point)
    verdict, violations = OUTCOMES[index], (0, 0, 8, 300)[index]
    evidence = tuple(Evidence(name, 400, violations, 0.01, 2.0, 0.0, 0.0) for name in SLO["strict"])
    judged = {"strict": Judgement(verdict, "ttft_p99_ms", evidence)} if index else {}
    probe = Probe(
        search=f"{record.variant}-live",
        index=index,
        tier="strict" if index else "",
        stopped="requests" if verdict == "undecided" else "decided",
        judgements=judged,
    )
    return record.model_copy(update={"probe": probe})


def _search(variant: str, end: Capacity, records: dict[str, MeasurementRecord]) -> SearchRecord:
    own = [r.measurement for r in records.values() if r.variant == variant and r.probe]
    return SearchRecord(
        search=f"{variant}-live",
        study="quickstart",
        variant=variant,
        workload="live",
        repeat=1,
        session=f"{variant}-r1",
        over="rate",
        slo=SLO,
        confidence=0.9,
        measurements=own,
        tiers={"strict": end},
    )
