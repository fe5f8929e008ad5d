"""Rows and numbers of the tables, as all that reads them needs."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pandas as pd

PENDING = "pending"
"""The status of what is not measured yet. No record has it: it stands in tables alone."""

DECIDED_FROM = "decided_from"
"""The launches of each variant before the first look, of a study that launches until it is decided:
a column of its tables alone."""

T = TypeVar("T")
K = TypeVar("K")


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a frame's rows as dictionaries by column."""
    names = [str(name) for name in frame.columns]
    # Not by `to_dict`, which goes through each column by itself and takes five times as long.
    rows = frame.to_numpy(dtype=object).tolist()
    return [dict(zip(names, row, strict=True)) for row in rows]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Gather items by a key, both in their order."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def numbers(values: "pd.Series[Any]") -> "pd.Series[float]":
    """Read a column as floats; a column without any value has no numeric type of its own."""
    return pd.to_numeric(values, errors="coerce").astype(float)


def with_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that have numbers: neither failed nor pending."""
    return table[~table["status"].isin(["failed", PENDING])]


def broken(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of measurements that failed or are invalid."""
    return table[table["status"].isin(["failed", "invalid"])]


def declared(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of declared load points: without the probes of searches for the capacity."""
    return table[table["probe"].isna()]


def measured_together(rows: pd.DataFrame) -> dict[str, int]:
    """Return how many variants were measured on the same launches as each, itself included.

    Takes columns variant and servers: the launch of servers that variants share, null where it is
    the variant's own. Variants without such a launch are not among them.
    """
    if "servers" not in rows:
        return {}
    shared = rows.dropna(subset=["servers"])[["variant", "servers"]].drop_duplicates()
    sizes = shared["servers"].map(shared["servers"].value_counts()).groupby(shared["variant"]).max()
    return {str(variant): int(size) for variant, size in sizes.items()}
