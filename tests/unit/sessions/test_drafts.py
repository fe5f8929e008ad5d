"""The counters of speculative decoding are held against each other and the server's outputs."""

from typing import Any

import pytest

from servetune.records.measurements import Card
from servetune.records.validity import checks
from servetune.sessions.drafts import from_drafts
from servetune.study.validity import Limits
from tests.unit.records.test_validity import metrics

EAGLE = {"method": "eagle3", "num_speculative_tokens": 3}
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}

GREW = {
    "requests_finished": 10.0,
    "generation_tokens": 240.0,
    "first_outputs": 10.0,
    "later_outputs": 95.0,
    "drafts": 95.0,
    "draft_tokens": 285.0,
    "accepted_tokens": 140.0,
    "accepted_tokens_at_0": 70.0,
    "accepted_tokens_at_1": 45.0,
    "accepted_tokens_at_2": 25.0,
}
"""Ten answers of 24 tokens in 105 outputs; 5 accepted tokens were beyond the end of an answer."""

ACCEPTED = ("accepted_tokens", "accepted_tokens_at_0", "accepted_tokens_at_1")
ALL = (*ACCEPTED, "accepted_tokens_at_2", "drafts", "draft_tokens")


def broken(grew: dict[str, float], speculative: dict[str, Any] | None = EAGLE) -> set[str]:
    card = Card(**from_drafts(grew, speculative))
    return {check.rule for check in checks(metrics(), card, Limits()) if check.is_broken}


def times(factor: float, *names: str) -> dict[str, float]:
    return {**GREW, **{name: factor * GREW[name] for name in names}}


def test_true_counters_of_drafts_break_no_rule() -> None:
    assert broken(GREW) == set()
    assert from_drafts(GREW, EAGLE) == {"drafted_nothing": False, "draft_error_ratio": 0.0}


@pytest.mark.parametrize(
    "grew",
    [
        times(0.5, "accepted_tokens"),
        times(2.0, "accepted_tokens"),
        times(0.5, "drafts"),
        times(2.0, "drafts"),
        times(0.5, *ACCEPTED, "accepted_tokens_at_2"),
        times(2.0, *ACCEPTED, "accepted_tokens_at_2"),
        times(0.5, *ALL),
        times(2.0, *ALL),
    ],
)
def test_drafts_that_do_not_fit_each_other_or_the_outputs_are_false(grew: dict[str, float]) -> None:
    assert broken(grew) == {"draft-counters"}


def test_counters_of_drafts_that_stand_still_are_false() -> None:
    assert broken(times(0.0, *ALL)) == {"draft-counters", "no-drafts"}
    assert broken(times(0.0, *ALL), NGRAM) == {"draft-counters"}


def test_a_variant_that_speculates_and_has_no_counters_of_drafts_does_not_speculate() -> None:
    grew = {name: value for name, value in GREW.items() if name not in ALL}
    assert broken(grew) == {"no-drafts"}


def test_a_method_that_may_find_no_draft_is_not_told_for_finding_none() -> None:
    one_by_one = {**times(0.0, *ALL), "accepted_tokens_at_2": 0.0, "later_outputs": 230.0}
    assert broken(one_by_one, NGRAM) == set()
    by_batch = {**EAGLE, "num_speculative_tokens_per_batch_size": [[1, 8, 3], [9, 512, 0]]}
    assert broken(one_by_one, by_batch) == set()
    assert broken(one_by_one) == {"no-drafts"}


def test_drafts_of_requests_that_were_cut_off_are_not_missed_among_the_outputs() -> None:
    cut = {**GREW, "later_outputs": 60.0, "generation_tokens": 160.0}
    assert from_drafts(cut, EAGLE, was_cut=True)["draft_error_ratio"] == 0
    halved = times(0.5, "accepted_tokens")
    assert from_drafts(halved, EAGLE, was_cut=True)["draft_error_ratio"] == 1


def test_answers_of_one_token_need_no_draft() -> None:
    one_token = {"requests_finished": 10.0, "generation_tokens": 10.0, "drafts": 0.0}
    assert broken(one_token) == set()


def test_without_a_count_of_outputs_or_of_anything_what_it_tells_is_not_known() -> None:
    unknown = {n: v for n, v in times(0.5, *ALL).items() if not n.endswith("_outputs")}
    assert broken(unknown) == set()
    assert from_drafts({}, EAGLE) == from_drafts(GREW, None) == {}
