"""Only declarations and locks decide an id: those of the project's studies stay what they were."""

import json

import pytest

from tests.ids import KEPT, STUDIES, declaration, ids
from tests.paths import GALLERY

GOLDEN = json.loads(KEPT.read_text())
RECORDED = sorted(folder.parent.name for folder in GALLERY.glob("results/*/sessions"))


@pytest.mark.parametrize("study", STUDIES)
def test_every_id_of_a_study_stays_what_it_was(study: str) -> None:
    if study not in GOLDEN or GOLDEN[study]["declaration"] != declaration(study):
        pytest.skip("declared since: `uv run python tests/ids.py` keeps its ids")
    kept = GOLDEN[study]
    for kind, planned in ids(study).items():
        assert planned == kept[kind], f"{study}: other {kind}; remake with tests/ids.py if meant"


@pytest.mark.parametrize("study", RECORDED)
def test_all_that_was_recorded_is_still_planned(study: str) -> None:
    planned = ids(study)
    for kind in ("sessions", "searches", "quality"):
        recorded = {path.stem for path in (GALLERY / "results" / study / kind).glob("*.json")}
        assert recorded <= set(planned[kind])
    records = {path.stem for path in (GALLERY / "results" / study / "records").glob("*.json")}
    pilots = set(planned["searches"].values())
    assert {id for id in records if "-capacity-" not in id} <= set(planned["measurements"])
    assert {id for id in records if "-capacity-r1-0-" in id} <= pilots
