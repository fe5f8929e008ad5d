"""A salt at the start of each prompt of a load: what was sent before, no cache finds again."""

import hashlib

from servetune.load.rows import Row, Turn, turns_of

_DIGITS, _TOKENS = 12, 8
"""Fewer than a block of a KV cache has, so that prompts share no block by their salt alone."""


def salt_of(measurement: str, launch: int) -> str:
    """Return the salt of a load: another one in each launch, as a disk outlives a server."""
    return f"{measurement} {launch}"


def salted(rows: list[Row], salt: str) -> list[Row]:
    """Return rows whose first prompts begin with a word, or with tokens of the rows' vocabulary.

    All have the same, so that they share with each other what they shared before.
    """
    digest = hashlib.sha256(salt.encode())
    word = digest.hexdigest()[:_DIGITS]
    ids = (turn["prompt"] for row in rows for turn in turns_of(row))
    highest = max((max(prompt, default=0) for prompt in ids if isinstance(prompt, list)), default=0)
    parts = (digest.digest()[4 * place :][:4] for place in range(_TOKENS))
    tokens = [int.from_bytes(part) % (highest + 1) for part in parts]

    def of(turn: Turn) -> Turn:
        said = turn["prompt"]
        return {**turn, "prompt": f"{word} {said}" if isinstance(said, str) else tokens + said}

    def first(row: Row) -> Row:
        if turns := row.get("turns"):
            return {**row, "turns": [of(turns[0]), *turns[1:]]}
        return {**row, "prompt": of(row)["prompt"]}

    return [first(row) for row in rows]
