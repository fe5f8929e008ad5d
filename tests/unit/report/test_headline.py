"""What DVC shows of an experiment: a number a variant, of the load or the capacity that decides."""

import pytest

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


def test_a_server_that_keeps_the_targets_at_no_load_has_a_capacity_of_none() -> None:
    measured = of("h200-capacity")
    for search in measured.deciding:
        if search.row["variant"] == "bf16":
            search.row["capacity"] = 0.0
    told = headline(measured)
    assert measured.lacks == []
    assert "bf16" not in told or told["bf16"].get("rps") == 0
