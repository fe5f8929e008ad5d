"""A record that says what cannot be true together is found out, by itself and by its requests."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.errors import DamagedError
from servetune.load.by_class import by_class
from servetune.load.request_table import (
    aggregate,
    attained,
    by_turn,
    quantiles,
    request_table,
)
from servetune.load.schedule import make_schedule
from servetune.records.measurements import DEFINITIONS, MeasurementRecord, read_measurement
from servetune.records.quality import Document, QualityRecord
from servetune.records.searches import read_search
from servetune.records.sessions import SessionRecord
from servetune.tables.contradictions import contradictions
from tests.loads import failed, load, reply, rows
from tests.paths import GALLERY

RECORDED = GALLERY / "results" / "h200-capacity"

Change = Callable[[dict[str, Any]], object]


def changed(path: Path, change: Change) -> MeasurementRecord:
    content = json.loads(path.read_bytes())
    change(content)
    return MeasurementRecord.model_validate_json(json.dumps(content))


def times(factor: float, *names: str) -> Change:
    def change(record: dict[str, Any]) -> None:
        for name in names:
            record["metrics"][name] *= factor

    return change


THROUGHPUTS = ("output_throughput_tok_s", "request_throughput_rps", "total_throughput_tok_s")

WITHIN: dict[str, tuple[Change, str]] = {
    "tenfold throughput": (times(10, "output_throughput_tok_s"), "output_throughput_tok_s"),
    "all throughputs tenfold": (times(10, *THROUGHPUTS), "output_throughput_tok_s"),
    "a tenth of the time": (times(0.1, "duration_s"), "duration_s"),
    "ten times the tokens": (times(10, "output_tokens"), "output_throughput_tok_s"),
    "other requests a second": (times(2, "request_throughput_rps"), "request_throughput_rps"),
    "more completed than sent": (
        lambda record: record["metrics"].update(completed_requests=99_999),
        "metrics.requests",
    ),
    "more requests than the load": (
        lambda record: record["metrics"].update(requests=99_999, completed_requests=99_999),
        "metrics.requests",
    ),
    "a median above p99": (times(100, "ttft_p50_ms"), "ttft_p50_ms"),
    "percentiles that are not the quantiles'": (times(0.5, "e2e_p99_ms"), "e2e_p99_ms"),
    "a mean below all": (times(0.001, "tpot_mean_ms"), "tpot_mean_ms"),
    "quantiles that fall": (lambda record: record["quantiles"]["itl_ms"].reverse(), "itl_ms"),
    "first tokens after the last": (
        lambda record: record["quantiles"].update(
            ttft_ms=[10 * value for value in record["quantiles"]["e2e_ms"]]
        ),
        "ttft_ms",
    ),
    "an end before its start": (
        lambda record: record.update(ended_at="2020-01-01T00:00:00+00:00"),
        "ended_at",
    ),
    "longer than from start to end": (
        lambda record: record.update(ended_at=record["started_at"]),
        "duration_s",
    ),
    "ok without metrics": (lambda record: record.update(metrics=None), "metrics"),
    "failed with metrics": (lambda record: record.update(status="failed"), "metrics"),
    "more within the SLO than its quantiles allow": (
        lambda record: record.update(attained={"limits_ms": {"ttft": 0.001}, "ratio": 1.0}),
        "attained.ratio",
    ),
    "a part of a request within the SLO": (
        lambda record: record.update(attained={"limits_ms": {"ttft": 1e6}, "ratio": 0.98765}),
        "attained.ratio",
    ),
    "conversations that are busy for longer than they last": (
        lambda record: record.update(
            conversations={"conversations": 1, "turns_at_once_max": 1, "e2e_p50_s": 1.0}
            | {"busy_p50_s": 2.0}
        ),
        "conversations.busy_p50_s",
    ),
    "turns of other requests": (
        lambda record: record.update(
            turns=[{"turn": 1, "requests": 1, "input_tokens_mean": 1.0, "ttft_p50_ms": 1.0}]
        ),
        "turns",
    ),
    "classes of more requests than were counted": (
        lambda record: record.update(
            classes=[
                {"name": "a", "requests": 9999, "completed_requests": 1, "output_share_ratio": 1.0}
            ]
        ),
        "classes",
    ),
}


def a_closed_loop() -> Path:
    return next(
        path
        for path in sorted((GALLERY / "results" / "h200-llama8b").glob("records/*.json"))
        if json.loads(path.read_bytes())["load"]["concurrency"]
    )


@pytest.mark.parametrize("how", WITHIN)
def test_a_record_whose_numbers_cannot_all_be_true_says_which_key_is_wrong(how: str) -> None:
    change, key = WITHIN[how]
    assert contradictions(read_measurement(a_closed_loop())) == []
    found = contradictions(changed(a_closed_loop(), change))
    assert any(key in told.split(":")[0] for told in found), found
    assert all(map(str.isprintable, found))


def test_throughput_over_a_window_is_bounded_by_the_requests_that_can_be_in_flight() -> None:
    path = next(
        path
        for path in sorted((GALLERY / "results").glob("*/records/*.json"))
        if '"while full"' in path.read_text()
    )
    assert contradictions(read_measurement(path)) == []
    (found,) = contradictions(changed(path, times(10, *THROUGHPUTS)))
    assert found.startswith("metrics.request_throughput_rps: ")
    assert "in flight" in found

    def of_agents(record: dict[str, Any]) -> None:
        times(10, *THROUGHPUTS)(record)
        record["conversations"] = {"conversations": 9, "turns_at_once_max": 20}

    assert contradictions(changed(path, of_agents)) == []


def session(change: Change) -> SessionRecord:
    content = json.loads(min((RECORDED / "sessions").glob("*.json")).read_bytes())
    content["launches"] = [content["launches"][0], {**content["launches"][0], "launch": 2}]
    change(content)
    return SessionRecord.model_validate_json(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"stopped_at": "2020-01-01T00:00:00+00:00"}, "launches.1.stopped_at"),
        ({"started_at": "2020-01-01T00:00:00+00:00"}, "launches.1.started_at"),
        ({"launch": 1}, "launches.1.launch"),
    ],
)
def test_launches_of_a_session_follow_each_other(change: dict[str, Any], key: str) -> None:
    assert contradictions(session(lambda content: None)) == []
    (found,) = contradictions(session(lambda content: content["launches"][1].update(change)))
    assert found.startswith(f"{key}: ")


def test_a_capacity_lies_within_its_interval() -> None:
    record = read_search(max((RECORDED / "searches").glob("*.json")))
    tier = min(record.tiers)
    content = record.model_dump(mode="json")
    content["tiers"][tier] |= {"lower": 70.0, "capacity": 700.0, "upper": 80.0}
    (found,) = contradictions(type(record).model_validate_json(json.dumps(content)))
    assert found.startswith(f"tiers.{tier}: ")


def test_a_document_has_an_answer_for_each_of_its_tokens() -> None:
    document = Document(prompt_digest="a", tokens=3, logprob=-1.0, top1=[1, 2], greedy=[])
    names = {"quality": "q", "study": "s", "variant": "v", "session": "s-r1", "corpus": "c"}
    told = {"status": "ok", "launch": 1, "server_command": [], "documents": [document]}
    record = QualityRecord.model_validate({**names, **told})
    assert contradictions(record) == ["documents.0.tokens: 3, but 2 are told in top1"]


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    """The table of a closed loop, in which a request failed."""
    clients = [reply(i, 1.0 * (i // 2) + 0.1 * (i % 2), e2e_s=0.9) for i in range(19)]
    declared = load(concurrency=2, requests=20)
    replies = [*clients, failed(19, 9.9)]
    made = request_table(replies, make_schedule(rows(20), declared), declared)
    made.to_parquet(tmp_path / "requests.parquet", index=False)
    return tmp_path / "requests.parquet"


def measured(requests: Path, **changes: Any) -> MeasurementRecord:
    """The record of a request table, as a session makes it."""
    table, declared = pd.read_parquet(requests), load(concurrency=2, requests=20)
    record = read_measurement(a_closed_loop()).model_copy(
        update={
            "load": declared,
            "started_at": "2026-11-24T02:11:52+00:00",
            "ended_at": "2026-11-24T02:12:10+00:00",
            "definitions": DEFINITIONS,
            "metrics": aggregate(table, {}, declared),
            "quantiles": quantiles(table),
            "attained": attained(table, {"e2e": 1000.0}),
            "turns": by_turn(table),
            "classes": by_class(table, declared),
            **changes,
        }
    )
    return MeasurementRecord.model_validate_json(record.model_dump_json())


def test_a_record_agrees_with_the_requests_that_it_was_made_of(requests: Path) -> None:
    assert contradictions(measured(requests), requests) == []
    assert contradictions(measured(requests), requests.with_name("none.parquet")) == []


def test_a_record_is_held_against_its_requests(requests: Path) -> None:
    content = json.loads(measured(requests).model_dump_json())
    # All of it three times as fast, without a contradiction within.
    for name in THROUGHPUTS:
        content["metrics"][name] *= 3
    for name, value in content["metrics"].items():
        if name == "duration_s" or (name.endswith("_ms") and value is not None):
            content["metrics"][name] = value / 3
    for name, values in content["quantiles"].items():
        content["quantiles"][name] = [value / 3 for value in values]
    record = MeasurementRecord.model_validate_json(json.dumps(content))
    assert contradictions(record) == []
    keys = {told.split(":")[0] for told in contradictions(record, requests)}
    assert {"metrics.output_throughput_tok_s", "metrics.ttft_p99_ms", "quantiles.e2e_ms"} <= keys


def test_an_older_record_is_held_against_its_requests_by_its_own_definitions(
    requests: Path,
) -> None:
    """Before throughput had a window, it was that of the whole load."""
    new = measured(requests)
    assert new.metrics
    metrics = new.metrics
    whole = metrics.output_tokens / metrics.duration_s
    old = {
        "throughput_window": None,
        "throughput_is_uncertain": None,
        "output_throughput_tok_s": whole,
        "request_throughput_rps": metrics.completed_requests / metrics.duration_s,
        "total_throughput_tok_s": whole + metrics.input_tokens / metrics.duration_s,
    }
    older = measured(requests, definitions=None, metrics=metrics.model_copy(update=old))
    assert metrics.throughput_window == "while full"
    assert contradictions(older, requests) == []
    more = measured(
        requests, definitions=None, metrics=metrics.model_copy(update={**old, "input_tokens": 7})
    )
    assert "metrics.input_tokens" in {told.split(":")[0] for told in contradictions(more, requests)}


TABLES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "another table": lambda table: pd.DataFrame({"a": [1]}),
    "a column less": lambda table: table.drop(columns="itl_ms"),
    "texts for numbers": lambda table: table.assign(ttft_ms="soon"),
    "gaps that are texts": lambda table: table.assign(itl_ms=pd.Series([["a"]] * len(table))),
    "gaps that are no lists": lambda table: table.assign(itl_ms=1.0),
    "an answer without a time": lambda table: table.assign(e2e_ms=float("nan")),
    "no start": lambda table: table.assign(start_s=float("nan")),
    "infinity": lambda table: table.assign(tpot_ms=float("inf")),
    "below 0": lambda table: table.assign(output_tokens=-1),
    "more tokens than there are": lambda table: table.assign(output_tokens=2**62),
}


@pytest.mark.parametrize("how", TABLES)
def test_what_is_no_request_table_is_refused_in_a_line(requests: Path, how: str) -> None:
    record = measured(requests)
    TABLES[how](pd.read_parquet(requests)).to_parquet(requests, index=False)
    with pytest.raises(DamagedError) as refused:
        contradictions(record, requests)
    assert str(refused.value).isprintable()


def test_a_request_table_that_was_cut_contradicts_its_record(requests: Path) -> None:
    record = measured(requests)
    pd.read_parquet(requests).iloc[:5].to_parquet(requests, index=False)
    assert "metrics.requests" in {told.split(":")[0] for told in contradictions(record, requests)}
