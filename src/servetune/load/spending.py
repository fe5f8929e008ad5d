"""The most that each request of a load may take from an endpoint, before it is sent."""

from typing import Any

from servetune.load.schedule import ScheduledRequest
from servetune.records.spending import Amount

TEMPLATE_TOKENS = 256
"""What a chat's template may put around what is said: several times that of those of today."""

PIECE_TOKENS = 16
"""The same of each later turn."""


def most_of(schedule: list[ScheduledRequest]) -> dict[int, Amount]:
    """Return the most that each request of a schedule may take, by its index.

    A token is at least a byte of its prompt; a later turn has the prompt before it, and its answer.
    """
    amounts: dict[int, Amount] = {}
    for request in schedule:
        own = _tokens(request)
        if request.parents and request.messages is None and request.parents[0] in amounts:
            before = amounts[request.parents[0]]
            own += before.input_tokens + before.output_tokens + PIECE_TOKENS
            if request.answer is not None:
                own += len(request.answer.encode())
        else:
            own += TEMPLATE_TOKENS
        amounts[request.index] = Amount(
            requests=1, input_tokens=own, output_tokens=request.output_tokens
        )
    return amounts


def took_by(most: Amount, usage: dict[str, Any] | None) -> Amount:
    """Return what a request took that might take `most`, by its usage; None of a refusal."""
    if usage is None:
        return Amount(requests=1)
    return Amount(
        requests=1,
        input_tokens=_count(usage.get("prompt_tokens"), most.input_tokens),
        output_tokens=_count(usage.get("completion_tokens"), most.output_tokens),
    )


def _count(told: Any, most: int) -> int:
    """Return what a server counted, whatever it is; the most where it is no count."""
    return told if type(told) is int and told >= 0 else most


def _tokens(request: ScheduledRequest) -> int:
    if request.messages is not None:
        return sum(len(str(message).encode()) + PIECE_TOKENS for message in request.messages)
    prompt = request.prompt
    return len(prompt.encode()) if isinstance(prompt, str) else len(prompt)
