"""The GuideLLM load client, with the real GuideLLM, against a stand-in server."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from servetune.engines.environments import build_engine, engine_id, read_engine
from servetune.load.client import LoadClient, LoadError
from servetune.load.generator import Job, Reply, Target
from servetune.load.guidellm.generator import GUIDELLM
from servetune.load.schedule import SCHEDULE, ScheduledRequest, make_schedule, write_schedule
from tests.loads import load
from tests.paths import ROOT
from tests.standin.serving import KEY, Server, serving, write_model

pytestmark = pytest.mark.e2e

PATIENCE_S = 600
"""For what takes a moment, also on a machine that has much else to do."""

Run = Callable[..., tuple[list[ScheduledRequest], list[Reply]]]


def prompts(count: int, output_tokens: int = 8) -> list[Any]:
    words = " ".join(f"word{i}" for i in range(40))
    return [{"prompt": f"{i} {words}", "output_tokens": output_tokens} for i in range(count)]


def talks(count: int, turns: int = 3) -> list[Any]:
    return [{"turns": prompts(turns)} for _ in range(count)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, LoadClient]]:
    folder = tmp_path_factory.mktemp("standin")
    build_engine("guidellm", ROOT)
    python = read_engine(engine_id("guidellm", ROOT)).python
    variables = {GUIDELLM.key_variable: KEY}
    client = LoadClient(python, GUIDELLM.client, variables, folder / "client.log", folder)
    try:
        with serving(write_model(folder), folder, "--enable-prompt-tokens-details") as server:
            client.wait_ready(PATIENCE_S)
            yield server, client
    finally:
        client.stop()


@pytest.fixture
def run(running: tuple[Server, LoadClient], tmp_path: Path) -> Run:
    server, client = running

    def run(
        rows: list[Any], server: Server = server, **values: Any
    ) -> tuple[list[ScheduledRequest], list[Reply]]:
        told = load(**values)
        schedule = make_schedule(rows, told)
        where = Target(
            url=str(server.http.base_url).rstrip("/"),
            served_name="it",
            tokenizer=tmp_path,
            schedule=tmp_path / SCHEDULE,
            raw=tmp_path,
        )
        write_schedule(schedule, where.schedule)
        argv = GUIDELLM.arguments(told, where)
        client.run(Job(argv=argv, schedule=where.schedule, load=told), PATIENCE_S, lambda: None)
        return schedule, sorted(GUIDELLM.read(tmp_path), key=lambda reply: reply.scheduled)

    return run


def most_in_flight(replies: list[Reply]) -> int:
    starts = [(reply.sent_s, 1) for reply in replies]
    ends = [(reply.sent_s + (reply.e2e_s or 0), -1) for reply in replies]
    now = most = 0
    for _, step in sorted(starts + ends):
        now += step
        most = max(most, now)
    return most


def test_an_open_loop_sends_its_schedule_at_its_times(run: Run) -> None:
    schedule, replies = run(prompts(8), rate_rps=2, requests=8, arrivals="constant")
    assert [reply.error for reply in replies] == [None] * 8
    began_s = {
        round((reply.due_s or 0) - (each.arrival_s or 0), 3)
        for each, reply in zip(schedule, replies, strict=True)
    }
    assert max(began_s) - min(began_s) < 0.002
    late_s = [reply.sent_s - (reply.due_s or 0) for reply in replies]
    assert min(late_s) > -0.01
    # Before the next is due. A busy machine may send some later.
    assert statistics.median(late_s) < 0.5


def test_requests_are_timed_by_the_clock_of_the_telemetry(run: Run) -> None:
    before_s = time.monotonic()
    _, replies = run(prompts(4), concurrency=2, requests=4)
    ends_s = [reply.sent_s + (reply.e2e_s or 0) for reply in replies]
    assert before_s < min(reply.sent_s for reply in replies)
    assert max(ends_s) < time.monotonic()


def test_a_closed_loop_has_so_many_requests_in_flight(run: Run) -> None:
    # Answers long enough that on a busy machine too all three are out at one moment.
    _, replies = run(prompts(4, output_tokens=64), concurrency=3, requests=12)
    assert [reply.scheduled for reply in replies] == list(range(12))
    assert most_in_flight(replies) == 3
    assert all(reply.error is None and reply.due_s is None for reply in replies)


def test_a_closed_loop_ramps_up(run: Run) -> None:
    # The second slot opens after 1.6 s; answers are long enough that all four are out at a time.
    rows = prompts(2000, output_tokens=24)
    _, replies = run(rows, concurrency=4, duration_s=8, ramp_up_s=6.4)
    began_s = min(reply.sent_s for reply in replies)
    early = [reply for reply in replies if reply.sent_s - began_s < 0.8]
    assert len(early) > 1 and most_in_flight(early) == 1
    assert most_in_flight(replies) == 4


def test_a_batch_is_due_at_once(run: Run) -> None:
    _, replies = run(prompts(50), rate_rps=float("inf"), requests=50)
    assert len(replies) == 50 and len({reply.due_s for reply in replies}) == 1


def test_the_gaps_between_chunks_make_up_the_time_after_the_first(run: Run) -> None:
    _, replies = run(prompts(4, output_tokens=16), concurrency=1, requests=4)
    for reply in replies:
        assert reply.output_tokens == 16 and len(reply.itl_s) == 15
        assert reply.e2e_s is not None and reply.ttft_s is not None and reply.ttft_s > 0
        assert sum(reply.itl_s) == pytest.approx(reply.e2e_s - reply.ttft_s, abs=1e-6)


def test_conversations_go_on_with_all_that_was_said(run: Run) -> None:
    schedule, replies = run(talks(4), concurrency=2, requests=12, endpoint="chat")
    assert most_in_flight(replies) == 2
    for talk in range(4):
        turns = [reply for reply in replies if schedule[reply.scheduled].conversation == talk]
        assert [reply.error for reply in turns] == [None] * 3
        tokens = [reply.input_tokens for reply in turns]
        # Besides what the user adds, a turn carries the answer to the one before.
        assert tokens[1] >= 2 * tokens[0] + 8 and tokens[2] >= 3 * tokens[0] + 16
        assert (turns[1].cached_tokens or 0) < (turns[2].cached_tokens or 0)
        for earlier, later in itertools.pairwise(turns):
            assert later.sent_s >= earlier.sent_s + (earlier.e2e_s or 0)


def test_only_the_first_turn_of_a_conversation_has_an_arrival(run: Run) -> None:
    _, replies = run(talks(3), rate_rps=10, requests=9, endpoint="chat")
    assert [reply.due_s is not None for reply in replies] == [True, False, False] * 3


def test_a_duration_cuts_what_is_in_flight(run: Run) -> None:
    # Answers of at least six seconds.
    _, replies = run(prompts(100, output_tokens=3000), concurrency=2, duration_s=1)
    assert len(replies) == 2 and all(reply.is_cut for reply in replies)
    assert all(0 < (reply.e2e_s or 0) < 6 for reply in replies)


def test_sampling_that_ends_early_is_not_kept_from_it(run: Run) -> None:
    sampling = {"temperature": 0.5, "top_p": 0.9}
    rows = prompts(4, output_tokens=100)
    _, replies = run(rows, concurrency=2, requests=4, ignore_eos=False, sampling=sampling)
    assert all(reply.error is None and reply.output_tokens < 100 for reply in replies)


def test_a_turn_that_fails_ends_its_conversation(run: Run, tmp_path: Path) -> None:
    fault = ("--standin-fault", "fail-requests", "--standin-fault-after", "2")
    (tmp_path / "failing").mkdir()
    with serving(write_model(tmp_path), tmp_path / "failing", *fault) as server:
        _, replies = run(talks(2), server, concurrency=1, requests=6, endpoint="chat")
    assert len(replies) == 6
    errors = {reply.error for reply in replies}
    assert "HTTP 500: EngineCore encountered an issue." in errors
    assert any("earlier turn" in str(reply.error) for reply in replies)


def test_token_ids_are_an_error_that_the_next_load_does_not_mind(run: Run) -> None:
    with pytest.raises(LoadError, match="guidellm sends text"):
        run([{"prompt": [1, 2, 3], "output_tokens": 4}], concurrency=1, requests=1)
    assert len(run(prompts(2), concurrency=1, requests=2)[1]) == 2
