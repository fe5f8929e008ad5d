"""A server as it is simulated, what is sent to it, and what comes of that."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


OVERLAP = 3.0
"""Order of the mean of streaming and computing: 1 adds them up, infinity takes the longer one."""

PIECEWISE = 0.8
"""What the host needs to launch a step with prompts in CUDA graphs, of what it needs without: each
layer is a graph of its own, and attention is in none (chosen on h200-tune and h100-tune)."""


@dataclass(frozen=True)
class StepTime:
    """Seconds that a step takes, after the roofline (Williams, Waterman, Patterson 2009).

    Every step takes `overhead_s`. It streams the weights in `weights_s` while it computes
    `token_s` for each token, prompts and drafts included: the longer of the two counts, and a part
    of the shorter one where they are alike (`OVERLAP`), as neither hides the other whole. Added are
    `sequence_s` for each sequence that decodes, `context_s` for each token that these read from
    the KV cache, and `attention_s` for each pair of a prompt token and one before it. A step of
    more than `graph_tokens` is in no CUDA graph: the host launches it kernel by kernel in
    `eager_s`, while the device may still work on the step before. With fewer, a step that reads
    prompts takes a part of that (`PIECEWISE`). None: without graphs, all steps are alike, and
    `overhead_s` holds their launch.
    """

    overhead_s: float
    weights_s: float = 0.0
    token_s: float = 0.0
    sequence_s: float = 0.0
    context_s: float = 0.0
    attention_s: float = 0.0
    eager_s: float = 0.0
    graph_tokens: int | None = 512

    def of(self, decoding: int, drafts: int, context: float, prompt: int, pairs: float) -> float:
        """Return the time of a step in which `decoding` sequences verify `drafts` tokens each."""
        computing_s = self.token_s * (decoding * (1 + drafts) + prompt)
        return (
            self.overhead_s
            + float((self.weights_s**OVERLAP + computing_s**OVERLAP) ** (1 / OVERLAP))
            + self.sequence_s * decoding
            + self.context_s * context
            + self.attention_s * pairs
        )

    def launch_s(self, decoded: int, prompt: int) -> float:
        """Return how long the host needs to launch a step of so many tokens, if not one graph."""
        if self.graph_tokens is None:
            return 0.0
        if decoded + prompt > self.graph_tokens:
            return self.eager_s
        return PIECEWISE * self.eager_s if prompt else 0.0


@dataclass(frozen=True)
class FrontEnd:
    """API server processes: each does one thing at a time, in the order in which it comes.

    A request is read in `request_s`. After `latency_s` (the tokenizer's thread, network, client) it
    is handed to the engine, once its process is done with what came meanwhile. What a sequence
    emits in a step takes `chunk_s`.
    """

    request_s: float = 0.0
    latency_s: float = 0.0
    chunk_s: float = 0.0
    processes: int = 1


@dataclass(frozen=True)
class Scheduler:
    """What bounds a step: vLLM's arguments of these names, and what a launch said.

    `kv_blocks` is how many blocks of `block_tokens` the KV cache has; None: no limit. `accepted`
    are the shares of steps in which the first draft is accepted, the second with it, and so on.
    `hit_ratio` of each prompt is found in the prefix cache.
    """

    max_num_seqs: int = 1024
    max_num_batched_tokens: int = 8192
    kv_blocks: int | None = None
    block_tokens: int = 16
    is_chunked: bool = True
    is_async: bool = True
    accepted: tuple[float, ...] = ()
    hit_ratio: float = 0.0

    @property
    def draft_tokens(self) -> int:
        """How many tokens are verified with each token."""
        return len(self.accepted)

    @property
    def tokens_per_step(self) -> float:
        """Mean of the tokens that a sequence emits in a step."""
        return 1 + sum(self.accepted)

    @property
    def emitted_variance(self) -> float:
        """Variance of the tokens that a sequence emits in a step."""
        squares = 1 + sum((2 * i + 1) * share for i, share in enumerate(self.accepted, 1))
        return squares - self.tokens_per_step**2


@dataclass(frozen=True)
class Server:
    """A server to simulate."""

    step: StepTime
    front_end: FrontEnd = FrontEnd()
    scheduler: Scheduler = Scheduler()


@dataclass(frozen=True)
class Requests:
    """What the clients send: the tokens of each request, and when it is due, ascending.

    `due_s` None is a closed loop. No more than `concurrency` are in flight; None: no limit.
    """

    input_tokens: Counts
    output_tokens: Counts
    concurrency: int | None = None
    due_s: Floats | None = None


@dataclass(frozen=True)
class Served:
    """What became of each request, in seconds, and what the engine did.

    `queued_s` is when the engine saw it, `scheduled_s` when it first had a place in a step;
    `engine_first_s` and `engine_finish_s` are the engine's, `first_s` and `finish_s` the client's.
    `gaps_s` are the times between answers of one sequence: a value a step, and in `gap_weights`
    how many sequences had it.
    """

    output_tokens: Counts
    sent_s: Floats
    queued_s: Floats
    scheduled_s: Floats
    engine_first_s: Floats
    engine_finish_s: Floats
    first_s: Floats
    finish_s: Floats
    gaps_s: Floats
    gap_weights: Floats
    steps: int
    preemptions: int
    running_max: int
    blocks_max: int

    @property
    def ttft_ms(self) -> Floats:
        """Time to first token of each request."""
        return 1e3 * (self.first_s - self.sent_s)

    @property
    def tpot_ms(self) -> Floats:
        """Time per output token after the first, of each request."""
        return 1e3 * (self.finish_s - self.first_s) / np.maximum(self.output_tokens - 1, 1)
