from math import inf, nan
from typing import Any

import pytest
from pydantic import TypeAdapter

from servetune.engines.arguments import Argument, Parser, as_argv, check_arguments
from servetune.engines.spelling import _SHORT
from servetune.errors import UserError
from servetune.study.engines import ServerArguments
from tests.paths import ROOT

PARSER = {
    "max_num_seqs": Argument(option="--max-num-seqs", kind="int"),
    "enforce_eager": Argument(option="--enforce-eager", kind="flag", negatable=True),
    "trust_remote_code": Argument(option="--trust-remote-code", kind="flag"),
    "compilation_config": Argument(option="--compilation-config", kind="other"),
    "chat_template": Argument(option="--chat-template", kind="other"),
}


def test_arguments_become_words_and_are_never_seen_by_a_shell() -> None:
    assert as_argv({"max_num_seqs": 8, "chat_template": "a; rm -rf ~"}, PARSER) == [
        *("--max-num-seqs", "8", "--chat-template", "a; rm -rf ~")
    ]


def test_a_flag_is_given_negated_or_left_out() -> None:
    assert as_argv({"enforce_eager": True}, PARSER) == ["--enforce-eager"]
    assert as_argv({"enforce_eager": False}, PARSER) == ["--no-enforce-eager"]
    assert as_argv({"trust_remote_code": False}, PARSER) == []


def test_null_leaves_the_servers_default() -> None:
    assert as_argv({"max_num_seqs": None}, PARSER) == []


def test_several_values_are_given_where_vllm_takes_several() -> None:
    several: ServerArguments = {"cudagraph_capture_sizes": [1, 2]}
    assert as_argv(several, REAL) == ["--cudagraph-capture-sizes", "1", "2"]


def test_a_mapping_is_given_as_json_and_a_list_as_words() -> None:
    assert as_argv({"compilation_config": {"level": 3}}, PARSER) == [
        *("--compilation-config", '{"level": 3}')
    ]
    assert as_argv({"chat_template": ["a", "b"]}, PARSER) == ["--chat-template", "a", "b"]


REAL = TypeAdapter(Parser).validate_json(
    (ROOT / "workflow/envs/vllm-0.32.0.arguments.json").read_bytes()
)


@pytest.mark.parametrize("parser", [REAL, None], ids=["known", "not yet known"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("quantization", ["fp8", "--host", "0.0.0.0"]),
        ("quantization", "--host=0.0.0.0"),
        ("tokenizer", "-O3"),
        ("host", "0.0.0.0"),
        ("hos", "0.0.0.0"),
        ("--port", 80),
        ("served-model-name", "mine"),
        ("speculative_config.model", "other"),
        ("config", "options.yaml"),
        ("hf_token", "secret"),
        ("disable_log_stats", True),
        ("__use_yte__", True),
    ],
)
def test_no_argument_sets_what_is_servetunes(parser: Parser | None, name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"^study: {name}: "):
        check_arguments({name: value}, parser, "study: ")


@pytest.mark.parametrize("parser", [REAL, None], ids=["known", "not yet known"])
@pytest.mark.parametrize(
    ("name", "value", "bound"),
    [
        ("max_num_seqs", -1, "from 1 to"),
        ("max_num_seqs", 1e12, "from 1 to"),
        ("max_num_seqs", True, "number"),
        ("max_model_len", nan, "whole number"),
        ("max_model_len", "many", "number"),
        ("gpu_memory_utilization", 2, "to 1"),
        ("gpu_memory_utilization", inf, "to 1"),
        ("compilation_config", {"level": nan}, "finite"),
        ("max_num_seqs", [1, 2], "one number"),
        ("max_model_len", ["8k"], "one number"),
    ],
)
def test_a_number_that_no_server_takes_is_refused_with_its_bounds(
    parser: Parser | None, name: str, value: Any, bound: str
) -> None:
    with pytest.raises(UserError, match=bound):
        check_arguments({name: value}, parser, "study: ")


@pytest.mark.parametrize("parser", [REAL, None], ids=["known", "not yet known"])
def test_what_a_server_takes_passes(parser: Parser | None) -> None:
    taken: ServerArguments = {
        "max_model_len": "32k",
        "gpu_memory_utilization": 0.9,
        "max_logprobs": -1,
        "seed": 1,
    }
    check_arguments(taken, parser, "study: ")


@pytest.mark.parametrize("parser", [REAL, None], ids=["known", "not yet known"])
@pytest.mark.parametrize(
    ("name", "value", "written"),
    [
        ("no_enable_prefix_caching", True, "enable_prefix_caching: false"),
        ("no-enable-prefix-caching", None, "enable_prefix_caching: false"),
        ("no_enable_prefix_caching", False, "enable_prefix_caching: true"),
        ("kernel_config.enable_flashinfer_autotune", False,
         "kernel_config: {enable_flashinfer_autotune: false}"),
        ("--compilation-config.pass_config.fuse_norm_quant", True,
         "compilation_config: {pass_config: {fuse_norm_quant: true}}"),
        ("tp", 2, "tensor_parallel_size: 2"),
        ("ep", True, "enable_expert_parallel: true"),
        ("-dp", 4, "data_parallel_size: 4"),
        ("O", 3, "optimization_level: 3"),
        ("O3", None, "optimization_level: 3"),
        ("device_memory_utilization", 0.8, "gpu_memory_utilization: 0.8"),
    ],
)  # fmt: skip
def test_a_name_in_another_form_is_told_what_to_write_that_means_the_same(
    parser: Parser | None, name: str, value: Any, written: str
) -> None:
    with pytest.raises(UserError) as caught:
        check_arguments({name: value}, parser, "study: ")
    assert str(caught.value) == f"study: {name}: vllm serve has no such argument; write {written}"


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("disable_log_requests", True, "; write enable_log_requests: false"),
        ("disable_prefix_caching", None, "; write enable_prefix_caching: false"),
        ("enable_custom_all_reduce", False, "; write disable_custom_all_reduce: true"),
        ("no_enable_prefix_cachng", True, ""),
        *((name, 1, "") for name in ("swap_space", "num_scheduler_steps", "enable_reasoning")),
        ("guided_decoding_backend", "xgrammar", ""),
    ],
)
def test_no_hint_means_the_opposite_or_another_argument(name: str, value: Any, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        check_arguments({name: value}, REAL, "study: ")
    assert str(caught.value) == f"study: {name}: vllm serve has no such argument{hint}"


def test_every_short_name_stands_for_an_argument_of_vllm() -> None:
    assert set(_SHORT.values()) <= set(REAL)


@pytest.mark.parametrize("parser", [REAL, None], ids=["known", "not yet known"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("enable_lora", True), ("lora_modules", ["a=b"]), ("default_mm_loras", {"audio": "a"})],
)
def test_an_adapter_is_named_by_the_variant_alone(
    parser: Parser | None, name: str, value: Any
) -> None:
    with pytest.raises(UserError, match=f"^study: {name}: cannot be set: .* variant has adapters"):
        check_arguments({name: value}, parser, "study: ")


def test_a_server_without_adapters_passes() -> None:
    check_arguments({"enable_lora": False, "lora_modules": None}, REAL, "study: ")
