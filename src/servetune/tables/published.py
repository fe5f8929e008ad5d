"""Published numbers: what others measured, kept as data and never mixed with what is measured here.

`data/published/<name>.csv` holds one row a number: `variant`, `workload` and `load_point` as the
study names them (empty where a number is of the variant as a whole), `metric` with its unit at
the end of the name, `run`, `value`. `<name>.yaml` beside it holds the source.
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from servetune.study.published import COLUMNS, Source, check_published, published_files


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
    source = check_published(name, root)
    numbers, _ = published_files(name, root)
    table = pd.read_csv(numbers, dtype=dict.fromkeys(COLUMNS[:4], str), keep_default_na=False)
    return Published(source, table.assign(value=pd.to_numeric(table["value"])))
