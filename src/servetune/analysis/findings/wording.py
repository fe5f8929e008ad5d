"""Numbers as a finding tells them, with their unit."""

NONE = "\N{EN DASH}"


def count(value: float | None) -> str:
    """Write a count: 524,288."""
    return NONE if value is None else f"{value:,.0f}"


def short(value: float | None) -> str:
    """Write a number with three digits: 6.21."""
    return NONE if value is None else f"{value:.3g}"


def percent(value: float | None) -> str:
    """Write a ratio as a percentage: 71 %, or 0.024 % if it is small."""
    if value is None:
        return NONE
    text = f"{100 * value:.0f}" if value == 0 or value >= 0.0995 else f"{100 * value:.2g}"
    return f"{text}\N{NO-BREAK SPACE}%"


def ms(value: float | None) -> str:
    """Write milliseconds: 4.95 ms, 1,310 ms."""
    if value is None:
        return NONE
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def seconds(value: float | None) -> str:
    """Write seconds: 78.7 s."""
    return NONE if value is None else f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


def times(value: float | None) -> str:
    """Write a factor: 1.75 times."""
    return NONE if value is None else f"{value:.2f}\N{MULTIPLICATION SIGN}"
