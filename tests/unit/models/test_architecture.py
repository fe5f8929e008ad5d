"""Checkpoints of many kinds: counted by their own tensors, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from servetune.models.architecture import count, count_checkpoint
from servetune.models.shape import UncountedError
from servetune.models.work import attended, decode_step, prefill
from tests.unit.models.test_work import LLAMA, MIXTRAL, tensor, write_checkpoint

Tensors = list[tuple[str, str, list[int], int]]

SMALL: dict[str, Any] = {
    **{"architectures": ["AnyForCausalLM"], "hidden_size": 64, "num_hidden_layers": 1},
    **{"num_attention_heads": 4, "num_key_value_heads": 2},
}
MIXED = {**SMALL, "num_local_experts": 4, "num_experts_per_tok": 2}


def test_two_weights_of_mxfp4_are_in_a_byte() -> None:
    config = {**MIXED, "quantization_config": {"quant_method": "mxfp4"}}
    tensors: Tensors = [
        ("model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", [4, 32, 2, 16], 4096),
        ("model.layers.0.mlp.experts.gate_up_proj_scales", "U8", [4, 32, 2], 256),
        ("model.layers.0.mlp.experts.gate_up_proj_bias", "BF16", [4, 32], 256),
        ("model.layers.0.self_attn.q_proj.weight", "BF16", [64, 64], 8192),
    ]
    model = count(config, tensors)
    assert (model.expert_parameters, model.expert_bytes) == (8192, 4096 + 256 + 256)
    assert (model.linear_parameters, model.linear_bytes) == (4096, 8192)
    assert model.compute == "bf16", "the weights alone are in 4 bits"


def test_gpt_oss_is_counted_without_its_weights_too() -> None:
    config = {
        **{"architectures": ["GptOssForCausalLM"], "hidden_size": 2880, "intermediate_size": 2880},
        **{"num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8},
        **{"head_dim": 64, "num_local_experts": 128, "num_experts_per_tok": 4},
        **{"vocab_size": 201088, "sliding_window": 128, "max_position_embeddings": 131072},
        "layer_types": ["sliding_attention", "full_attention"] * 18,
        "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"],
        },
    }
    model = count(config, [])
    parameters = model.linear_parameters + model.expert_parameters + 2 * model.head_parameters
    assert parameters == pytest.approx(116.8e9, rel=0.002), "gpt-oss-120b has 116.8 B"
    assert model.expert_bytes == pytest.approx(model.expert_parameters * 4.25 / 8)
    assert (model.windowed_layers, model.window_tokens) == (18, 128)


@pytest.mark.parametrize(
    ("algorithm", "weights", "parameters", "compute"),
    [
        ("FP8", ("F8_E4M3", [64, 64], 4096), 4096, "fp8"),
        ("NVFP4", ("U8", [64, 32], 2048), 4096, "fp4"),
    ],
)
def test_modelopt_tells_its_quantization_in_a_file_of_its_own(
    tmp_path: Path,
    algorithm: str,
    weights: tuple[str, list[int], int],
    parameters: int,
    compute: str,
) -> None:
    told = {"quantization": {"quant_algo": algorithm, "exclude_modules": ["lm_head"]}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(told))
    dtype, shape, size = weights
    write_checkpoint(tmp_path, SMALL, {"layers.0.mlp.up_proj.weight": tensor(dtype, shape, size)})
    model = count_checkpoint(tmp_path)
    assert (model.linear_parameters, model.linear_bytes) == (parameters, size)
    assert model.compute == compute


def test_eight_bits_of_gptq_are_packed_by_four() -> None:
    config = {**SMALL, "quantization_config": {"quant_method": "gptq", "bits": 8}}
    model = count(config, [("layers.0.mlp.up_proj.qweight", "I32", [16, 64], 4096)])
    assert model.linear_parameters == 4096


@pytest.mark.parametrize(
    ("declared", "of_a_layer"),
    [
        ({"n_shared_experts": 1}, 3 * 4096 * 14336),
        ({"shared_expert_intermediate_size": 1024}, 3 * 4096 * 1024 + 4096),
    ],
)
def test_every_token_goes_through_shared_experts(declared: dict[str, int], of_a_layer: int) -> None:
    plain, shared = count(MIXTRAL, []), count({**MIXTRAL, **declared}, [])
    assert shared.linear_parameters - plain.linear_parameters == 32 * of_a_layer
    assert shared.expert_parameters == plain.expert_parameters


def test_shared_experts_are_found_among_tensors() -> None:
    tensors: Tensors = [
        (f"model.layers.0.mlp.{name}.up_proj.weight", "BF16", [64, 64], 8192)
        for name in ("experts.0", "experts.1", "shared_experts", "shared_expert")
    ]
    model = count(MIXED, tensors)
    assert (model.linear_parameters, model.expert_parameters) == (2 * 4096, 2 * 4096)


def test_the_first_layers_may_be_without_experts() -> None:
    model = count({**MIXTRAL, "first_k_dense_replace": 2}, [])
    assert model.expert_parameters == 30 * 8 * 3 * 4096 * 14336


def test_layers_that_only_draft_and_towers_that_see_are_not_streamed() -> None:
    weight = ("BF16", [64, 64], 8192)
    names = ("model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight")
    tensors: Tensors = [(name, *weight) for name in (*names, "visual.blocks.0.mlp.weight")]
    model = count(SMALL, tensors)
    assert model.linear_bytes == 8192
    assert model.stored_bytes == 3 * 8192


def test_a_layer_with_a_window_reads_no_more_than_that() -> None:
    full = count(LLAMA, [])
    kinds = ["sliding_attention"] * 16 + ["full_attention"] * 16
    half = count({**LLAMA, "layer_types": kinds, "sliding_window": 1000}, [])
    assert attended(half, 900) == 900
    assert attended(half, 9000) == 5000
    spared = [decode_step(model, 1, 8999, 2) for model in (full, half)]
    assert spared[0].bytes - spared[1].bytes == 4000 * full.kv_values_per_token * 2
    assert spared[0].flops - spared[1].flops == 4 * 4000 * 32 * 4096
    # In 3 tokens with a window of 2, one pair of 6 is too far apart, in one of two layers.
    model = half.model_copy(update={"layers": 2, "windowed_layers": 1, "window_tokens": 2})
    dense = model.model_copy(update={"windowed_layers": 0})
    flops = [prefill(each, 3, 0, 8192, 2).flops for each in (dense, model)]
    assert flops[0] - flops[1] == 4 * 1 * model.attention_width


def test_a_window_as_long_as_all_positions_is_none() -> None:
    phi = {**LLAMA, "architectures": ["Phi3ForCausalLM"], "sliding_window": 262144}
    assert count({**phi, "max_position_embeddings": 131072}, []).windowed_layers == 0
    assert count({**phi, "max_position_embeddings": 524288}, []).windowed_layers == 32
    assert count({**LLAMA, "sliding_window": 4096, "use_sliding_window": False}, []) == (
        count(LLAMA, [])
    )


@pytest.mark.parametrize(
    "declared",
    [
        {"mamba_d_state": 128},
        {"linear_conv_kernel_dim": 4},
        {"layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8},
        {"hybrid_override_pattern": "M-M*"},
        {"num_kv_shared_layers": 8},
        {"multi_query": True},
        {"sliding_window": 4096},
        {"num_key_value_heads": [8] * 32},
        {"index_topk": 2048},
        {"quantization_config": {"quant_method": "quark"}},
        {"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}},
        {"architectures": ["DbrxForCausalLM"]},
        {"num_local_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 2},
    ],
)
def test_a_model_of_a_kind_that_is_not_understood_is_not_counted(declared: dict[str, Any]) -> None:
    with pytest.raises(UncountedError):
        count({**LLAMA, **declared}, [])


@pytest.mark.parametrize(
    "tensors",
    [
        [("model.layers.0.mixer.A_log", "F32", [8], 32)],
        [("model.layers.0.mlp.up_proj.weight", "U8", [64, 32], 2048)],
        [(f"model.layers.{i}.self_attn.k_proj.weight", "BF16", [8, 8], 128) for i in (0, 2)],
    ],
)
def test_tensors_of_a_kind_that_is_not_understood_are_not_counted(tensors: Tensors) -> None:
    with pytest.raises(UncountedError):
        count({**SMALL, "num_hidden_layers": 3}, tensors)


def test_experts_that_are_not_found_are_not_taken_for_what_all_tokens_read() -> None:
    tensors: Tensors = [("layers.0.moe.input_linear.weight", "BF16", [4, 64, 64], 32768)]
    with pytest.raises(UncountedError, match="experts"):
        count(MIXED, tensors)
