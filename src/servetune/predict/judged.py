"""Fit a variant on two of its recorded loads, and hold the prediction against all others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servetune.predict.fit import Fitted, fit
from servetune.predict.recorded import Recorded
from servetune.records.measurements import MeasurementRecord

JUDGED = ("output_throughput_tok_s", "ttft_p50_ms", "tpot_p50_ms")
"""Figures whose errors are told."""


@dataclass(frozen=True)
class Error:
    """Predicted over measured, less 1, of the figures of one load that was not fitted."""

    load_point: str
    by_figure: dict[str, float]


@dataclass(frozen=True)
class Judged:
    """A fit, the load points that it is of, and its errors at the others."""

    fitted: Fitted
    of: tuple[str, ...]
    errors: tuple[Error, ...]


def median_error(errors: Sequence[Error], figure: str) -> float | None:
    """Return the median of a figure's absolute errors; None without any."""
    found = [abs(error.by_figure[figure]) for error in errors if figure in error.by_figure]
    return float(np.median(found)) if found else None


def score_fit(loads: Sequence[Recorded]) -> Judged:
    """Fit the lightest load and the heaviest that was not cut off, and predict the others.

    A probe is cut off as it is decided: only the requests that ended are known, which waited the
    least.
    """
    chosen = chosen_to_fit(loads)
    fitted = fit([loads[i][1] for i in chosen])
    asked = [load for i, load in enumerate(loads) if i not in chosen]
    return Judged(
        fitted=fitted,
        of=tuple(loads[i][0].load_point for i in chosen),
        errors=tuple(error_of(fitted, load) for load in asked),
    )


def chosen_to_fit(loads: Sequence[Recorded]) -> list[int]:
    """Return which loads `judge` fits."""
    whole = [i for i, (record, _) in enumerate(loads) if i and not _was_cut_off(record)]
    return sorted({0, whole[-1] if whole else len(loads) - 1})


def _was_cut_off(record: MeasurementRecord) -> bool:
    return record.probe is not None and record.probe.stopped == "decided"


def error_of(fitted: Fitted, load: Recorded) -> Error:
    """Return the errors at a load."""
    record, observed = load
    predicted = fitted.predict(observed)
    figures = observed.figures
    return Error(
        record.load_point,
        {name: predicted[name] / figures[name] - 1 for name in JUDGED if figures.get(name)},
    )
