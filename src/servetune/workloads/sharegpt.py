"""Conversations in ShareGPT's JSON, as people had them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from servetune.errors import UserError
from servetune.load.rows import Row, Turn
from servetune.study.datasets import ShareGptDataset
from servetune.workloads.lengths import draw_length
from servetune.workloads.sources import check_enough, json_lines, read_source
from servetune.workloads.streams import Streams

_ENTRY = '{"conversations": [{"from": "human", "value": ...}, {"from": "gpt", "value": ...}]}'
_HUMAN = {"human", "user"}
_MODEL = {"gpt", "assistant", "chatgpt", "bard", "bing"}


def sharegpt_rows(spec: ShareGptDataset, path: Path, streams: Streams) -> Iterator[Row]:
    """Yield what humans said, in the order of the file, up to `turns` of each conversation.

    An entry in which nobody answers a human is skipped, as `vllm bench` skips those of fewer
    than two messages; so is what comes before the first human that is answered. A conversation
    ends where the two no longer take turns. With one turn a row is a single prompt.

    The file is a JSON list, or JSONL.

    Raises:
        UserError: not JSON, or fewer conversations than asked for.
    """
    taken = 0
    for entry in _entries(path):
        if taken == spec.requests:
            return
        pairs = _pairs(entry)[: spec.turns]
        if not pairs:
            continue
        random = streams.random("conversation", taken)
        turns: list[Turn] = []
        for said, answer in pairs:
            length: Turn = {"output_text": answer}
            if spec.output_tokens is not None:
                length = {"output_tokens": draw_length(random, spec.output_tokens)}
            turns.append({"prompt": said, **length})
        yield {"turns": turns} if spec.turns > 1 else cast(Row, turns[0])
        taken += 1
    if taken == 0:
        raise UserError(f"{path}: no conversation with an answer; expected a list of {_ENTRY}")
    check_enough(path, taken, spec.requests, "conversations with an answer")


def _entries(path: Path) -> Iterator[Any]:
    text = read_source(path)
    if not text.lstrip().startswith("["):
        yield from (entry for _, entry in json_lines(path, text, _ENTRY))
        return
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: line {error.lineno}: not JSON: {error.msg}") from None
    yield from entries


def _pairs(entry: Any) -> list[tuple[str, str]]:
    """Return what humans said with the answers to it."""
    messages = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(messages, list):
        return []
    pairs: list[tuple[str, str]] = []
    place = 0
    while place + 1 < len(messages):
        said, answer = _said_by(messages[place], _HUMAN), _said_by(messages[place + 1], _MODEL)
        if said and answer:
            pairs.append((said, answer))
            place += 2
        elif pairs:
            break
        else:
            place += 1
    return pairs


def _said_by(message: Any, speakers: set[str]) -> str | None:
    """Return the text of a message by one of the speakers, unless it is blank."""
    if not isinstance(message, dict) or message.get("from") not in speakers:
        return None
    value = message.get("value")
    return value if isinstance(value, str) and value.strip() else None
