from servetune.engines.arguments import Argument, as_argv

PARSER = {
    "max_num_seqs": Argument(option="--max-num-seqs", kind="int"),
    "enforce_eager": Argument(option="--enforce-eager", kind="flag", negatable=True),
    "trust_remote_code": Argument(option="--trust-remote-code", kind="flag"),
    "compilation_config": Argument(option="--compilation-config", kind="other"),
    "middleware": Argument(option="--middleware", kind="other"),
}


def test_arguments_become_words_and_are_never_seen_by_a_shell() -> None:
    assert as_argv({"max_num_seqs": 8, "middleware": "a; rm -rf ~"}, PARSER) == [
        *("--max-num-seqs", "8", "--middleware", "a; rm -rf ~")
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
    assert as_argv({"middleware": ["a", "b"]}, PARSER) == ["--middleware", "a", "b"]
