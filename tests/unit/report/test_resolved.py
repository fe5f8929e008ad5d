"""A reader sees what servers of variants resolved differently, and nothing that is alike."""

from typing import Any

from servetune.records.resolved import NONE
from servetune.report.resolved.view import Differences, differences
from tests.sessions_data import launch


def told(config: dict[str, Any], endpoints: dict[str, str] | None = None, **more: Any) -> Any:
    info = {"vllm_config": config, "endpoints": endpoints or {}}
    return launch(server_info=info, **more)


def found(**launches: Any) -> Differences:
    differing = differences({name: [one] for name, one in launches.items()})
    assert differing
    return differing


def test_only_what_differs_is_shown_and_what_one_has_no_word_of_last() -> None:
    old = told({"cache_config": {"block_size": 16}, "a": 1, "scheduler_config": {"policy": "fcfs"}})
    new = told({"cache_config": {"block_size": 128}, "a": 1, "b": 2, "scheduler_config": {}})
    assert found(old=old, new=new).rows == [
        ["cache_config.block_size", "16", "128"],
        ["scheduler_config.policy", "fcfs", NONE],
        ["b", NONE, "2"],
    ]


def test_variants_that_are_alike_share_a_column() -> None:
    one, other = told({"a": 1}), told({"a": 2})
    differing = found(bf16=one, again=one, w8a8=other)
    assert differing.columns == ["bf16 and again", "w8a8"]
    assert differing.rows == [["a", "1", "2"]]


def test_launches_of_one_variant_that_differ_are_both_told() -> None:
    differing = differences({"bf16": [told({"a": 1}), told({"a": 2})], "w8a8": [told({"a": 1})]})
    assert differing and differing.rows == [["a", "1 or 2", "1"]]


def test_an_endpoint_that_a_version_shuts_is_said() -> None:
    path = "/v1/completions/render"
    old = told({}, {path: "POST", "/health": "GET"})
    new = told({}, {path: "refuses: 403", "/health": "GET", "/new": "POST"})
    differing = found(old=old, new=new)
    assert differing.rows == [
        [f"answers {path}", "POST", "refuses: 403"],
        ["answers /new", NONE, "POST"],
    ]
    assert differing.shut == [f"{path} is shut in new (refuses: 403) alone."]


def test_late_choices_and_ignored_settings_come_before_the_configuration() -> None:
    old = told({"a": 1}, choices={"sampler": "FlashInfer"}, ignored=[])
    new = told({"a": 2}, choices={"sampler": "PyTorch-native"}, ignored=["Casting"])
    assert [row[0] for row in found(old=old, new=new).rows] == [
        *("chosen at start: sampler", "ignored by the server", "a")
    ]


def test_where_nothing_is_told_or_nothing_differs_nothing_is_shown() -> None:
    assert differences({"one": [launch()], "other": [told({"a": 1})]}) is None
    assert differences({"one": [told({"a": 1})], "other": [told({"a": 1})]}) is None
    assert differences({}) is None
