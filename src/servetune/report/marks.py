"""The marks that a variant's name carries wherever it stands."""

from collections.abc import Collection
from typing import Any

import pandas as pd

from servetune.analysis.wording import place_of

DUMMY = (
    "\N{DAGGER} Weights are dummy (random, from the architecture's shape alone). Speed is real;"
    " text, quality and acceptance of draft tokens are not."
)

POOR = "\N{DOUBLE DAGGER}"
"""Stands behind a variant that fails a bound of quality, wherever it is named."""


FRONT_END = "\N{SECTION SIGN}"
"""Stands behind a load point at which the front end limits a variant, wherever ratios are shown."""


ARROWS = {"higher": "\N{UPWARDS ARROW}", "lower": "\N{DOWNWARDS ARROW}"}
"""Which way a metric is better."""


def dummies(table: pd.DataFrame) -> set[str]:
    """Return the variants whose weights are dummy; each is marked wherever it is named."""
    return set(table.loc[table["is_dummy"].astype(bool), "variant"])


def marked_as(is_dummy: bool, is_poor: bool) -> str:
    """Return the marks that stand behind a variant's name: of dummy weights, of poor quality."""
    dagger = " \N{DAGGER}" if is_dummy else ""
    return f"{dagger} {POOR}" if is_poor else dagger


def at_front_end(row: dict[str, Any], limited: Collection[tuple[str, str]]) -> str:
    """Return the mark of a row's load point; empty if it is not among those `limited`."""
    return f" {FRONT_END}" if place_of(row) in limited else ""
