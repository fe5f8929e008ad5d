"""A variant's answers against the baseline's: the numbers, the verdicts, and what is planned."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest
from scipy import stats

from servetune.errors import UserError
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.sessions.quality.harness import read_results
from servetune.sessions.quality.measure import ask, read_answer
from servetune.sessions.quality.questions import RefusedError
from servetune.tables.quality import metrics, qualities
from servetune.tables.quality_statistics import (
    Estimate,
    greedy_common_tokens,
    greedy_identical_ratio,
    perplexity,
    perplexity_ratio,
    together,
    top1_agreement,
    within,
)
from tests.project import Project
from tests.quality_data import BOUNDS, make_document, make_failed, make_quality, make_record
from tests.report_data import make_quickstart_plan
from tests.rows import rows_by

Edit = Callable[[dict[str, Any]], object]


def test_perplexity_is_of_all_tokens_together_and_not_a_mean_over_documents() -> None:
    documents = [make_document(0, -100.0, tokens=50), make_document(1, -30.0, tokens=10)]
    assert perplexity(documents) == pytest.approx(math.exp(130 / 60))


def test_a_uniform_guess_among_v_tokens_has_perplexity_v() -> None:
    assert perplexity([make_document(0, -50 * math.log(2048))]) == pytest.approx(2048)


def test_the_ratio_is_that_of_the_perplexities_with_its_interval_worked_by_hand() -> None:
    """Losses of 1, 2 and 3 nats over 50 tokens each: a mean of 0.04 a token.

    Residuals -1, 0 and 1, so a variance of 1 / 3 of the mean loss, over 50 squared.
    """
    before = [make_document(i, -100.0) for i in range(3)]
    after = [make_document(i, -100.0 - loss) for i, loss in enumerate((1, 2, 3))]
    found = perplexity_ratio(before, after)
    assert found.value == pytest.approx(perplexity(after) / perplexity(before))
    assert found.value == pytest.approx(math.exp(0.04))
    half = 4.30265 * math.sqrt(1 / 3) / 50
    assert found.low == pytest.approx(math.exp(0.04 - half), rel=1e-5)
    assert found.high == pytest.approx(math.exp(0.04 + half), rel=1e-5)


def test_a_long_document_weighs_by_its_tokens() -> None:
    before = [make_document(0, -100.0, tokens=50), make_document(1, -900.0, tokens=450)]
    after = [make_document(0, -105.0, tokens=50), make_document(1, -900.0, tokens=450)]
    assert perplexity_ratio(before, after).value == pytest.approx(math.exp(5 / 500))


def test_intervals_of_equal_documents_are_those_of_a_paired_t_test() -> None:
    before = [make_document(i, -100.0 - i) for i in range(6)]
    after = [make_document(i, -100.0 - i - loss) for i, loss in enumerate((1, 4, 2, 2, 5, 3))]
    interval = stats.ttest_rel(
        [-each.logprob / 50 for each in after], [-each.logprob / 50 for each in before]
    ).confidence_interval()
    found = perplexity_ratio(before, after)
    assert (math.log(found.low), math.log(found.high)) == pytest.approx(tuple(interval))


def test_agreement_is_a_share_of_positions_and_wilsons_interval_of_even_documents() -> None:
    """10 documents of 50 positions, 2 other in each: no design effect, 480 of 500."""
    before = [make_document(i, -100.0) for i in range(10)]
    after = [make_document(i, -100.0, others=2) for i in range(10)]
    found = top1_agreement(before, after)
    assert found.value == pytest.approx(0.96)
    quantile = stats.t.ppf(0.975, 9)
    confidence = 2 * stats.norm.cdf(quantile) - 1
    wilson = stats.binomtest(480, 500).proportion_ci(confidence, method="wilson")
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high))


def test_differences_that_come_in_few_documents_widen_the_interval() -> None:
    before = [make_document(i, -100.0) for i in range(10)]
    even = [make_document(i, -100.0, others=5) for i in range(10)]
    clustered = [make_document(i, -100.0, others=50 * (i == 0)) for i in range(10)]
    narrow, wide = top1_agreement(before, even), top1_agreement(before, clustered)
    assert narrow.value == wide.value == pytest.approx(0.9)
    assert wide.low < narrow.low - 0.05


def test_full_agreement_is_no_certainty() -> None:
    before = [make_document(i, -100.0) for i in range(10)]
    found = top1_agreement(before, before)
    assert found.value == found.high == 1
    assert 0.98 < found.low < 1


def test_one_document_decides_nothing() -> None:
    before, after = [make_document(0, -100.0)], [make_document(0, -200.0, others=50)]
    assert within(perplexity_ratio(before, after), most=1.02) == "undecided"
    assert within(top1_agreement(before, after), least=0.95) == "undecided"


def test_continuations_are_compared_token_by_token() -> None:
    before = [make_document(i, -1.0, greedy=(1, 2, 3, 4)) for i in range(3)]
    after = [
        make_document(0, -1.0, greedy=(1, 2, 3, 4)),
        make_document(1, -1.0, greedy=(1, 2, 9, 4)),
        make_document(2, -1.0, greedy=(1, 2, 3)),
    ]
    assert greedy_identical_ratio(before, after) == pytest.approx(1 / 3)
    assert greedy_common_tokens(before, after) == pytest.approx((4 + 2 + 3) / 3)


@pytest.mark.parametrize(
    ("low", "high", "bound", "verdict"),
    [
        (1.001, 1.01, {"most": 1.02}, "passes"),
        (1.01, 1.03, {"most": 1.02}, "undecided"),
        (1.03, 1.05, {"most": 1.02}, "fails"),
        (0.97, 0.99, {"least": 0.95}, "passes"),
        (0.94, 0.96, {"least": 0.95}, "undecided"),
        (0.90, 0.94, {"least": 0.95}, "fails"),
        (1.03, 1.05, {}, None),
    ],
)
def test_a_bound_is_kept_or_broken_only_by_the_whole_interval(
    low: float, high: float, bound: dict[str, float], verdict: str | None
) -> None:
    assert within(Estimate((low + high) / 2, low, high), **bound) == verdict


def test_a_variant_passes_only_if_it_keeps_all_bounds() -> None:
    assert together(["passes", "undecided", "fails"]) == "fails"
    assert together(["passes", "undecided", None]) == "undecided"
    assert together(["passes", None]) == "passes"
    assert together([None, None]) is None


ANSWER: dict[str, Any] = {
    "prompt_token_ids": [5, 8, 9],
    "prompt_logprobs": [
        None,
        {"8": {"logprob": -0.5, "rank": 1}},
        {"9": {"logprob": -2.25, "rank": 4}, "3": {"logprob": -0.25, "rank": 1}},
    ],
    "token_ids": [3, 3],
}


def test_an_answer_is_read_from_its_second_token_on() -> None:
    document = read_answer({"choices": [ANSWER]})
    assert (document.tokens, document.logprob) == (2, -2.75)
    assert document.top1 == [8, 3]
    assert document.greedy == [3, 3]


@pytest.mark.parametrize("without", [*ANSWER])
def test_a_server_that_tells_less_is_refused(without: str) -> None:
    with pytest.raises(RefusedError, match="does not tell prompt_logprobs and token ids"):
        read_answer({"choices": [{**ANSWER, without: None}]})


def test_a_refusal_is_told_in_the_servers_words() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        error = {"message": "prompt_logprobs is not supported with draft models"}
        return httpx.Response(400, json={"error": error})

    client = httpx.Client(base_url="http://it", transport=httpx.MockTransport(refuse))
    with pytest.raises(
        RefusedError, match="refused a document: HTTP 400: prompt_logprobs is not supported"
    ):
        ask(client, "it", {"prompt": "a b", "output_tokens": 2})


def test_a_document_is_asked_for_once_and_greedily() -> None:
    bodies = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [ANSWER]})

    client = httpx.Client(base_url="http://it", transport=httpx.MockTransport(answer))
    ask(client, "it", {"prompt": "a b", "output_tokens": 2})
    (body,) = bodies
    assert body["temperature"] == 0 and body["max_tokens"] == 2 and body["prompt_logprobs"] == 1


def plan_with(project: Project, edit: Edit, **params: Any) -> Plan:
    study = project.study()
    study["quality"] = {"corpus": "text", "documents": 8}
    edit(study)
    project.write_study(study)
    return make_plan({**project.params, **params}, project.root)


def qualities_of(plan: Plan) -> list[str]:
    return [each.id for each in plan.qualities]


def test_quality_is_owed_once_by_each_variant_and_changes_no_measurement(project: Project) -> None:
    without = plan_with(project, lambda study: study.pop("quality"), repeats=3)
    asked = plan_with(project, lambda study: None, repeats=3)
    assert [s.variant for s in asked.sessions if s.quality] == asked.variants
    assert {m.id for m in without.measurements} == {m.id for m in asked.measurements}
    later = [(s.id, t.id) for s, t in zip(without.sessions, asked.sessions, strict=True)]
    assert [before == after for before, after in later] == [False] * 4 + [True] * 8
    assert all(s.quality and s.quality.corpus in s.datasets for s in asked.sessions[:4])


@pytest.mark.parametrize(
    "edit",
    [
        lambda study: study["quality"].update(max_perplexity_ratio=1.5, min_top1_agreement=0.5),
        lambda study: study.update(question="Another?"),
        lambda study: study["workloads"]["text"]["load_points"].pop(),
    ],
)
def test_a_bound_or_a_load_point_asks_no_quality_again(project: Project, edit: Edit) -> None:
    before = qualities_of(plan_with(project, lambda study: None))
    assert qualities_of(plan_with(project, edit)) == before


@pytest.mark.parametrize(
    "edit",
    [
        lambda study: study["quality"].update(documents=9),
        lambda study: study["datasets"]["text"].update(input_words=9),
        lambda study: study["server"].update(dtype="float32"),
        lambda study: study["models"]["tiny"].update(seed=3),
        lambda study: study["quality"].update(lm_eval={"tasks": ["arc_easy"]}),
    ],
)
def test_what_decides_the_answers_is_asked_again(project: Project, edit: Edit) -> None:
    before = qualities_of(plan_with(project, lambda study: None))
    assert set(before).isdisjoint(qualities_of(plan_with(project, edit)))


def ask_questions(study: dict[str, Any], root: Path, **questions: Any) -> None:
    (root / "facts.jsonl").write_text('{"prompt": "1 + 1?", "check": "number", "answer": 2}\n')
    study["datasets"]["facts"] = {"kind": "checked", "path": "facts.jsonl"}
    study["quality"]["questions"] = {"dataset": "facts", **questions}


def test_questions_are_part_of_what_is_asked_and_their_bound_is_not(project: Project) -> None:
    before = qualities_of(plan_with(project, lambda study: None))
    asked = plan_with(project, lambda study: ask_questions(study, project.root))
    ids = qualities_of(asked)
    assert set(ids).isdisjoint(before)
    (questions,) = {each.questions.dataset for each in asked.qualities if each.questions}
    assert all(questions in session.datasets for session in asked.sessions if session.quality)

    def bounded(study: dict[str, Any]) -> None:
        ask_questions(study, project.root)
        study["quality"]["max_accuracy_drop"] = "5%"

    assert qualities_of(plan_with(project, bounded)) == ids
    other = plan_with(project, lambda s: ask_questions(s, project.root, endpoint="completions"))
    assert set(qualities_of(other)).isdisjoint(ids)


def set_shape(study: dict[str, Any]) -> None:
    config = "studies/shapes/llama-3.1-8b.json"
    study["models"]["tiny"] = {"source": "shape", "config": config}
    for name in ("tiny-w8a8", "tiny-eagle3"):
        study["models"].pop(name)
    study["variants"] = {"bf16": {"model": "tiny"}}


def set_random(study: dict[str, Any]) -> None:
    lengths = {"requests": 4, "input_tokens": 4, "output_tokens": 4}
    study["datasets"]["ids"] = {"kind": "random", **lengths}
    study["quality"]["corpus"] = "ids"


MISTAKES: list[tuple[Edit, str]] = [
    (lambda s: s["quality"].update(corpus="txt"), "quality.corpus: no dataset txt; .*text?"),
    (lambda s: s["quality"].pop("corpus"), "quality: expected corpus, questions, or both"),
    (lambda s: s["quality"].update(max_ppl=1), "quality.max_ppl: unknown key"),
    (lambda s: s["quality"].update(min_top1_agreement=95), "quality.min_top1_agreement: "),
    (lambda s: s["quality"].update(documents=1), "quality.documents: "),
    (
        lambda s: s["quality"].update(questions={"dataset": "text"}),
        "quality.questions.dataset: text is a text dataset, whose answers nothing can check",
    ),
    (
        lambda s: s["quality"].update(questions={"dataset": "txt"}),
        "quality.questions.dataset: no dataset txt; .*text?",
    ),
    (lambda s: s["quality"].update(max_accuracy_drop="5%"), "max_accuracy_drop needs questions"),
    (
        lambda s: s["quality"].update(lm_eval={"tasks": ["x"], "folder": "no"}),
        "quality.lm_eval.folder: no: no such folder",
    ),
    (
        set_random,
        "quality.corpus: ids is a random dataset",
    ),
    (
        lambda s: s["variants"]["bf16"].update(server={"load_format": "dummy"}),
        "quality: bf16 has dummy weights",
    ),
    (set_shape, "quality: bf16 has dummy weights .model tiny."),
]


@pytest.mark.parametrize(("edit", "said"), MISTAKES)
def test_a_mistake_in_quality_is_one_line(project: Project, edit: Edit, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        plan_with(project, edit)
    assert "\n" not in str(caught.value)


@pytest.fixture
def table() -> pd.DataFrame:
    return make_quality(make_quickstart_plan())[1].set_index("variant")


def test_the_table_has_a_row_a_variant_with_its_verdict(table: pd.DataFrame) -> None:
    assert table["verdict"].fillna("").to_dict() == {
        "bf16": "",
        "w8a8": "passes",
        "fp8-kv": "fails",
        "eagle3": "",
    }
    rows = rows_by(table.reset_index(), "variant")
    assert rows["fp8-kv"]["perplexity_ratio"] == pytest.approx(math.exp(0.27))
    assert rows["fp8-kv"]["top1_agreement"] == pytest.approx(1 - 9 / 50)
    assert rows["bf16"]["perplexity"] == pytest.approx(math.exp(2))
    assert pd.isna(rows["bf16"]["perplexity_ratio"])
    assert "refused a document" in rows["eagle3"]["reason"]


def test_without_the_baselines_answers_there_is_no_ratio_and_the_table_says_why() -> None:
    plan = make_quickstart_plan().model_copy(update={"quality": BOUNDS})
    w8a8 = make_record("w8a8", 0.1)
    for others, why in (
        ({}, "bf16 was not measured"),
        ({"bf16": make_failed("bf16", "it died")}, "bf16 has no answers: it died"),
        ({"bf16": make_record("bf16", 0, documents=3)}, "its tokenizer makes other tokens"),
    ):
        row = qualities(plan, {**others, "w8a8": w8a8}).set_index("variant").loc["w8a8"]
        assert why in row["no_ratio"]
        assert row["perplexity"] > 0 and pd.isna(row["verdict"])


def test_a_study_without_quality_has_an_empty_table_of_the_same_columns(
    table: pd.DataFrame,
) -> None:
    empty = qualities(make_quickstart_plan(), {})
    assert empty.empty and [*empty.columns] == ["variant", *table.columns]


def test_the_metrics_of_a_reviewer_are_short(table: pd.DataFrame) -> None:
    found = metrics(table.reset_index())
    assert found["w8a8"]["verdict"] == "passes"
    assert found["fp8-kv"]["perplexity_ratio"] == 1.31
    assert found["eagle3"] == {"status": "failed"}
    assert set(found["bf16"]) == {"perplexity"}


def test_results_of_lm_eval_are_read_with_their_errors() -> None:
    told = {"alias": "facts", "acc,none": 0.5, "acc_stderr,none": 0.1, "sample_len": 40}
    told |= {"exact_match,strict": 0.25, "exact_match_stderr,strict": "N/A"}
    found = read_results({"results": {"facts": told}})
    assert [(each.metric, each.value, each.standard_error) for each in found] == [
        ("acc", 0.5, 0.1),
        ("exact_match (strict)", 0.25, None),
    ]
