"""Right answers against the baseline's: numbers of the literature, verdicts, the noise floor."""

import json
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from servetune.records.quality import Answered, QualityRecord
from servetune.study.quality import Quality, Questions
from servetune.tables.paired_answers import Pairs, noise_of, pairs_of
from servetune.tables.quality import metrics, qualities
from servetune.tables.quality_statistics import within
from tests.questions_data import ASKED, make_answers, make_questions_plan, make_record
from tests.rows import rows_by


def test_the_interval_is_that_of_a_published_example() -> None:
    """21 pairs of which 7 and 1 differ (Fagerland et al. 2014, Stat. Med. 33): -0.517 to -0.026."""
    change = Pairs(questions=21, lost=7, gained=1).change
    assert change.value == pytest.approx(-6 / 21)
    assert (change.low, change.high) == pytest.approx((-0.517, -0.026), abs=5e-4)


def test_the_interval_touches_zero_just_where_mcnemars_test_does() -> None:
    """The score test at zero is McNemar's: (b - c)^2 / (b + c) against chi-square."""
    for lost, gained in ((11, 3), (10, 3), (20, 9), (30, 16), (9, 2)):
        change = Pairs(200, lost, gained).change
        is_shown = (lost - gained) ** 2 / (lost + gained) > stats.chi2.ppf(0.95, 1)
        assert (change.high < 0) == is_shown


def test_answers_that_do_not_differ_leave_room_as_the_questions_are_few() -> None:
    assert Pairs(35, 0, 0).change.low == pytest.approx(-(1.96**2) / (35 + 1.96**2), rel=1e-4)
    assert within(Pairs(35, 0, 0).change, least=-0.05) == "undecided"
    assert within(Pairs(80, 0, 0).change, least=-0.05) == "passes"


@pytest.mark.parametrize(("lost", "gained"), [(10, 0), (0, 10), (7, 3), (5, 5), (1, 0)])
def test_an_interval_holds_its_value_within_its_range(lost: int, gained: int) -> None:
    change = Pairs(10, lost, gained).change
    assert -1 <= change.low <= change.value <= change.high <= 1


def test_mcnemars_exact_test_is_the_binomial_one() -> None:
    for lost, gained in ((9, 2), (4, 4), (0, 6), (3, 0)):
        exact = stats.binomtest(lost, lost + gained).pvalue
        assert Pairs(100, lost, gained).p_value == pytest.approx(exact)
    assert Pairs(100, 0, 0).p_value == 1


def test_the_first_answers_are_compared_and_the_second_tell_the_noise() -> None:
    before = make_answers("++-+", "+--+")
    after = make_answers("+-++", "+-++")
    assert pairs_of(before, after) == Pairs(4, lost=1, gained=1)
    assert noise_of(before) == (1, 1)
    assert noise_of(after) == (0, 0)


def table_of(
    baseline: list[Answered], variant: list[Answered], **asked: Any
) -> dict[str, dict[str, Any]]:
    plan = make_questions_plan(**asked)
    records = {"bf16": make_record("bf16", baseline), "w8a8": make_record("w8a8", variant)}
    return rows_by(qualities(plan, records), "variant")


@pytest.mark.parametrize(("lost", "verdict"), [(0, "passes"), (8, "undecided"), (40, "fails")])
def test_a_variant_passes_fails_or_is_undecided_by_its_whole_interval(
    lost: int, verdict: str
) -> None:
    before = make_answers("+" * 100 + "-" * 60)
    after = make_answers("-" * lost + "+" * (100 - lost) + "-" * 60)
    found = table_of(before, after)
    assert found["w8a8"]["accuracy_verdict"] == found["w8a8"]["verdict"] == verdict
    assert found["w8a8"]["lost_answers"] == lost
    assert found["bf16"]["accuracy"] == pytest.approx(100 / 160)
    assert pd.isna(found["bf16"]["accuracy_change"])


def test_without_a_bound_there_are_numbers_and_no_verdict() -> None:
    found = table_of(make_answers("++++"), make_answers("+---"), max_accuracy_drop=None)
    assert found["w8a8"]["accuracy_change"] == pytest.approx(-0.75)
    assert pd.isna(found["w8a8"]["verdict"])


def test_changed_answers_are_shown_those_that_were_lost_first() -> None:
    before, after = make_answers("-+-+", "-+-+"), make_answers("+-++", "+-+-")
    shown = json.loads(table_of(before, after)["w8a8"]["changed"])
    assert [(each["question"], each["is_lost"]) for each in shown] == [
        ("q2", True),
        ("q1", False),
        ("q3", False),
    ]
    assert shown[0] == {
        "question": "q2",
        "asked": ASKED.format(2),
        "expected": "2",
        "before": "right",
        "after": "wrong",
        "is_lost": True,
        "is_unstable": False,
    }


def test_a_variant_that_was_asked_other_questions_is_not_compared() -> None:
    other = [each.model_copy(update={"expected": "other"}) for each in make_answers("+++")]
    found = table_of(make_answers("+++"), other)
    assert found["w8a8"]["no_ratio"] == "it was asked other questions than bf16"


def test_a_baseline_that_did_not_answer_leaves_nothing_to_compare() -> None:
    plan = make_questions_plan()
    failed = make_record("bf16", []).model_copy(update={"status": "failed", "reason": "it died"})
    found = qualities(plan, {"bf16": failed, "w8a8": make_record("w8a8", make_answers("++"))})
    row = rows_by(found, "variant")["w8a8"]
    assert row["no_ratio"] == "bf16 has no answers: it died"
    assert pd.isna(row["accuracy_change"]) and row["accuracy"] == 1


def test_a_reviewer_diffs_the_share_and_its_change() -> None:
    plan = make_questions_plan()
    records = {
        "bf16": make_record("bf16", make_answers("++++")),
        "w8a8": make_record("w8a8", make_answers("+++-")),
    }
    assert metrics(qualities(plan, records)) == {
        "bf16": {"accuracy": 1.0},
        "w8a8": {"accuracy": 0.75, "accuracy_change": -0.25, "verdict": "undecided"},
    }


def test_a_record_reads_back_as_it_was_written() -> None:
    record = make_record("bf16", make_answers("+-"))
    assert QualityRecord.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize(
    "key", ["documents", "max_perplexity_ratio", "min_top1_agreement", "lm_eval"]
)
def test_what_needs_a_corpus_says_so(key: str) -> None:
    value: Any = {"lm_eval": {"tasks": ["x"]}, "documents": 3}.get(key, 0.9)
    with pytest.raises(ValueError, match=f"{key} needs a corpus"):
        Quality(questions=Questions(dataset="facts"), **{key: value})
