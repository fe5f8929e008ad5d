"""servetune's load client: streams over aiohttp, in the pipeline's own environment.

When a request is sent is decided by `pacing`, which all clients share. A chunk's time is that of
the read that completed it. The result is one reply a request (`servetune.load.client.driver`).
"""

import asyncio
import gc
import itertools
import json
import multiprocessing
import os
import ssl
import sys
import time
import uuid
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp

from servetune.capacity.sequential import Finished
from servetune.load.classes import body_of, pooled_prompt
from servetune.load.client.answer import Answer, Message
from servetune.load.client.driver import DRIVER, FRESH, HEADERS, write
from servetune.load.client.judge import Judge
from servetune.load.client.loop import serve_jobs
from servetune.load.client.pacing import Pacing
from servetune.load.client.refusals import GIVEN_UP, Allowed, Refusals
from servetune.load.client.shares import count_shares, shares
from servetune.load.client.spending import Spender
from servetune.load.generator import CUT, LEFT, NOT_SENT, Job, RefusedError, Reply
from servetune.load.images import image_parts
from servetune.load.schedule import ScheduledRequest, read_schedule
from servetune.records.loads import Load
from servetune.sentences import refusal, sentence
from servetune.study.classes import RequestClass

_UNTIMED = aiohttp.ClientTimeout(total=None, sock_connect=None)
"""The session that runs a load has its own timeouts, of the load and of a stall."""

LONGEST_LINE = 2**24
"""Bytes that are read ahead of a stream: as much as a chunk with log probabilities may take."""

SESSION = "x-session-id"
"""Names the conversation of a request, by which a router may keep it on one server."""

REPLICA = "x-servetune-replica"
"""By which one of several servers names itself, whatever gateway its answer came through."""

PUT_OFF_S, LONGEST_PUT_OFF_S = 1.0, 60.0
"""After a 429 that says no time, and at most, before a request is sent again."""


class Sending:
    """Requests that are sent to one address, and what becomes of them."""

    def __init__(
        self,
        schedule: list[ScheduledRequest],
        load: Load,
        words: dict[str, str],
        judge: Judge | None,
        spender: Spender | None = None,
        refusals: int | None = None,
    ) -> None:
        """Take a schedule, its load, the words of the command, what ends a probe, and what counts.

        What counts is of an endpoint; so many refusals of it end the load, as more than `refusals`
        of any server do.
        """
        self._load, self._url = load, words["--url"]
        self._is_fresh = words.get("--connections") == FRESH
        self._pacing = Pacing(schedule, load)
        names = {request.class_name for request in schedule}
        self._with_grammar = {name for name, kind in load.classes.items() if kind.has_grammar}
        self._bodies = {name: _body_of(load, words["--model"], name) for name in names}
        # Made now: it would take the time of a load.
        self._images = {
            request.index: image_parts(images, load.seed, request.index)
            for request in schedule
            if (images := self._kind(request).images)
        }
        key = os.environ.get(DRIVER.key_variable)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._headers |= json.loads(os.environ.get(HEADERS) or "{}")
        self._ca = words.get("--ca")
        self._spender = spender
        self._refusals = Refusals(self._end) if spender else None
        self.allowed = Allowed(refusals)
        self._run = uuid.uuid4().hex[:8]
        # By request: its chat, with its answer.
        self._said: dict[int, list[Message]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._judge = judge
        self.replies: list[Reply] = []

    async def run(self) -> None:
        """Send each request when it is due, and wait for the answers."""
        kept: dict[str, Any] = (
            {"force_close": True} if self._is_fresh else {"keepalive_timeout": 60}
        )
        if self._ca:
            kept["ssl"] = ssl.create_default_context(cafile=self._ca)
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=None, **kept)
        http = aiohttp.ClientSession(
            connector=connector, timeout=_UNTIMED, headers=self._headers, read_bufsize=LONGEST_LINE
        )
        # A task that ends may make a later turn due, which is given out here as well.
        async with http, asyncio.TaskGroup() as group:
            async for request in self._pacing.requests():
                if request.index in self._pacing.broken:
                    self._note(request, NOT_SENT, time.perf_counter())
                    continue
                task = group.create_task(self._send(http, request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _send(self, http: aiohttp.ClientSession, request: ScheduledRequest) -> None:
        answer, error = Answer(self._load.is_chat), None
        sent_s, body = time.perf_counter(), self._body(request)
        of_session = {SESSION: f"{self._run}-{request.conversation}"}
        try:
            while True:
                status, error, put_off_s = await self._ask(http, request, body, answer, of_session)
                if self._refusals and error != LEFT:
                    self._refusals.note(status, error)
                if put_off_s is None:
                    break
                answer.rate_limited += 1
                await asyncio.sleep(put_off_s)
        except asyncio.CancelledError:
            self._note(request, CUT, sent_s, answer)
            return
        reply = self._note(request, error, sent_s, answer)
        if self._load.is_chat:
            content = answer.text if request.answer is None else request.answer
            said: Message = {"role": "assistant", "content": content}
            self._said[request.index] = [*body["messages"], said]
        self._pacing.answered(request, error is None)
        if self._judge and self._judge.add(_finished(reply)):
            self._end()
        if error is not None and self.allowed.note(status):
            self._end()

    async def _ask(
        self,
        http: aiohttp.ClientSession,
        request: ScheduledRequest,
        body: Message,
        answer: Answer,
        headers: dict[str, str],
    ) -> tuple[int | None, str | None, float | None]:
        """Send a request once.

        Returns the status (None without an answer), why it failed, and after how many seconds it
        may be sent again (None: never).
        """
        status: int | None = None
        counted = self._spender.sending(request) if self._spender else None
        kind = self._kind(request)
        try:
            async with (
                asyncio.timeout(kind.leave_after_s),
                http.post(self._url, json=body, headers=headers) as response,
            ):
                status = response.status
                answer.replica = _replica(response) if status == HTTPStatus.OK else None
                answer.take_headers(response.headers)
                if status == HTTPStatus.OK and self._load.is_pooled:
                    answer.take_whole(await response.read(), time.perf_counter())
                    error, put_off_s = answer.fault, None
                elif status == HTTPStatus.OK:
                    await _read(response, answer, kind.leave_after_tokens)
                    error, put_off_s = LEFT if answer.has_left else answer.fault, None
                else:
                    put_off_s = _put_off_s(response)
                    error = refusal(status, await response.text(errors="replace"))
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            if kind.leave_after_s is not None and isinstance(failure, TimeoutError):
                return status, LEFT, None
            return status, sentence(f"{type(failure).__name__}: {failure}"), None
        if counted and self._spender:
            self._spender.settle(counted, status, answer.usage)
            if put_off_s is not None and not self._spender.take_retry():
                put_off_s = None
        return status, error, put_off_s

    def _kind(self, request: ScheduledRequest) -> RequestClass:
        return self._load.classes.get(request.class_name or "", RequestClass())

    def _end(self) -> None:
        """Send no more, and take no more answers."""
        self._pacing.stop()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    @property
    def burst(self) -> str | None:
        """Say what refused so many requests that the load ended; None where nothing did."""
        return self._refusals.burst if self._refusals else None

    def _body(self, request: ScheduledRequest) -> Message:
        body = self._bodies[request.class_name]
        if self._load.is_pooled:
            return {**body, **pooled_prompt(self._load, request.prompt)}
        if self._load.is_chat:
            before = self._said[request.parents[0]] if request.parents else []
            images = self._images.get(request.index, [])
            content = [{"type": "text", "text": request.prompt}, *images]
            said: Message = {"role": "user", "content": content if images else request.prompt}
            return {
                **body,
                "messages": request.messages or [*before, said],
                "max_completion_tokens": request.output_tokens,
            }
        return {**body, "prompt": request.prompt, "max_tokens": request.output_tokens}

    def _note(
        self,
        request: ScheduledRequest,
        error: str | None,
        sent_s: float,
        answer: Answer | None = None,
    ) -> Reply:
        due_s = None
        if not request.parents and request.arrival_s is not None:
            due_s = self._pacing.began_s + request.arrival_s + request.delay_s
        reply = Reply(
            scheduled=request.index,
            error=error,
            sent_s=sent_s,
            due_s=due_s,
            is_cut=error == CUT,
            answer=answer.text if answer and request.class_name in self._with_grammar else None,
            **(_measured(answer, sent_s) if answer else {}),
        )
        self.replies.append(reply)
        return reply


def _replica(response: aiohttp.ClientResponse) -> int | None:
    told = response.headers.get(REPLICA, "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < 4 else None


def _put_off_s(response: aiohttp.ClientResponse) -> float | None:
    """Return after how many seconds a request may be sent again; None of one that may not be."""
    if response.status != HTTPStatus.TOO_MANY_REQUESTS:
        return None
    after = response.headers.get("Retry-After", "")
    # A date, which the header may hold too, is of a clock that is not this one.
    seconds = float(after) if after.replace(".", "", 1).isdecimal() else PUT_OFF_S
    return min(seconds, LONGEST_PUT_OFF_S)


def _body_of(load: Load, model: str, class_name: str | None) -> Message:
    """Return what all requests of a class have in common."""
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    return {"model": model, **({} if load.is_pooled else streamed), **body_of(load, class_name)}


async def _read(response: aiohttp.ClientResponse, answer: Answer, most: int | None) -> None:
    """Read a stream of server-sent events; the time of an event is that of its read.

    To its end, or until `most` tokens came: the connection is closed then.
    """
    rest = b""
    async for read in response.content.iter_any():
        at_s = time.perf_counter()
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                answer.take(line[5:].strip().decode(), at_s)
        if most is not None and len(answer.chunks_s) >= most and not answer.is_done:
            answer.has_left = True
            response.close()
            return


def _measured(answer: Answer, sent_s: float) -> dict[str, Any]:
    """Return the fields of a reply that an answer tells."""
    chunks_s, usage = answer.chunks_s, answer.usage or {}
    gaps_s = [later - before for before, later in itertools.pairwise(chunks_s)]
    return {
        "input_tokens": usage.get("prompt_tokens") or 0,
        # Of one that was cut, or failed before its usage came.
        "output_tokens": usage.get("completion_tokens") or len(chunks_s),
        "cached_tokens": (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        "ttft_s": chunks_s[0] - sent_s if chunks_s else None,
        "ttfat_s": None if answer.answer_s is None else answer.answer_s - sent_s,
        "e2e_s": _end_s(answer, sent_s),
        "is_whole": answer.whole_s is not None,
        "itl_s": gaps_s,
        "reasoning_tokens": answer.reasoning_tokens,
        "tool_calls": len(answer.tool_calls),
        "has_usage": answer.usage is not None,
        "model": answer.model,
        "text": answer.whole_text,
        "textless_tokens": answer.textless_tokens,
        "rate_limited": answer.rate_limited,
        "replica": answer.replica,
        "cache": answer.cache,
        "similarity": answer.similarity,
    }


def _end_s(answer: Answer, sent_s: float) -> float | None:
    if answer.whole_s is not None:
        return answer.whole_s - sent_s
    return answer.chunks_s[-1] - sent_s if answer.chunks_s else None


def _finished(reply: Reply) -> Finished:
    latencies_ms, at_s = reply.latencies_ms, reply.sent_s
    if latencies_ms is None or reply.e2e_s is None:
        return Finished(reply.scheduled, at_s, time.perf_counter(), has_failed=True)
    return Finished(
        index=reply.scheduled,
        arrival_s=at_s,
        finish_s=at_s + reply.e2e_s,
        ttft_ms=latencies_ms["ttft_ms"],
        tpot_ms=latencies_ms["tpot_ms"],
        e2e_ms=latencies_ms["e2e_ms"],
        itl_ms=tuple(latencies_ms["itl_ms"]),
    )


def _send_all(
    schedule: list[ScheduledRequest],
    load: Load,
    words: dict[str, str],
    judge: Judge | None = None,
    ledger: Path | None = None,
    retries: int = 0,
    refusals: int | None = None,
) -> tuple[list[Reply], str | None, bool]:
    spender = Spender(ledger, schedule, retries) if ledger else None
    sending = Sending(schedule, load, words, judge, spender, refusals)
    asyncio.run(sending.run())
    return sending.replies, sending.burst, sending.allowed.is_over


def send_job(job: Job) -> None:
    """Send one load point, in as many processes as it takes, and write what came of it.

    Raises:
        RefusedError: an endpoint refused so many requests that the load ended.
    """
    words = dict(zip(job.argv[::2], job.argv[1::2], strict=True))
    schedule, result = read_schedule(job.schedule), Path(words["--result"])
    if not schedule:
        raise ValueError("the schedule holds no request")
    judge = Judge(job.probe) if job.probe else None
    count = 1 if judge else count_shares(schedule, job.load, len(os.sched_getaffinity(0)))
    if count == 1:
        counted = job.ledger, job.retries, job.refusals
        told = [_send_all(schedule, job.load, words, judge, *counted)]
    else:
        parts = [
            (part, load, words, None, job.ledger, job.retries // count, job.refusals)
            for part, load in shares(schedule, job.load, count)
        ]
        with multiprocessing.get_context("fork").Pool(count) as pool:
            told = pool.starmap(_send_all, parts, chunksize=1)
    replies = itertools.chain.from_iterable(each for each, *_ in told)
    write(sorted(replies, key=lambda reply: reply.sent_s), result)
    if burst := next((burst for _, burst, _ in told if burst), None):
        raise RefusedError(burst)
    if judge:
        judge.write(result.parent)
    if any(is_over for *_, is_over in told):
        (result.parent / GIVEN_UP).touch()


def main() -> None:
    """Run one load point after another; or with the words of a record's `load_command` that one."""

    def run(job: Job) -> None:
        # What is here already is not looked at again while chunks are timed.
        gc.collect()
        gc.freeze()
        send_job(job)

    if words := sys.argv[1:]:
        given = dict(zip(words[::2], words[1::2], strict=True))
        load = Load.model_validate_json(given["--load"])
        run(Job(argv=words, schedule=Path(given["--schedule"]), load=load))
        return
    serve_jobs(run)


if __name__ == "__main__":
    main()
