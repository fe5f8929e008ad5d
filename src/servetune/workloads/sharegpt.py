"""Conversations in ShareGPT's JSON, as people had them."""

import json
from collections.abc import Iterator
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

from servetune.errors import UserError
from servetune.load.rows import Row, Turn
from servetune.study.datasets import ShareGptDataset
from servetune.workloads.draws import Streams, draw_length
from servetune.workloads.sources import json_lines, read_source, take

_ENTRY = '{"conversations": [{"from": "human", "value": ...}, {"from": "gpt", "value": ...}]}'
_HUMAN = {"human", "user"}
_MODEL = {"gpt", "assistant", "chatgpt", "bard", "bing"}


def sharegpt_rows(spec: ShareGptDataset, streams: Streams) -> Iterator[Row]:
    """Yield what humans said, in the order of the file, up to `turns` of each conversation.

    An entry in which nobody answers a human is skipped, as `vllm bench` skips those of fewer
    than two messages; so is what comes before the first human that is answered. A conversation
    ends where the two no longer take turns. With one turn a row is a single prompt.

    The file is a JSON list, or JSONL.

    Raises:
        UserError: not JSON, or fewer conversations than asked for.
    """
    answered = filter(None, map(_pairs, _entries(spec.path)))
    none = f"no conversation with an answer; expected a list of {_ENTRY}"
    what = "conversations with an answer"
    for index, pairs in enumerate(take(spec.path, answered, spec.requests, none, what)):
        random = streams.random("conversation", index)
        turns: list[Turn] = []
        for said, answer in pairs[: spec.turns]:
            length: Turn = {"output_text": answer}
            if spec.output_tokens is not None:
                length = {"output_tokens": draw_length(random, spec.output_tokens)}
            turns.append({"prompt": said, **length})
        yield {"turns": turns} if spec.turns > 1 else cast(Row, turns[0])


def _entries(path: Path) -> Iterator[Any]:
    text = read_source(path)
    if not text.lstrip().startswith("["):
        yield from (entry for _, entry in json_lines(path, text, TypeAdapter(Any), _ENTRY))
        return
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}: line {error.lineno}: not JSON: {error.msg}") from None
    yield from entries


def _pairs(entry: Any) -> list[tuple[str, str]]:
    """Return what humans said with the answers to it, from the first that was answered on."""
    messages = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(messages, list):
        return []
    pairs = [
        (_said_by(_HUMAN, message), _said_by(_MODEL, following))
        for message, following in pairwise(messages)
    ]
    first = next((place for place, pair in enumerate(pairs) if all(pair)), len(pairs))
    return list(takewhile(all, pairs[first::2]))


def _said_by(speakers: set[str], message: Any) -> str:
    """Return the text of a message by one of the speakers, empty if it is blank or another's."""
    if not isinstance(message, dict) or message.get("from") not in speakers:
        return ""
    value = message.get("value")
    return value if isinstance(value, str) and value.strip() else ""
