from math import inf, nan
from typing import Any

import pytest
from pydantic import TypeAdapter

from servetune.engines.arguments import Argument, Parser, as_argv, check_arguments
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


def test_several_values_are_not_taken_for_a_wrong_type() -> None:
    assert as_argv({"max_num_seqs": [1, 2]}, PARSER) == ["--max-num-seqs", "1", "2"]


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
