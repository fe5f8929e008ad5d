"""Classes of requests: which request has which, what it asks for, and the numbers of each."""

from typing import Any

import pytest

from servetune.load.by_class import by_class
from servetune.load.classes import body_of
from servetune.load.request_table import read_request_table, request_table
from servetune.load.schedule import make_schedule
from servetune.plan.identity import load_content
from servetune.records.measurements import ClassMetrics
from tests.loads import failed, load, reply, rows

JSON = {"extra_body": {"response_format": {"type": "json_object"}}}


def names(declared: Any, rows: list[Any]) -> list[str | None]:
    return [request.class_name for request in make_schedule(rows, declared)]


def test_classes_are_drawn_by_their_weights_from_the_seed() -> None:
    declared = load(requests=1000, classes={"often": {"weight": 3}, "rare": {}}, dataset="d-1")
    drawn = names(declared, rows(20))
    assert 700 < drawn.count("often") < 800 and drawn.count("rare") == 1000 - drawn.count("often")
    assert names(declared, rows(20)) == drawn
    assert names(declared.model_copy(update={"seed": 1}), rows(20)) != drawn


def test_a_conversation_is_of_one_class() -> None:
    declared = load(requests=60, endpoint="chat", classes={"a": {}, "b": {}})
    drawn = names(declared, rows(20, turns=3))
    assert {*drawn} == {"a", "b"}
    assert [*drawn[::3], *drawn[1::3]] == [*drawn[2::3], *drawn[2::3]]


def test_a_row_may_name_its_class() -> None:
    own: list[Any] = [{**row, "class": "b"} for row in rows(8)]
    assert names(load(classes={"a": {}, "b": {}}), own) == ["b"] * 8


def test_without_classes_the_identity_of_a_load_is_as_it_was() -> None:
    assert "classes" not in load_content(load(dataset="text-1"))
    assert load_content(load(dataset="text-1", classes={"a": {}}))["classes"] == {"a": {}}


def test_a_class_asks_for_what_it_declares() -> None:
    declared = load(
        sampling={"temperature": 0.5},
        classes={
            "plain": {},
            "json": JSON,
            "warm": {"model": "style", "extra_body": {"temperature": 1.0}},
        },
    )
    assert body_of(declared, "plain") == {"ignore_eos": True, "temperature": 0.5}
    # The grammar says where the answer ends.
    assert body_of(declared, "json") == {"temperature": 0.5, **JSON["extra_body"]}
    warm = {"ignore_eos": True, "temperature": 1.0, "model": "style"}
    assert body_of(declared, "warm") == warm


def measured(*replies: Any, **declared: Any) -> list[ClassMetrics]:
    told = load(**{"requests": 20, **declared})
    return by_class(request_table(list(replies), make_schedule(rows(20), told), told), told)


def test_each_class_has_its_own_numbers_and_its_share_of_the_output() -> None:
    classes: dict[str, Any] = {"a": {}, "b": {}}
    kinds = names(load(requests=4, classes=classes), rows(20))
    assert {*kinds} == {"a", "b"}
    replies = [
        reply(
            i, float(i), ttft_s=0.1 if kind == "a" else 0.3, output_tokens=2 if kind == "a" else 6
        )
        for i, kind in enumerate(kinds)
    ]
    every, a, b = measured(
        *replies, failed(4, 9.0), requests=4, cooldown_requests=1, classes=classes
    )
    assert (every.name, every.requests, a.name, b.name) == (None, 4, "a", "b")
    assert a.requests + b.requests == 4
    assert a.ttft_p50_ms == pytest.approx(100) and b.ttft_p99_ms == pytest.approx(300)
    assert a.output_share_ratio + b.output_share_ratio == pytest.approx(1)
    assert b.output_share_ratio == pytest.approx(6 * b.requests / (6 * b.requests + 2 * a.requests))


def test_the_first_use_of_a_grammar_is_told_by_itself() -> None:
    replies = [reply(0, 0.0, ttft_s=0.6, answer="{}"), reply(1, 1.0, ttft_s=0.2, answer="no")]
    _, json = measured(*replies, classes={"json": JSON})
    assert json.first_ttft_ms == pytest.approx(600) and json.ttft_p99_ms == pytest.approx(200)
    assert (json.requests, json.valid_answers_ratio) == (2, 0.5)


def test_reasoning_and_tool_calls_are_told_without_classes_too() -> None:
    reasoned = reply(0, 0.0, ttfat_s=0.6, reasoning_tokens=2, tool_calls=1)
    (every,) = measured(reasoned, reply(1, 1.0))
    assert (every.name, every.tool_calls) == (None, 1)
    assert every.ttfat_p50_ms == pytest.approx(600)
    assert every.reasoning_ratio == pytest.approx(2 / 6)


def test_plain_answers_to_requests_of_one_kind_have_no_classes() -> None:
    assert measured(reply(0, 0.0, tool_calls=0)) == []


def test_a_table_from_before_classes_is_read(tmp_path: Any) -> None:
    told = load(requests=20)
    made = request_table([reply(0, 0.0)], make_schedule(rows(20), told), told)
    later = ["ttfat_ms", "reasoning_tokens", "tool_calls", "class", "is_valid"]
    made.drop(columns=later).to_parquet(tmp_path / "requests.parquet", index=False)
    assert by_class(read_request_table(tmp_path / "requests.parquet"), told) == []


def test_classes_survive_parquet(tmp_path: Any) -> None:
    told = load(requests=20, classes={"json": JSON})
    made = request_table([reply(0, 0.0, answer="{}")], make_schedule(rows(20), told), told)
    made.to_parquet(tmp_path / "requests.parquet", index=False)
    found = by_class(read_request_table(tmp_path / "requests.parquet"), told)
    assert found == by_class(made, told) and len(found) == 2
