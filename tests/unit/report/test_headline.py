"""What DVC shows of an experiment: a number a variant, of the load or the capacity that decides."""

from dataclasses import replace

import pytest

from servetune.report.answer.section import section
from servetune.report.capacity.launches import launches_together
from servetune.report.headline import headline
from servetune.report.measured import Measured
from servetune.report.reading import read_measured
from tests.recorded import plan_of, results_of


def of(study: str) -> Measured:
    return read_measured(plan_of(study), results_of(study).parents[1])


def test_each_variant_has_its_ratio_to_the_baseline_at_the_load_that_decides() -> None:
    measured = of("h200-llama8b")
    told, decision = headline(measured), measured.decisions[0]
    assert decision.metric.name == "output_throughput_tok_s"
    base = decision.outcomes["bf16"].value
    assert base and told.pop("bf16") == {"tok_s": pytest.approx(base, rel=1e-3)}
    for variant, number in told.items():
        value = decision.outcomes[variant].value
        assert value and number == {"x": pytest.approx(value / base, rel=1e-3)}
    assert len(told) == len(measured.variants) - 1


def test_a_searched_capacity_decides_before_a_load_point() -> None:
    told = headline(of("h200-capacity"))
    assert told["bf16"]["rps"] == pytest.approx(46.3, rel=0.1)
    assert told["w8a8"]["x"] == pytest.approx(65.8 / 46.3, rel=0.1)


def test_a_capacity_over_launches_has_the_gain_of_the_page() -> None:
    measured = of("h200-headline")
    told = headline(measured)
    rows = {each.row["variant"]: each for each in launches_together(measured.deciding)}
    assert told.pop("bf16") == {"rps": pytest.approx(rows["bf16"].row["capacity"], rel=1e-3)}
    gains = {name: row.gain for name, row in rows.items() if row.gain}
    assert told == {name: {"x": float(f"{gain.ratio:.4g}")} for name, gain in gains.items()}


def test_a_variant_with_a_search_that_is_only_bounded_is_left_out() -> None:
    measured = of("h200-headline")
    found = [replace(each, over=None) for each in measured.found]
    next(each for each in found if each.row["variant"] == "w8a8").row["ended"] = "unbounded"
    vars(measured)["found"] = found
    told = headline(measured)
    assert "fp8" in told and "w8a8" not in told


def test_a_server_that_keeps_the_targets_at_no_load_has_a_capacity_of_none() -> None:
    measured = of("h200-capacity")
    for search in measured.deciding:
        if search.row["variant"] == "bf16":
            search.row["capacity"] = 0.0
    told = headline(measured)
    assert measured.lacks == []
    assert "bf16" not in told or told["bf16"].get("rps") == 0


def test_the_page_draws_one_gain_a_variant_in_capacity_that_of_its_table() -> None:
    measured = of("h200-headline")
    chart = section(measured).charts["answer"]
    assert chart is not None
    drawn = [row for row in chart["datasets"]["rows"] if "capacity" in row["where"]]
    gains = {each.row["variant"]: each.gain for each in launches_together(measured.deciding)}
    told = {name: (gain.low, gain.ratio, gain.high) for name, gain in gains.items() if gain}
    assert {row["variant"]: (row["low"], row["value"], row["high"]) for row in drawn} == told
    assert len(drawn) == len(told) == 3
