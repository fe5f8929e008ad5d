"""What of a plan was refused before: its requests are the same, and will be refused again."""

import contextlib
import re
from functools import lru_cache
from pathlib import Path

from servetune.errors import UserError
from servetune.files import read_model
from servetune.records.excerpts import RefusedExcerpt
from servetune.records.refusals import is_for_good

_ANSWER = re.compile(r"HTTP (\d{3})(?=(.*))")
"""The status of an error, and the rest of its line."""


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
        answers = _ANSWER.finditer(record.told)
        if first := next((each for each in answers if is_for_good(int(each[1]))), None):
            refused[record.workload, record.load_point] = first[0] + first[2]
    return refused


# A record is written once.
@lru_cache(maxsize=10_000)
def _excerpt(path: Path) -> RefusedExcerpt | None:
    with contextlib.suppress(UserError):
        return read_model(path, RefusedExcerpt)
    return None
