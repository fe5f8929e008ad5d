"""Whether generators that sent the same load agree."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from servetune.analysis.generators import same_loads
from servetune.plan.make import make_plan
from servetune.tables.design import Design, design_of
from tests.paths import ROOT
from tests.unit.analysis.launch_data import make_values

WORKLOADS = {"servetune": "open", "vllm-bench": "vllm-bench", "guidellm": "guidellm"}


def rows() -> list[dict[str, Any]]:
    """Rows of the study at its rate, by workload."""
    metrics = {"output_throughput_tok_s": 500.0, "ttft_p50_ms": 20.0, "tpot_p50_ms": 4.0}
    place = {"variant": "bf16", "load_point": "r8", "ok": 1}
    return [{**place, "workload": workload, **metrics} for workload in WORKLOADS.values()]


def launches(repeats: int = 5, spread: float = 0.005, guidellm: float = 1.0) -> pd.DataFrame:
    """TTFT and TPOT of launches whose truths are 20 and 4 ms, by GuideLLM times a factor."""
    factors = {**dict.fromkeys(WORKLOADS, 1.0), "guidellm": guidellm}
    values = pd.concat(
        [
            make_values(
                {generator: truth * factor for generator, factor in factors.items()},
                repeats=repeats,
                spread=spread,
                metric=metric,
                points=("r8",),
            )
            for metric, truth in (("ttft_p50_ms", 20.0), ("tpot_p50_ms", 4.0))
        ],
        ignore_index=True,
    )
    return values.assign(workload=values["variant"].map(WORKLOADS), variant="bf16")


@pytest.fixture(scope="module")
def design() -> Design:
    return design_of(make_plan({"study": "generators", "variants": "all", "seed": 0}, ROOT))


def test_generators_agree_where_their_launches_prove_it(design: Design) -> None:
    (load,) = same_loads(design, rows(), launches())
    assert (load.variant, list(load.rows)) == ("bf16", ["servetune", "vllm-bench", "guidellm"])
    assert load.apart == {}
    assert load.is_decided and load.agreed == ["ttft_p50_ms", "tpot_p50_ms"]


def test_generators_do_not_agree_where_their_launches_prove_a_difference(design: Design) -> None:
    (load,) = same_loads(design, rows(), launches(guidellm=1.2))
    assert list(load.apart) == ["guidellm"]
    assert [name for name, _ in load.apart["guidellm"]] == ["ttft_p50_ms", "tpot_p50_ms"]


@pytest.mark.parametrize(("repeats", "spread"), [(1, 0.005), (5, 0.2)])
def test_one_launch_or_a_noisy_host_shows_neither(
    design: Design, repeats: int, spread: float
) -> None:
    (load,) = same_loads(design, rows(), launches(repeats, spread, guidellm=1.2))
    assert load.apart == {} and not load.is_decided


def test_a_ttft_in_lockstep_is_asked_nothing_and_leaves_the_rest_decided(design: Design) -> None:
    values = launches()
    values["in_lockstep"] = values["metric"] == "ttft_p50_ms"
    (load,) = same_loads(design, rows(), values)
    assert load.is_decided and load.agreed == ["tpot_p50_ms"]


def test_a_generator_whose_load_is_not_ok_is_compared_with_nothing(design: Design) -> None:
    of_one = [{**row, "ok": int(row["workload"] == "open")} for row in rows()]
    assert same_loads(design, of_one, launches()) == []


def test_arrivals_that_a_generator_draws_itself_are_another_load(design: Design) -> None:
    loads = {
        place: load.model_copy(update={"arrivals": "poisson"})
        for place, load in design.loads.items()
    }
    random = replace(design, loads=loads)
    (load,) = same_loads(random, rows(), launches())
    assert list(load.rows) == ["servetune", "guidellm"]
