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
from numpy.typing import NDArray

CLEAN = 0.4
"""Weight of the point mass at no violations: a clean run is the common case, and pays most."""

# Apart by factors of 1.5 to 2.4: whatever the true share is, an alternative is near.
BELOW = (0.05, 0.12, 0.25, 0.4, 0.6)
ABOVE = (1.6, 2.5, 4.0, 8.0, 16.0, 32.0)
"""Alternative shares, as multiples of the allowed one, each with the same weight."""

HIGHEST_SHARE = 0.95
"""Below 1: an alternative in which all violate is refuted for good by one request that holds."""


def log_evidence_below(violations: float, requests: float, allowed: float) -> float:
    """Natural logarithm of the evidence against "the share is at least `allowed`".

    `violations` may be fractional: a sum of scores in [0, 1] over `requests`.
    """
    mixture = _log_mean_ratio(violations, requests, allowed, np.multiply(BELOW, allowed))
    clean = -requests * math.log1p(-allowed) if violations == 0 else -math.inf
    return float(np.logaddexp(math.log(1 - CLEAN) + mixture, math.log(CLEAN) + clean))


def log_evidence_above(violations: float, requests: float, allowed: float) -> float:
    """Natural logarithm of the evidence against "the share is at most `allowed`"."""
    shares = np.minimum(np.multiply(ABOVE, allowed), HIGHEST_SHARE)
    return _log_mean_ratio(violations, requests, allowed, shares)


def _log_mean_ratio(
    violations: float, requests: float, allowed: float, shares: NDArray[np.float64]
) -> float:
    """Natural logarithm of the mean likelihood ratio of some shares to the allowed one."""
    passed = requests - violations
    log_ratios = violations * np.log(shares / allowed) + passed * (
        np.log1p(-shares) - math.log1p(-allowed)
    )
    return float(np.logaddexp.reduce(log_ratios)) - math.log(len(shares))
