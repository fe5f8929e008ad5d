"""What a server says of a document: the log probability of each token, and how it would go on.

One request to `/v1/completions` asks for both. vLLM computes the prompt's log probabilities with
`prompt_logprobs`, and then reads no prefix cache for it. Of each position it tells the token that
stands there and the most likely one.
"""

import hashlib
import json
import math
from typing import Any

import httpx

from servetune.load.rows import Row
from servetune.records.quality import Document

CONTINUED_TOKENS = 32
"""The length of a continuation, where the corpus does not say `output_tokens`."""


class RefusedError(Exception):
    """A server that does not answer what was asked; the message says why, in its own words."""


def ask(client: httpx.Client, model: str, row: Row) -> Document:
    """Score one document and have it continued greedily.

    Args:
        client: of the server, with its key.
        model: the name that the server serves.
        row: of the corpus: `prompt`, and `output_tokens` for the length of the continuation.

    Raises:
        RefusedError: the server refuses, or answers without what was asked for.
        httpx.HTTPError: it does not answer.
    """
    request = {
        "model": model,
        "prompt": row["prompt"],
        "max_tokens": row.get("output_tokens") or CONTINUED_TOKENS,
        "temperature": 0,
        "prompt_logprobs": 1,
        "return_token_ids": True,
    }
    answer = client.post("/v1/completions", json=request)
    if not answer.is_success:
        raise RefusedError(f"the server refused a document: {_message(answer)}")
    return read_answer(answer.json())


def read_answer(answer: dict[str, Any]) -> Document:
    """Read a completion that was asked for with `prompt_logprobs` and `return_token_ids`.

    Raises:
        RefusedError: it has neither, or a log probability that is no number.
    """
    choice = answer["choices"][0]
    positions, tokens = choice.get("prompt_logprobs"), choice.get("prompt_token_ids")
    if not positions or not tokens or choice.get("token_ids") is None:
        raise RefusedError("the server does not tell prompt_logprobs and token ids")
    # Nothing comes before the first token, so that it has no probability.
    scored = list(zip(tokens, positions, strict=True))[1:]
    logprobs = [told[str(token)]["logprob"] for token, told in scored]
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in logprobs):
        raise RefusedError("the server tells a log probability that is no number")
    return Document(
        prompt_digest=hashlib.sha256(json.dumps(tokens).encode()).hexdigest()[:12],
        tokens=len(scored),
        logprob=round(math.fsum(logprobs), 6),
        top1=[int(min(told, key=lambda id: told[id]["rank"])) for _, told in scored],
        greedy=choice["token_ids"],
    )


def _message(answer: httpx.Response) -> str:
    try:
        told = answer.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"
    return str(told).strip().splitlines()[0] if str(told).strip() else f"HTTP {answer.status_code}"
