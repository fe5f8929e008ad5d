"""The marks that a variant's name carries wherever it stands."""

from collections.abc import Collection

import pandas as pd

DUMMY = (
    "\N{DAGGER} Weights are dummy (random, from the architecture's shape alone). Speed is real;"
    " text, quality and acceptance of draft tokens are not."
)

POOR = "\N{DOUBLE DAGGER}"
"""Stands behind a variant that fails a bound of quality, wherever it is named."""


def dummies(table: pd.DataFrame) -> set[str]:
    """Return the variants whose weights are dummy; each is marked wherever it is named."""
    return set(table.loc[table["is_dummy"].astype(bool), "variant"])


def marked(variant: str, dummies: set[str], failing: Collection[str] = ()) -> str:
    """Return a variant's name, with its marks: of dummy weights, and of poor quality.

    `failing` are the variants that fail a bound of quality.
    """
    dagger = " \N{DAGGER}" if variant in dummies else ""
    return f"{variant}{dagger}{f' {POOR}' if variant in failing else ''}"
