"""An SLO of a closed loop has its line in the answer: the share of requests that keep it."""

from servetune.numbers import number
from servetune.plan.planned import Plan
from servetune.report.answer.view import said
from servetune.tables.frames import records_of
from tests.report_data import make_data, make_quickstart_plan


def with_limits(plan: Plan, limits_ms: dict[str, float]) -> Plan:
    sessions = [
        session.model_copy(
            update={
                "measurements": [
                    m.model_copy(update={"limits_ms": limits_ms}) for m in session.measurements
                ]
            }
        )
        for session in plan.sessions
    ]
    return plan.model_copy(update={"sessions": sessions})


def test_the_answer_tells_which_share_of_a_closed_loop_s_requests_keeps_its_slo() -> None:
    plan = with_limits(make_quickstart_plan(repeats=1), {"ttft": 95.0})
    data = make_data(plan)
    ((_, told),) = [line for line in said(data) if "(TTFT ≤ 95 ms)" in line[0]]
    heaviest = data.table[data.table["load_point"] == "c8"]
    shares = heaviest.groupby("variant")["slo_attainment_percent"].mean()
    assert len({round(share) for share in shares}) > 1
    for row in records_of(shares.reset_index()):
        share = number(row["slo_attainment_percent"])
        assert f"{row['variant']} {share}\N{NO-BREAK SPACE}%" in told


def test_without_an_slo_the_answer_has_no_such_line() -> None:
    assert not any("within the SLO" in told for _, told in said(make_data()))
