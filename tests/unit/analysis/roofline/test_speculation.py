"""What speculation costs, what it buys, and from which batch it stops paying."""

import math
from typing import Any

import pandas as pd
import pytest

from servetune.analysis.payoff import Payoff, against_plain, counterparts, payoffs
from servetune.analysis.roofline.attained import Engine, attain
from servetune.analysis.roofline.speculation import LARGEST_BATCH, speculate, step_cost
from servetune.analysis.verdicts import compare
from servetune.records.sessions import Ceilings
from servetune.report.gfm import text
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.speculation.view import payoff_table, synthetic
from servetune.report.table import Name
from servetune.tables.design import design_of
from tests.report_data import make_data, make_quickstart_plan
from tests.unit.analysis.architectures import EAGLE3, H200, LLAMA_8B

pytestmark = pytest.mark.slow

ENGINE = Engine(LLAMA_8B, H200, EAGLE3, draft_tokens=3)


def row(tpot_ms: float = 2.75, **changes: Any) -> dict[str, Any]:
    told = {"status": "ok", "acceptance_length": 2.5, "running_mean": 8.0}
    return {**told, "context_mean_tokens": 640.0, "tpot_p50_ms": tpot_ms, **changes}


def test_eagle3_on_an_h200_pays_what_its_weights_cost() -> None:
    """Concurrency 8 and an acceptance length of 2.5."""
    told = speculate(row(), ENGINE)
    assert told is not None
    # Verifying reads what a plain step reads; three drafts add 0.85 GB each to 15.7 GB.
    assert told.step_cost == pytest.approx(1 + 3 * 0.865 / 15.68, abs=0.01)
    assert told.predicted_speedup == pytest.approx(2.5 / 1.165, abs=0.03)


def test_the_more_in_flight_the_dearer_a_step_until_it_does_not_pay() -> None:
    costs = [step_cost(row(), ENGINE, batch, 640) for batch in (32, 64, 256, 1024)]
    assert costs == sorted(costs)
    told = speculate(row(), ENGINE)
    assert told is not None and told.pays_until is not None
    assert step_cost(row(), ENGINE, told.pays_until - 1, 640) < 2.5
    assert step_cost(row(), ENGINE, told.pays_until, 640) >= 2.5


def test_what_is_never_accepted_never_pays_and_what_costs_nothing_always_does() -> None:
    told = speculate(row(acceptance_length=1.0), ENGINE)
    assert told is not None and told.pays_until == 1
    bandwidth_only = Ceilings(memory_bandwidth_gb_s=4300)
    free = speculate(row(), Engine(LLAMA_8B, bandwidth_only, None, draft_tokens=3))
    assert free is not None and free.pays_until is None
    assert step_cost(row(), Engine(LLAMA_8B, bandwidth_only, None, 3), LARGEST_BATCH, 640) < 1.1


def test_drafts_that_are_seldom_found_cost_little_and_give_little() -> None:
    """A third of the steps verify a draft, and emit 2.5 tokens; the others emit one."""
    always = speculate(row(), ENGINE)
    told = speculate(row(tokens_per_step=1.5), ENGINE)
    assert told is not None and always is not None
    assert told.acceptance_length == 2.5
    assert told.step_cost - 1 == pytest.approx((always.step_cost - 1) / 3, rel=0.05)
    assert told.predicted_speedup == pytest.approx(1.5 / told.step_cost)
    # A step of 2.75 ms a token lasts 1.5 times as long, whatever a draft would have given.
    found = attain(row(tokens_per_step=1.5), ENGINE)
    assert found is not None and found.step_ms == pytest.approx(1.5 * 2.75)


def test_without_speculation_there_is_nothing_to_tell() -> None:
    assert speculate(row(), Engine(LLAMA_8B, H200)) is None
    assert speculate(row(acceptance_length=None), ENGINE) is None


def launches(tpot_ms: dict[str, dict[str, list[float]]]) -> pd.DataFrame:
    rows = [
        {
            **{"variant": variant, "workload": "closed", "load_point": point, "repeat": i},
            **{"concurrency": int(point[1:]), "rate_rps": None, "status": "ok"},
            **{"metric": "tpot_p50_ms", "value": value, "log_value": math.log(value)},
            **{
                "measurement": f"{variant}-{point}-{i}",
                "request_variance": float("nan"),
                "in_lockstep": False,
            },
            **{"session": "s", "order": i, "started_at": "2026-01-01T00:00:00Z"},
        }
        for variant, points in tpot_ms.items()
        for point, values in points.items()
        for i, value in enumerate(values, 1)
    ]
    return pd.DataFrame(rows)


def test_a_variant_is_held_against_the_one_that_differs_in_speculation_alone() -> None:
    assert counterparts(design_of(make_quickstart_plan())) == {"eagle3": "bf16"}
    plan = make_quickstart_plan()
    sessions = [
        each.model_copy(update={"server": {"max_num_seqs": 1}}) if each.variant == "bf16" else each
        for each in plan.sessions
    ]
    assert counterparts(design_of(plan.model_copy(update={"sessions": sessions}))) == {}


def paid(tpot_ms: dict[str, dict[str, list[float]]]) -> Payoff:
    table = launches(tpot_ms)
    design = design_of(make_quickstart_plan())
    verdicts = compare(table, "bf16", design.equivalence)
    (found,) = payoffs(design, table, against_plain(design, table, verdicts))
    return found


def test_where_speculation_stops_paying_lies_between_two_loads() -> None:
    plain = {"c1": [5.0, 5.01, 4.99], "c8": [5.2, 5.21, 5.19], "c64": [8.0, 8.01, 7.99]}
    drafted = {"c1": [2.5, 2.51, 2.49], "c8": [4.0, 4.01, 3.99], "c64": [8.4, 8.41, 8.39]}
    found = paid({"bf16": plain, "eagle3": drafted})
    assert [at for at, _ in found.points] == [1, 8, 64]
    assert [row["ratio"] for _, row in found.points] == pytest.approx(
        [0.5, 4 / 5.2, 8.4 / 8], rel=1e-3
    )
    assert (found.pays_at, found.stops_at) == (found.points[1], found.points[2])
    ((_, against, workload, metric, up_to, stop),) = payoff_table([found]).rows
    assert (against, workload, metric) == ("bf16", "closed", "TPOT p50")
    assert str(up_to).startswith("8 (0.77\N{MULTIPLICATION SIGN} [")
    assert str(stop).startswith("64 (1.05") and str(stop).endswith("slower")


def test_launches_that_vary_leave_it_undecided() -> None:
    plain = {"c1": [5.0, 5.1, 4.9], "c8": [5.0, 6.0, 4.0]}
    drafted = {"c1": [2.5, 2.4, 2.6], "c8": [4.8, 5.6, 4.0]}
    found = paid({"bf16": plain, "eagle3": drafted})
    assert found.pays_at == found.points[0] and found.stops_at is None
    (cells,) = payoff_table([found]).rows
    assert cells[0] == Name("eagle3") and cells[-1] == "undecided above"


def test_one_launch_of_each_proves_nothing_at_any_load() -> None:
    found = paid({"bf16": {"c1": [5.0], "c8": [5.2]}, "eagle3": {"c1": [2.5], "c8": [2.6]}})
    assert found.pays_at is None and found.stops_at is None
    ((*_, up_to, stop),) = payoff_table([found]).rows
    assert up_to == "not proven at 1 (0.50\N{MULTIPLICATION SIGN})" and stop == "\N{EN DASH}"


def test_where_it_pays_at_every_load_the_last_is_the_highest_measured() -> None:
    rows = [
        (float(i), {"verdict": "faster", "ratio": 0.8, "metric": "tpot_p50_ms"}) for i in (1, 2)
    ]
    ends = {"ratio_low": 0.79, "ratio_high": 0.81}
    points = tuple((at, {**row, **ends}) for at, row in rows)
    ((*_, up_to, stop),) = payoff_table([Payoff("e", "b", "w", "tpot_p50_ms", points)]).rows
    assert str(up_to).startswith("2 (0.80") and str(up_to).endswith(", the highest measured")
    assert stop == "\N{EN DASH}"


def test_acceptance_that_a_study_sets_is_said_to_be_synthetic() -> None:
    plan = make_quickstart_plan()
    assert synthetic(plan) == ""
    sessions = [
        each.model_copy(
            update={"speculative": {**each.speculative, "rejection_sample_method": "synthetic"}}
        )
        if each.speculative
        else each
        for each in plan.sessions
    ]
    said = synthetic(plan.model_copy(update={"sessions": sessions}))
    assert "eagle3" in said and "rejection_sample_method: synthetic" in said


def test_both_reports_say_up_to_which_load_it_pays() -> None:
    data = make_data(make_quickstart_plan(repeats=3))
    rows = payoff_table(data.payoffs).rows
    assert rows
    page, markdown = render_html(data), render_markdown(data)
    for _, *cells in rows:
        for cell in map(str, cells):
            assert cell in page and text(cell) in markdown
