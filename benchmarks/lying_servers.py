"""Which false numbers of a server pass for `ok`: each kind of lie, told by a proxy, measured.

A stand-in server tells the truth; a proxy before it falsifies the streams, the usages, the counters
or the load. Each lie is measured as a session measures a load point. It must break a rule, or leave
what it falsifies "not known"; the honest servers must stay ok. Exits 1 if one does not.

    uv run python benchmarks/lying_servers.py
"""

import asyncio
import json
import re
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession, web

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.engines.vllm.dialect import DIALECT as VLLM  # noqa: E402
from servetune.engines.vllm.tiers import read_tiers  # noqa: E402
from servetune.load.client.driver import DRIVER  # noqa: E402
from servetune.load.process import Clients, LoadClient  # noqa: E402
from servetune.plan.planned import Measurement, Session  # noqa: E402
from servetune.records.agreement import token_sources  # noqa: E402
from servetune.records.loads import Load  # noqa: E402
from servetune.records.measurements import MeasurementRecord  # noqa: E402
from servetune.records.sessions import Slot  # noqa: E402
from servetune.records.validity import checks  # noqa: E402
from servetune.serving.server import Server  # noqa: E402
from servetune.serving.target import SCRAPE_TIMEOUT_S  # noqa: E402
from servetune.sessions.allocation import GpuAllocation  # noqa: E402
from servetune.sessions.measure import Bench, measure  # noqa: E402
from servetune.study.validity import Limits  # noqa: E402
from servetune.telemetry.gpus import Gpus  # noqa: E402
from servetune.telemetry.sampler import Sampler  # noqa: E402
from servetune.workloads.prepare import prepare  # noqa: E402
from tests.standin.serving import PYTHON, write_tokenizer  # noqa: E402
from tests.workspace import QUIET  # noqa: E402

CONCURRENCY, REQUESTS, INPUT_WORDS, OUTPUT_TOKENS = 8, 32, 60, 24
LIES_BREAK = ("instant_chunks_ratio", "tpot_below_server_ratio", "unserved_in_flight_ratio")
DEFAULTS = {name: Limits.model_fields[name].default for name in LIES_BREAK}
LIMITS = Limits(**{**QUIET, **DEFAULTS})
"""Those of a quiet machine, and of the rest what lies break."""

Message = dict[str, Any]
Stream = AsyncIterator[Message]


async def _true(messages: Stream) -> Stream:
    async for message in messages:
        yield message


@dataclass
class Lie:
    """One kind of false number: how it is told, and what must be said of it.

    Of `rules`, one must break, or `failed` be the status; without them none may. With `unknown`,
    that rule must not be judged instead. `body`
    changes what the server is asked, `stream` what it answers, `page` its metrics; `reset` is what
    it does when its cache is to be emptied; `at_once` lets so many requests through. `log` is what
    the server logs once, during the warm-up or the load; `speculative` what the variant declares.
    """

    name: str
    rules: tuple[str, ...] = ()
    unknown: str = ""
    body: Callable[[Message], Message] = lambda body: body
    stream: Callable[[Stream], Stream] = _true
    page: Callable[[str], str] = lambda page: page
    reset: str = "truly"
    at_once: int = 1000
    keeps_tokenizer: bool = True
    has_done: bool = True
    server: str = "plain"
    endpoint: str = "completions"
    log: str = ""
    logs_during: str = "load"
    speculative: Message | None = None
    arguments: Message = field(default_factory=dict)
    stream_interval: int | None = None
    longest: int = 1
    counts_waits: bool = False


def _text(message: Message) -> str:
    return str(message["choices"][0].get("text", ""))


def _with_text(message: Message, text: str) -> Message:
    return {**message, "choices": [{**message["choices"][0], "text": text}]}


def _usage(**factors: float) -> Callable[[Stream], Stream]:
    """Multiply what the usage states; a factor of 0 takes the whole usage away."""

    async def told(messages: Stream) -> Stream:
        async for message in messages:
            if usage := message.get("usage"):
                if not all(factors.values()):
                    continue
                stated = {name: round(usage[name] * by) for name, by in factors.items()}
                message["usage"] = {**usage, **stated}
            yield message

    return told


def _uncached(messages: Stream) -> Stream:
    async def told() -> Stream:
        async for message in messages:
            if usage := message.get("usage"):
                usage.pop("prompt_tokens_details", None)
            yield message

    return told()


def _texts(change: Callable[[int, str], str]) -> Callable[[Stream], Stream]:
    """Change the text of each chunk, by its place."""

    async def told(messages: Stream) -> Stream:
        place = 0
        async for message in messages:
            if message.get("choices"):
                message = _with_text(message, change(place, _text(message)))
                place += 1
            yield message

    return told


async def _twice(messages: Stream) -> Stream:
    async for message in messages:
        yield message
        if message.get("choices"):
            yield message


def _in_groups(size: int) -> Callable[[Stream], Stream]:
    """Send so many chunks at once, each as it was; 0: all, at the end."""

    async def told(messages: Stream) -> Stream:
        held: list[Message] = []
        async for message in messages:
            held.append(message)
            if size and len(held) == size:
                for each in held:
                    yield each
                held.clear()
        for each in held:
            yield each

    return told


def _merged(size: int) -> Callable[[Stream], Stream]:
    """Make one chunk of so many; 0: of all."""

    async def told(messages: Stream) -> Stream:
        held: list[Message] = []
        async for message in messages:
            if message.get("choices"):
                held.append(message)
                is_last = message["choices"][0]["finish_reason"]
                if not is_last and (not size or len(held) < size):
                    continue
                yield _with_text(message, "".join(map(_text, held)))
                held.clear()
            else:
                yield message

    return told


async def _behind(messages: Stream) -> Stream:
    """Put two outputs into a chunk, as a front end does that is behind; the first one waits for
    no other.
    """
    yield await anext(messages)
    async for message in _merged(2)(messages):
        yield message


async def _with_error(messages: Stream) -> Stream:
    place = 0
    async for message in messages:
        if place == OUTPUT_TOKENS // 2:
            yield {"error": {"message": "EngineCore died", "code": 500}}
            return
        place += 1
        yield message


async def _of_another_model(messages: Stream) -> Stream:
    async for message in messages:
        yield {**message, "model": "a-smaller-one"}


def _empty_first(chunks: int) -> Callable[[Stream], Stream]:
    """Send empty chunks at once, before the engine has a token."""

    async def told(messages: Stream) -> Stream:
        for _ in range(chunks):
            choice = {"index": 0, "text": "", "delta": {"content": ""}, "finish_reason": None}
            yield {"model": "it", "choices": [choice]}
        async for message in messages:
            yield message

    return told


def _in_intervals(size: int) -> Callable[[Stream], Stream]:
    """Send the first token, and then so many in a chunk, as vLLM does with a stream interval."""

    async def told(messages: Stream) -> Stream:
        yield await anext(messages)
        async for message in _merged(size)(messages):
            yield message

    return told


def _reasoning(field: str, tokens: int) -> Callable[[Stream], Stream]:
    """Say the first tokens of an answer in a chat as its reasoning."""

    async def told(messages: Stream) -> Stream:
        place = 0
        async for message in messages:
            choice = (message.get("choices") or [{}])[0]
            content = (choice.get("delta") or {}).get("content")
            if content and (place := place + 1) <= tokens:
                message = {**message, "choices": [{**choice, "delta": {field: content}}]}
            yield message

    return told


def _silent_after(tokens: int) -> Callable[[Stream], Stream]:
    """Send no text after so many tokens: special ones, of an answer that was not to end."""
    return _texts(lambda place, text: text if place < tokens else "")


def _by_process(label: str, processes: int) -> Callable[[str], str]:
    """Count in several processes, each a share of it, as several API servers or engines do."""
    pattern = re.compile(r"^(vllm:\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)

    def lines(found: re.Match[str]) -> str:
        if found[1].endswith(("_info", "_perc")):
            return found[0]
        labels = ",".join(part for part in found[2].split(",") if not part.startswith(label))
        share = float(found[3]) / processes
        return "\n".join(f'{found[1]}{{{labels},{label}="{i}"}} {share}' for i in range(processes))

    return lambda page: pattern.sub(lines, page)


def _halved(body: Message) -> Message:
    return {**body, "max_tokens": body["max_tokens"] // 2}


def _counter(name: str, change: Callable[[float], float | None]) -> Callable[[str], str]:
    """Change the samples of a metric; None takes them away."""
    pattern = re.compile(rf"^(vllm:{name}(?:\{{[^}}]*\}})?) (\S+)$", re.MULTILINE)

    def line(found: re.Match[str]) -> str:
        value = change(float(found[2]))
        return "" if value is None else f"{found[1]} {value}"

    return lambda page: pattern.sub(line, page)


def _all(*changes: Callable[[str], str]) -> Callable[[str], str]:
    def changed(page: str) -> str:
        for change in changes:
            page = change(page)
        return page

    return changed


def _fallen() -> Callable[[float], float]:
    """Fall to 0 once, in the middle of the load, as a counter of an engine that restarts."""
    first: list[float] = []
    base = 0.0

    def value(true: float) -> float:
        nonlocal base
        first.append(true)
        if not base and true - first[0] > REQUESTS * OUTPUT_TOKENS / 2:
            base = true
        return true - base

    return value


def _gone(value: float) -> None:
    """Take a sample away."""


TOKENS, TOKENS_OF_FINISHED, PROMPTS, FINISHED = (
    "generation_tokens_total",
    "request_generation_tokens_sum",
    "prompt_tokens_total",
    "request_success_total",
)
DECODE = "request_decode_time_seconds_sum"
HITS = "prefix_cache_hits_total"
PREFILL, E2E = "request_prefill_time_seconds_sum", "e2e_request_latency_seconds_sum"
DRAFTS, DRAFT_TOKENS, ACCEPTED, ACCEPTED_AT = (
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
    "spec_decode_num_accepted_tokens_per_pos_total",
)
OF_DRAFTS = (DRAFTS, DRAFT_TOKENS, ACCEPTED, ACCEPTED_AT)
EAGLE: Message = {"method": "eagle3", "num_speculative_tokens": 3}
NGRAM: Message = {**EAGLE, "method": "ngram"}
JIT = (
    "(EngineCore pid=9) WARNING 08-17 21:04:25 [jit_monitor.py:141] Triton kernel JIT compilation"
    " during inference: _causal_conv1d_fwd_kernel. This causes a latency spike; consider extending"
    " warmup to cover this shape/config."
)
AUTOTUNED = "Triton autotuning for function _fwd_kernel,\nwith key as (64,),\nfinished after 1.20s,"
RESTARTED = (
    "(EngineCore pid=9) INFO 08-17 21:04:25 [core.py:1] Initializing a V1 LLM engine (v0.33)"
)
WARNED = "(APIServer pid=7) WARNING 08-17 21:04:25 [a.py:1] Kernels of inference are slow here."


def _drafts(factor: float, *names: str) -> Callable[[str], str]:
    return _all(*(_counter(name, lambda value: factor * value) for name in names))


def lies() -> list[Lie]:
    """Return every kind of false number, those of the plain server first."""
    doubled_usage = _usage(completion_tokens=2)
    counters = (TOKENS, TOKENS_OF_FINISHED)
    doubled_tokens = _all(*(_counter(name, lambda value: 2 * value) for name in counters))
    return [
        Lie("all tokens in one chunk at the end", ("coarse-chunks",), stream=_merged(0)),
        Lie("two chunks for an answer", ("coarse-chunks",), stream=_merged(OUTPUT_TOKENS // 2)),
        Lie("all chunks at the end, together", ("coalesced-chunks",), stream=_in_groups(0)),
        Lie(
            "the same, and no decode time from the server",
            ("coalesced-chunks",),
            stream=_in_groups(0),
            page=_counter(DECODE, _gone),
        ),
        Lie("chunks four by four", ("coalesced-chunks",), stream=_in_groups(4)),
        Lie(
            "twice the decode time", ("faster-than-server",), page=_counter(DECODE, lambda v: 2 * v)
        ),
        Lie(
            "half of the tokens, usage of all",
            ("server-counters",),
            body=_halved,
            stream=doubled_usage,
        ),
        Lie(
            "the same, and the counters agree",
            ("answer-texts",),
            body=_halved,
            stream=doubled_usage,
            page=doubled_tokens,
        ),
        Lie(
            "the same, and no tokenizer reads the texts",
            unknown="tokens-confirmed",
            body=_halved,
            stream=doubled_usage,
            page=doubled_tokens,
            keeps_tokenizer=False,
        ),
        Lie("empty text", ("answer-texts",), stream=_texts(lambda place, text: "")),
        Lie("every chunk twice", ("surplus-chunks",), stream=_twice),
        Lie(
            "the same text for every prompt",
            ("same-answers",),
            stream=_texts(lambda p, t: f" w{p}"),
        ),
        Lie("no usage", ("failed",), stream=_usage(completion_tokens=0)),
        Lie("usage of twice the prompt", ("server-counters",), stream=_usage(prompt_tokens=2)),
        Lie(
            "the same, and the counters agree",
            ("answer-texts",),
            stream=_usage(prompt_tokens=2),
            page=_counter(PROMPTS, lambda v: 2 * v),
        ),
        Lie(
            "longer answers than asked for",
            ("output-length",),
            body=lambda body: {**body, "max_tokens": body["max_tokens"] + 8},
        ),
        Lie("shorter answers than asked for", ("output-length",), body=_halved),
        Lie("answers of another model", ("other-model",), stream=_of_another_model),
        Lie("an error behind status 200", ("failed",), stream=_with_error),
        Lie("no end of the stream", ("failed",), has_done=False),
        Lie(
            "output tokens stand still",
            ("server-counters",),
            page=_counter(TOKENS, lambda value: 1.0),
        ),
        Lie(
            "prompt tokens stand still",
            ("server-counters",),
            page=_counter(PROMPTS, lambda value: 1.0),
        ),
        Lie("output tokens doubled", ("server-counters",), page=_counter(TOKENS, lambda v: 2 * v)),
        Lie("counters fall in the load", ("counters-reset",), page=_counter(TOKENS, _fallen())),
        Lie(
            "half as many finished", ("server-counters",), page=_counter(FINISHED, lambda v: v / 2)
        ),
        Lie("no metrics", ("counters-missing",), page=lambda page: "# nothing\n"),
        Lie("a reset that it refuses with 200", ("no-prefix-cache-reset",), reset="refused"),
        Lie("a reset that it pretends", ("warm-prefix-cache",), reset="pretended"),
        Lie(
            "the same, and no hits counted",
            ("warm-prefix-cache",),
            reset="pretended",
            page=_counter(HITS, lambda v: 0.0),
        ),
        Lie(
            "the same, and no cached tokens stated",
            unknown="warm-prefix-cache",
            reset="pretended",
            page=_counter(HITS, lambda v: 0.0),
            stream=_uncached,
        ),
        Lie("one request served at a time", ("unserved-load",), at_once=1),
        Lie(
            "the same, and no gauges",
            unknown="unserved-load",
            at_once=1,
            page=_all(
                _counter("num_requests_running", _gone), _counter("num_requests_waiting", _gone)
            ),
        ),
        Lie("three requests of eight held back", ("unserved-load",), at_once=5),
        Lie(
            "twenty tokens a chunk, and no interval declared",
            ("coarse-chunks",),
            stream=_in_intervals(20),
        ),
        Lie("an interval of four, and each token sent", ("surplus-chunks",), stream_interval=4),
        Lie(
            "reasoning that is stated and not sent",
            ("answer-texts",),
            stream=_reasoning("hidden", OUTPUT_TOKENS - 1),
            endpoint="chat",
        ),
        Lie("a kernel compiled in the load", ("compiled-kernels",), log=JIT),
        Lie("a kernel tuned in the load", ("compiled-kernels",), log=AUTOTUNED),
        Lie("an engine that starts again in the load", ("engine-restarted",), log=RESTARTED),
        Lie(
            "an empty chunk at once",
            ("latency-below-server",),
            stream=_empty_first(1),
            server="slow",
        ),
        Lie(
            "the same, in a chat",
            ("latency-below-server",),
            stream=_empty_first(2),
            endpoint="chat",
            server="slow",
        ),
        Lie(
            "prefill of ten times the time",
            ("latency-below-server",),
            page=_counter(PREFILL, lambda v: 10 * v),
        ),
        Lie(
            "E2E latency of twice the time",
            ("latency-below-server",),
            page=_counter(E2E, lambda v: 2 * v),
        ),
        Lie("drafts of a server that has none", ("no-drafts",), speculative=EAGLE),
        *(
            Lie(name, rules, page=_drafts(factor, *of), server="drafting", speculative=EAGLE)
            for name, rules, factor, of in (
                ("half as many accepted", ("draft-counters",), 0.5, (ACCEPTED,)),
                ("the same, by position too", ("draft-counters",), 0.5, (ACCEPTED, ACCEPTED_AT)),
                ("twice as many accepted", ("draft-counters",), 2.0, (ACCEPTED, ACCEPTED_AT)),
                ("half as many drafts", ("draft-counters",), 0.5, (DRAFTS,)),
                ("twice as many drafts", ("draft-counters",), 2.0, (DRAFTS,)),
                ("all counters of drafts halved", ("draft-counters",), 0.5, OF_DRAFTS),
                ("all counters of drafts doubled", ("draft-counters",), 2.0, OF_DRAFTS),
                ("no counter of drafts moves", ("no-drafts",), 0.0, OF_DRAFTS),
            )
        ),
        Lie("honest"),
        Lie("honest, a kernel compiled in the warm-up", log=JIT, logs_during="warm-up"),
        Lie("honest, a warning in the load", log=WARNED),
        Lie("honest, n-grams that find no draft", speculative=NGRAM),
        Lie(
            "honest, drafts of a front end that is behind",
            stream=_behind,
            server="drafting",
            speculative=EAGLE,
        ),
        Lie("honest, drafts in a chat", server="drafting", endpoint="chat", speculative=EAGLE),
        Lie(
            "honest, one draft token",
            server="drafting-one",
            speculative={**EAGLE, "num_speculative_tokens": 1},
        ),
        Lie("honest, all drafts accepted", server="drafting-well", speculative=EAGLE),
        Lie("honest, no draft accepted", server="drafting-ill", speculative=EAGLE),
        Lie("honest, in a chat", endpoint="chat"),
        Lie("honest, two tokens a chunk now and then", stream=_merged(2), page=lambda page: page),
        Lie("honest, with drafts", server="drafting", speculative=EAGLE),
        Lie("honest, slow", server="slow"),
        Lie("honest, in intervals of four", stream=_in_intervals(4), stream_interval=4),
        Lie("honest, in intervals of twenty", stream=_in_intervals(20), stream_interval=20),
        *(
            Lie(f"honest, {name}", stream=_reasoning(name, 16), endpoint="chat")
            for name in ("reasoning", "reasoning_content")
        ),
        Lie("honest, special tokens at the end", stream=_silent_after(OUTPUT_TOKENS - 6)),
        Lie("honest, long-tailed lengths", longest=8),
        Lie(
            "honest, four API servers",
            page=_by_process("pid", 4),
            arguments={"api_server_count": 4},
        ),
        Lie(
            "honest, two engines",
            page=_by_process("engine", 2),
            arguments={"data_parallel_size": 2},
        ),
        Lie("honest, an API server that is behind", at_once=5, counts_waits=True),
        Lie("honest, a tier in memory", server="tiered", arguments=OFFLOADED),
        Lie(
            "a tier that it pretends to empty",
            ("warm-prefix-cache",),
            reset="pretended",
            server="tiered",
            arguments=OFFLOADED,
        ),
        Lie("honest, one sequence at a time", server="narrow"),
    ]


OFFLOADED: Message = {
    "kv_transfer_config": {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}
}


def _drafting(tokens: int, length: float) -> list[str]:
    config = {"method": "eagle3", "num_speculative_tokens": tokens}
    return ["--speculative-config", json.dumps({**config, "synthetic_acceptance_length": length})]


SERVERS = {
    "plain": [],
    "drafting": _drafting(3, 2.5),
    "drafting-one": _drafting(1, 1.6),
    "drafting-well": _drafting(3, 4.0),
    "drafting-ill": _drafting(3, 1.0),
    # What a client sees of it is the engine's time, on a busy machine too.
    "slow": ["--standin-step-ms", "200"],
    "tiered": ["--kv-transfer-config", json.dumps(OFFLOADED["kv_transfer_config"])],
    "narrow": ["--max-num-seqs", "1", "--standin-step-ms", "2"],
}


class Proxy:
    """Stands before a server, in a thread of its own, and tells the `lie`."""

    def __init__(self) -> None:
        self.lie = Lie("")
        self.port = 0
        self.upstream = ""
        self.log = Path()
        self._logged: Lie | None = None
        self._waited_s = 0.0
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait()

    async def _serve(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_post("/reset_prefix_cache", self._reset)
        app.router.add_post("/v1/{endpoint:.*completions}", self._complete)
        app.router.add_get("/{path:.*}", self._pass)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await asyncio.Event().wait()

    def _headers(self, request: web.Request) -> dict[str, str]:
        key = request.headers.get("Authorization")
        return {"Authorization": key} if key else {}

    async def _pass(self, request: web.Request) -> web.Response:
        url = f"{self.upstream}{request.rel_url}"
        try:
            async with ClientSession() as http:
                answer = await http.get(url, headers=self._headers(request))
                body = await answer.read()
                return web.Response(
                    status=answer.status, body=body, content_type=answer.content_type
                )
        except ClientError:
            return web.Response(status=502)

    async def _metrics(self, request: web.Request) -> web.Response:
        page = (await self._pass(request)).body
        assert isinstance(page, bytes)
        text = self.lie.page(page.decode())
        if self.lie.counts_waits:
            text = _counter(E2E, lambda value: value + self._waited_s)(text)
        return web.Response(text=text)

    async def _reset(self, request: web.Request) -> web.Response:
        if self.lie.reset == "truly":
            url = f"{self.upstream}{request.rel_url}"
            async with ClientSession() as http, http.post(url, headers=self._headers(request)):
                pass
        return web.json_response({"success": self.lie.reset != "refused"})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        lie, body = self.lie, await request.json()
        url, headers = f"{self.upstream}{request.rel_url}", self._headers(request)
        arrived_s = time.monotonic()
        async with ClientSession() as http, self._gate(lie):
            self._waited_s += time.monotonic() - arrived_s
            self._write_log(lie, "load" if body.get("stream") else "warm-up")
            if not body.get("stream"):
                async with http.post(url, headers=headers, json=body) as answer:
                    return web.json_response(await answer.json())
            async with http.post(url, headers=headers, json=lie.body(body)) as answer:
                told = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await told.prepare(request)
                async for message in lie.stream(_messages(answer.content)):
                    await told.write(b"data: " + json.dumps(message).encode() + b"\n\n")
                if lie.has_done:
                    await told.write(b"data: [DONE]\n\n")
                return told

    def _write_log(self, lie: Lie, during: str) -> None:
        if lie.log and lie.logs_during == during and self._logged is not lie:
            self._logged = lie
            with self.log.open("a") as log:
                log.write(f"{lie.log}\n")

    def _gate(self, lie: Lie) -> asyncio.Semaphore:
        if getattr(self, "_gated", None) is not lie:
            self._gated, self._open = lie, asyncio.Semaphore(lie.at_once)
        return self._open


async def _messages(content: Any) -> Stream:
    async for line in content:
        text = line.decode().strip().removeprefix("data: ")
        if text and text != "[DONE]":
            yield json.loads(text)


@dataclass(eq=False)
class Proxied(Server):
    """A server that is asked through the proxy."""

    proxy: Proxy | None = None

    @property
    def url(self) -> str:
        """The proxy's address."""
        assert self.proxy is not None
        return f"http://127.0.0.1:{self.proxy.port}"


@dataclass
class Stage:
    """A server of each kind behind the proxy, and the client that loads them."""

    folder: Path
    proxy: Proxy = field(default_factory=Proxy)

    def measure(self, lie: Lie, number: int, server: Server, clients: Clients) -> MeasurementRecord:
        """Measure one lie as a session does a load point."""
        sampler = Sampler(server.client(SCRAPE_TIMEOUT_S), VLLM.counters, Gpus(""))
        sampler.start()
        load = Load.model_validate(
            {
                "dataset": "words",
                "endpoint": lie.endpoint,
                "concurrency": CONCURRENCY,
                "requests": REQUESTS,
                "warmup_requests": 1,
                "seed": 0,
            }
        )
        model = "model" if lie.keeps_tokenizer else "unread"
        prompts = [f"{' '.join(f'word{i}' for i in range(n, n + INPUT_WORDS))}" for n in range(32)]
        rows: list[Any] = [
            {"prompt": text, "output_tokens": OUTPUT_TOKENS * (lie.longest if i % 8 == 7 else 1)}
            for i, text in enumerate(prompts)
        ]
        measurement = Measurement(
            id=f"lie-{number}", workload="words", load_point=f"c{CONCURRENCY}", load=load
        )
        session = Session(
            id="lies",
            order=0,
            study="lies",
            variant="plain",
            repeat=1,
            hardware="cpu",
            engine="standin",
            model=model,
            draft=None,
            server=lie.arguments,
            speculative=lie.speculative,
            environment={},
            startup_timeout_s=60,
            load_timeout_s=60,
            stall_timeout_s=30,
            validity=LIMITS,
            measurements=[measurement],
        )
        info = server.info()
        facts = server.facts({}, info)
        facts = facts.model_copy(update={"stream_interval": lie.stream_interval})
        bench = Bench(
            session=session,
            root=self.folder,
            launch=1,
            servers=None,
            target=server,
            facts=facts,
            clients=clients,
            tokenizer=Path(model),
            sampler=sampler,
            allocation=GpuAllocation(Slot(node="", host=""), lambda: None),
            tiers=read_tiers(info, lie.arguments),
        )
        self.proxy.lie = lie
        try:
            return measure(bench, measurement, prepare(load, rows, self.folder / model))
        finally:
            self.proxy.lie = Lie("")
            sampler.stop()


def _outcome(lie: Lie, record: MeasurementRecord) -> tuple[bool, str]:
    """Say whether a lie, or an honest server, was taken for what it is; and what was seen."""
    broken = {check.rule for check in _checks(record) if check.is_broken}
    judged = {check.rule for check in _checks(record) if check.value is not None}
    judged |= {"tokens-confirmed"} if token_sources(record.card) else set()
    seen = ", ".join(sorted(broken)) or record.status
    if lie.unknown:
        return lie.unknown not in judged, f"{lie.unknown}: not known" if not broken else seen
    if not lie.rules:
        return record.status == "ok" and bool(token_sources(record.card)), record.reason or seen
    return bool({*broken, record.status} & set(lie.rules)), seen


def _checks(record: MeasurementRecord) -> list[Any]:
    return checks(record.metrics, record.card, LIMITS) if record.metrics else []


def main() -> int:
    """Measure them all; returns how many passed that should not, or did not that should."""
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        stage = Stage(Path(name))
        for model in ("model", "unread"):
            (stage.folder / model).mkdir()
            (stage.folder / model / "config.json").write_text('{"max_position_embeddings": 4096}')
        write_tokenizer(stage.folder / "model")
        told = lies()
        print(f"{len(told)} servers\n\n| Server | Rules that it breaks | |\n| --- | --- | --- |")
        for kind, arguments in SERVERS.items():
            of_kind = [(number, lie) for number, lie in enumerate(told) if lie.server == kind]
            wrong += _measure_all(stage, kind, arguments, of_kind)
    print(f"\n{wrong} taken for what they are not")
    return min(wrong, 1)


def _measure_all(stage: Stage, kind: str, arguments: list[str], told: list[tuple[int, Lie]]) -> int:
    server = Proxied(
        dialect=VLLM,
        python=PYTHON,
        model="model",
        arguments=[
            *("--max-model-len", "1024", "--max-num-seqs", str(CONCURRENCY)),
            *("--standin-step-ms", "10", "--enable-prompt-tokens-details", *arguments),
        ],
        environment={"STANDIN_PYTHON": sys.executable},
        name="it",
        log=stage.folder / f"{kind}.log",
        folder=stage.folder,
        proxy=stage.proxy,
    )
    stage.proxy.log = server.log
    stage.proxy.upstream = f"http://127.0.0.1:{server.port}"
    clients = Clients(
        lambda name: LoadClient(
            DRIVER.client,
            {DRIVER.key_variable: server.api_key},
            stage.folder / "client.log",
            stage.folder,
        )
    )
    wrong = 0
    try:
        server.start()
        server.wait_ready(60, lambda seconds: None)
        for number, lie in told:
            is_right, seen = _outcome(lie, stage.measure(lie, number, server, clients))
            wrong += not is_right
            print(f"| {lie.name} | {seen} | {'' if is_right else 'WRONG'} |", flush=True)
    finally:
        clients.stop()
        server.stop()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
