"""What the rows of a dataset are, which decides how they can be sent."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from servetune.study.datasets import Dataset, FileDataset

_CLASS = re.compile(rb'"class"\s*:\s*"([A-Za-z0-9._-]+)"')
_TOKEN_IDS = re.compile(rb'"prompt"\s*:\s*\[')


@dataclass(frozen=True)
class Content:
    """What the rows of a dataset are: conversations, token ids, and whether each has its time.

    Graphs are conversations whose turns name what they wait for, or are whole chats. `classes` are
    those that the rows name.
    """

    has_turns: bool
    has_token_ids: bool
    has_times: bool
    has_delays: bool = False
    has_graphs: bool = False
    classes: frozenset[str] = frozenset()


def content_of(dataset: Dataset, root: Path) -> Content:
    """Return what a declared dataset will hold, or what its file does."""
    if isinstance(dataset, FileDataset):
        return content_of_file(root / dataset.path)
    has_turns = dataset.turns > 1 if dataset.kind == "sharegpt" else dataset.kind == "conversations"
    has_token_ids = dataset.kind in ("random", "mooncake")
    return Content(has_turns, has_token_ids, dataset.kind == "mooncake")


def content_of_file(path: Path) -> Content:
    """Return what a dataset's file holds; it is read once, though each measurement asks."""
    # Another time is another file.
    return _content_of_file(path, path.stat().st_mtime_ns)


@lru_cache
def _content_of_file(path: Path, mtime_ns: int) -> Content:
    has_turns, has_token_ids, has_times, has_delays, has_graphs = False, False, True, False, False
    classes: set[str] = set()
    with path.open("rb") as file:
        for line in filter(bytes.strip, file):
            has_turns |= b'"turns"' in line
            has_token_ids |= _TOKEN_IDS.search(line) is not None
            has_times &= b'"arrival_s"' in line
            has_delays |= b'"delay_s"' in line
            has_graphs |= b'"after"' in line or b'"messages"' in line
            classes.update(name.decode() for name in _CLASS.findall(line))
    found = (has_turns, has_token_ids, has_times, has_delays, has_graphs)
    return Content(*found, frozenset(classes))
