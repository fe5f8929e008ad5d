from collections.abc import Sequence
from pathlib import Path

import pytest

from servetune.predict.kept import kept_values


def halves(asked: Sequence[int], path: Path) -> tuple[list[float], list[int]]:
    """Return half of each number by way of the file, and those that had to be worked out."""
    done: list[int] = []

    def predict(new: Sequence[int]) -> list[float]:
        done.extend(new)
        return [each / 2 for each in new]

    return kept_values(asked, lambda each: bytes([each]), predict, path), done


def test_only_what_is_new_is_worked_out(tmp_path: Path) -> None:
    path = tmp_path / "of-a-study" / "predicted.json"
    assert halves([3, 1], path) == ([1.5, 0.5], [3, 1])
    assert halves([1, 3], path) == ([0.5, 1.5], [])
    assert halves([2, 3, 2], path) == ([1.0, 1.5, 1.0], [2])
    # It was not asked for the time before.
    assert halves([1], path) == ([0.5], [1])


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"a": 1}'])
def test_a_file_that_says_nothing_costs_the_time_and_no_more(
    content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "predicted.json"
    path.write_bytes(content)
    assert halves([4], path) == ([2.0], [4])
    assert halves([4], path) == ([2.0], [])
