"""Numbers as a reader sees them: in reasons, findings and every rendering."""

from typing import Any

NONE = "\N{EN DASH}"
NBSP = "\N{NO-BREAK SPACE}"


def known(value: Any) -> float | None:
    """Return a number as a float, and None where there is none: None, NaN, or pandas' NA."""
    try:
        number = float(value)
    except TypeError:
        return None
    return None if number != number else number


def number(value: Any) -> str:
    """Write a number shortly, whole from 100 on: 0.0035, 0.040, 7.91, 41.2, 1,346."""
    value = known(value)
    if value is None:
        return NONE
    if abs(value) < 0.095:
        return f"{value:#.2g}" if value else "0"
    for digits, below in ((2, 9.995), (1, 99.95)):
        if abs(value) < below:
            return f"{value:.{digits}f}"
    return f"{value:,.0f}"


def percent(value: Any) -> str:
    """Write a proportion as a percentage: 47 %."""
    value = known(value)
    return NONE if value is None else f"{value * 100:.0f}{NBSP}%"


def share(value: Any) -> str:
    """Write a proportion as a percentage, a small one with a decimal: 0.4 %."""
    value = known(value)
    if value is None or value == 0 or abs(value) >= 0.0995:
        return percent(value)
    return f"{value * 100:.1f}{NBSP}%".replace(".0", "")


def whole(value: Any) -> str:
    """Write a count: 524,288."""
    value = known(value)
    return NONE if value is None else f"{value:,.0f}"
