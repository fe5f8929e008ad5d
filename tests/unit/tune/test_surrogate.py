"""The model of what the candidates may be."""

import numpy as np
from scipy import linalg

from servetune.tune.surrogate import Posterior


def test_what_is_drawn_of_candidates_that_are_alike_is_the_same_on_every_machine() -> None:
    """Their eigenvectors are any basis, which differs between builds of LAPACK."""
    alike = np.full((4, 4), 0.5) + 0.5 * np.eye(4)
    drawn = Posterior(np.array([1.0, 2.0, 3.0, 4.0]), alike).draws(3, [7])
    normal = np.random.default_rng([7]).standard_normal((3, 4))
    np.testing.assert_allclose(drawn, [1.0, 2.0, 3.0, 4.0] + normal @ linalg.sqrtm(alike))
