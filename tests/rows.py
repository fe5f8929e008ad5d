"""Rows of a table by what names them, for tests of single cells."""

from typing import Any

import pandas as pd

from servetune.tables.frames import records_of

Row = dict[str, Any]


def rows_by(table: pd.DataFrame, *columns: str) -> dict[Any, Row]:
    """Return the rows by the value of a column, or by the tuple of the values of several.

    Raises:
        AssertionError: two rows have the same.
    """
    rows = records_of(table)
    named = {
        row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns): row
        for row in rows
    }
    assert len(named) == len(rows), f"several rows of one {' and '.join(columns)}"
    return named
