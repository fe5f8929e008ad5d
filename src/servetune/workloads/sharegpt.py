"""Conversations in ShareGPT's JSON, as people had them."""

from collections.abc import Iterator
from typing import cast

from servetune.load.rows import Row, Turn
from servetune.study.datasets import ShareGptDataset
from servetune.study.lines import take
from servetune.study.sources import ANSWERED, NO_ANSWER, answered_conversations, read_source
from servetune.workloads.draws import Streams, draw_length


def sharegpt_rows(spec: ShareGptDataset, streams: Streams) -> Iterator[Row]:
    """Yield what humans said, in the order of the file, up to `turns` of each conversation.

    An entry in which nobody answers a human is skipped, as `vllm bench` skips those of fewer
    than two messages; so is what comes before the first human that is answered. A conversation
    ends where the two no longer take turns. With one turn a row is a single prompt.

    The file is a JSON list, or JSONL.

    Raises:
        UserError: not JSON, or fewer conversations than asked for.
    """
    answered = answered_conversations(spec.path, read_source(spec.path))
    wanted = take(spec.path, answered, spec.requests, NO_ANSWER, ANSWERED)
    for index, pairs in enumerate(wanted):
        random = streams.random("conversation", index)
        turns: list[Turn] = []
        for said, answer in pairs[: spec.turns]:
            length: Turn = {"output_text": answer}
            if spec.output_tokens is not None:
                length = {"output_tokens": draw_length(random, spec.output_tokens)}
            turns.append({"prompt": said, **length})
        yield {"turns": turns} if spec.turns > 1 else cast(Row, turns[0])
