"""Runs in the engine's environment: `vllm bench serve`'s own code, without its start-up.

The words of a job are those after `vllm bench serve`. When a request is sent is decided here, from
its schedule; how it is sent and measured is vLLM's code. What vLLM's result does not tell goes to a
second file, `sent.json`: `began_s`, and for each request in the result's order its `scheduled`
index, `arrival_s`, and what its stream told of itself (`notes`).
"""

import asyncio
import functools
import gc
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from vllm.benchmarks import serve
from vllm.benchmarks.datasets import SampleRequest
from vllm.benchmarks.lib import endpoint_request_func
from vllm.utils.argparse_utils import FlexibleArgumentParser

from servetune.capacity.sequential import Finished
from servetune.load.generator import CUT, NOT_SENT, Job
from servetune.load.inside.judge import Judge
from servetune.load.inside.loop import serve_jobs
from servetune.load.inside.pacing import Pacing
from servetune.load.schedule import ScheduledRequest, read_schedule
from servetune.load.stream import Note, note_message, refusal
from servetune.load.vllm_bench.generator import SENT, of_text
from servetune.records.loads import Load

BACKENDS = ("openai", "openai-chat")

Send = Callable[..., Awaitable[Any]]
Message = dict[str, Any]

_note: ContextVar[Note] = ContextVar("note")


class NotingHandler(endpoint_request_func.StreamedResponseHandler):  # type: ignore[misc]
    """Reads a stream as vLLM does, and notes what the stream tells of itself."""

    def add_chunk(self, chunk_bytes: bytes) -> list[str]:
        """Return the complete messages."""
        messages: list[str] = super().add_chunk(chunk_bytes)
        for message in messages:
            note_message(_note.get(), message)
        return messages


class NotingSession:
    """Posts as vLLM's session does, and notes why a server refused: vLLM keeps the status alone."""

    def __init__(self, session: Any, note: Note) -> None:
        """Take the session, and the note of the request that it will send."""
        self._session = session
        self._note = note

    @asynccontextmanager
    async def post(self, *of: Any, **more: Any) -> AsyncIterator[Any]:
        """Send a request; its answer is as vLLM's own session gives it."""
        async with self._session.post(*of, **more) as answer:
            if answer.status != 200:
                self._note.error = refusal(answer.status, await answer.text(errors="replace"))
            yield answer


class Sending:
    """The requests of one job, and what becomes of them."""

    def __init__(self, schedule: list[ScheduledRequest], load: Load, judge: Judge | None) -> None:
        """Take the schedule, the declared load, and the judge that ends it if it is a probe."""
        if not schedule:
            raise ValueError("the schedule holds no request")
        self._schedule = schedule
        self._pacing = Pacing(schedule, load)
        self._is_chat = load.is_chat
        self._said: dict[int, list[Message]] = {}
        self._sent: list[ScheduledRequest] = []
        self._notes: dict[int, Note] = {}
        self._judge = judge
        self._decided = asyncio.Event()

    def samples(self, args: Any, tokenizer: Any) -> list[Any]:
        """Return all requests: vLLM wants to know their number, and takes them from `due`."""
        args.num_prompts = len(self._schedule)
        return [_sample(request, self._is_chat) for request in self._schedule]

    async def due(
        self, samples: list[Any], request_rate: float, *rest: Any, **more: Any
    ) -> AsyncIterator[tuple[Any, float]]:
        """Yield each request when it is due, a later turn with all that was said before."""
        async for request in self._pacing.requests():
            self._sent.append(request)
            sample = samples[request.index]
            if self._is_chat and request.index not in self._pacing.broken:
                said = self._said.setdefault(request.conversation, [])
                said += sample.chat_messages
                sample = replace(sample, chat_messages=list(said))
            yield sample, request_rate

    def measuring(self, send: Send) -> Send:
        """Wrap one of vLLM's request functions so that note is taken of its answers."""

        async def measured(request_func_input: Any, session: Any, pbar: Any = None) -> Any:
            request = self._schedule[int(request_func_input.request_id)]
            if request.index in self._pacing.broken:
                return endpoint_request_func.RequestFuncOutput(
                    start_time=time.perf_counter(), error=NOT_SENT
                )
            start_s = time.perf_counter()
            note = self._notes.setdefault(request.index, Note())
            _note.set(note)
            noting = NotingSession(session, note)
            sending = send(request_func_input=request_func_input, session=noting, pbar=pbar)
            output = await self._until_decided(sending)
            if output is None:
                return endpoint_request_func.RequestFuncOutput(start_time=start_s, error=CUT)
            if self._judge and self._judge.add(_finished(request.index, output, self._is_chat)):
                self._pacing.stop()
                self._decided.set()
            if self._is_chat:
                answer = {"role": "assistant", "content": output.generated_text}
                self._said[request.conversation].append(answer)
            self._pacing.answered(request, output.success)
            return output

        return measured

    async def _until_decided(self, sending: Awaitable[Any]) -> Any:
        """Wait for an answer; None if the probe was decided first, and the request cut off."""
        if self._judge is None:
            return await sending
        answer = asyncio.ensure_future(sending)
        decided = asyncio.ensure_future(self._decided.wait())
        await asyncio.wait((answer, decided), return_when=asyncio.FIRST_COMPLETED)
        decided.cancel()
        if answer.done():
            return answer.result()
        answer.cancel()
        await asyncio.wait((answer,))
        return None

    def sent(self) -> dict[str, Any]:
        """Return what `sent.json` holds."""
        return {
            "began_s": self._pacing.began_s,
            "scheduled": [request.index for request in self._sent],
            "arrival_s": [None if sent.turn else sent.arrival_s for sent in self._sent],
            "notes": [asdict(self._notes.get(sent.index, Note())) for sent in self._sent],
        }


def _finished(index: int, output: Any, is_chat: bool) -> Finished:
    if not output.success:
        at_s = time.perf_counter()
        return Finished(index, output.start_time or at_s, at_s, has_failed=True)
    ttft_s, itl_s = of_text(output.ttft, output.itl, is_chat)
    decode_s, later_tokens = sum(itl_s), output.output_tokens - 1
    return Finished(
        index=index,
        arrival_s=output.start_time,
        finish_s=output.start_time + ttft_s + decode_s,
        ttft_ms=1e3 * ttft_s,
        tpot_ms=1e3 * decode_s / later_tokens if later_tokens > 0 else None,
        e2e_ms=1e3 * (ttft_s + decode_s),
        itl_ms=tuple(1e3 * gap for gap in itl_s),
    )


def _sample(request: ScheduledRequest, is_chat: bool) -> Any:
    prompt = request.prompt
    return SampleRequest(
        prompt=prompt,
        # The usage that the server tells takes its place.
        prompt_len=0 if isinstance(prompt, str) else len(prompt),
        expected_output_len=request.output_tokens,
        request_id=f"{request.index}",
        chat_messages=[{"role": "user", "content": prompt}] if is_chat else None,
    )


def main() -> None:
    """Run one load point after another as `vllm bench serve` would."""
    parser = FlexibleArgumentParser()
    serve.add_cli_args(parser)
    request_functions = {name: serve.ASYNC_REQUEST_FUNCS[name] for name in BACKENDS}
    serve.get_tokenizer = functools.cache(serve.get_tokenizer)
    endpoint_request_func.StreamedResponseHandler = NotingHandler

    def run(job: Job) -> None:
        args = parser.parse_args(job.argv)
        judge = Judge(job.probe) if job.probe else None
        point = Sending(read_schedule(job.schedule), job.load, judge)
        serve.get_samples, serve.get_request = point.samples, point.due
        for name, send in request_functions.items():
            serve.ASYNC_REQUEST_FUNCS[name] = point.measuring(send)
        asyncio.run(serve.main_async(args))
        Path(args.result_dir, SENT).write_text(json.dumps(point.sent()), encoding="utf-8")
        if judge:
            judge.write(Path(args.result_dir))

    # vLLM does this before each load; the first time takes 0.3 s, now while the server starts.
    gc.collect()
    gc.freeze()
    serve_jobs(run)


if __name__ == "__main__":
    main()
