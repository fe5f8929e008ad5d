"""Published numbers: what others measured, kept as data and never mixed with what is measured here.

`data/published/<name>.csv` holds one row a number: `variant`, `workload` and `load_point` as the
study names them (empty where a number is of the variant as a whole), `metric` with its unit at
the end of the name, `run`, `value`. `<name>.yaml` beside it holds the source.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from pydantic import Field

from servetune.errors import UserError
from servetune.records.paths import published_files
from servetune.study.base import Declared
from servetune.study.reading import validate
from servetune.study.yaml import read_yaml

FOLDER = Path("data", "published")
COLUMNS = ["variant", "workload", "load_point", "metric", "run", "value"]


class Source(Declared):
    """Where numbers come from, and what was different there."""

    title: str
    hardware: str
    engine: str
    weights: str
    differs: list[str] = Field([], description="what else to know before comparing")


@dataclass(frozen=True)
class Published:
    """A source and its numbers, in the columns that the module's text names."""

    source: Source
    numbers: pd.DataFrame


def read_published(name: str, root: Path) -> Published:
    """Read published numbers and their source.

    Raises:
        UserError: a file is missing, or is not as it should be.
    """
    numbers, source = published_files(name, root)
    declared = validate(Source, read_yaml(source, FOLDER / source.name), FOLDER / source.name)
    try:
        table = pd.read_csv(numbers, dtype=dict.fromkeys(COLUMNS[:4], str), keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{FOLDER / numbers.name}: cannot be read: {error}") from None
    if list(table.columns) != COLUMNS:
        raise UserError(f"{FOLDER / numbers.name}: expected the columns {', '.join(COLUMNS)}")
    table["value"] = pd.to_numeric(table["value"], errors="coerce")
    if table["value"].isna().any():
        line = int(table["value"].isna().to_numpy().argmax()) + 2
        raise UserError(f"{FOLDER / numbers.name}: line {line}: value: expected a number")
    return Published(declared, table)
