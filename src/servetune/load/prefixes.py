"""The prefix-cache hit ratio that a load implies: what its own requests share, and no more.

The estimate is an upper bound: every request is taken to be complete before the next arrives, in a
cache without end. So a server that hits more has seen the prompts before. A cache holds whole
blocks, and a prompt's last token is always computed (vLLM, `KVCacheManager.get_computed_blocks`).
"""

import pandas as pd

from servetune.load.schedule import ScheduledRequest

TOKENS_PER_BLOCK = 16
"""Of vLLM's cache on a GPU, taken where the server does not tell; also how prompts are compared."""
TEMPLATE_TOKENS = 64
"""What the template of a chat may put before every prompt."""
BYTES_PER_BLOCK = 16
"""Text is compared by bytes: the share of bytes that is shared stands for that of tokens."""
TEXT_SLACK = 1.1
"""A prefix may have more tokens a byte than its prompt."""


def implied_hit_ratio(
    schedule: list[ScheduledRequest],
    requests: pd.DataFrame,
    is_chat: bool = False,
    block_tokens: int | None = None,
) -> float | None:
    """Return the share of all prompt tokens that earlier requests of this load had already.

    A later turn shares the prompt and the answer of the turn before, as the server counted them; a
    first turn the longest prefix of blocks that an earlier first turn had.

    Args:
        schedule: what was to be sent.
        requests: the request table of what was.
        is_chat: whether a template stands before each prompt.
        block_tokens: tokens in a block of the server's KV cache.
    """
    block = block_tokens or TOKENS_PER_BLOCK
    ok = requests[requests["is_ok"]].sort_values("scheduled")
    columns = ("scheduled", "input_tokens", "output_tokens")
    known: set[int] = set()
    ends: dict[tuple[int, int], int] = {}
    shared_tokens, tokens = 0, 0
    for index, input_tokens, output_tokens in zip(*(ok[c].tolist() for c in columns), strict=True):
        request = schedule[index]
        tokens += input_tokens
        ends[request.conversation, request.turn] = input_tokens + output_tokens
        if request.turn:
            shared = float(ends.get((request.conversation, request.turn - 1), 0))
        else:
            template = TEMPLATE_TOKENS if is_chat and known else 0
            shared = template + _shared(request.prompt, known) * input_tokens
        # A share of the tokens may be a hair less than the whole number that it stands for.
        shared_tokens += int(min(round(shared, 6), input_tokens - 1)) // block * block
    return shared_tokens / tokens if tokens else None


def _shared(prompt: str | list[int], known: set[int]) -> float:
    """Return the share of a prompt that is known by whole blocks, and make the rest known.

    Of text it is what the share may be at most.
    """
    is_text = isinstance(prompt, str)
    size = BYTES_PER_BLOCK if is_text else TOKENS_PER_BLOCK
    units = prompt.encode() if isinstance(prompt, str) else tuple(prompt)
    chain, shared, is_known = 0, 0, True
    for start in range(0, len(units) - size + 1, size):
        chain = hash((chain, units[start : start + size]))
        is_known = is_known and chain in known
        shared += size if is_known else 0
        known.add(chain)
    most = TEXT_SLACK * (shared + size) if is_text and shared else shared
    return min(1.0, most / len(units)) if units else 0.0
