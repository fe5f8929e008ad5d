"""The share of requests within an SLO: recorded, read again by another SLO, judged at a rate."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from servetune.analysis.answer import UNDECIDED
from servetune.load.request_table import attained, request_table
from servetune.load.schedule import make_schedule
from servetune.metrics import QUANTILE_PROBABILITIES
from servetune.plan.make import make_plan
from servetune.records.measurements import Attained, MeasurementRecord
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.tables.attainment import attainment
from servetune.tables.write import load_points
from tests.loads import failed, load, reply, rows
from tests.project import Project
from tests.report_data import ReportData, make_data, make_quickstart_plan

pytestmark = pytest.mark.slow

LIMITS = {"ttft": 500.0, "tpot": 40.0}
MARKED = "SLO attainment"


def recorded(**updates: Any) -> MeasurementRecord:
    record = next(iter(make_data().records.values()))
    assert record.metrics
    metrics = record.metrics.model_copy(update={"requests": 200, "completed_requests": 200})
    return record.model_copy(update={"metrics": metrics, "attained": None, **updates})


def evenly(low: float, high: float) -> list[float]:
    return list(np.interp(QUANTILE_PROBABILITIES, [0, 1], [low, high]))


def test_a_request_is_within_an_slo_if_it_was_answered_within_every_limit() -> None:
    told = load(requests=4)
    replies = [
        reply(0, 0.0, ttft_s=0.1, itl_s=[0.01]),
        reply(1, 0.0, ttft_s=0.6, itl_s=[0.01]),
        reply(2, 0.0, ttft_s=0.1, itl_s=[0.1, 0.01]),
        failed(3, 0.0),
    ]
    requests = request_table(replies, make_schedule(rows(4, 1), told), told)
    assert attained(requests, {"ttft": 500.0}) == Attained(limits_ms={"ttft": 500.0}, ratio=0.5)
    both = attained(requests, {"ttft": 500.0, "itl": 50.0})
    assert both and both.ratio == 0.25
    assert attained(requests, {}) is None


def test_an_slo_declared_after_measuring_is_read_from_the_distributions_where_they_tell_it() -> (
    None
):
    quantiles = {"ttft_ms": evenly(100, 1100), "tpot_ms": evenly(10, 30), "itl_ms": evenly(1, 60)}
    record = recorded(quantiles=quantiles, attained=Attained(limits_ms=LIMITS, ratio=0.9))
    assert attainment(record, LIMITS) == 90
    assert attainment(record, {"ttft": 600.0, "tpot": 40.0}) == 50
    assert attainment(record, {"ttft": 600.0, "tpot": 20.0}) is None, "both are broken"
    assert attainment(record, {"ttft": 600.0, "itl": 50.0}) is None, "gaps are not requests"
    assert attainment(record, {"ttft": 50.0}) == 0
    assert attainment(record, {}) is None


def at_a_rate(shares: dict[str, float], repeats: int) -> ReportData:
    """Measure the quickstart with an SLO at its open loops, and these shares within it."""
    plan = make_quickstart_plan(repeats=repeats)
    sessions = [
        session.model_copy(
            update={
                "measurements": [
                    point.model_copy(update={"limits_ms": LIMITS if point.load.rate_rps else {}})
                    for point in session.measurements
                ]
            }
        )
        for session in plan.sessions
    ]
    data = make_data(plan.model_copy(update={"sessions": sessions}))
    records = {
        id: record.model_copy(update={"attained": Attained(limits_ms=LIMITS, ratio=share)})
        for id, record in data.records.items()
        for share in [shares.get(record.variant, 1.0)]
    }
    return replace(data, table=load_points(data.plan, records))


def test_at_a_rate_the_requests_within_the_slo_decide_beside_latency() -> None:
    shares = {"bf16": 0.97, "w8a8": 1.0, "fp8-kv": 0.5, "eagle3": 0.0}
    data = at_a_rate(shares, repeats=6)
    decided = {d.metric.name: d for d in data.decisions if d.row["workload"] == "open"}
    assert {"ttft_p50_ms", "tpot_p50_ms", "slo_attainment_percent"} == set(decided)
    decision = decided["slo_attainment_percent"]
    assert decision.outcomes["bf16"].value == pytest.approx(97, abs=1)
    assert set(decision.having("slower")) == {"fp8-kv", "eagle3"}
    assert set(data.judgement.verdicts.query("metric == 'slo_attainment_percent'")["workload"]) == {
        "open",
        "guidellm",
    }
    assert MARKED in render_html(data) and "worse" in render_markdown(data)
    (one, *_) = (d for d in at_a_rate(shares, repeats=1).decisions if "SLO" in d.metric.title)
    assert set(one.having(UNDECIDED)) == {"w8a8", "fp8-kv", "eagle3"}


def test_without_an_slo_no_report_has_a_column_for_it() -> None:
    data = make_data(make_quickstart_plan(repeats=3))
    assert MARKED not in render_markdown(data)


def test_an_slo_of_load_points_changes_no_identity(project: Project) -> None:
    study = project.study()
    before = make_plan(project.params, project.root)
    study["workloads"]["open"]["slo"] = {"ttft_p99_ms": 500, "ttft_p50_ms": 100, "tpot_p99_ms": 40}
    project.write_study(study)
    after = make_plan(project.params, project.root)
    assert [m.id for m in after.measurements] == [m.id for m in before.measurements]
    limits = {m.workload: m.limits_ms for m in after.measurements}
    assert limits["open"] == LIMITS and limits["text"] == {}
