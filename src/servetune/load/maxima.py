"""Lengths that only the model's tokenizer can tell: answers of a dataset, and the maxima of a load.

Needed before scheduling, and only where a dataset holds answers in place of their lengths, or a
workload declares a maximum.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from servetune.errors import UserError
from servetune.load.rows import Row, Turn, turns_of
from servetune.records.loads import Load


class Encoding(Protocol):
    """What a tokenizer returns: the ids, and where in the text each begins and ends."""

    @property
    def ids(self) -> list[int]:
        """The token ids."""

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Where each token begins and ends in the text."""


Encode = Callable[[str], Encoding]


@dataclass(frozen=True)
class Resolved:
    """Rows whose turns all have `output_tokens`, and what the maxima did to the others."""

    rows: list[Row]
    rejected: int
    truncated: int


def needs_tokenizer(rows: list[Row], load: Load) -> bool:
    """Tell whether a load needs lengths that its dataset does not hold."""
    has_answers = any("output_text" in turn for row in rows for turn in turns_of(row))
    is_text = any(isinstance(turn["prompt"], str) for row in rows for turn in turns_of(row))
    return has_answers or (load.max_input_tokens is not None and is_text)


def open_tokenizer(checkpoint: Path) -> Encode:
    """Open a checkpoint's `tokenizer.json`.

    Raises:
        UserError: it has none.
    """
    from tokenizers import Tokenizer

    path = checkpoint / "tokenizer.json"
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; max_input_tokens, and output lengths taken from answers, need"
            " the model's fast tokenizer"
        )
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()

    def encode(text: str) -> Encoding:
        found: Encoding = tokenizer.encode(text, add_special_tokens=False)
        return found

    return encode


def resolve(rows: list[Row], load: Load, encode: Encode | None) -> Resolved:
    """Give every turn its `output_tokens`, and apply the maxima of a load.

    A row above a maximum is left out (`over_length: reject`) or cut to it (`truncate`). Of a
    conversation the input is the whole history: it ends before the turn that is too long.

    Args:
        rows: the dataset's.
        load: the declared load.
        encode: the model's tokenizer; not needed where `needs_tokenizer` says so.
    """
    found: list[Row] = []
    rejected, truncated = 0, 0
    for row in rows:
        turns, was_cut = _resolve_turns(turns_of(row), load, encode)
        if turns:
            found.append({**row, "turns": turns})
            truncated += was_cut
        else:
            rejected += 1
    return Resolved(found, rejected, truncated)


def _resolve_turns(turns: list[Turn], load: Load, encode: Encode | None) -> tuple[list[Turn], bool]:
    """Return the turns that are kept, and whether something was cut."""
    most_input, most_output = load.max_input_tokens, load.max_output_tokens
    truncates = load.over_length == "truncate"
    kept: list[Turn] = []
    history, was_cut = 0, False
    for turn in turns:
        prompt, output_tokens = turn["prompt"], _output_tokens(turn, encode)
        if most_output is not None and output_tokens > most_output:
            if not truncates:
                return kept, True
            output_tokens, was_cut = most_output, True
        if most_input is not None:
            encoding = encode(prompt) if isinstance(prompt, str) and encode else None
            size = len(encoding.ids) if encoding else len(prompt)
            if history + size > most_input:
                if not truncates or kept:
                    return kept, True
                end = encoding.offsets[most_input - 1][1] if encoding else most_input
                prompt, size, was_cut = prompt[:end], most_input, True
            history += size + output_tokens
        kept.append({"prompt": prompt, "output_tokens": output_tokens})
    return kept, was_cut


def _output_tokens(turn: Turn, encode: Encode | None) -> int:
    if "output_tokens" in turn:
        return int(turn["output_tokens"])
    assert encode is not None
    return max(1, len(encode(turn["output_text"]).ids))
