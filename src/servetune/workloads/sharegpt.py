"""Conversations in ShareGPT's JSON, as people had them."""

from collections.abc import Iterator
from typing import cast

from servetune.study.datasets import ShareGptDataset
from servetune.study.opening import read_source
from servetune.study.rows import Row, Turn
from servetune.study.sources import records_of
from servetune.workloads.draws import Streams, draw_length


def sharegpt_rows(spec: ShareGptDataset, streams: Streams) -> Iterator[Row]:
    """Yield what humans said, in the order of the file, up to `turns` of each conversation.

    An entry in which nobody answers a human is skipped, as `vllm bench` skips those of fewer
    than two messages; so is what comes before the first human that is answered. A conversation
    ends where the two no longer take turns. With one turn a row is a single prompt.

    Raises:
        UserError: not JSON, a message of another form, or fewer conversations than asked for.
    """
    for index, pairs in enumerate(records_of(spec, read_source(spec.path))):
        random = streams.random("conversation", index)
        turns: list[Turn] = []
        for said, answer in pairs:
            length: Turn = {"output_text": answer}
            if spec.output_tokens is not None:
                length = {"output_tokens": draw_length(random, spec.output_tokens)}
            turns.append({"prompt": said, **length})
        yield {"turns": turns} if spec.turns > 1 else cast(Row, turns[0])
