"""One answer of a server as its stream tells it: tokens, times and an end.

The definitions are those of `vllm bench serve`: a chunk counts if it has a choice. In a chat the
first one may only name the role, and is none; reasoning and tool calls are tokens as others.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from servetune.load.stream import CUT_SHORT, DONE, REASONING_MARKS, in_stream, reasoning_of

Message = dict[str, Any]


@dataclass
class Answer:
    """What came so far of one answer; times are by `time.perf_counter`.

    `text` and `reasoning` are what it said, `chunks_s` when each chunk of tokens came;
    `answer_s` is when the first one after the reasoning did, a tool call included. `tool_calls`
    holds the place of each call; `whole_s` is when an answer without a stream was read to its end.
    `has_left` tells that its client closed the connection before the end, `rate_limited` counts
    how often the request was put off before.
    """

    is_chat: bool
    chunks_s: list[float] = field(default_factory=list)
    text: str = ""
    reasoning: str = ""
    usage: Message | None = None
    model: str | None = None
    finish_reason: str | None = None
    error: str | None = None
    is_done: bool = False
    has_left: bool = False
    whole_s: float | None = None
    textless: int = 0
    rate_limited: int = 0
    replica: int | None = None
    answer_s: float | None = None
    reasoning_chunks: int = 0
    tool_calls: set[int] = field(default_factory=set)
    cache: str | None = None
    similarity: float | None = None

    def take_headers(self, headers: Mapping[str, str]) -> None:
        """Take what a cache of answers, if one stands before the server, says of its part."""
        said = headers.get("x-cache", "").lower()
        if said not in ("hit", "miss", "bypass"):
            return
        self.cache = headers.get("x-cache-tier", "").lower() if said == "hit" else said
        with suppress(ValueError):
            alike = float(headers.get("x-cache-similarity", ""))
            self.similarity = min(1.0, alike) if alike >= 0 else None

    def take(self, data: str, at_s: float) -> None:
        """Take the data of one event that came at a time."""
        if data == DONE:
            self.is_done = True
            return
        message: Message = json.loads(data)
        if error := message.get("error"):
            self.error = in_stream(error)
        if choices := message.get("choices"):
            self._take_choice(choices[0], at_s)
        if usage := message.get("usage"):
            self.usage, self.model = usage, message.get("model")

    def take_whole(self, body: bytes, at_s: float) -> None:
        """Take an answer that came at once: embeddings, or the ranks of documents."""
        message: Message = json.loads(body)
        self.whole_s, self.is_done = at_s, True
        self.usage, self.model = message.get("usage"), message.get("model")
        found = message.get("data") or message.get("results")
        if not found or not (found[0].get("embedding") or "relevance_score" in found[0]):
            self.error = "the answer holds no embedding and no rank"
        self.finish_reason = "stop"

    def _take_choice(self, choice: Message, at_s: float) -> None:
        delta = (choice.get("delta") or {}) if self.is_chat else choice
        said = delta.get("content" if self.is_chat else "text") or ""
        reasoning = reasoning_of(delta)
        reason = choice.get("finish_reason")
        self.finish_reason = reason or self.finish_reason
        calls = delta.get("tool_calls") or []
        if self.is_chat and "role" in delta and not (said or reasoning or reason or calls):
            return
        self.chunks_s.append(at_s)
        self.tool_calls.update(call.get("index", 0) for call in calls)
        self.reasoning_chunks += bool(reasoning)
        if self.reasoning_chunks and self.answer_s is None and (said or calls):
            self.answer_s = at_s
        self.text += said
        self.reasoning += reasoning
        self.textless = 0 if said or reasoning else self.textless + 1

    @property
    def fault(self) -> str | None:
        """Say why it is no answer: an error in it, or no end; None of a whole one."""
        if self.error or not self.is_done:
            return self.error or CUT_SHORT
        if self.finish_reason is None:
            return "the stream ended without a finish reason"
        if self.usage is None:
            of = "answer has no" if self.whole_s else "stream ended without the"
            return f"the {of} usage{'' if self.whole_s else ' that stream_options asked for'}"
        return None

    @property
    def reasoning_tokens(self) -> int | None:
        """How many tokens it reasoned: by its usage, or as many as their share of the chunks.

        None of an answer without reasoning.
        """
        usage = self.usage or {}
        stated = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
        if stated or not self.reasoning_chunks:
            return stated or None
        tokens = usage.get("completion_tokens") or 0
        return round(tokens * self.reasoning_chunks / len(self.chunks_s))

    @property
    def whole_text(self) -> str | None:
        """All that was said; None where two chunks or more without a text follow it.

        So do special tokens after the end that a request ignored; how many they are is not known.
        """
        said = self.reasoning + self.text
        return None if said and self.textless > 1 else said

    @property
    def textless_tokens(self) -> int:
        """How many tokens may have no text, though the answer has ended as it should."""
        return 1 + (REASONING_MARKS if self.reasoning else 0)
