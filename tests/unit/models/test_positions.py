"""A draft that knows fewer positions than its server takes is named before anything is launched."""

import pytest

from servetune.models.positions import short_drafts
from servetune.plan.make import make_plan
from tests.paths import GALLERY


@pytest.mark.parametrize("study", ["h100-tune", "h200-llama8b"])
def test_a_draft_with_fewer_positions_than_max_model_len_is_named(study: str) -> None:
    params = {"study": study, "variants": "all", "seed": 0}
    assert short_drafts(make_plan(params, GALLERY), GALLERY) == []
    [said] = short_drafts(make_plan({**params, "max_model_len": 8192}, GALLERY), GALLERY)
    assert "models.eagle3:" in said and "2,048" in said and "8,192" in said


def test_a_draft_that_knows_as_many_is_not_named() -> None:
    plan = make_plan({"study": "h100-tune-long", "variants": "all", "seed": 0}, GALLERY)
    assert short_drafts(plan, GALLERY) == []
