"""What is refused once a dataset is known, with what to try."""

from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.load.prepare import Prepared, prepare
from tests.loads import load, rows


def prepared(dataset: list[Any], **declared: Any) -> Prepared:
    return prepare(load(dataset="some-1234", **declared), dataset, Path())


def test_the_last_rows_warm_the_server_up() -> None:
    found = prepared(rows(8), requests=4, warmup_requests=2)
    assert [row["turns"][0]["prompt"] for row in found.warmup] == ["prompt 6 0", "prompt 7 0"]
    assert len(found.schedule) == 4
    assert prepared(rows(8), warmup_requests=0).warmup == []


def test_a_trace_that_is_too_short_is_told() -> None:
    trace: list[Any] = [{**row, "arrival_s": float(i)} for i, row in enumerate(rows(4))]
    with pytest.raises(UserError, match=r"some-1234: the trace has 4 requests, .* asks for 9"):
        prepared(trace, arrivals="trace", time_scale=1, requests=9)


def test_a_trace_without_times_is_told() -> None:
    with pytest.raises(UserError, match="a row has no arrival_s"):
        prepared(rows(4), arrivals="trace", time_scale=1, requests=4)


def test_maxima_that_leave_nothing_are_told() -> None:
    dataset: list[Any] = [{"prompt": [1, 2, 3], "output_tokens": 3}]
    with pytest.raises(UserError, match=r"max_input_tokens 2 .* over_length: truncate"):
        prepared(dataset, max_input_tokens=2)


def test_load_points_share_the_prompts_of_their_dataset() -> None:
    dataset: list[Any] = [{"prompt": [1, 2, 3], "output_tokens": 3}]
    one, other = (prepared(dataset, requests=3).schedule[0].prompt for _ in range(2))
    assert one is other
