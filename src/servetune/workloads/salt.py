"""A salt at the start of each prompt of a load: what was sent before, no cache finds again."""

import hashlib
from typing import cast

from servetune.study.rows import Row, Turn, continued, turns_of

_DIGITS, _TOKENS = 12, 8
"""Fewer than a block of a KV cache has, so that prompts share no block by their salt alone."""


def salt_of(measurement: str, launch: int) -> str:
    """Return the salt of a load: another one in each launch, as a disk outlives a server."""
    return f"{measurement} {launch}"


def salted(rows: list[Row], salt: str) -> list[Row]:
    """Return rows whose prompts begin with a word, or with tokens of the rows' vocabulary.

    So do those of later turns that go on from none before them.

    All have the same, so that they share with each other what they shared before.
    """
    digest = hashlib.sha256(salt.encode())
    word = digest.hexdigest()[:_DIGITS]
    ids = (turn.get("prompt") for row in rows for turn in turns_of(row))
    highest = max((max(prompt, default=0) for prompt in ids if isinstance(prompt, list)), default=0)
    parts = (digest.digest()[4 * place :][:4] for place in range(_TOKENS))
    tokens = [int.from_bytes(part) % (highest + 1) for part in parts]

    def of(turn: Turn) -> Turn:
        if "messages" in turn:
            first, *rest = turn["messages"]
            content = first.get("content") or ""
            parts = [{"type": "text", "text": word}, *content]
            content = f"{word} {content}" if isinstance(content, str) else parts
            return {**turn, "messages": [{**first, "content": content}, *rest]}
        said = turn["prompt"]
        return {**turn, "prompt": f"{word} {said}" if isinstance(said, str) else tokens + said}

    def conversation(row: Row) -> Row:
        turns = [
            of(turn) if continued(place, turn) is None else turn
            for place, turn in enumerate(turns_of(row))
        ]
        return {**row, "turns": turns} if "turns" in row else cast(Row, {**row, **turns[0]})

    return [conversation(row) for row in rows]
