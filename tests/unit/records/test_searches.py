import json
from pathlib import Path

import pytest

from servetune.errors import DamagedError
from servetune.records.searches import read_search
from tests.paths import GALLERY


def test_a_search_with_a_capacity_of_no_slo_is_damaged(tmp_path: Path) -> None:
    recorded = next((GALLERY / "results/h200-capacity/searches").glob("*.json"))
    content = json.loads(recorded.read_text())
    del content["slo"]["interactive"]
    damaged = tmp_path / recorded.name
    damaged.write_text(json.dumps(content))
    assert read_search(recorded).tiers["interactive"]
    with pytest.raises(DamagedError, match="interactive: has no SLO"):
        read_search(damaged)
