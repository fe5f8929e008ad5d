"""Bytes, FLOPs and utilizations, with numbers worked out by hand."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from servetune.analysis.roofline.attained import Attained, Engine, attain
from servetune.models.architecture import count, read_architecture
from servetune.models.work import (
    decode_step,
    kv_cache_bytes,
    passes,
    prefill,
    speculative_step,
    utilization,
)
from servetune.records.sessions import Architecture, Ceilings

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}
EAGLE3 = {**LLAMA, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1}
EAGLE3 |= {"draft_vocab_size": 32000}
MIXTRAL = {**LLAMA, "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000}
H200 = Ceilings(memory_bandwidth_gb_s=4300, bf16_tflop_s=800)


def quantized(bits: int, kind: str = "int") -> dict[str, Any]:
    part = {"num_bits": bits, "type": kind}
    groups = {"group_0": {"weights": part, "input_activations": part if bits == 8 else None}}
    told = {"quant_method": "compressed-tensors", "config_groups": groups}
    return {**LLAMA, "quantization_config": told}


def test_llama_8b_has_8_billion_parameters_of_which_a_pass_reads_7_and_a_half() -> None:
    model = count(LLAMA, [])
    # A layer: q and o 4096 x 4096, k and v 4096 x 1024, three of 4096 x 14336.
    assert model.linear_parameters == 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    assert model.head_parameters == 128256 * 4096
    assert model.stored_bytes == 2 * 8_030_261_248, "the published count of parameters"
    assert model.linear_bytes + model.head_bytes == pytest.approx(15.01e9, rel=1e-3)
    assert model.kv_values_per_token * 2 == 131_072, "128 KiB a token in bf16"


def test_8_bit_weights_with_a_16_bit_head_allow_1_87_times_at_batch_size_1() -> None:
    ratio = decode_step(count(LLAMA, []), 1, 1, 2).bytes
    ratio /= decode_step(count(quantized(8), []), 1, 1, 2).bytes
    assert ratio == pytest.approx(1.87, abs=0.005)
    assert count(quantized(8), []).compute == "int8"
    assert count(quantized(8, "float"), []).compute == "fp8"
    assert count(quantized(4), []).compute == "bf16", "4-bit weights are multiplied in 16 bits"


def test_a_measured_tpot_gives_its_share_of_the_bandwidth() -> None:
    """4.95 ms a token on an H200, 512 tokens in and 256 out: 640 in the cache on average."""
    step = decode_step(count(LLAMA, []), batch=1, context=640, kv_bytes=2)
    assert step.bytes == pytest.approx(15.01e9 + 641 * 131_072, rel=1e-4)
    told = utilization(step, 4.95e-3, H200, "bf16")
    assert told.mbu == pytest.approx(0.709, abs=0.001)
    assert told.bound == "bandwidth" and told.is_possible
    assert told.least_s == pytest.approx(15.094e9 / 4.3e12, rel=1e-3)


def test_more_than_the_device_can_do_is_not_possible() -> None:
    step = decode_step(count(LLAMA, []), 1, 640, 2)
    assert not utilization(step, 3.3e-3, H200, "bf16").is_possible


def test_a_large_batch_is_bound_by_compute() -> None:
    model = count(LLAMA, [])
    step = decode_step(model, batch=512, context=100, kv_bytes=2)
    assert step.flops > 2 * 512 * (model.linear_parameters + model.head_parameters)
    assert utilization(step, 0.02, H200, "bf16").bound == "compute"


def test_an_fp8_kv_cache_halves_what_attention_reads() -> None:
    model = count(LLAMA, [])
    of = [decode_step(model, 8, 20_000, kv_cache_bytes(dtype)) for dtype in ("auto", "fp8_e4m3")]
    weights = decode_step(model, 8, 0, 0).bytes
    assert (of[0].bytes - weights) == 2 * (of[1].bytes - weights)
    assert of[0].flops == of[1].flops


def test_grouped_query_attention_keeps_a_quarter_of_the_keys() -> None:
    every = count({**LLAMA, "num_key_value_heads": 32}, [])
    assert every.kv_values_per_token == 4 * count(LLAMA, []).kv_values_per_token


def test_a_mixture_reads_the_experts_that_some_token_chose() -> None:
    model = count(MIXTRAL, [])
    experts = 32 * 8 * 3 * 4096 * 14336
    assert model.expert_parameters == experts
    assert model.stored_bytes == pytest.approx(2 * 46.7e9, rel=0.005), "Mixtral 8x7B has 46.7 B"
    one = passes(model, 1)
    assert one.bytes - model.linear_bytes == pytest.approx(2 * experts * 2 / 8)
    assert one.flops == 2 * (model.linear_parameters + experts * 2 / 8), "2 of 8 compute"
    many = passes(model, 64)
    assert many.bytes - model.linear_bytes == pytest.approx(2 * experts, rel=1e-6)
    assert many.flops == 64 * one.flops


def test_prefill_of_llama_8b_costs_two_flops_a_parameter_and_token() -> None:
    model = count(LLAMA, [])
    work = prefill(model, tokens=512, cached=0, batched_tokens=8192, kv_bytes=2)
    linear = 2 * 512 * model.linear_parameters + 2 * model.head_parameters
    attention = 4 * 32 * 4096 * 512 * 513 / 2
    assert work.flops == pytest.approx(linear + attention)
    assert work.bytes == model.linear_bytes + model.head_bytes + 512 * 131_072


def test_chunked_prefill_reads_the_weights_once_a_chunk() -> None:
    model = count(LLAMA, [])
    whole, chunked = (prefill(model, 8192, 0, batched, 2) for batched in (8192, 2048))
    assert chunked.bytes - whole.bytes == 3 * model.linear_bytes
    assert chunked.flops == whole.flops


def test_a_cached_prefix_costs_reading_but_no_matrices() -> None:
    model = count(LLAMA, [])
    cold, warm = prefill(model, 4096, 0, 8192, 2), prefill(model, 96, 4000, 8192, 2)
    assert warm.flops < 0.03 * cold.flops
    assert warm.bytes == cold.bytes


def test_a_speculative_step_drafts_one_by_one_and_verifies_in_one_pass() -> None:
    target, draft = count(LLAMA, []), count(EAGLE3, [])
    step = speculative_step(target, draft, 1, 640, 2, tokens=3)
    verify = decode_step(target, 1, 640, 2, tokens=4)
    drafting = decode_step(draft, 1, 640, 2)
    assert step.bytes == verify.bytes + 3 * drafting.bytes
    assert drafting.bytes == pytest.approx(0.85e9, rel=0.01), "fc, one layer and a head of 32,000"
    assert speculative_step(target, None, 1, 640, 2, 3) == verify


def write_checkpoint(folder: Path, config: dict[str, Any], tensors: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps(tensors).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


def tensor(dtype: str, shape: list[int], size: int, begin: int = 0) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, begin + size]}


def test_weights_are_counted_from_the_headers_of_their_files(tmp_path: Path) -> None:
    tensors = {
        "__metadata__": {"format": "pt"},
        "model.embed_tokens.weight": tensor("BF16", [1000, 64], 128_000),
        "model.layers.0.mlp.up_proj.weight_packed": tensor("I32", [64, 8], 2048),
        "model.layers.0.mlp.up_proj.weight_scale": tensor("BF16", [64, 1], 128),
        "model.layers.0.mlp.experts.0.w1.weight": tensor("BF16", [64, 64], 8192),
        "model.norm.weight": tensor("BF16", [64], 128),
        "d2t": tensor("I64", [1000], 8000),
    }
    small = {**quantized(4), "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    write_checkpoint(tmp_path, {**small, "num_hidden_layers": 2}, tensors)
    model = read_architecture(tmp_path)
    assert model is not None
    assert model.linear_parameters == 64 * 64, "eight weights of 4 bits in each integer"
    assert model.linear_bytes == 2048 + 128 + 128
    assert (model.expert_parameters, model.expert_bytes) == (64 * 64, 8192)
    assert (model.head_parameters, model.head_bytes) == (64_000, 128_000), "the embedding, tied"
    assert model.stored_bytes == sum(t["data_offsets"][1] for t in list(tensors.values())[1:])


@pytest.mark.parametrize("config", [None, "{", "{}", "[]"])
def test_a_checkpoint_that_cannot_be_counted_has_no_architecture(
    tmp_path: Path, config: str | None
) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert read_architecture(tmp_path) is None


def row(**changes: Any) -> dict[str, Any]:
    told = {
        "status": "ok",
        "concurrency": 1,
        "max_num_seqs": 256,
        "running_mean": 1.0,
        "tpot_p50_ms": 4.95,
        "input_tokens": 5120,
        "output_tokens": 2560,
        "completed_requests": 10,
        "kv_cache_dtype": "auto",
        "prefill_time_mean_ms": 20.0,
        "max_num_batched_tokens": 8192,
    }
    return {**told, **changes}


def attained(engine: Engine | None = None, **changes: Any) -> Attained:
    found = attain(row(**changes), engine or Engine(count(LLAMA, []), H200))
    assert found is not None
    return found


def test_a_load_point_is_placed_by_its_batch_lengths_and_times() -> None:
    found = attained()
    assert (found.batch, found.context) == (1, 640)
    assert found.decode.mbu == pytest.approx(0.709, abs=0.001)
    assert found.least_tpot_ms == pytest.approx(4.95 * 0.709, rel=2e-3)
    assert found.prefill is not None and found.prefill.mfu == pytest.approx(0.451, abs=0.001)


def test_with_speculation_a_step_takes_the_time_of_the_tokens_that_it_emits() -> None:
    """2.75 ms a token at concurrency 8 with an acceptance length of 2.5."""
    engine = Engine(count(LLAMA, []), H200, count(EAGLE3, []), draft_tokens=3)
    found = attained(engine, acceptance_length=2.5, tpot_p50_ms=2.75, running_mean=8.0)
    assert found.step_ms == pytest.approx(6.875)
    assert found.work.bytes == speculative_step(engine.model, engine.draft, 8, 640, 2, 3).bytes
    assert found.decode.mbu == pytest.approx(0.62, abs=0.01)


def test_without_telemetry_the_batch_is_what_the_server_admits() -> None:
    assert attained(running_mean=None, concurrency=32, max_num_seqs=8).batch == 8
    assert attained(running_mean=float("nan"), concurrency=4, max_num_seqs=None).batch == 4


def test_two_devices_have_twice_the_ceilings() -> None:
    assert H200.of(2).memory_bandwidth_gb_s == 8600
    assert H200.of(2).bf16_tflop_s == 1600
    assert H200.of(2).source == "declared"


@pytest.mark.parametrize(
    "changes", [{"tpot_p50_ms": None}, {"status": "failed"}, {"completed_requests": None}]
)
def test_a_load_point_without_numbers_has_no_place(changes: dict[str, Any]) -> None:
    assert attain(row(**changes), Engine(count(LLAMA, []), H200)) is None


def test_what_was_counted_is_kept_as_it_was(tmp_path: Path) -> None:
    model = count(MIXTRAL, [])
    assert Architecture.model_validate_json(model.model_dump_json()) == model
