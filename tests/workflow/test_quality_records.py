"""A study that asks for quality gets an answer of every variant, and loses no load for it."""

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.engines.environments import engine_id
from tests.workspace import Workspace, make_workspace

BOUNDS = {"corpus": "prose", "max_perplexity_ratio": 1.02, "min_top1_agreement": 0.95}
PROSE = {"kind": "text", "requests": 12, "input_words": {"min": 40, "max": 60}, "output_tokens": 8}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "good": {"standin_loss_nats": 0.002, "max_num_seqs": 4},
    "poor": {"standin_loss_nats": 0.9},
    "mute": {"standin_fault": "no-prompt-logprobs"},
    "broken": {"standin_fault": "refuse-start"},
    # A load of five requests, with its warm-up, and then the sixth document.
    "mortal": {"standin_fault": "die-under-load", "standin_fault_after": 10},
}


def ask(workspace: Workspace, variants: dict[str, dict[str, Any]], **quality: Any) -> None:
    study = workspace.study
    study["datasets"]["prose"] = PROSE
    study["quality"] = {**BOUNDS, **quality}
    study["variants"] = {n: {"model": "standin", "server": args} for n, args in variants.items()}
    study["workloads"]["random"]["load_points"] = [{"concurrency": 1, "requests": 4}]
    workspace.write_study(study)


def answers(workspace: Workspace) -> dict[str, dict[str, Any]]:
    """Read the records of quality, by variant."""
    files = (workspace.root / "results/standin/quality").glob("*.json")
    read = [json.loads(file.read_text()) for file in files]
    return {record["variant"]: record for record in read}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    made = make_workspace(tmp_path_factory.mktemp("quality") / "w", engine_cache)
    ask(made, VARIANTS)
    made.first_output = made.measure()
    return made


def table(workspace: Workspace) -> pd.DataFrame:
    return pd.read_parquet(workspace.root / "results/standin/quality.parquet").set_index("variant")


def test_a_variant_that_answers_like_the_baseline_passes_and_one_that_does_not_fails(
    asked: Workspace,
) -> None:
    found = table(asked)
    assert found.loc["good", "verdict"] == "passes"
    assert found.loc["poor", "verdict"] == "fails"
    assert found.loc["poor", "perplexity_ratio"] == pytest.approx(2.7183**0.9, rel=1e-3)
    assert found.loc["good", "documents"] == 12
    metrics = asked.metrics()
    assert metrics["good"]["quality"]["verdict"] == "passes"
    assert metrics["plain"]["quality"]["perplexity"] > 1
    assert metrics["plain"]["random"]["c1"]["ok"] == 1


def test_every_load_point_is_measured_whatever_became_of_the_quality(asked: Workspace) -> None:
    points = pd.read_parquet(asked.root / "results/standin/load_points.parquet")
    status = points.set_index("variant")["status"].to_dict()
    assert status.pop("broken") == "failed"
    assert set(status.values()) == {"ok"}


def test_no_answer_is_a_record_that_says_why(asked: Workspace) -> None:
    records = answers(asked)
    assert {name for name, each in records.items() if each["status"] == "failed"} == {
        "mute",
        "broken",
        "mortal",
    }
    assert records["mute"]["reason"] == (
        "the server refused a document: HTTP 400: prompt_logprobs is not supported here."
    )
    assert records["broken"]["reason"].startswith("the server did not start")
    assert records["mortal"]["reason"].startswith("the server died under load")


def test_the_answer_says_who_fails_before_it_says_who_is_fast(asked: Workspace) -> None:
    page = (asked.root / "reports/summary.html").read_text()
    summary = (asked.root / "reports/summary.md").read_text()
    for text in (page, summary, asked.first_output):
        assert "poor fails the bounds of quality: its perplexity is 2.460" in " ".join(text.split())
    assert '<section id="quality">' in page
    assert summary.index("fails the bounds of quality") < summary.index("output throughput")


def test_a_second_run_asks_nothing_again_and_neither_does_another_bound(
    asked: Workspace,
) -> None:
    launches = asked.launches()
    assert "Nothing to be done" in asked.dry_run()
    ask(asked, VARIANTS, max_perplexity_ratio=3, min_top1_agreement=0.5)
    asked.collect()
    assert asked.launches() == launches
    assert table(asked).loc["poor", "verdict"] == "passes"
    ask(asked, VARIANTS)


def test_a_changed_record_renders_the_report_again(asked: Workspace) -> None:
    asked.measure()
    (path,) = (asked.root / "results/standin/quality").glob("good-*.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "tasks_failed": "no network"}))
    plan = asked.dry_run()
    assert "collect_tables" in plan and "render_report" in plan and "measure_session" not in plan
    path.write_text(json.dumps(record))


def test_quality_asked_for_later_costs_one_launch_a_variant_and_no_load_point(
    measured: Workspace,
) -> None:
    before = measured.records()
    study = measured.study
    study["datasets"]["prose"] = PROSE
    study["quality"] = {**BOUNDS, "documents": 6}
    measured.write_study(study)
    measured.set_params(repeats=2)
    measured.collect()
    assert measured.launches() == 2 + 2 + 2, "a repeat has only its load points"
    assert {id: each for id, each in measured.records().items() if id in before} == before
    assert [len(each["documents"]) for each in answers(measured).values()] == [6, 6]
    assert "quality: measured" in measured.check("servetune", "plan")


def test_a_failed_quality_is_tried_again_when_that_is_asked_for(workspace: Workspace) -> None:
    ask(workspace, {"plain": {}, "mute": VARIANTS["mute"]})
    workspace.collect()
    kept, launches = workspace.records(), workspace.launches()
    assert "1 failed and 0 invalid records forgotten" in workspace.check("servetune", "retry")
    workspace.collect()
    assert workspace.launches() == launches + 1
    assert workspace.records() == kept
    assert set(answers(workspace)) == {"plain", "mute"}


def test_a_killed_quality_is_asked_again_and_the_load_points_are_kept(
    workspace: Workspace,
) -> None:
    ask(workspace, {"plain": {}})
    workspace.collect()
    kept = workspace.records()
    for path in (workspace.root / "results/standin").glob("[qs]*/*.json"):
        path.unlink()
    workspace.collect()
    assert workspace.records() == kept
    assert answers(workspace)["plain"]["status"] == "ok"
    assert workspace.launches() == 2


def test_a_harness_that_fails_costs_its_tasks_and_no_document(workspace: Workspace) -> None:
    ask(workspace, {"plain": {}}, lm_eval={"tasks": ["arc_easy"]})
    cache = Path(workspace.environment["SERVETUNE_CACHE"])
    built = cache / "engines" / engine_id("lm-eval", workspace.root) / "engine.json"
    built.parent.mkdir(parents=True)
    # A Python without lm-eval.
    built.write_text(json.dumps({"name": "lm-eval", "python": sys.executable, "versions": {}}))
    workspace.measure()
    record = answers(workspace)["plain"]
    assert (record["status"], len(record["documents"])) == ("ok", 12)
    assert "No module named lm_eval" in record["tasks_failed"]
    assert "No module named lm_eval" in (workspace.root / "reports/summary.md").read_text()
    assert workspace.servers() == []
