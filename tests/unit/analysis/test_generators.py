"""Whether generators that sent the same load agree."""

from dataclasses import replace
from typing import Any

import pytest

from servetune.analysis.generators import same_loads
from servetune.plan.make import make_plan
from servetune.tables.design import Design, design_of
from tests.paths import ROOT


def rows(**changes: dict[str, float]) -> list[dict[str, Any]]:
    """Rows of the quickstart's baseline at its rate, by workload, with changed metrics."""
    metrics = {"output_throughput_tok_s": 500.0, "ttft_p50_ms": 20.0, "tpot_p50_ms": 4.0}
    place = {"variant": "bf16", "load_point": "r8", "ok": 1}
    names = ("open", "vllm-bench", "guidellm")
    return [{**place, "workload": name, **metrics, **changes.get(name, {})} for name in names]


@pytest.fixture(scope="module")
def design() -> Design:
    return design_of(make_plan({"study": "quickstart", "variants": "all", "seed": 0}, ROOT))


def test_the_quickstart_sends_one_rate_to_its_baseline_by_every_generator(design: Design) -> None:
    (load,) = same_loads(design, rows())
    assert (load.variant, list(load.rows)) == ("bf16", ["servetune", "vllm-bench", "guidellm"])
    assert load.apart == {}


def test_generators_do_not_agree_where_one_metric_is_farther_off_than_two_runs_of_one(
    design: Design,
) -> None:
    far = {"guidellm": {"ttft_p50_ms": 21.5}, "vllm-bench": {"output_throughput_tok_s": 514.0}}
    (load,) = same_loads(design, rows(**far))
    assert load.apart == {"guidellm": [("ttft_p50_ms", 1.075)]}


def test_a_generator_whose_load_is_not_ok_is_compared_with_nothing(design: Design) -> None:
    of_one = [{**row, "ok": int(row["workload"] == "open")} for row in rows()]
    assert same_loads(design, of_one) == []


def test_arrivals_that_a_generator_draws_itself_are_another_load(design: Design) -> None:
    loads = {
        place: load.model_copy(update={"arrivals": "poisson"})
        for place, load in design.loads.items()
    }
    random = replace(design, loads=loads)
    (load,) = same_loads(random, rows())
    assert list(load.rows) == ["servetune", "guidellm"]
