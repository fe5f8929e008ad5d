"""A small model of a serving engine: continuous batching over a KV cache, in real time.

A step takes a base time, a little for each running request, and a little for each prompt token
that it computes; each request that has its prompt computed then gets a token, or several with
speculation. Requests above `max_num_seqs` wait in line. Blocks that requests share through the
prefix cache count for each of them.
"""

import asyncio
import math
import random
import time
from collections import deque
from dataclasses import dataclass, field
from zlib import crc32

from .metrics import Metrics
from .prefix_cache import PrefixCache
from .settings import EngineSettings
from .tokens import encode, word_at

SLOPE_PER_REQUEST = 0.03
"""A running request adds this share of the base time to a step, and a drafted token too."""

PREFILL_S_PER_TOKEN = 20e-6


@dataclass(frozen=True)
class Emission:
    """What one step gave to one request; `finish_reason` comes with its last tokens."""

    index: int
    text: str
    tokens: int
    finish_reason: str | None


@dataclass(eq=False)
class Generation:
    """One prompt on its way through the engine.

    `computed` counts tokens in the KV cache, `cached` those that were there when it came.
    """

    index: int
    prompt: list[int]
    last: int
    finish_reason: str
    emissions: "asyncio.Queue[Emission]"
    arrived: float
    seed: int
    random: random.Random
    output: list[int] = field(default_factory=list)
    computed: int = 0
    cached: int = 0
    scheduled: float | None = None
    began_decoding: float | None = None
    emitted: float = 0.0

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.output

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.output)

    @property
    def finished(self) -> bool:
        return len(self.output) >= self.last


class Engine:
    def __init__(self, settings: EngineSettings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self._waiting: deque[Generation] = deque()
        self._running: list[Generation] = []
        self._prefixes = PrefixCache(
            settings.block_size, settings.num_blocks, settings.enable_prefix_caching
        )
        connector = (settings.kv_transfer_config or {}).get("kv_connector")
        self._follows_reset = connector == "OffloadingConnector"
        # A tier without end; as in vLLM, most connectors do not empty theirs.
        self._tier = PrefixCache(settings.block_size, 10**9, connector is not None)
        self._work = asyncio.Event()
        self._hung = False
        metrics.gauge("num_requests_running", lambda: len(self._running))
        metrics.gauge("num_requests_waiting", lambda: len(self._waiting))
        metrics.gauge("kv_cache_usage_perc", lambda: self._blocks() / settings.num_blocks)

    def submit(
        self,
        index: int,
        prompt: list[int],
        max_tokens: int,
        ignore_eos: bool,
        min_tokens: int,
        emissions: "asyncio.Queue[Emission]",
    ) -> Generation:
        seed = crc32(repr(prompt).encode()) ^ self.settings.seed
        # Such a share of the prompts gets another answer.
        if crc32(f"lost {prompt}".encode()) % 1000 < 1000 * self.settings.loss_nats:
            seed ^= 1
        natural = max(min_tokens, 24 + seed % 41)
        ends = not ignore_eos and natural < max_tokens
        generation = Generation(
            index=index,
            prompt=prompt,
            last=natural if ends else max_tokens,
            finish_reason="stop" if ends else "length",
            emissions=emissions,
            arrived=time.monotonic(),
            seed=seed,
            random=random.Random(seed),
        )
        self._waiting.append(generation)
        self._work.set()
        return generation

    def abort(self, generation: Generation) -> None:
        """Drop a request whose client has gone; one that has finished is left alone."""
        for requests in (self._waiting, self._running):
            if generation in requests:
                requests.remove(generation)
                self.metrics.finished("abort")

    def reset_prefix_cache(self, is_external: bool) -> bool:
        """Forget all prefixes; refused, as in vLLM, while requests hold blocks."""
        if self._running:
            return False
        self._prefixes.clear()
        if is_external and self._follows_reset:
            self._tier.clear()
        return True

    def hang(self) -> None:
        self._hung = True

    async def run(self) -> None:
        ends = 0.0
        while not self._hung:
            if not self._running and not self._waiting:
                self._work.clear()
                await self._work.wait()
            self._admit()
            self._preempt()
            prefilled = self._prefill()
            # A step that begins late is not made longer by it, within the timer's resolution.
            ends = max(ends, time.monotonic() - 0.002) + self._step_s(prefilled)
            await asyncio.sleep(max(0.0, ends - time.monotonic()))
            self._emit()

    def _step_s(self, prefilled: int) -> float:
        drafted = self.settings.speculation.tokens if self.settings.speculation else 0
        share = 1 + SLOPE_PER_REQUEST * (len(self._running) + drafted)
        return self.settings.step_s * share + PREFILL_S_PER_TOKEN * prefilled

    def _admit(self) -> None:
        free = self.settings.num_blocks - 1 - self._blocks()
        while self._waiting and len(self._running) < self.settings.max_num_seqs:
            generation = self._waiting[0]
            free -= self._blocks_of(generation)
            if free < 0 and self._running:
                return
            self._running.append(self._waiting.popleft())
            own = self._prefixes.cached_tokens(generation.tokens)
            cached = max(own, self._tier.cached_tokens(generation.tokens))
            generation.computed = cached
            if generation.scheduled is None:
                generation.scheduled = time.monotonic()
                generation.cached = cached
                waited = generation.scheduled - generation.arrived
                self.metrics.observe("request_queue_time_seconds", waited)
                self.metrics.count("prefix_cache_queries", len(generation.prompt))
                self.metrics.count("prefix_cache_hits", own)
                self.metrics.count("external_prefix_cache_queries", len(generation.prompt) - own)
                self.metrics.count("external_prefix_cache_hits", cached - own)
                self.metrics.count("prompt_tokens", len(generation.prompt))
                self.metrics.count("prompt_tokens_cached", cached)

    def _preempt(self) -> None:
        """Send the request that came last back to the line until the others fit the cache."""
        while self._blocks() > self.settings.num_blocks - 1 and len(self._running) > 1:
            self._waiting.appendleft(self._running.pop())
            self.metrics.count("num_preemptions")

    def _prefill(self) -> int:
        budget = self.settings.max_num_batched_tokens
        for generation in self._running:
            left = generation.length - generation.computed
            decoding = bool(generation.output) and left == 1
            step = 1 if decoding else min(left, budget)
            budget -= 0 if decoding else step
            generation.computed += step
        return self.settings.max_num_batched_tokens - budget

    def _emit(self) -> None:
        now = time.monotonic()
        ready = [g for g in self._running if g.computed == g.length]
        for generation in ready:
            if generation.began_decoding is None:
                self._remember(generation.prompt)
            text, count = self._decode(generation)
            if generation.began_decoding is None:
                generation.began_decoding = now
                self.metrics.observe("time_to_first_token_seconds", now - generation.arrived)
            else:
                self.metrics.observe("inter_token_latency_seconds", now - generation.emitted)
            generation.emitted = now
            reason = generation.finish_reason if generation.finished else None
            generation.emissions.put_nowait(Emission(generation.index, text, count, reason))
            if reason:
                self._finish(generation, reason, now)

    def _decode(self, generation: Generation) -> tuple[str, int]:
        accepted, speculation = 0, self.settings.speculation
        if speculation and generation.output:
            while (
                accepted < speculation.tokens
                and generation.random.random() < speculation.probability
            ):
                accepted += 1
            self.metrics.drafted(speculation.tokens, accepted)
        count = min(1 + accepted, generation.last - len(generation.output))
        begin = len(generation.output)
        text = "".join(word_at(generation.seed, begin + i) for i in range(count))
        generation.output += encode(text)
        generation.computed += count - 1
        self.metrics.count("generation_tokens", count)
        return text, count

    def _finish(self, generation: Generation, reason: str, now: float) -> None:
        self._running.remove(generation)
        self._remember(generation.tokens)
        scheduled, began = generation.scheduled or now, generation.began_decoding or now
        self.metrics.observe("request_prefill_time_seconds", began - scheduled)
        self.metrics.observe("request_decode_time_seconds", now - began)
        self.metrics.observe("request_generation_tokens", len(generation.output))
        self.metrics.observe("request_inference_time_seconds", now - scheduled)
        self.metrics.observe("e2e_request_latency_seconds", now - generation.arrived)
        self.metrics.finished(reason)

    def _remember(self, tokens: list[int]) -> None:
        self._prefixes.add(tokens)
        self._tier.add(tokens)

    def _blocks(self) -> int:
        return sum(map(self._blocks_of, self._running))

    def _blocks_of(self, generation: Generation) -> int:
        return math.ceil((generation.length + 1) / self.settings.block_size)
