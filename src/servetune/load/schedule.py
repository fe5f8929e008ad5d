"""The schedule of a load point: which requests are sent, in which order, and when.

It is made from the dataset and the declared load alone, so that every generator sends the same,
and stands beside the raw output as `schedule.jsonl`, one request a line.
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from servetune.load.classes import assign
from servetune.records.loads import Load
from servetune.study.delays import draw_delay
from servetune.study.rows import Row, answer_of, parents_of, turns_of

SCHEDULE = "schedule.jsonl"

_DELAYS = 1
"""Beside the seed of a load, which the arrivals are drawn by, that of its delays."""


@dataclass(frozen=True)
class ScheduledRequest:
    """One request of a load point.

    `index` is its place; `conversation` and `turn` count from 0, and a single prompt is turn 0.
    `prompt` is text or token ids; of a later turn only what the user adds to the history.
    `arrival_s` is when an open loop sends it, in seconds after the load began, None in a closed
    loop; a later turn has that of its conversation, and waits for the answers to the requests with
    the indices `after`, None for that of the turn before, and then for `delay_s`. `messages` is a
    whole chat in place of the prompt and the history; `answer` is the recorded one, which its
    history then holds. `pair` names the pair of questions that it is one of, and `is_same` tells
    whether one answer serves both; None of the first of them.
    """

    index: int
    conversation: int
    turn: int
    prompt: str | list[int]
    output_tokens: int
    arrival_s: float | None
    after: list[int] | None = None
    delay_s: float = 0.0
    class_name: str | None = None
    answer: str | None = None
    messages: list[dict[str, Any]] | None = None
    pair: str | None = None
    is_same: bool | None = None

    @property
    def parents(self) -> list[int]:
        """The indices of the requests that it waits for; its history is the first one's."""
        if self.after is None:
            return [self.index - 1] if self.turn else []
        return self.after


def make_schedule(rows: list[Row], load: Load) -> list[ScheduledRequest]:
    """Schedule a load point; returns its requests in the order of sending.

    After the last of the dataset's rows comes the first again, unless only a duration or the trace
    itself says where the load ends. Conversations are whole, but for the last one, which ends
    where the number of requests is reached.
    """
    # NumPy, which a plan does without.
    import numpy as np

    from servetune.load.arrivals import arrival_times, expected

    delays = np.random.Generator(np.random.PCG64([load.seed, _DELAYS]))
    extra = load.settle_requests + load.cooldown_requests
    asked = None if load.requests is None else load.requests + extra
    is_trace = load.arrivals == "trace"
    has_rate = load.rate_rps is not None
    if is_trace:
        rows = sorted(rows, key=lambda row: float(row["arrival_s"]))
    if asked is None and has_rate:
        assert load.duration_s is not None
        count = expected(load, load.duration_s)
        chosen = list(itertools.islice(itertools.cycle(rows), count))
    else:
        repeats = asked is not None and not is_trace
        chosen = list(_conversations(rows, asked, repeats))
    arrivals_s: list[float] | list[None] = [None] * len(chosen)
    if load.time_scale is not None:
        scale, first_s = load.time_scale, rows[0]["arrival_s"]
        arrivals_s = [(row["arrival_s"] - first_s) * scale for row in chosen]
    elif has_rate:
        arrivals_s = arrival_times(load, len(chosen)).tolist()
    requests: list[ScheduledRequest] = []
    classes = assign(load, len(chosen))
    for number, (row, due_s, kind) in enumerate(zip(chosen, arrivals_s, classes, strict=True)):
        if due_s is not None and load.duration_s is not None and due_s > load.duration_s:
            break
        first = len(requests)
        for turn, said in enumerate(turns_of(row)):
            delay_s = said.get("delay_s", 0.0)
            if load.turn_delay_s != "trace":
                delay_s = draw_delay(load.turn_delay_s, delays) if parents_of(turn, said) else 0.0
            after = [first + place for place in said["after"]] if "after" in said else None
            request = ScheduledRequest(
                index=first + turn,
                conversation=number,
                turn=turn,
                prompt=said.get("prompt", ""),
                output_tokens=said["output_tokens"],
                arrival_s=due_s,
                after=after,
                delay_s=delay_s,
                class_name=said.get("class", kind),
                answer=answer_of(said) if load.history == "recorded" else None,
                messages=said.get("messages"),
                pair=said.get("pair"),
                is_same=said.get("is_same"),
            )
            requests.append(request)
    return requests[:asked]


def _conversations(rows: list[Row], requests: int | None, repeats: bool) -> Iterator[Row]:
    """Yield whole rows until there are so many requests."""
    count = 0
    for row in itertools.cycle(rows) if repeats else rows:
        if requests is not None and count >= requests:
            return
        yield row
        count += len(turns_of(row))


def write_schedule(requests: list[ScheduledRequest], path: Path) -> None:
    """Write a schedule as JSONL, without what is at its default."""
    with path.open("w", encoding="utf-8") as file:
        for request in requests:
            values = ((each, getattr(request, each.name)) for each in fields(request))
            told = {each.name: value for each, value in values if value != each.default}
            file.write(json.dumps(told) + "\n")


def read_schedule(path: Path) -> list[ScheduledRequest]:
    """Read a schedule that `write_schedule` wrote."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [ScheduledRequest(**json.loads(line)) for line in lines]
