"""vLLM's scheduler: who is in a step (v1/core/sched/scheduler.py, first come, first served).

Sequences that decode come first, then prompts that were begun, then waiting ones, while tokens,
sequences and KV blocks last. Where a block is missing, the request admitted last is preempted and
computed again.

A sequence that decodes is in every step, so a composed step needs no look at each of them: what
changes is planned for its step, and a step costs the same work here whatever its batch.
"""

import math
import sys
from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np

from servetune.predict.server import Requests, Server


@dataclass
class _Sequence:
    """A request in the engine. A preemption makes what it has emitted a part of its prompt."""

    prompt: int
    output: int
    pending: int = 0
    """Prompt tokens that no step has taken."""
    blocks: int = 0
    rate: float = 1.0
    """Tokens that a step emits, once it decodes."""
    first: int = sys.maxsize
    """The step that ends its prefill, and emits its first token."""
    last: int = sys.maxsize
    """The step that emits its last token."""
    preempted: int = 0

    def emitted_after_first(self, step: int) -> float:
        return (step - self.first) * self.rate


@dataclass
class Step:
    """How many sequences decode in a step; who is admitted to it, and who emits what last or first.

    `seconds` is how long the device works on it, `launch_s` the host before that.
    """

    decoding: int
    admitted: list[int] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    seconds: float = 0.0
    launch_s: float = 0.0


_Planned = defaultdict[int, list[tuple[int, int]]]
"""By step: sequences, each with its preemptions when that was planned; any since void it."""


class Scheduling:
    """The sequences of one simulation, by the index of their request.

    Raises:
        ValueError: a request can never be scheduled.
    """

    def __init__(self, server: Server, requests: Requests) -> None:
        self.step_time, self.settings = server.step, server.scheduler
        lengths = zip(requests.input_tokens.tolist(), requests.output_tokens.tolist(), strict=True)
        self.sequences = [_Sequence(prompt, output) for prompt, output in lengths]
        self.free = self.settings.kv_blocks or sys.maxsize
        self._check()
        self.variance = self.settings.emitted_variance
        self.rng = np.random.default_rng(0)
        self.waiting: deque[int] = deque()
        self.running: dict[int, None] = {}
        """In order of admission."""
        self.prefilling: deque[int] = deque()
        self.decoding, self.context, self.rates = 0, 0.0, 0.0
        """Sequences that decode, and the sums of their contexts and rates."""
        self.ends: _Planned = defaultdict(list)
        self.grows: _Planned = defaultdict(list)
        self.steps = self.preemptions = self.running_max = self.blocks = self.blocks_max = 0

    def _check(self) -> None:
        settings = self.settings
        for sequence in self.sequences:
            tokens = sequence.prompt + sequence.output + settings.draft_tokens
            if self._blocks(tokens) > self.free:
                raise ValueError(f"a request of {tokens} tokens does not fit into the KV cache")
            if not settings.is_chunked and sequence.prompt > settings.max_num_batched_tokens:
                raise ValueError(f"a prompt of {sequence.prompt} tokens does not fit into a step")

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.settings.block_tokens)

    def compose(self) -> Step | None:
        """Compose the next step; None if there is nothing to do."""
        settings, preemptions = self.settings, self.preemptions
        self.context += self.rates
        for request in self._planned(self.grows):
            self._grow(request)
        step = Step(self.decoding)
        taken = step.decoding * (1 + settings.draft_tokens)
        whole = budget = max(settings.max_num_batched_tokens - taken, 0)
        pairs = 0.0
        # vLLM admits nothing in a step that preempts.
        may_admit = self.preemptions == preemptions or not step.decoding
        while budget and (self.prefilling or (may_admit and self._admit(budget, step))):
            request = self.prefilling[0]
            sequence = self.sequences[request]
            chunk = min(sequence.pending, budget)
            pairs += chunk * (sequence.prompt - sequence.pending + chunk / 2)
            sequence.pending -= chunk
            budget -= chunk
            if not sequence.pending:
                step.first.append(self.prefilling.popleft())
        if not step.decoding and budget == whole:
            return None
        step.seconds = self.step_time.of(
            step.decoding, settings.draft_tokens, self.context, whole - budget, pairs
        )
        step.launch_s = self.step_time.launch_s(taken, whole - budget)
        step.ended += self._planned(self.ends)
        for request in step.ended:
            self._stop_decoding(request)
        for request in step.first:
            self._begin_decoding(request, step)
        self.steps += 1
        return step

    def release(self, request: int) -> None:
        """Let go what has been answered."""
        del self.running[request]
        self._take(request, -self.sequences[request].blocks)

    def _planned(self, planned: _Planned) -> list[int]:
        due = planned.pop(self.steps, ())
        return [i for i, then in due if self.sequences[i].preempted == then]

    def _take(self, request: int, blocks: int) -> None:
        self.sequences[request].blocks += blocks
        self.free -= blocks
        self.blocks += blocks
        self.blocks_max = max(self.blocks_max, self.blocks)

    def _admit(self, budget: int, step: Step) -> bool:
        """Give the first waiting request a place and the blocks of its prompt, if there are."""
        settings = self.settings
        if not self.waiting or len(self.running) >= settings.max_num_seqs:
            return False
        request = self.waiting[0]
        sequence = self.sequences[request]
        blocks = self._blocks(sequence.prompt)
        pending = max(1, round(sequence.prompt * (1 - settings.hit_ratio)))
        if blocks > self.free or (not settings.is_chunked and pending > budget):
            return False
        self.waiting.popleft()
        self.running[request] = None
        self.running_max = max(self.running_max, len(self.running))
        self._take(request, blocks)
        sequence.pending = pending
        self.prefilling.append(request)
        step.admitted.append(request)
        return True

    def _begin_decoding(self, request: int, step: Step) -> None:
        sequence = self.sequences[request]
        sequence.first = self.steps
        if sequence.output == 1:
            sequence.last = self.steps
            step.ended.append(request)
            return
        tokens = sequence.output - 1
        steps = self._draw_steps(tokens)
        sequence.last, sequence.rate = self.steps + steps, tokens / steps
        self.ends[sequence.last].append((request, sequence.preempted))
        self.decoding += 1
        self.context += sequence.prompt
        self.rates += sequence.rate
        self._plan_growth(request)

    def _stop_decoding(self, request: int) -> None:
        sequence = self.sequences[request]
        self.decoding -= 1
        self.rates -= sequence.rate
        self.context -= sequence.prompt + sequence.emitted_after_first(self.steps)

    def _draw_steps(self, tokens: int) -> int:
        """Draw how many steps emit so many tokens: a renewal process, by its normal limit."""
        mean = self.settings.tokens_per_step
        steps = tokens / mean
        if self.variance > 1e-9:
            spread = math.sqrt(tokens * self.variance / mean**3)
            steps += spread * float(self.rng.standard_normal())
        fewest = tokens / (1 + self.settings.draft_tokens)
        return min(math.ceil(max(steps, fewest) - 1e-9), tokens)

    def _plan_growth(self, request: int) -> None:
        """Note the first step in which a sequence needs more blocks than it has."""
        sequence, settings = self.sequences[request], self.settings
        spare = sequence.blocks * settings.block_tokens - sequence.prompt
        steps = math.floor((spare - 1 - settings.draft_tokens) / sequence.rate + 1e-9) + 2
        step = sequence.first + max(steps, 1)
        if step <= sequence.last:
            self.grows[max(step, self.steps + 1)].append((request, sequence.preempted))

    def _grow(self, request: int) -> None:
        """Give a sequence a block; the request admitted last makes room for it."""
        sequence = self.sequences[request]
        preempted = sequence.preempted
        while not self.free and sequence.preempted == preempted:
            self._preempt()
        # The one admitted last may be this one, and one that grew before may have taken its room.
        if sequence.preempted == preempted:
            self._take(request, 1)
            self._plan_growth(request)

    def _preempt(self) -> None:
        """Send the request admitted last back to the front of the queue."""
        # What has its last step already keeps its blocks until that is answered.
        request = next(i for i in reversed(self.running) if self.sequences[i].last >= self.steps)
        sequence = self.sequences[request]
        if sequence.first < self.steps:
            self._stop_decoding(request)
            emitted = 1 + int(sequence.emitted_after_first(self.steps - 1) + 1e-9)
            sequence.prompt += emitted
            sequence.output -= emitted
        else:
            self.prefilling.remove(request)
        sequence.first = sequence.last = sys.maxsize
        sequence.preempted += 1
        self.preemptions += 1
        self.release(request)
        self.waiting.appendleft(request)
