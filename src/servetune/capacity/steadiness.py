"""Was the server the same all through a search? Two tests, of what an interval takes for granted.

Pace: the time per output token of all slices is fitted as that of a step of an engine, a base and
a part for each request that runs (also squared, as long contexts come with many requests) and that
is admitted. What remains is scanned for times at which the server was faster or slower than
otherwise (a scan statistic; Naus 1965).

Disagreement: the likelihood of all probes given one capacity is compared with that given a
capacity that drifts in time, or that changed once: the ratio of the two, averaged over drifts and
changes, is a Bayes factor. It reaches 1/error with a probability of at most the error where the
likelihood is right.

Both thresholds were set on simulated servers and judged on others
(benchmarks/capacity_simulation.py).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from servetune.capacity.boundary import Observation, common_effect, log_likelihood, log_prior
from servetune.capacity.dependence import Floats
from servetune.capacity.pace import Slice

LEAST = math.log(1.1)
"""Logarithm of the least change of pace that counts: less is small beside an interval's width.

Where the running requests are a multiple or a fraction of their median, it is more by the share
that the logarithm of that is: the fit is a straight line through what is curved.
"""

ERRORS = 4.0
"""A change of pace is told if it is beyond the least by so many standard errors."""

FEWEST_SLICES = 8
"""Twice the parts of the fit: of fewer slices little remains to be scanned."""

FEWEST_REQUESTS = 0.01
"""Changes that touch a smaller share of the requests are left out: they move no capacity."""

SHIFTS = (-0.35, -0.2, -0.1, 0.1, 0.2, 0.35)
"""Logarithms of the changes of capacity that the probes are asked for."""

GRID = 300
"""Points of the capacity: fewer than for an interval, as only two averages are compared."""

HUBER = 1.345
"""Standard deviations within which a residual counts in full: 95 % as efficient as least squares
where errors are normal (Holland and Welsch 1977)."""

ROUNDS = 20
"""So often is the fit weighted anew: a judgement, as none asks whether the weights stand still."""


@dataclass(frozen=True)
class Change:
    """A time, in seconds since the search began, at which the server was not as otherwise.

    `speed` is its speed over that at other times.
    """

    since_s: float
    until_s: float
    speed: float


def changes_of_pace(probes: Sequence[tuple[float, Sequence[Slice]]]) -> tuple[Change, ...]:
    """Return when the pace was another, by the slices of probes that began at given times."""
    began = [began_s for began_s, of in probes for _ in of]
    slices = [each for _, of in probes for each in of]
    if len(slices) < FEWEST_SLICES:
        return ()
    beyond = _residuals(slices)
    requests = np.array([each.requests for each in slices], dtype=np.float64)
    spread = np.repeat(
        [np.median([each.spread for each in of]) for _, of in probes if of],
        [len(of) for _, of in probes if of],
    )
    variance = spread**2 / requests
    steps = np.diff(beyond)[np.diff(began) == 0]
    if len(steps):
        jitter = 1.4826 * float(np.median(np.abs(steps))) / math.sqrt(2)
        variance = np.maximum(variance, jitter**2)
    running = np.log([each.running for each in slices])
    least = LEAST * (1 + np.abs(running - np.median(running)))
    changes, touched = [], 0.0
    weight = 1 / np.maximum(variance, 1e-6)
    while (window := _farthest(beyond, weight, least)) is not None:
        at, mean = window
        changes.append(
            Change(
                began[at.start] + slices[at.start].since_s,
                began[at.stop - 1] + slices[at.stop - 1].until_s,
                math.exp(-mean),
            )
        )
        touched += float(requests[at].sum())
        weight[at] = 0
    is_enough = touched >= FEWEST_REQUESTS * requests.sum()
    return tuple(sorted(changes, key=lambda each: each.since_s)) if is_enough else ()


def _farthest(beyond: Floats, weight: Floats, least: Floats) -> tuple[slice, float] | None:
    """Return the slices in a row that are surest another, with their mean; None if none is."""
    best: tuple[float, slice, float] = (ERRORS, slice(0), 0.0)
    sums, weights, leasts = (
        np.concatenate(([0.0], np.cumsum(of))) for of in (weight * beyond, weight, weight * least)
    )
    length = 1
    while length <= len(beyond) // 2:
        known, total, allowed = (of[length:] - of[:-length] for of in (weights, sums, leasts))
        mean = total / np.maximum(known, 1e-12)
        errors = (np.abs(total) - allowed) / np.sqrt(np.maximum(known, 1e-12))
        at = int(np.argmax(errors))
        if errors[at] > best[0]:
            best = float(errors[at]), slice(at, at + length), float(mean[at])
        length = max(length + 1, int(1.4 * length))
    return best[1:] if best[0] > ERRORS else None


def _residuals(slices: Sequence[Slice]) -> Floats:
    """Return the logarithm of each slice's TPOT over the fitted one, its median 0.

    The fit is of relative errors, robust (Huber 1964), and no part of a step may be negative: of
    all choices of parts, the best one without.
    """
    tpot = np.array([each.tpot_ms for each in slices])
    running = np.array([each.running for each in slices])
    admitted = np.array([each.admitted for each in slices])
    parts = np.column_stack([np.ones_like(tpot), running, running**2, admitted])
    weight = np.array([each.requests for each in slices], dtype=np.float64)
    scaled = parts / tpot[:, None]
    fits = []
    for size in range(parts.shape[1]):
        for more in itertools.combinations(range(1, parts.shape[1]), size):
            chosen = (0, *more)
            factors, left = _huber(scaled[:, chosen], weight)
            if (factors >= 0).all():
                cost = float((weight * np.abs(left)).sum())
                fits.append((cost, parts[:, chosen] @ factors))
    _, fitted = min(fits, key=lambda fit: fit[0])
    beyond: Floats = np.log(tpot / fitted)
    return beyond - float(np.median(beyond))


def _huber(scaled: Floats, weight: Floats) -> tuple[NDArray[np.floating], Floats]:
    """Fit 1 by the columns; returns their factors and what is left, by reweighted least squares."""
    now = weight
    for _ in range(ROUNDS):
        root = np.sqrt(now)
        factors: NDArray[np.floating] = np.linalg.lstsq(scaled * root[:, None], root, rcond=None)[0]
        left: Floats = 1 - scaled @ factors
        scale = max(1.4826 * float(np.median(np.abs(left))), 1e-3)
        now = weight * np.minimum(1, HUBER * scale / np.maximum(np.abs(left), 1e-12))
    return factors, left


def disagreement(
    began_s: Sequence[float], observations: Sequence[Observation], error: float
) -> Change | None:
    """Return how probes at several times contradict one capacity; None if they do not.

    A drift is told as the change over the whole search.
    """
    if len(observations) < 3:
        return None
    loads = [each.load for each in observations]
    capacity = np.linspace(math.log(min(loads)) - 0.7, math.log(max(loads)) + 0.7, GRID)
    effect = common_effect(observations)
    began = np.array(began_s)
    place = (began - began[0]) / max(began[-1] - began[0], 1e-9) - 0.5

    def shifted(observed: Observation, by: float) -> NDArray[np.float64]:
        # A server that is slower by a factor sees a load that is higher by it.
        return log_likelihood(
            replace(observed, load=observed.load * math.exp(by)), capacity, effect
        )

    same = [shifted(each, 0.0) for each in observations]
    prior = log_prior(GRID)
    none = _log_mean(sum(same, prior))
    moved = {shift: [shifted(each, shift) for each in observations] for shift in SHIFTS}
    after = {
        (at, shift): _log_mean(sum([*same[:at], *moved[shift][at:]], prior)) - none
        for at in range(1, len(same))
        for shift in SHIFTS
    }
    drift = {
        shift: _log_mean(
            sum(
                (shifted(o, 2 * shift * at) for o, at in zip(observations, place, strict=True)),
                prior,
            )
        )
        - none
        for shift in SHIFTS
    }
    factors = np.array([_log_mean(np.array([*of.values()])) for of in (after, drift)])
    if _log_mean(factors) < math.log(1 / error):
        return None
    (at, step), best = max(after.items(), key=lambda each: each[1])
    shift = max(drift, key=lambda each: drift[each])
    if drift[shift] > best:
        return Change(float(began[0]), float(began[-1]), math.exp(-2 * shift))
    return Change(float(began[at]), float(began[-1]), math.exp(-step))


def _log_mean(logs: NDArray[np.float64]) -> float:
    """Natural logarithm of the mean of what has these logarithms."""
    highest = float(logs.max())
    return highest + math.log(float(np.exp(logs - highest).mean()))
