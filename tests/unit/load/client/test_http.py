"""servetune's own client: what it sends, and what it makes of the streams that come back."""

import asyncio
import itertools
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from servetune.capacity.rule import ProbeRule
from servetune.engines.source import environment_with_source
from servetune.load.client import shares
from servetune.load.client.driver import DRIVER, HEADERS, RESULT, read
from servetune.load.client.http import send_job
from servetune.load.client.refusals import was_given_up
from servetune.load.generator import CUT, NOT_SENT, Destination, Job, RefusedError, Reply
from servetune.load.images import image_parts
from servetune.load.schedule import make_schedule, write_schedule
from servetune.load.stream import CUT_SHORT
from servetune.sessions.agreement import from_answers
from servetune.study.capacity import Slo
from servetune.study.classes import Images, RequestClass
from tests.certificates import write_certificate
from tests.loads import load, rows
from tests.standin.serving import KEY, Server, serving, write_model

Message = dict[str, Any]
END: list[Message] = [
    {"choices": [{"index": 0, "text": " c", "finish_reason": "length"}]},
    {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}, "model": "it"},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("served")
    with serving(write_model(folder), folder, "--enable-prompt-tokens-details") as running:
        yield running


def send(
    url: str,
    tmp_path: Path,
    declared: Any,
    rows: list[Any],
    probe: ProbeRule | None = None,
    counts: dict[str, Any] | None = None,
    ca: str = "",
) -> list[Reply]:
    """Send the requests of a load as a job of the client does; returns what it would record."""
    path = "/v1/chat/completions" if declared.is_chat else "/v1/completions"
    schedule = tmp_path / "schedule.jsonl"
    write_schedule(make_schedule(rows, declared), schedule)
    words = ["--url", url + path, "--model", "it", "--result", str(tmp_path / RESULT)]
    words += ["--ca", ca] if ca else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DRIVER.key_variable, KEY)
        send_job(Job(argv=words, schedule=schedule, load=declared, probe=probe, **(counts or {})))
    return read(tmp_path)


def at(server: Server) -> str:
    return str(server.http.base_url).rstrip("/")


def own(**changes: Any) -> Any:
    return load(generator="servetune", **changes)


def test_a_closed_loop_is_answered_with_the_tokens_and_times_of_each_request(
    server: Server, tmp_path: Path
) -> None:
    replies = send(at(server), tmp_path, own(concurrency=3, requests=9), rows(4))
    assert sorted(reply.scheduled for reply in replies) == list(range(9))
    for reply in replies:
        assert (reply.error, reply.output_tokens, reply.has_usage, reply.model) == (
            *(None, 3, True),
            "it",
        )
        assert reply.ttft_s and reply.e2e_s and 0 < reply.ttft_s <= reply.e2e_s
        assert reply.ttft_s + sum(reply.itl_s) == pytest.approx(reply.e2e_s)
        assert len(reply.itl_s) == 2
        assert reply.text and len(reply.text.split()) == 3


def test_an_open_loop_says_when_each_request_was_due(server: Server, tmp_path: Path) -> None:
    replies = send(at(server), tmp_path, own(rate_rps=200, requests=20), rows(4))
    assert len(replies) == 20
    assert all(reply.due_s is not None and reply.sent_s >= reply.due_s for reply in replies)


def test_what_a_core_does_not_carry_is_sent_by_several_processes_and_counted_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "STREAMS", 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    replies = send(at(server), tmp_path, own(concurrency=6, requests=24), rows(24))
    assert sorted(reply.scheduled for reply in replies) == list(range(24))
    assert all(reply.error is None and reply.output_tokens == 3 for reply in replies)
    sent_s = [reply.sent_s for reply in replies]
    assert sent_s == sorted(sent_s)


def test_a_later_turn_is_sent_with_all_that_was_said(server: Server, tmp_path: Path) -> None:
    declared = own(concurrency=2, requests=6, endpoint="chat")
    replies = send(at(server), tmp_path, declared, rows(2, turns=3))
    assert [reply.error for reply in replies] == [None] * 6
    inputs = {reply.scheduled: reply.input_tokens for reply in replies}
    # A turn more is what the model answered, and what the user then says.
    assert inputs[0] + 6 <= inputs[1] and inputs[1] + 6 <= inputs[2]


def test_a_prompt_of_token_ids_is_sent_as_it_is(server: Server, tmp_path: Path) -> None:
    ids: list[Any] = [{"prompt": [5, 6, 7, 8], "output_tokens": 2}]
    (reply,) = send(at(server), tmp_path, own(requests=1), ids)
    assert (reply.input_tokens, reply.output_tokens) == (4, 2)


def test_a_refused_request_fails_in_the_words_of_the_server(server: Server, tmp_path: Path) -> None:
    long: list[Any] = [{"prompt": "a prompt", "output_tokens": 50_000}]
    (reply,) = send(at(server), tmp_path, own(requests=1), long)
    assert reply.error and reply.error.startswith("HTTP 400: ")
    assert reply.ttft_s is None


def told(
    tmp_path: Path,
    declared: Any,
    answer: Callable[[Message], Any],
    data: Any,
    ledger: Path | None = None,
    retries: int = 5,
    sessions: list[str] | None = None,
    headers: list[str] | None = None,
    tls: bool = False,
    refusals: int | None = None,
) -> list[Reply]:
    """Send a load to a server that answers as it is told to, in a loop of its own."""

    async def both() -> list[Reply]:
        async def complete(request: web.Request) -> web.StreamResponse:
            if sessions is not None:
                sessions.append(request.headers["x-session-id"])
            if headers is not None:
                headers.extend(request.headers[name] for name in ("X-Api-Key", "Authorization"))
            body = answer(await request.json())
            if isinstance(body, web.Response):
                return body
            stream = web.StreamResponse()
            await stream.prepare(request)
            await stream.write(body)
            return stream

        app = web.Application()
        app.router.add_post("/v1/{endpoint:.*}", complete)
        runner = web.AppRunner(app)
        await runner.setup()
        context, ca = None, ""
        if tls:
            certificate, key = write_certificate(tmp_path)
            context, ca = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), str(certificate)
            context.load_cert_chain(certificate, key)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        url = f"http{'s' * tls}://127.0.0.1:{runner.addresses[0][1]}"
        counts = {"ledger": ledger, "retries": retries, "refusals": refusals}
        try:
            return await asyncio.to_thread(send, url, tmp_path, declared, data, None, counts, ca)
        finally:
            await runner.cleanup()

    return asyncio.run(both())


def stream_of(messages: list[Message], end: str = "data: [DONE]\n\n") -> bytes:
    lines = (f"data: {json.dumps(message)}\n\n" for message in messages)
    return ("".join(lines) + end).encode()


FIRST: Message = {"choices": [{"index": 0, "text": " a", "finish_reason": None}]}
CHAT = stream_of([{"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}]}, END[1]])
ERROR: Message = {"error": {"message": "EngineCore died", "code": 500}}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (stream_of([FIRST, FIRST, *END]), None),
        (stream_of([FIRST, FIRST, *END], end=""), CUT_SHORT),
        (stream_of([FIRST, ERROR]), "in the stream: EngineCore died"),
        (stream_of([FIRST, END[1]]), "the stream ended without a finish reason"),
        (stream_of([FIRST, END[0]]), "the stream ended without the usage"),
        (stream_of([FIRST], end="data: {not json\n\n"), "JSONDecodeError"),
        (b": a comment\r\n\r\n" + stream_of([FIRST, FIRST, *END]).replace(b"\n", b"\r\n"), None),
    ],
)
def test_an_answer_is_whole_or_says_what_it_lacks(
    tmp_path: Path, body: bytes, error: str | None
) -> None:
    (reply,) = told(tmp_path, own(requests=1), lambda asked: body, rows(1))
    if error is None:
        assert (reply.error, reply.output_tokens, reply.text) == (None, 3, " a a c")
    else:
        assert reply.error and reply.error.startswith(error)


def test_the_name_of_the_role_is_no_token_and_reasoning_is(tmp_path: Path) -> None:
    deltas: list[Message] = [
        {"role": "assistant", "content": ""},
        {"reasoning": "so"},
        {"reasoning_content": " be it"},
        {"content": "yes"},
    ]
    chunks: list[Message] = [{"choices": [{"delta": each}]} for each in deltas]
    chunks[-1]["choices"][0]["finish_reason"] = "length"
    (reply,) = told(
        tmp_path,
        own(requests=1, endpoint="chat"),
        lambda asked: stream_of([*chunks, END[1]]),
        rows(1),
    )
    assert (len(reply.itl_s), reply.text, reply.textless_tokens) == (2, "so be ityes", 17)


@pytest.mark.parametrize(
    ("details", "reasoning_tokens"),
    [({}, 4), ({"completion_tokens_details": {"reasoning_tokens": 3}}, 3)],
)
def test_the_answer_begins_after_the_reasoning_and_holds_the_tool_calls(
    tmp_path: Path, details: Message, reasoning_tokens: int
) -> None:
    call = {"id": "a", "function": {"name": "look"}}
    deltas: list[Message] = [
        {"reasoning": "so"},
        {"reasoning": " be it"},
        {"tool_calls": [{"index": 0, **call}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"index": 1, **call}]},
    ]
    chunks: list[Message] = [{"choices": [{"delta": each}]} for each in deltas]
    chunks[-1]["choices"][0]["finish_reason"] = "tool_calls"
    usage = {"prompt_tokens": 7, "completion_tokens": 10, **details}
    body = stream_of([*chunks, {"choices": [], "usage": usage}])
    (reply,) = told(tmp_path, own(requests=1, endpoint="chat"), lambda asked: body, rows(1))
    assert (reply.error, reply.tool_calls) == (None, 2)
    assert reply.reasoning_tokens == reasoning_tokens
    assert reply.ttft_s and reply.ttfat_s
    # Two chunks of reasoning come before it.
    assert reply.ttfat_s == pytest.approx(reply.ttft_s + sum(reply.itl_s[:2]))


def test_an_answer_without_reasoning_has_no_first_token_after_it(
    server: Server, tmp_path: Path
) -> None:
    (reply,) = send(at(server), tmp_path, own(requests=1, endpoint="chat"), rows(1))
    assert (reply.ttfat_s, reply.reasoning_tokens, reply.tool_calls) == (None, None, 0)


def test_each_class_sends_its_own_fields_and_keeps_what_its_grammar_gave(tmp_path: Path) -> None:
    asked: list[Message] = []

    def answer(body: Message) -> bytes:
        asked.append(body)
        return stream_of([FIRST, FIRST, *END])

    json_object = {"response_format": {"type": "json_object"}}
    classes = {"tuned": {"model": "style"}, "json": {"extra_body": json_object}}
    data: list[Any] = [{**row, "class": name} for row, name in zip(rows(2), classes, strict=True)]
    replies = told(tmp_path, own(requests=2, classes=classes), answer, data)
    tuned, as_json = asked
    assert (tuned["model"], tuned["ignore_eos"]) == ("style", True)
    assert as_json["model"] == "it" and "ignore_eos" not in as_json
    assert as_json["response_format"] == json_object["response_format"]
    assert all(body["stream_options"] == {"include_usage": True} for body in asked)
    assert [reply.answer for reply in replies] == [None, " a a c"]


def test_what_is_asked_for_is_what_the_load_declares(tmp_path: Path) -> None:
    asked: list[Message] = []

    def answer(body: Message) -> bytes:
        asked.append(body)
        return stream_of([FIRST, *END])

    declared = own(requests=1, sampling={"temperature": 0.5, "top_p": 0.9}, ignore_eos=False)
    told(tmp_path, declared, answer, rows(1))
    (body,) = asked
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.5, 0.9, 3)
    assert body["stream_options"] == {"include_usage": True} and "ignore_eos" not in body


def test_all_turns_of_a_conversation_name_it_and_no_other_does(tmp_path: Path) -> None:
    named: list[list[str]] = []
    for _ in range(2):
        sessions: list[str] = []
        declared = own(requests=6, endpoint="chat")
        told(tmp_path, declared, lambda asked: CHAT, rows(2, turns=3), sessions=sessions)
        named.append(sessions)
    first, second = (list(dict.fromkeys(sessions)) for sessions in named)
    assert named[0] == [first[0]] * 3 + [first[1]] * 3
    assert not {*first} & {*second}


def chats(tmp_path: Path, turns: list[Any], **declared: Any) -> dict[str, list[Message]]:
    """Return the messages of each turn, by what its user says last; each answer is `a`."""
    asked: dict[str, list[Message]] = {}

    def answer(body: Message) -> bytes:
        asked[body["messages"][-1]["content"]] = body["messages"]
        return CHAT

    data: list[Any] = [{"turns": [{"output_tokens": 3, **turn} for turn in turns]}]
    replies = told(tmp_path, own(requests=len(turns), endpoint="chat", **declared), answer, data)
    assert [reply.error for reply in replies] == [None] * len(turns)
    return asked


def said(*contents: str) -> list[Message]:
    roles = itertools.cycle(["user", "assistant"])
    return [{"role": role, "content": text} for role, text in zip(roles, contents, strict=False)]


def test_turns_at_once_repeat_what_was_said_before_them_and_not_each_other(tmp_path: Path) -> None:
    found = chats(
        tmp_path,
        [
            {"prompt": "plan"},
            {"prompt": "left", "after": [0]},
            {"prompt": "right", "after": [0]},
            {"prompt": "alone", "after": []},
            {"prompt": "sum", "after": [2, 1]},
            {"messages": said("a whole", "other", "chat"), "after": [4]},
            {"prompt": "more"},
        ],
    )
    plan = ("plan", "a")
    assert found == {
        "plan": said("plan"),
        "left": said(*plan, "left"),
        "right": said(*plan, "right"),
        "alone": said("alone"),
        "sum": said(*plan, "right", "a", "sum"),
        "chat": said("a whole", "other", "chat"),
        "more": said("a whole", "other", "chat", "a", "more"),
    }


def test_a_recorded_history_repeats_what_was_answered_then(tmp_path: Path) -> None:
    turns = [{"prompt": "one", "answer": "then"}, {"prompt": "two"}]
    assert chats(tmp_path, turns, history="recorded")["two"] == said("one", "then", "two")
    assert chats(tmp_path, turns)["two"] == said("one", "a", "two")


def test_a_delayed_first_turn_is_due_after_its_delay(tmp_path: Path) -> None:
    turn: dict[str, Any] = {"prompt": "a", "output_tokens": 3}
    declared = own(rate_rps=500, requests=2, arrivals="constant", turn_delay_s="trace")
    data: list[Any] = [turn, {**turn, "delay_s": 0.25}]
    first, second = told(tmp_path, declared, lambda asked: stream_of([FIRST, *END]), data)
    assert first.due_s and second.due_s
    assert second.due_s - first.due_s == pytest.approx(0.252)
    assert second.sent_s >= second.due_s


@pytest.mark.parametrize("after", ["0.01", None])
def test_a_request_that_is_put_off_is_sent_again_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str | None
) -> None:
    monkeypatch.setattr("servetune.load.client.http.PUT_OFF_S", 0.01)
    asked = itertools.count()

    def answer(body: Message) -> bytes | web.Response:
        if next(asked) < 2:
            headers = {"Retry-After": after} if after else {}
            return web.Response(status=429, headers=headers, text="slow down")
        return stream_of([FIRST, FIRST, *END])

    declared = own(rate_rps=100, requests=1)
    (reply,) = told(tmp_path, declared, answer, rows(1))
    assert (reply.error, reply.output_tokens, reply.rate_limited) == (None, 3, 2)
    card = from_answers([reply], make_schedule(rows(1), declared), declared, "it", None)
    assert (card["rate_limited_answers"], card["rate_was_limited"]) == (2, True)
    closed = own(requests=1)
    card = from_answers([reply], make_schedule(rows(1), closed), closed, "it", None)
    assert (card["rate_limited_answers"], card["rate_was_limited"]) == (2, False)


def test_further_headers_are_sent_over_tls_that_a_file_of_certificates_vouches_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HEADERS, json.dumps({"X-Api-Key": "a-secret"}))
    sent: list[str] = []
    declared = own(concurrency=1, requests=1)
    answer = stream_of([FIRST, FIRST, *END])
    (reply,) = told(tmp_path, declared, lambda _: answer, rows(1), headers=sent, tls=True)
    assert reply.error is None and reply.output_tokens == 3
    assert sent == ["a-secret", f"Bearer {KEY}"]


def counted(tmp_path: Path) -> list[int]:
    """Return what was counted of an endpoint: requests, input tokens, output tokens."""
    lines = (json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines())
    return [sum(column) for column in zip(*lines, strict=True)]


def test_each_request_to_an_endpoint_is_counted_before_it_is_sent_and_settled_by_its_usage(
    tmp_path: Path,
) -> None:
    before: list[int] = []

    def answer(body: Message) -> bytes:
        before.append(len((tmp_path / "ledger.jsonl").read_text().splitlines()))
        return stream_of([FIRST, FIRST, *END])

    told(tmp_path, own(concurrency=1, requests=3), answer, rows(1), tmp_path / "ledger.jsonl")
    assert before == [1, 3, 5]
    assert counted(tmp_path) == [3, 21, 9]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_burst_of_refusals_ends_the_load_of_an_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("servetune.load.client.http.PUT_OFF_S", 0.01)
    asked = itertools.count()

    def answer(body: Message) -> bytes | web.Response:
        if next(asked) < 10:
            return stream_of([FIRST, FIRST, *END])
        return web.Response(status=status, text="no more")

    declared, ledger = own(concurrency=2, requests=500), tmp_path / "ledger.jsonl"
    with pytest.raises(RefusedError, match=rf"refused 5 of the last 1\d requests.*HTTP {status}"):
        told(tmp_path, declared, answer, rows(4), ledger)
    assert next(asked) < 20
    assert counted(tmp_path)[0] < 20


def test_a_request_to_an_endpoint_is_sent_again_only_as_often_as_is_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servetune.load.client.http.PUT_OFF_S", 0.01)
    asked = itertools.count()

    def answer(body: Message) -> web.Response:
        next(asked)
        return web.Response(status=429, text="slow down")

    declared, ledger = own(concurrency=1, requests=1), tmp_path / "ledger.jsonl"
    (reply,) = told(tmp_path, declared, answer, rows(1), ledger, retries=2)
    assert (reply.error, next(asked)) == ("HTTP 429 (Too Many Requests)", 3)
    assert counted(tmp_path) == [3, 0, 0]


def test_after_a_failed_turn_the_rest_of_its_conversation_is_not_sent(tmp_path: Path) -> None:
    declared = own(requests=3, endpoint="chat")
    replies = told(tmp_path, declared, lambda asked: b"", rows(1, turns=3))
    assert [reply.error for reply in replies] == [CUT_SHORT, NOT_SENT, NOT_SENT]


def test_a_probe_ends_once_it_is_decided_and_cuts_what_is_in_flight(
    server: Server, tmp_path: Path
) -> None:
    rule = ProbeRule(
        tiers={"impossible": Slo(ttft_p90_ms=0.001)},
        tier="impossible",
        error=0.05,
        is_open_loop=False,
        settled_requests=2000,
    )
    declared = own(concurrency=3, requests=2000)
    replies = send(at(server), tmp_path, declared, rows(4), rule)
    assert len(replies) < 2000
    assert {reply.error for reply in replies} <= {None, CUT}
    assert all(reply.is_cut == (reply.error == CUT) for reply in replies)


@pytest.mark.parametrize(("keeps", "connections"), [(True, 1), (False, 3)])
def test_a_server_that_closes_connections_unsaid_gets_one_for_each_request(
    tmp_path: Path, keeps: bool, connections: int
) -> None:
    declared, peers = own(concurrency=1, requests=3), set[Any]()
    schedule = tmp_path / "schedule.jsonl"
    write_schedule(make_schedule(rows(1), declared), schedule)

    async def complete(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response(body=stream_of([FIRST, FIRST, *END]))

    async def both() -> None:
        app = web.Application()
        app.router.add_post("/v1/completions", complete)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        destination = Destination(url, "it", tmp_path, schedule, tmp_path, keeps_connections=keeps)
        argv = DRIVER.arguments(declared, destination)
        await asyncio.to_thread(send_job, Job(argv=argv, schedule=schedule, load=declared))
        await runner.cleanup()

    asyncio.run(both())
    assert [reply.error for reply in read(tmp_path)] == [None] * 3
    assert len(peers) == connections


def test_the_words_of_a_record_send_the_same_load_by_hand(server: Server, tmp_path: Path) -> None:
    declared = own(requests=4, sampling={"top_p": 0.5})
    write_schedule(make_schedule(rows(4), declared), tmp_path / "schedule.jsonl")
    destination = Destination(
        url=at(server),
        served_name="it",
        tokenizer=tmp_path,
        schedule=tmp_path / "schedule.jsonl",
        raw=tmp_path,
    )
    words = [sys.executable, "-m", DRIVER.client, *DRIVER.arguments(declared, destination)]
    environment = {**environment_with_source(), DRIVER.key_variable: KEY}
    subprocess.run(words, check=True, env=environment)
    assert [reply.error for reply in read(tmp_path)] == [None] * 4


def test_images_are_counted_as_the_server_says_and_differ_in_each_request(
    server: Server, tmp_path: Path
) -> None:
    kinds = {"plain": RequestClass(), "seeing": RequestClass(images=Images(width=40, height=24))}
    some = [{**row, "class": kind} for row, kind in zip(rows(2), kinds, strict=True)]
    declared = own(concurrency=1, requests=4, endpoint="chat", classes=kinds)
    plain, seeing, _, again = sorted(
        send(at(server), tmp_path, declared, some), key=lambda reply: reply.scheduled
    )
    assert {reply.error for reply in (plain, seeing, again)} == {None}
    assert seeing.input_tokens - plain.input_tokens == pytest.approx(64, abs=8)
    one, other = (image_parts(Images(width=40, height=24), 0, index) for index in (1, 3))
    assert one != other and one == image_parts(Images(width=40, height=24), 0, 1)


@pytest.mark.parametrize(
    ("headers", "cache", "similarity"),
    [
        ({"X-Cache": "HIT", "X-Cache-Tier": "semantic", "X-Cache-Similarity": "0.91"}, 1, 0.91),
        ({"X-Cache": "MISS", "X-Cache-Similarity": "0.4321"}, 0, 0.4321),
        ({"X-Cache": "MISS", "X-Cache-Similarity": "-0.07"}, 0, None),
        ({"X-Cache": "Miss from cloudfront"}, None, None),
        ({}, None, None),
    ],
)
def test_a_reply_says_what_a_cache_of_answers_did(
    tmp_path: Path, headers: dict[str, str], cache: int | None, similarity: float | None
) -> None:
    def answer(_: Message) -> web.Response:
        return web.Response(body=stream_of([FIRST, *END]), headers=headers)

    (reply,) = told(tmp_path, own(requests=1), answer, rows(1))
    assert reply.error is None
    assert reply.cache == (None if cache is None else ("miss", "semantic")[cache])
    assert reply.similarity == similarity


@pytest.mark.parametrize(
    ("status", "refusals", "sent", "is_given_up"),
    [(400, 2, 3, True), (400, None, 12, False), (400, 12, 12, False), (500, 2, 12, False)],
)
def test_a_load_that_is_refused_more_often_than_it_may_be_is_given_up(
    tmp_path: Path, status: int, refusals: int | None, sent: int, is_given_up: bool
) -> None:
    def answer(_: Message) -> web.Response:
        return web.json_response({"error": {"message": "too long"}}, status=status)

    declared = own(concurrency=1, requests=12)
    replies = told(tmp_path, declared, answer, rows(4), refusals=refusals)
    assert [reply.error for reply in replies] == [f"HTTP {status}: too long"] * sent
    assert was_given_up(tmp_path) is is_given_up
