"""Published numbers as a study names them: a table of numbers, and their source beside it."""

import csv
import math
from pathlib import Path

from pydantic import Field

from servetune.errors import UserError
from servetune.files import read_given
from servetune.shipped import SHIPPED
from servetune.study.base import Declared
from servetune.study.reading import validate
from servetune.study.yaml import read_yaml

FOLDER = Path("data", "published")
COLUMNS = ["variant", "workload", "load_point", "metric", "run", "value"]

_LARGEST_TABLE = 10_000_000
"""Bytes: more than a thousand times the largest of ours, which a person copied."""


class Source(Declared):
    """Where numbers come from, and what was different there."""

    title: str
    hardware: str
    engine: str
    weights: str
    differs: list[str] = Field([], description="what else to know before comparing")


def published_files(name: str, root: Path) -> tuple[Path, Path]:
    """Return the files of published numbers and of their source: the project's, or the shipped."""
    own, shipped = ((at / FOLDER / f"{name}.csv") for at in (root, SHIPPED))
    numbers = shipped if shipped.is_file() and not own.is_file() else own
    return numbers, numbers.with_suffix(".yaml")


def check_published(name: str, root: Path) -> Source:
    """Check a table of published numbers line by line; returns their source.

    Raises:
        UserError: a file is missing, or is not as it should be.
    """
    table, source = FOLDER / f"{name}.csv", FOLDER / f"{name}.yaml"
    numbers, described = published_files(name, root)
    text = read_given(numbers, str(table), _LARGEST_TABLE)
    rows = csv.reader(text.splitlines(keepends=True), strict=True)
    try:
        if next(rows, None) != COLUMNS:
            raise UserError(f"{table}: line 1: expected the columns {', '.join(COLUMNS)}")
        for row in rows:
            if row and len(row) != len(COLUMNS):
                raise UserError(
                    f"{table}: line {rows.line_num}: has {len(row)} values; expected {len(COLUMNS)}"
                )
            if row and not _is_number(row[-1]):
                raise UserError(f"{table}: line {rows.line_num}: value: expected a number")
    except csv.Error as error:
        raise UserError(f"{table}: line {rows.line_num}: {error}") from None
    return validate(Source, read_yaml(described, source), source)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
