"""A checkpoint as servers load it: the bytes of a step, or a word why they are not known."""

from typing import Any

import pytest

from servetune.models.architecture import count
from servetune.models.loaded import loaded, served
from servetune.models.shape import UncountedError
from servetune.models.work import kv_cache_bytes
from servetune.records.sessions import Launch, ServerFacts
from tests.sessions_data import launch as made_launch
from tests.unit.analysis.architectures import EAGLE3, LLAMA_8B
from tests.unit.models.test_work import LLAMA, MIXTRAL, quantized


def launch(*words: str, host: dict[str, Any] | None = None, **config: Any) -> Launch:
    return made_launch(
        command=["env", "vllm", "serve", "m", *words],
        server=ServerFacts(tensor_parallel_size=2),
        server_info={"vllm_config": config} if config else {},
        host={"gpus": [{"name": "H200"}]} if host is None else host,
        model=LLAMA_8B,
    )


@pytest.mark.parametrize("method", ["fp8", "fp8_per_tensor", "fp8_per_block"])
def test_weights_quantized_at_load_are_read_with_one_byte_and_multiplied_in_fp8(
    method: str,
) -> None:
    model = loaded(LLAMA_8B, {"quantization": method})
    norms = LLAMA_8B.linear_bytes - 2 * LLAMA_8B.linear_parameters
    assert model.linear_bytes == LLAMA_8B.linear_parameters + norms
    assert (model.head_bytes, model.compute) == (LLAMA_8B.head_bytes, "fp8"), "the head stays"
    assert LLAMA_8B.stored_bytes - model.stored_bytes == LLAMA_8B.linear_parameters
    assert loaded(model, {"quantization": method}) == model, "a checkpoint in fp8 stays as it is"


def test_experts_alone_may_be_quantized_at_load() -> None:
    stored = count(MIXTRAL, [])
    model = loaded(stored, {"quantization": "experts_int8"})
    assert model.expert_bytes == stored.expert_parameters
    assert (model.linear_bytes, model.compute) == (stored.linear_bytes, "bf16")


def test_a_quantized_checkpoint_is_loaded_as_it_is_stored() -> None:
    stored = count(quantized(8), [])
    assert loaded(stored, {"quantization": "compressed-tensors"}) == stored


def test_weights_of_32_bits_become_16() -> None:
    stored = count({**LLAMA, "torch_dtype": "float32"}, [])
    model = loaded(stored, {"dtype": "torch.bfloat16"})
    assert model.linear_bytes < 2.001 * model.linear_parameters
    assert model.head_bytes == 2 * model.head_parameters


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"quantization": "bitsandbytes"}, "quantization bitsandbytes"),
        ({"quantization": "mxfp8"}, "quantization mxfp8"),
        ({"quantization_config": {"linear": "mxfp4"}}, "quantization_config"),
        ({"hf_overrides": {"num_hidden_layers": 2}}, "hf_overrides"),
        ({"dtype": "float32"}, "dtype float32"),
    ],
)
def test_of_weights_that_are_loaded_otherwise_nothing_is_known(
    arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises(UncountedError, match=why):
        loaded(LLAMA_8B, arguments)


def test_longer_positions_change_nothing() -> None:
    assert loaded(LLAMA_8B, {"hf_overrides": {"rope_scaling": {"factor": 4}}}) == LLAMA_8B


def test_a_launch_is_counted_by_what_it_resolved_or_else_by_its_command() -> None:
    told = served(launch(model_config={"quantization": "fp8"}))
    asked = served(launch("--quantization", "fp8"))
    assert told.model == asked.model == loaded(LLAMA_8B, {"quantization": "fp8"})
    assert (told.copies, told.devices) == (1, 2)


def test_engines_side_by_side_have_copies_of_the_weights_on_devices_of_their_own() -> None:
    for one in (
        launch(parallel_config={"data_parallel_size": 4, "data_parallel_size_local": 4}),
        launch("--data-parallel-size=4"),
    ):
        assert (served(one).copies, served(one).devices) == (4, 8)


def test_processors_are_one_device_whatever_runs_on_them() -> None:
    own = served(launch("--data-parallel-size", "2", host={"gpus": []}))
    assert (own.copies, own.devices) == (2, 1)


@pytest.mark.parametrize(
    "parallel",
    [
        {"pipeline_parallel_size": 2},
        {"prefill_context_parallel_size": 2},
        {"data_parallel_size": 8, "data_parallel_size_local": 4},
    ],
)
def test_of_stages_and_of_engines_elsewhere_nothing_is_known(parallel: dict[str, int]) -> None:
    with pytest.raises(UncountedError):
        served(launch(parallel_config=parallel))


def test_a_draft_is_loaded_as_its_own_settings_say() -> None:
    drafting = launch(model_config={"quantization": "fp8"}).model_copy(update={"draft": EAGLE3})
    assert served(drafting).draft == EAGLE3


def test_what_was_not_counted_says_why() -> None:
    with pytest.raises(UncountedError, match="mamba"):
        served(launch().model_copy(update={"model": None, "uncounted": "layers (mamba_d_state)"}))


@pytest.mark.parametrize("dtype", ["nvfp4", "int4_per_token_head", "turboquant_k8v4", "fp8_ds_mla"])
def test_of_a_kv_cache_in_a_format_that_is_not_understood_nothing_is_known(dtype: str) -> None:
    with pytest.raises(UncountedError, match=dtype):
        kv_cache_bytes(dtype)
