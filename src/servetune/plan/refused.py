"""What of a plan was refused before: its requests are the same, and will be refused again."""

import contextlib
import re
from functools import lru_cache
from pathlib import Path

from servetune.errors import UserError
from servetune.files import read_model
from servetune.records.excerpts import RefusedExcerpt

_FOR_GOOD = re.compile(r"HTTP 4(?!08|09|25|29)\d\d.*")
"""Statuses by which the same request is refused again: not those of a busy server."""


def refused_before(study: str, root: Path) -> dict[tuple[str, str], str]:
    """Return the load points that were refused, by workload and name, each with its error.

    Whichever variant was asked: what one refuses, others mostly do.
    """
    records = (root / "results" / study / "records").absolute()
    refused = {}
    for path in sorted(records.glob("*.json")):
        record = _excerpt(path)
        if record is None or record.probe or not record.told:
            continue
        if told := _FOR_GOOD.search(record.told):
            refused[record.workload, record.load_point] = told[0]
    return refused


# A record is written once.
@lru_cache(maxsize=10_000)
def _excerpt(path: Path) -> RefusedExcerpt | None:
    with contextlib.suppress(UserError):
        return read_model(path, RefusedExcerpt)
    return None
