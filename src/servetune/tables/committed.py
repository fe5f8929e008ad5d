"""Tables as a revision has them in Git: written by any version, and edited by anyone."""

import io
from collections.abc import Iterable

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from servetune.metrics import METRIC
from servetune.study.base import Id
from servetune.tables.frames import DECIDED_FROM

PLACE = ["variant", "workload", "load_point"]

IDS = ("measurement", "session")
TEXTS = (*PLACE, "status", *IDS, "started_at", "vllm_version")
NUMBERS = (
    *("repeat", "order", "probe", "concurrency", "rate_rps", "completed_requests"),
    *METRIC,
)
_MORE_TEXTS = ("rule", "reason", "device", "servers")
_MORE_NUMBERS = ("throughput_is_uncertain", DECIDED_FROM)
_ALWAYS = (*PLACE, "status", "measurement")
_ID: TypeAdapter[str] = TypeAdapter(Id)
_STATUSES = ("ok", "failed", "invalid")


def read_load_points(content: bytes, needed: Iterable[str] = ()) -> pd.DataFrame:
    """Read a tidy table from CSV; it has `needed` columns, whatever else a version has or lacks.

    Raises:
        ValueError: it is damaged; the message says what is wrong, in one line.
    """
    table = _read_csv(content, (*TEXTS, *_MORE_TEXTS), (*NUMBERS, *_MORE_NUMBERS))
    for name in (*_ALWAYS, *needed):
        if name not in table:
            raise ValueError(f"has no column {name}")
    for name in (*_ALWAYS, *({"session", "repeat"} & {*needed})):
        if table[name].isna().any():
            raise ValueError(f"{name}: lacks a value")
    for status in set(table["status"]) - {*_STATUSES}:
        raise ValueError(f"status: {status}: expected one of {', '.join(_STATUSES)}")
    for name in {*IDS} & {*table}:
        # It becomes part of a path.
        if not all(map(_is_id, table[name].dropna())):
            raise ValueError(f"{name}: expected ids")
    if "started_at" in table:
        began = pd.to_datetime(table["started_at"], utc=True, format="ISO8601", errors="coerce")
        if not began.notna().equals(table["started_at"].notna()):
            raise ValueError("started_at: expected times, such as 2026-07-01T12:00:00+00:00")
    return table


def read_quality(content: bytes, columns: dict[str, str]) -> pd.DataFrame:
    """Read a table of quality from CSV, with `columns` of these types; raises as above."""
    texts = [name for name, kind in columns.items() if kind == "object"]
    table = _read_csv(content, texts, [name for name in columns if name not in texts])
    if "variant" not in table or table["variant"].isna().any():
        raise ValueError("variant: lacks a value")
    return table.reindex(columns=list(columns))


def _read_csv(content: bytes, texts: Iterable[str], numbers: Iterable[str]) -> pd.DataFrame:
    try:
        table = pd.read_csv(
            io.BytesIO(content),
            dtype=dict.fromkeys(texts, str),
            # A variant may be called nan.
            keep_default_na=False,
            na_values=[""],
        )
    except Exception as error:
        # What is no CSV makes the reader raise what it likes.
        raise ValueError(str(error).partition("\n")[0] or type(error).__name__) from None
    for name in {*numbers} & {*table}:
        try:
            values = table[name].astype(float)
        except (ValueError, TypeError):
            raise ValueError(f"{name}: expected numbers") from None
        if np.isinf(values).any():
            raise ValueError(f"{name}: expected finite numbers")
        if table[name].dtype.kind not in "iuf":
            table[name] = values
    return table


def _is_id(name: str) -> bool:
    try:
        _ID.validate_python(name)
    except ValidationError:
        return False
    return True
