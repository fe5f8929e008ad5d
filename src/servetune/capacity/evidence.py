"""E-processes: evidence that the share of violating requests is below, or above, what is allowed.

Each is a mixture of likelihood ratios of Bernoulli trials, `sum_i w_i L(share_i) / L(allowed)`
(Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021). While every request violates with
probability at least `allowed`, whatever came before, the ratio for a smaller share is a
nonnegative supermartingale that starts at 1. By Ville's inequality (1939) it ever reaches 1/a
with probability at most a, however often one looks. The same holds for scores in [0, 1] instead
of 0 and 1, as `x -> a**x * b**(1 - x)` is convex (Waudby-Smith and Ramdas 2024, section 3).
"""

import math

import numpy as np

CLEAN = 0.4
"""Weight of the point mass at no violations: a clean run is the common case, and pays most."""

BELOW = (0.05, 0.12, 0.25, 0.4, 0.6)
ABOVE = (1.6, 2.5, 4.0, 8.0, 16.0, 32.0)
"""Alternative shares, as multiples of the allowed one, each with the same weight."""

HIGHEST_SHARE = 0.95


def log_evidence_below(violations: float, requests: float, allowed: float) -> float:
    """Natural logarithm of the evidence against "the share is at least `allowed`".

    `violations` may be fractional: a sum of scores in [0, 1] over `requests`.
    """
    weight = (1 - CLEAN) / len(BELOW)
    terms = [
        math.log(weight) + _log_ratio(violations, requests, allowed, multiple * allowed)
        for multiple in BELOW
    ]
    if violations == 0:
        terms.append(math.log(CLEAN) - requests * math.log1p(-allowed))
    return float(np.logaddexp.reduce(terms))


def log_evidence_above(violations: float, requests: float, allowed: float) -> float:
    """Natural logarithm of the evidence against "the share is at most `allowed`"."""
    shares = [min(multiple * allowed, HIGHEST_SHARE) for multiple in ABOVE]
    ratios = [_log_ratio(violations, requests, allowed, share) for share in shares]
    return float(np.logaddexp.reduce(ratios)) - math.log(len(shares))


def _log_ratio(violations: float, requests: float, allowed: float, share: float) -> float:
    kept = requests - violations
    return violations * math.log(share / allowed) + kept * (
        math.log1p(-share) - math.log1p(-allowed)
    )
