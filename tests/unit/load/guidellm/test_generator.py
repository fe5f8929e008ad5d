"""GuideLLM's words, data, report and refusals, without GuideLLM."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from servetune.load.generator import Target
from servetune.load.guidellm.generator import DATA, GUIDELLM, REPORT, write_data
from servetune.load.schedule import SCHEDULE, ScheduledRequest, make_schedule, write_schedule
from servetune.load.stream import CUT_SHORT
from tests.loads import load, refusal

TARGET = Target("http://it", "it", Path("model"), Path("raw/schedule.jsonl"), Path("raw"))
TALK: Any = {"turns": [{"prompt": f"say {turn}", "output_tokens": 4 + turn} for turn in range(3)]}


def words(**values: Any) -> dict[str, dict[str, Any]]:
    """Return what each option says, read as GuideLLM reads it."""
    options = GUIDELLM.arguments(load(**values), TARGET)
    options.remove("--disable-console")
    said = {}
    for option, text in zip(options[::2], options[1::2], strict=True):
        fields = dict(field.split("=", 1) for field in text.split(","))
        said[option] = {name: yaml.safe_load(value) for name, value in fields.items()}
    return said


def test_a_closed_loop_is_so_many_streams() -> None:
    assert words(concurrency=3, requests=9)["--profile"] == {"kind": "concurrent", "streams": 3}
    ramped = words(concurrency=3, requests=9, ramp_up_s=2)["--profile"]
    assert ramped["rampup_duration"] == 2


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


def test_a_duration_is_a_constraint() -> None:
    assert words(concurrency=1, duration_s=30)["--constraint"] == {
        "kind": "max_duration",
        "seconds": 30,
    }
    assert "--constraint" not in words(concurrency=1, requests=3)


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
    assert write_data(schedule, tmp_path / SCHEDULE) == 2
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


def test_token_ids_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"guidellm sends text, .* vllm-bench sends both"):
        write_data([ScheduledRequest(0, 0, 0, [1, 2], 4, None)], tmp_path / SCHEDULE)


def told(node: int, status: str, **more: Any) -> dict[str, Any]:
    timings = {"request_start": 100.0 + node, "targeted_start": 99.5 + node}
    info = {
        "node_id": str(node),
        "status": status,
        "error": None,
        "settings": {"relative_timestamp": 1.0 if node == 0 else None},
        "timings": timings,
    }
    return {
        "info": info | more,
        "response_metrics": {
            "text_times": [100.25 + node, 100.5 + node, 101.0 + node],
            "text": "to and fro",
            "note": {"has_usage": True, "model": "it", "is_done": status == "completed"},
        },
        "input_metrics": {"text_tokens": 7, "cached_tokens": 3},
        "output_metrics": {"text_tokens": 4},
    }


def write_report(raw: Path, **requests: Any) -> None:
    empty: dict[str, Any] = {"successful": [], "errored": [], "incomplete": []}
    (raw / REPORT).write_text(json.dumps({"benchmarks": [{"requests": empty | requests}]}))


def test_a_report_becomes_replies(tmp_path: Path) -> None:
    cut = told(1, "cancelled", error="Request was cancelled")
    write_report(tmp_path, successful=[told(0, "completed")], incomplete=[cut])
    first, second = GUIDELLM.read(tmp_path)
    assert (first.scheduled, first.error, first.is_cut) == (0, None, False)
    assert (first.sent_s, first.due_s) == (100.0, 99.5)
    assert (first.ttft_s, first.e2e_s, first.itl_s) == (0.25, 1.0, [0.25, 0.5])
    assert (first.input_tokens, first.output_tokens, first.cached_tokens) == (7, 4, 3)
    assert (first.has_usage, first.model, first.text) == (True, "it", "to and fro")
    assert second.is_cut and second.error == "cut by the end of the load" and second.due_s is None


def test_an_answer_that_the_server_did_not_end_is_an_error(tmp_path: Path) -> None:
    cut_short = told(0, "completed")
    cut_short["response_metrics"]["note"]["is_done"] = False
    write_report(tmp_path, successful=[cut_short])
    assert GUIDELLM.read(tmp_path)[0].error == CUT_SHORT


def test_the_turns_after_one_that_failed_are_errors_too(tmp_path: Path) -> None:
    schedule = make_schedule([TALK], load(concurrency=1, requests=6))
    write_schedule(schedule, tmp_path / SCHEDULE)
    failed = {**told(4, "errored", error="500"), "response_metrics": None}
    write_report(tmp_path, successful=[told(3, "completed")], errored=[failed])
    assert [(reply.scheduled, reply.error) for reply in GUIDELLM.read(tmp_path)] == [
        (3, None),
        (4, "500"),
        (5, "not sent: an earlier turn failed"),
    ]


def test_what_guidellm_cannot_do_is_refused_and_who_can_is_named() -> None:
    assert refusal(GUIDELLM, concurrency=2) is None
    assert refusal(GUIDELLM, rate_rps=2) is None
    ids = refusal(GUIDELLM, is_token_ids=True, concurrency=2)
    assert "text, not token ids; vllm-bench" in str(ids)
    both = refusal(GUIDELLM, concurrency=2, rate_rps=2)
    assert "vllm-bench can" in str(both)
