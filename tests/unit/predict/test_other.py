"""What another server has that was not launched, or why nothing is known of it."""

from typing import Any

import pytest

from servetune.models.shape import UncountedError
from servetune.plan.planned import Session
from servetune.predict.bounds import bounds_of
from servetune.predict.other import other_of
from tests.recorded import plan_of
from tests.unit.analysis.architectures import H200, LLAMA_8B
from tests.unit.models.test_loaded import launch


def session(**server: Any) -> Session:
    planned = plan_of("h200-capacity").sessions[0]
    return planned.model_copy(update={"server": server, "draft": None, "speculative": None})


def test_weights_that_would_be_quantized_at_load_are_predicted_so() -> None:
    asked = session(quantization="fp8")
    assert asked.model
    model = other_of(asked, {asked.model: LLAMA_8B}, {}).model
    assert model.compute == "fp8"
    assert model.linear_bytes < 1.01 * LLAMA_8B.linear_parameters


@pytest.mark.parametrize(
    "server",
    [{"data_parallel_size": 2}, {"pipeline_parallel_size": 2}, {"quantization": "bitsandbytes"}],
)
def test_of_a_server_that_is_not_simulated_nothing_is_predicted(server: dict[str, Any]) -> None:
    asked = session(**server)
    assert asked.model
    with pytest.raises(UncountedError):
        other_of(asked, {asked.model: LLAMA_8B}, {})


def test_a_model_that_is_not_known_is_not_taken_for_another() -> None:
    with pytest.raises(UncountedError, match="not known"):
        other_of(session(), {}, {})


def test_several_engines_and_windows_have_no_step_time() -> None:
    one = launch(host={"gpus": [{}, {}]}).model_copy(update={"ceilings": H200})
    assert bounds_of(one) is not None
    several = one.model_copy(update={"command": ["vllm", "serve", "--data-parallel-size", "2"]})
    assert bounds_of(several) is None
    windowed = LLAMA_8B.model_copy(update={"windowed_layers": 16, "window_tokens": 128})
    assert bounds_of(one.model_copy(update={"model": windowed})) is None
