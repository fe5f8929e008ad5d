"""GuideLLM's words, data and report, without GuideLLM."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from servetune.load.generator import Destination
from servetune.load.others.guidellm import DATA, DRIVER, REPORT, write_data
from servetune.load.schedule import SCHEDULE, make_schedule, write_schedule
from tests.loads import load

TARGET = Destination("http://it", "it", Path("model"), Path("raw/schedule.jsonl"), Path("raw"))
TALK: Any = {"turns": [{"prompt": f"say {turn}", "output_tokens": 4 + turn} for turn in range(3)]}


def words(**values: Any) -> dict[str, dict[str, Any]]:
    """Return what each option says, read as GuideLLM reads it."""
    options = DRIVER.arguments(load(**values), TARGET)
    options.remove("--disable-console")
    said = {}
    for option, text in zip(options[::2], options[1::2], strict=True):
        fields = dict(field.split("=", 1) for field in text.split(","))
        said[option] = {name: yaml.safe_load(value) for name, value in fields.items()}
    return said


def test_a_closed_loop_is_so_many_streams() -> None:
    assert words(concurrency=3, requests=9)["--profile"] == {"kind": "concurrent", "streams": 3}


@pytest.mark.parametrize(
    "load",
    [
        {"rate_rps": 2, "requests": 9},
        {"rate_rps": math.inf, "requests": 9},
        {"arrivals": "trace", "time_scale": 0.5, "requests": 9},
    ],
)
def test_an_open_loop_is_a_replay_of_the_schedule(load: dict[str, Any]) -> None:
    said = words(**load)
    assert said["--profile"] == {"kind": "replay", "schedule_turn": "timestamp"}
    assert said["--data"]["path"] == "raw/guidellm-data.jsonl"


def test_a_load_ends_after_its_requests_or_its_duration() -> None:
    duration = words(concurrency=1, duration_s=30)["--constraint"]
    assert duration == {"kind": "max_duration", "seconds": 30}
    requests = words(concurrency=1, requests=3, settle_requests=2)["--constraint"]
    assert requests == {"kind": "max_requests", "count": 5}


def test_sampling_goes_into_the_body_as_numbers_and_what_is_not_given_does_not() -> None:
    sampling = {"temperature": 0.5, "top_k": 4, "min_p": 0.00001}
    said = words(concurrency=1, requests=1, sampling=sampling, ignore_eos=False)["--backend"]
    body = {name: value for name, value in said.items() if name.startswith("extras.body.")}
    assert body == {
        "extras.body.temperature": 0.5,
        "extras.body.top_k": 4,
        "extras.body.min_p": 0.00001,
        "extras.body.ignore_eos": False,
    }
    assert "extras.body.ignore_eos" not in words(concurrency=1, requests=1)["--backend"]


def test_the_endpoint_is_the_request_format() -> None:
    for endpoint, path in [("chat", "/v1/chat/completions"), ("completions", "/v1/completions")]:
        said = words(concurrency=1, requests=1, endpoint=endpoint)["--backend"]
        assert said["request_format"] == path


def test_data_is_one_conversation_a_line_whose_turns_follow_each_other(tmp_path: Path) -> None:
    schedule = make_schedule([TALK], load(rate_rps=1, requests=5, arrivals="constant"))
    write_data(schedule, tmp_path / SCHEDULE)
    first, second = [
        json.loads(json.loads(line)["conversation_turns"])["turns"]
        for line in (tmp_path / DATA).read_text().splitlines()
    ]
    assert [turn["node_id"] for turn in first] == ["0", "1", "2"]
    assert [turn["node_id"] for turn in second] == ["3", "4"]
    assert [turn.get("parents") for turn in first] == [
        None,
        [{"parent_node_id": "0"}],
        [{"parent_node_id": "1"}],
    ]
    assert first[0]["settings"] == {"relative_timestamp": schedule[0].arrival_s}
    assert "settings" not in first[1]
    assert first[1]["columns"] == {
        "text_column": ["say 1"],
        "output_tokens_count_column": [5],
    }


def told(node: int, status: str, **more: Any) -> dict[str, Any]:
    """A request that got four tokens from 0.25 to 1 s, and its usage 0.1 s later."""
    has_ended = status == "completed"
    timings = {
        "request_start": 100.0 + node,
        "targeted_start": 99.5 + node,
        "first_token_iteration": 100.25 + node if has_ended else None,
        "last_token_iteration": 101.0 + node if has_ended else None,
        "request_end": 101.1 + node,
    }
    info = {
        "node_id": str(node),
        "status": status,
        "error": None,
        "settings": {"relative_timestamp": 1.0 if node == 0 else None},
        "timings": timings,
    }
    return {
        "info": info | more,
        "input_metrics": {"text_tokens": 7, "cached_tokens": 3},
        "output_metrics": {"text_tokens": 4 if has_ended else None},
    }


def write_report(raw: Path, processing: int = 0, **requests: Any) -> None:
    write_schedule(make_schedule([TALK], load(concurrency=1, requests=6)), raw / SCHEDULE)
    empty: dict[str, Any] = {"successful": [], "errored": [], "incomplete": None}
    state = {"processing_requests": processing}
    benchmark = {"requests": empty | requests, "scheduler_state": state}
    (raw / REPORT).write_text(json.dumps({"benchmarks": [benchmark]}))


def test_a_report_becomes_replies_with_guidellms_own_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 950.0)
    cut = told(1, "cancelled", error="Request was cancelled")
    write_report(tmp_path, successful=[told(0, "completed")], incomplete=[cut])
    first, second = DRIVER.read(tmp_path)
    assert (first.scheduled, first.error, first.is_cut) == (0, None, False)
    # By the clock of the telemetry, 50 s behind that of the day.
    assert (first.sent_s, first.due_s) == (50.0, 49.5)
    assert first.ttft_s == 0.25 and first.e2e_s == pytest.approx(1.1)
    assert first.tpot_s == pytest.approx(0.75 / 3) and first.itl_s == []
    assert (first.input_tokens, first.output_tokens, first.cached_tokens) == (7, 4, 3)
    assert second.is_cut and second.error == "cut by the end of the load" and second.due_s is None


def test_the_turns_after_one_that_failed_are_errors_too(tmp_path: Path) -> None:
    failed = told(4, "errored", error="500")
    write_report(tmp_path, successful=[told(3, "completed")], errored=[failed])
    assert [(reply.scheduled, reply.error) for reply in DRIVER.read(tmp_path)] == [
        (3, None),
        (4, "500"),
        (5, "not sent: an earlier turn failed"),
    ]


def test_an_answer_that_guidellm_lost_makes_the_load_one_that_failed(tmp_path: Path) -> None:
    write_report(tmp_path, processing=1, successful=[told(0, "completed")])
    with pytest.raises(ValueError, match="ended before the answers to 1 of its requests"):
        DRIVER.read(tmp_path)
