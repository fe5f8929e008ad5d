"""What of a report could not be made: it costs its own place, marked, and no other."""

import json
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from servetune.errors import reason_of
from servetune.report.grammar import Spec

P = ParamSpec("P")

UNDRAWN = "lack"
"""The key under which a chart that could not be drawn says why."""


def lack(what: str, reason: str) -> str:
    """Say in a line what could not be made, and why."""
    return f"{what} could not be made: {reason}"


def drawing(draw: Callable[P, Spec | None]) -> Callable[P, Spec | None]:
    """Make a function that draws a chart say in the chart's place why it cannot.

    A number that JSON does not have, such as infinity, would keep the page from reading any chart.
    """

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Spec | None:
        try:
            spec = draw(*args, **kwargs)
            json.dumps(spec, allow_nan=False)
            return spec
        except Exception as error:
            return {UNDRAWN: reason_of(error)}

    return drawn
