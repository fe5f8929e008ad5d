"""What the rows of a dataset are, which decides how they can be sent."""

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from servetune.plan.requests import read_records
from servetune.study.datasets import (
    AgentsDataset,
    Dataset,
    FileDataset,
    MooncakeDataset,
    PairsDataset,
    QuestionsDataset,
    ShareGptDataset,
    TextDataset,
)
from servetune.study.opening import LARGEST_SOURCE, open_source

_CLASS = re.compile(rb'"class"\s*:\s*"([A-Za-z0-9._-]+)"')
_SAYS = {
    "has_turns": re.compile(rb'"(turns|session_id)"\s*:'),
    "has_token_ids": re.compile(rb'"prompt"\s*:\s*\['),
    "has_delays": re.compile(rb'"(delay_s|delay)"\s*:'),
    "has_graphs": re.compile(rb'"(after|messages|session_id)"\s*:'),
}
"""What a line of a file has, by how it looks."""


@dataclass(frozen=True)
class Content:
    """What the rows of a dataset are: conversations, token ids, and whether each has its time.

    Graphs are conversations whose turns name what they wait for, or are whole prompts or chats.
    `classes` are those that the rows name.
    """

    has_turns: bool = False
    has_token_ids: bool = False
    has_times: bool = False
    has_delays: bool = False
    has_graphs: bool = False
    needs_chat: bool = False
    classes: frozenset[str] = frozenset()


def content_of(dataset: Dataset, root: Path) -> Content:
    """Return what a declared dataset will hold, or what its file does."""
    if isinstance(dataset, FileDataset):
        return content_of_file(root / dataset.path)
    if isinstance(dataset, MooncakeDataset):
        content = content_of_file(root / dataset.path)
        return replace(content, has_token_ids=True, has_times=True, needs_chat=False)
    if isinstance(dataset, AgentsDataset):
        has_times = all("arrival_s" in row for row in read_records(dataset, root))
        return Content(True, False, has_times, has_delays=True, has_graphs=True, needs_chat=True)
    if isinstance(dataset, PairsDataset):
        return Content(needs_chat=dataset.system is not None)
    is_burst = dataset.kind == "burstgpt"
    if isinstance(dataset, TextDataset):
        return Content(classes=frozenset(dataset.classes))
    has_turns = dataset.kind == "conversations"
    if isinstance(dataset, QuestionsDataset | ShareGptDataset):
        has_turns = dataset.turns > 1
    has_token_ids = is_burst or dataset.kind == "random"
    return Content(has_turns, has_token_ids, has_times=is_burst, needs_chat=has_turns)


def content_of_file(path: Path) -> Content:
    """Return what a dataset's file holds; it is read once, though each measurement asks."""
    # Another time is another file.
    return _content_of_file(path, path.stat().st_mtime_ns)


@lru_cache
def _content_of_file(path: Path, mtime_ns: int) -> Content:
    times, is_list, found = set[bool](), False, dict.fromkeys(_SAYS, False)
    classes: set[str] = set()
    with open_source(path, path, LARGEST_SOURCE) as (file, _):
        for line in filter(bytes.strip, file):
            is_list |= not times and line.lstrip().startswith(b"[")
            times.add(b'"arrival_s"' in line)
            classes.update(name.decode() for name in _CLASS.findall(line))
            for key, pattern in _SAYS.items():
                found[key] = found[key] or pattern.search(line) is not None
    # The lines of a list are parts of its records.
    has_times = True in times and (is_list or False not in times)
    needs_chat = found["has_turns"] or found["has_graphs"]
    return Content(**found, has_times=has_times, needs_chat=needs_chat, classes=frozenset(classes))
