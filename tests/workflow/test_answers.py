"""Questions asked on the stand-in: who answers worse is told, with the answers that changed."""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.standin.site.vllm.standin.tokens import WORDS
from tests.workspace import Workspace, make_workspace

QUESTIONS = 60
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "same": {"max_num_seqs": 4},
    # About half of the prompts get another answer, and every fourth document another word.
    "poor": {"standin_loss_nats": 0.5},
    "broken": {"standin_fault": "fail-requests", "standin_fault_after": 7},
}


def ask(workspace: Workspace, **questions: Any) -> None:
    study = workspace.study
    # The stand-in says the same words each time; half of all first words are before "it".
    early = "|".join(sorted(WORDS)[: len(WORDS) // 2])
    lines = [
        {
            "id": f"word-{i}",
            "prompt": f"Say <b>word</b> {i}.",
            "check": "regex",
            "answer": f"^ ?({early}) ",
        }
        for i in range(QUESTIONS)
    ]
    (workspace.root / "words.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    study["datasets"]["words"] = {"kind": "checked", "path": "words.jsonl", "output_tokens": 8}
    study["quality"] = {"questions": {"dataset": "words", **questions}, "max_accuracy_drop": "9%"}
    study["variants"] = {n: {"model": "standin", "server": args} for n, args in VARIANTS.items()}
    study["workloads"]["random"]["load_points"] = [{"concurrency": 1, "requests": 4}]
    workspace.write_study(study)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    made = make_workspace(tmp_path_factory.mktemp("answers") / "w", engine_cache)
    ask(made)
    made.first_output = made.measure()
    return made


def records(workspace: Workspace) -> dict[str, dict[str, Any]]:
    files = (workspace.root / "results/standin/quality").glob("*.json")
    read = [json.loads(file.read_text()) for file in files]
    return {record["variant"]: record for record in read}


def table(workspace: Workspace) -> pd.DataFrame:
    return pd.read_parquet(workspace.root / "results/standin/quality.parquet").set_index("variant")


def test_a_variant_that_answers_worse_fails_and_one_that_answers_alike_passes(
    asked: Workspace,
) -> None:
    found = table(asked)
    assert found.loc["same", "verdict"] == "passes"
    assert found.loc["poor", "questions"] == QUESTIONS
    poor = found.loc["poor"]
    assert poor["lost_answers"] + poor["gained_answers"] >= 5
    assert found.loc["plain", "unstable_texts"] == 0, "the stand-in repeats itself"
    told = asked.metrics()["plain"]["quality"]["accuracy"]
    assert told == pytest.approx(found.loc["plain", "accuracy"], rel=1e-3)


def test_every_question_is_asked_twice_of_every_variant(asked: Workspace) -> None:
    read = records(asked)
    for variant in ("plain", "same", "poor"):
        answers = read[variant]["answers"]
        assert [each["question"] for each in answers] == [f"word-{i}" for i in range(QUESTIONS)]
        assert {len(each["answers"]) for each in answers} == {2}
        assert read[variant]["corpus"] is None and read[variant]["documents"] == []


def test_a_server_that_refuses_a_question_leaves_a_record_that_says_why(asked: Workspace) -> None:
    broken = records(asked)["broken"]
    assert broken["status"] == "failed"
    assert broken["reason"].startswith("the server refused a question: HTTP 500")
    assert broken["answers"] == []


def test_the_report_shows_the_changed_answers_side_by_side_and_escaped(asked: Workspace) -> None:
    page = (asked.root / "reports/summary.html").read_text()
    summary = (asked.root / "reports/summary.md").read_text()
    for text in (page, summary):
        assert "The noise floor: asked twice, plain itself" in text
        assert re.search(r"Right answers:.*Passes: same \(", text, re.DOTALL)
        assert "No answers: broken." in text
        assert "poor: " in text and " lost, " in text
    assert "Say &lt;b&gt;word&lt;/b&gt;" in page and "Say <b>word" not in page
    assert "<b>word" not in summary


def test_another_bound_asks_nothing_again(asked: Workspace) -> None:
    launches, study = asked.launches(), asked.study
    study["quality"]["max_accuracy_drop"] = "90%"
    asked.write_study(study)
    asked.collect()
    assert asked.launches() == launches
    assert table(asked).loc["poor", "verdict"] == "passes"
