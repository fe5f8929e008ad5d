"""Looking after each launch keeps the level that one look has."""

import numpy as np
import pytest
from scipy import special

from servetune.analysis.differences import Difference, holm
from servetune.analysis.sequential import Looks, after, begin, holm_of, weights_of

LOOKS = Looks(3, 8)


@pytest.mark.parametrize("level", [0.025, 0.001])
def test_looks_cross_their_boundaries_as_often_as_the_level_says(level: float) -> None:
    draws = np.random.default_rng(1).standard_normal((200_000, LOOKS.most)).cumsum(-1)
    counts = range(LOOKS.least, LOOKS.most + 1)
    nominal = np.array([float(LOOKS.nominal(np.array(level), count)) for count in counts])
    sums = draws[:, LOOKS.least - 1 :] / np.sqrt(np.array(counts))
    crossed = sums > -np.asarray(special.ndtri(nominal))
    assert crossed.any(-1).mean() == pytest.approx(level, rel=0.2)


def test_a_level_and_its_p_value_are_inverse() -> None:
    levels = np.array([1e-7, 1e-4, 0.01, 0.05])
    for count in range(LOOKS.least, LOOKS.most + 1):
        there = LOOKS.nominal(levels, count)
        assert np.allclose(LOOKS.overall(there, count), levels, rtol=1e-6)
        assert (there < levels).all()


def test_one_look_has_the_whole_level() -> None:
    assert Looks(5, 5).nominal(np.array(0.025), 5) == pytest.approx(0.025, rel=1e-3)


def test_equal_weights_are_holm() -> None:
    p = np.array([0.01, 0.2, 0.004, 0.03])
    assert np.allclose(holm_of(p[None], np.full(4, 0.25))[0], holm(p))


def test_named_comparisons_have_most_of_the_level() -> None:
    weights = weights_of(np.array([True, False, False, False]))
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] == pytest.approx(0.8)


def _at(ratios: list[float], launches: int) -> Difference:
    size = np.array([ratios])
    error = np.full_like(size, 0.01 * np.sqrt(2 / launches))
    return Difference(size, error, np.full_like(size, 8.0 * (launches - 1)))


def test_what_is_decided_or_cannot_be_is_launched_no_more() -> None:
    named = np.ones(3, bool)
    standing = begin(LOOKS, np.log1p(0.03), named)
    first = after(
        standing, _at([0.4, 0.03, 0.05], 3), 3, np.ones((1, 3), bool), np.full((1, 3), 3.0)
    )
    # 49 % is proven; just the margin never is; 5 % may be.
    assert first.claims[0, 0] == 1
    assert first.decided_after[0, 0] == 3
    assert first.goes_on.tolist() == [[False, False, True]]


def test_what_is_proven_stays_so() -> None:
    named = np.ones(1, bool)
    looked, three = np.ones((1, 1), bool), np.full((1, 1), 3.0)
    first = after(begin(LOOKS, 0.03, named), _at([0.4], 3), 3, looked, three)
    second = after(first, _at([0.0], 4), 4, looked, three + 1)
    assert second.claims[0, 0] == 1
    assert second.decided_after[0, 0] == 3


def test_three_launches_of_two_variants_alone_prove_nothing_and_four_do() -> None:
    measured = Difference(*(np.array([[value]]) for value in (0.4, 0.002, 2.4)))
    looked, standing = np.ones((1, 1), bool), begin(LOOKS, 0.03, np.ones(1, bool))
    standing = after(standing, measured, 3, looked, np.full((1, 1), 3.0))
    assert np.isnan(standing.claims).all()
    assert standing.goes_on.all()
    standing = after(standing, measured, 4, looked, np.full((1, 1), 4.0))
    assert standing.claims.tolist() == [[1.0]]
