"""Datasets made from nothing but their declaration: text, random tokens, conversations."""

from collections.abc import Iterator
from random import Random

from servetune.corpus import passage
from servetune.study.datasets import (
    ConversationsDataset,
    RandomDataset,
    SharedWords,
    TextClass,
    TextDataset,
)
from servetune.study.rows import Row, Turn
from servetune.workloads.draws import Streams, below, draw_length


def text_rows(spec: TextDataset, streams: Streams) -> Iterator[Row]:
    """Yield prompts in the tiny model's language, after a shared passage if one is declared."""
    prefixes = _shared_passages(spec.shared_prefix, streams)
    for index in range(spec.requests):
        random = streams.random("request", index)
        name = _drawn_class(spec, streams.random("class", index))
        kind = spec.classes.get(name or "", TextClass())
        words = draw_length(random, kind.input_words or spec.input_words)
        output_tokens = draw_length(random, kind.output_tokens or spec.output_tokens)
        parts = [prefixes[below(random, len(prefixes))]] if prefixes else []
        parts.append(passage(streams.seed("passage", index), words))
        row: Row = {"prompt": " ".join(parts), "output_tokens": output_tokens}
        yield {**row, "class": name} if name else row


def _drawn_class(spec: TextDataset, random: Random) -> str | None:
    """Draw the class of a prompt by the weights; None where there are none."""
    place = random.random() * sum(kind.weight for kind in spec.classes.values())
    for name, kind in spec.classes.items():
        place -= kind.weight
        if place < 0:
            return name
    return next(reversed(spec.classes), None)


def random_rows(spec: RandomDataset, streams: Streams) -> Iterator[Row]:
    """Yield prompts of random token ids, after a shared run of them if one is declared."""
    prefixes: list[list[int]] = []
    if shared := spec.shared_prefix:
        for index in range(shared.count):
            random = streams.random("shared", index)
            length = draw_length(random, shared.tokens)
            prefixes.append(random_tokens(random, length, spec.vocabulary))
    for index in range(spec.requests):
        random = streams.random("request", index)
        length = draw_length(random, spec.input_tokens)
        output_tokens = draw_length(random, spec.output_tokens)
        prefix = prefixes[below(random, len(prefixes))] if prefixes else []
        prompt = prefix + random_tokens(random, length, spec.vocabulary)
        yield {"prompt": prompt, "output_tokens": output_tokens}


def conversation_rows(spec: ConversationsDataset, streams: Streams) -> Iterator[Row]:
    """Yield conversations; the first turn is one of the shared starters and a question."""
    starters = _shared_passages(spec.starters, streams)
    for index in range(spec.conversations):
        random = streams.random("conversation", index)
        starter = starters[below(random, len(starters))]
        turns: list[Turn] = []
        for turn in range(draw_length(random, spec.turns)):
            words = draw_length(random, spec.follow_up_words)
            said = passage(streams.seed("turn", index, turn), words)
            prompt = said if turn else " ".join([starter, *_opening(spec, index, streams), said])
            output_tokens = draw_length(random, spec.output_tokens)
            turns.append({"prompt": prompt, "output_tokens": output_tokens})
        yield {"turns": turns}


def _opening(spec: ConversationsDataset, index: int, streams: Streams) -> list[str]:
    if spec.opening_words is None:
        return []
    words = draw_length(streams.random("opening length", index), spec.opening_words)
    return [passage(streams.seed("opening", index), words)]


def random_tokens(random: Random, count: int, vocabulary: int) -> list[int]:
    """Draw `count` token ids from [0, vocabulary)."""
    draw = random.random
    return [int(draw() * vocabulary) for _ in range(count)]


def _shared_passages(shared: SharedWords | None, streams: Streams) -> list[str]:
    if shared is None:
        return []
    passages = []
    for index in range(shared.count):
        words = draw_length(streams.random("shared length", index), shared.words)
        passages.append(passage(streams.seed("shared", index), words))
    return passages
