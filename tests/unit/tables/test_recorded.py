"""The recorded studies: their tables are those that the present code makes of their records."""

import pytest

from tests.paths import ROOT
from tests.recorded import RECORDED, results_of


@pytest.mark.parametrize("study", RECORDED)
def test_the_tables_of_a_recorded_study_are_those_of_its_records(study: str) -> None:
    kept, made = ROOT / "results" / study, results_of(study)
    for name in ("metrics.json", "load_points.csv", "quality.csv"):
        assert (made / name).read_text() == (kept / name).read_text(), name
