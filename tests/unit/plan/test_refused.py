"""What was refused for what it is will be refused again, whatever variant it is sent to."""

import json
from pathlib import Path
from typing import Any

import pytest

from servetune.plan.refused import refused_before
from tests.recorded import plan_of

TOO_LONG = "HTTP 400: the prompt is longer than max_model_len (137x)"


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({}, True),
        ({"status": "failed", "rule": None}, True),
        ({"first_error": "HTTP 429: slow down"}, False),
        ({"first_error": "HTTP 500: no more"}, False),
        ({"rule": "other-cpu"}, False),
        ({"status": "ok", "rule": None}, False),
        ({"load_point": "another"}, False),
    ],
)
def test_a_load_point_is_known_to_be_refused(
    tmp_path: Path, changes: dict[str, Any], is_told: bool
) -> None:
    point = plan_of("h200-llama8b").sessions[0].measurements[0]
    record = {
        **{"variant": "other", "session": "other-r1", "launch": 1, "repeat": 1},
        **{"status": "invalid", "rule": "failed-requests"},
        **{"workload": point.workload, "load_point": point.load_point, **changes},
    }
    record["card"] = {"first_error": record.pop("first_error", TOO_LONG)}
    folder = tmp_path / "results/one/records"
    folder.mkdir(parents=True)
    (folder / "other.json").write_text(json.dumps(record))
    told = refused_before("one", tmp_path).get((point.workload, point.load_point))
    assert told == (TOO_LONG if is_told else None)
    assert refused_before("two", tmp_path) == {}
