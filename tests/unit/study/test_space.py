from typing import Any

import pytest
from pydantic import TypeAdapter

from servetune.errors import UserError
from servetune.study.base import Name
from servetune.study.space import candidates, forbidden
from tests.unit.tune.tunings import study_with


def test_the_base_comes_first_and_is_no_other_candidate() -> None:
    study = study_with(space={"max_num_seqs": [4, 8], "model": ["tiny", "small"]})
    assert study.tune is not None
    found = candidates(study.tune, study)
    assert [each.name for each in found] == [
        "plain",
        "model-small",
        "max_num_seqs-8",
        "max_num_seqs-8-model-small",
    ]
    assert found[1].variant.model == "small"
    # What the study sets anyway is not set again, so that a record of it is found.
    assert found[1].variant.server == {}
    assert found[2].variant.server == {"max_num_seqs": 8}


def test_a_condition_leaves_out_what_it_holds_for_and_is_counted() -> None:
    rule = "max_num_batched_tokens < 100 * max_num_seqs or max_num_seqs == 2"
    study = study_with(forbid=[rule])
    assert study.tune is not None
    found = candidates(study.tune, study)
    assert forbidden(study.tune, study) == {rule: 14}
    # The base sets no max_num_batched_tokens, and is one more.
    assert len(found) == 1 + 32 - 14


def test_what_vllm_refuses_is_no_candidate() -> None:
    study = study_with(
        space={"max_num_seqs": [128, 512], "max_num_batched_tokens": [256, 1024]},
        forbid=["max_num_seqs > 256 and max_num_batched_tokens > 512"],
    )
    assert study.tune is not None
    found = candidates(study.tune, study)
    assert [dict(each.values) for each in found[1:]] == [
        {"max_num_seqs": 128, "max_num_batched_tokens": 256},
        {"max_num_seqs": 128, "max_num_batched_tokens": 1024},
    ]
    assert forbidden(study.tune, study) == {
        "max_num_batched_tokens < max_num_seqs": 1,
        "max_num_seqs > 256 and max_num_batched_tokens > 512": 1,
    }


def test_speculation_and_environment_are_settings_like_any_other() -> None:
    study = study_with(
        space={"speculative": ["none", "ngram"], "environment.VLLM_X": ["1", "2"]},
        speculative={"ngram": {"method": "ngram", "num_speculative_tokens": 3}},
    )
    assert study.tune is not None
    found = {each.name: each.variant for each in candidates(study.tune, study)}
    drafting = found["speculative-ngram-VLLM_X-2"]
    assert drafting.speculative is not None and drafting.speculative.method == "ngram"
    assert drafting.environment == {"VLLM_X": "2"}


def test_a_long_name_is_a_variants_name_and_stable() -> None:
    space = {f"setting_with_a_long_name_{i}": ["some/value", "another"] for i in range(6)}
    study = study_with(space=space)
    assert study.tune is not None
    names = [each.name for each in candidates(study.tune, study)]
    assert len(set(names)) == len(names) == 65
    for name in names:
        TypeAdapter(Name).validate_python(name)
    assert names == [each.name for each in candidates(study.tune, study)]


def test_a_condition_that_cannot_be_decided_is_named() -> None:
    study = study_with(forbid=["model < 2"])
    assert study.tune is not None
    with pytest.raises(UserError, match=r"tune\.forbid: model < 2"):
        candidates(study.tune, study)


@pytest.mark.parametrize(
    ("tune", "said"),
    [
        ({"space": {"max_num_seqs": [4]}}, "no setting differs"),
        ({"forbid": ["max_num_seqs > 0"]}, "32 others are forbidden"),
    ],
)
def test_a_space_of_the_base_alone_is_refused(tune: dict[str, Any], said: str) -> None:
    study = study_with(**tune)
    assert study.tune is not None
    with pytest.raises(UserError, match=rf"tune\.space: {said}; .*beside the base, plain"):
        candidates(study.tune, study)
