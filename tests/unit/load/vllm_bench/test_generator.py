"""The vLLM load client: its pacing by itself, and the whole of it against a stand-in server."""

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from servetune.load.client import LoadClient
from servetune.load.generator import Job, Reply, Target
from servetune.load.schedule import make_schedule, write_schedule
from servetune.load.stream import CUT_SHORT
from servetune.load.vllm_bench.generator import VLLM_BENCH
from tests.loads import load, refusal
from tests.standin.serving import KEY, PATIENCE_S, PYTHON, Server, serving, write_model
from tests.unit.load.inside.test_pacing import prompts, talks

Run = Callable[..., list[Reply]]


def waits_s(replies: list[Reply]) -> list[float]:
    """How long after the first request each is due."""
    due_s = [reply.due_s for reply in replies if reply.due_s is not None]
    assert len(due_s) == len(replies)
    return [each - due_s[0] for each in due_s]


def target(folder: Path, url: str = "http://it") -> Target:
    return Target(
        url=url,
        served_name="it",
        tokenizer=folder / "model",
        schedule=folder / "schedule.jsonl",
        raw=folder / "raw",
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, LoadClient]]:
    folder = tmp_path_factory.mktemp("standin")
    client = LoadClient(
        PYTHON, VLLM_BENCH.client, {VLLM_BENCH.key_variable: KEY}, folder / "client.log", folder
    )
    try:
        with serving(write_model(folder), folder, "--enable-prompt-tokens-details") as server:
            client.wait_ready(PATIENCE_S)
            yield server, client
    finally:
        client.stop()


@pytest.fixture
def run(running: tuple[Server, LoadClient], tmp_path: Path) -> Run:
    server, client = running

    def run(rows: list[Any], server: Server = server, **values: Any) -> list[Reply]:
        where = target(tmp_path, str(server.http.base_url).rstrip("/"))
        told = load(**values)
        write_schedule(make_schedule(rows, told), where.schedule)
        argv = VLLM_BENCH.arguments(told, where)
        client.run(Job(argv=argv, schedule=where.schedule, load=told), PATIENCE_S, lambda: None)
        return sorted(VLLM_BENCH.read(where.raw), key=lambda reply: reply.scheduled)

    return run


def end_s(reply: Reply) -> float:
    assert reply.e2e_s is not None
    return reply.sent_s + reply.e2e_s


def most_in_flight(replies: list[Reply]) -> int:
    return max(
        sum(other.sent_s <= reply.sent_s < end_s(other) for other in replies) for reply in replies
    )


def is_none_early(replies: list[Reply]) -> bool:
    """Say whether none was sent before it was due; how late they are is for the machine to say."""
    return all(reply.due_s is not None and reply.sent_s >= reply.due_s for reply in replies)


def test_a_load_point_reads_as_vllms_own_command() -> None:
    told = load(
        rate_rps=4,
        requests=9,
        arrivals="gamma",
        burstiness=0.5,
        sampling={"temperature": 0.7, "top_p": 0.9, "top_k": -1},
    )
    words = " ".join(VLLM_BENCH.arguments(told, target(Path("somewhere"))))
    assert "--backend openai --endpoint /v1/completions --base-url http://it" in words
    assert "--temperature=0.7 --top-p=0.9 --top-k=-1 --request-rate 4.0 --burstiness 0.5" in words
    assert "--ignore-eos" in words and "--min-p" not in words and "--max-concurrency" not in words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"concurrency": 8}, ["--max-concurrency", "8"]),
        ({"rate_rps": math.inf}, ["--request-rate", "inf"]),
        ({"rate_rps": 2}, ["--request-rate", "2.0"]),
        (
            {"rate_rps": 2, "arrivals": "constant"},
            ["--request-rate", "2.0", "--burstiness", "inf"],
        ),
        (
            {"rate_rps": 2, "concurrency": 3},
            ["--max-concurrency", "3", "--request-rate", "2.0"],
        ),
    ],
)
def test_the_pace_is_said_where_vllm_has_words_for_it(
    values: dict[str, Any], words: list[str]
) -> None:
    said = VLLM_BENCH.arguments(load(requests=9, **values), target(Path()))
    assert said[-len(words) - 1 :] == ["--temperature=0.0", *words]


def test_conversations_go_to_the_chat_endpoint() -> None:
    told = load(concurrency=1, requests=1, endpoint="chat")
    said = VLLM_BENCH.arguments(told, target(Path()))
    assert said[:4] == ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]


def test_it_refuses_no_load() -> None:
    assert refusal(VLLM_BENCH, is_token_ids=True, concurrency=1, rate_rps=1) is None


def test_a_result_is_read_as_replies(tmp_path: Path) -> None:
    result = {
        "backend": "openai",
        "errors": ["", "Traceback:\n  somewhere\nTimeoutError: too late\n"],
        "start_times": [12.0, 13.0],
        "input_lens": [7, 0],
        "output_lens": [3, 0],
        "ttfts": [0.5, 0.0],
        "itls": [[0.1, 0.1], []],
        "generated_texts": ["to and fro", ""],
    }
    ended = {"has_usage": True, "cached_tokens": 4, "model": "it", "is_done": True}
    sent: dict[str, Any] = {
        "began_s": 10.0,
        "scheduled": [1, 0],
        "arrival_s": [1.5, None],
        "notes": [ended, {}],
    }
    (tmp_path / "vllm-bench.json").write_text(json.dumps(result))
    (tmp_path / "sent.json").write_text(json.dumps(sent))
    assert VLLM_BENCH.read(tmp_path) == [
        Reply(
            *(1, None, 12.0, 11.5, 7, 3, 4, 0.5, 0.5 + 0.1 + 0.1, [0.1, 0.1]),
            has_usage=True,
            model="it",
            text="to and fro",
        ),
        Reply(0, "TimeoutError: too late", 13.0, has_usage=False, text=""),
    ]
    thought = {"notes": [ended | {"reasoning": "Hm. "}, {}]}
    (tmp_path / "sent.json").write_text(json.dumps({**sent, **thought}))
    assert VLLM_BENCH.read(tmp_path)[0].text == "Hm. to and fro"
    for note, error in (({"error": "no room"}, "no room"), ({"is_done": False}, CUT_SHORT)):
        (tmp_path / "sent.json").write_text(json.dumps({**sent, "notes": [ended | note, {}]}))
        assert VLLM_BENCH.read(tmp_path)[0].error == error
    (tmp_path / "sent.json").write_text(json.dumps(sent))
    chat = {**result, "backend": "openai-chat", "itls": [[0.05, 0.15], []]}
    (tmp_path / "vllm-bench.json").write_text(json.dumps(chat))
    # The first chunk of a chat names the role alone.
    assert VLLM_BENCH.read(tmp_path)[0].ttft_s == pytest.approx(0.55)
    assert VLLM_BENCH.read(tmp_path)[0].itl_s == [0.15]
    sent["scheduled"] = [1]
    (tmp_path / "sent.json").write_text(json.dumps(sent))
    with pytest.raises(ValueError):
        VLLM_BENCH.read(tmp_path)


def test_constant_arrivals_are_sent_when_they_are_due(run: Run) -> None:
    replies = run(prompts(20), rate_rps=20, requests=20, arrivals="constant")
    assert [reply.error for reply in replies] == [None] * 20
    assert waits_s(replies) == pytest.approx([0.05 * i for i in range(20)])
    assert is_none_early(replies)
    assert all(reply.output_tokens == 4 and len(reply.itl_s) == 3 for reply in replies)


def test_requests_are_timed_by_the_clock_of_the_telemetry(run: Run) -> None:
    before_s = time.monotonic()
    replies = run(prompts(4), concurrency=2, requests=4)
    assert before_s < min(reply.sent_s for reply in replies)
    assert max(end_s(reply) for reply in replies) < time.monotonic()


def test_a_batch_is_sent_all_at_once(run: Run) -> None:
    replies = run(prompts(50), rate_rps=math.inf, requests=50)
    assert len({reply.due_s for reply in replies}) == 1
    assert most_in_flight(replies) == 50


def test_a_closed_loop_keeps_its_concurrency_and_never_exceeds_it(run: Run) -> None:
    replies = run(prompts(24, 16), concurrency=3, requests=24)
    assert len(replies) == 24 and most_in_flight(replies) == 3
    assert all(reply.due_s is None for reply in replies)
    assert [reply.scheduled for reply in sorted(replies, key=lambda r: r.sent_s)] == list(range(24))


def test_a_trace_is_sent_at_its_own_times(run: Run) -> None:
    rows = [row | {"arrival_s": at} for row, at in zip(prompts(3), (5.0, 5.0, 7.0), strict=True)]
    replies = run(rows, arrivals="trace", time_scale=0.2, requests=3)
    assert waits_s(replies) == pytest.approx([0, 0, 0.4])
    assert is_none_early(replies)


def test_each_turn_follows_the_answer_to_the_one_before_and_holds_the_history(run: Run) -> None:
    replies = run(talks(4, 3), concurrency=2, requests=12, endpoint="chat")
    assert [reply.error for reply in replies] == [None] * 12
    for talk in range(4):
        first, second, third = replies[3 * talk : 3 * talk + 3]
        assert end_s(first) <= second.sent_s and end_s(second) <= third.sent_s
        assert second.input_tokens > 2 * first.input_tokens
        assert third.input_tokens > second.input_tokens + first.input_tokens
        for before, turn in ((first, second), (second, third)):
            known = before.input_tokens + before.output_tokens
            assert turn.cached_tokens == known // 16 * 16
    assert most_in_flight(replies) <= 2


def test_only_the_first_turn_of_an_open_conversation_is_due(run: Run) -> None:
    replies = run(talks(3, 2), rate_rps=50, requests=6, endpoint="chat", arrivals="constant")
    assert [reply.due_s is None for reply in replies] == [False, True] * 3


def test_a_duration_ends_the_load(run: Run) -> None:
    closed = run(prompts(500, 16), concurrency=2, duration_s=0.6)
    assert 2 <= len(closed) < 500
    assert all(reply.error is None for reply in closed)


def test_a_failed_turn_fails_the_turns_after_it(run: Run, tmp_path: Path) -> None:
    fault = ("--standin-fault", "fail-requests", "--standin-fault-after", "2")
    with serving(write_model(tmp_path), tmp_path, *fault) as server:
        replies = run(talks(2, 4), server=server, concurrency=1, requests=8, endpoint="chat")
    first, refused, *rest = [reply.error for reply in replies][:4]
    assert first is None and refused == "HTTP 500: EngineCore encountered an issue."
    assert rest == ["not sent: an earlier turn failed"] * 2
    assert [reply.error for reply in replies][4:] == [first, refused, *rest]
    assert all(reply.cached_tokens is None for reply in replies)


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_a_request_that_the_server_refuses_fails_in_its_words(run: Run, endpoint: str) -> None:
    (reply,) = run(prompts(1, 5000), concurrency=1, requests=1, endpoint=endpoint)
    assert reply.error is not None
    assert reply.error.startswith("HTTP 400: max_tokens=5000 cannot be greater than max_model_len")


def test_the_sampling_parameters_and_output_lengths_arrive(run: Run) -> None:
    sampling = {"temperature": 0.5, "presence_penalty": -0.5, "top_k": -1}
    replies = run(prompts(2), concurrency=1, requests=2, sampling=sampling, endpoint="chat")
    assert [(reply.error, reply.output_tokens) for reply in replies] == [(None, 4)] * 2


def test_token_ids_are_sent_as_they_are(run: Run) -> None:
    rows = [{"prompt": list(range(40)), "output_tokens": 2}]
    replies = run(rows, concurrency=1, requests=3)
    assert [reply.input_tokens for reply in replies] == [40] * 3
    assert [reply.cached_tokens for reply in replies[1:]] == [32] * 2


def test_what_vllm_writes_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    run(prompts(3), concurrency=1, requests=3)
    result = json.loads((tmp_path / "raw" / "vllm-bench.json").read_text())
    assert result["num_prompts"] == 3 and result["max_concurrency"] == 1
    assert (result["completed"], result["failed"]) == (3, 0)
    assert len(result["generated_texts"]) == 3
