"""Up to which load a variant is ahead: between which two measured ones, and where about."""

import pytest
from headline import falls_below_one


def test_a_crossing_lies_on_the_line_between_the_logarithms() -> None:
    found = falls_below_one([1, 16, 64], [2.0, 1.25, 0.8])
    # 1.25 and 0.8 are as far from 1, so it is half of the way from 16 to 64 in logarithms.
    assert found is not None
    assert (found.last_ahead, found.first_behind) == (16, 64)
    assert found.at == pytest.approx(32.0)


def test_the_last_crossing_counts() -> None:
    found = falls_below_one([1, 2, 4, 8], [0.9, 1.1, 1.2, 0.9])
    assert found is not None
    assert (found.last_ahead, found.first_behind) == (4, 8)


@pytest.mark.parametrize("ratios", [[1.2, 1.1, 1.01], [0.9, 0.8, 0.7], [0.9, 0.8, 1.1]])
def test_one_that_is_never_ahead_or_to_the_end_has_none(ratios: list[float]) -> None:
    assert falls_below_one([1, 2, 4], ratios) is None
