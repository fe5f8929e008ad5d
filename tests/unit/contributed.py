"""What the examples of CONTRIBUTING.md add, one test each; run on a copy that has them.

`tests/unit/test_contributing.py` runs it.
"""

import json
import sys
import tarfile
from pathlib import Path

import pytest
from rich.console import Console

import servetune
from servetune.analysis.findings.gather import Case, find
from servetune.engines.environments import BuiltEngine, description_file, lock_file
from servetune.engines.vllm.metrics import read_metrics
from servetune.errors import UserError
from servetune.files import read_model, write_json
from servetune.metrics import JUDGED
from servetune.models.make import checkpoint, make_model
from servetune.plan.make import make_plan, plan_to_measure
from servetune.records.measurements import Card, MeasurementRecord
from servetune.records.validity import check_measurement
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.terminal import render_terminal
from servetune.sessions.session import run_session
from servetune.study.validity import Limits
from servetune.tables.write import reviewed_metrics
from servetune.workloads.datasets import write_dataset
from tests.paths import ROOT
from tests.project import Project
from tests.report_data import ReportData, make_data, make_quickstart_plan
from tests.standin.serving import write_model, write_tokenizer

LOAD = {"concurrency": 2, "requests": 4}
LENGTHS = {"input_tokens": 8, "output_tokens": 6}


@pytest.fixture(scope="module", autouse=True)
def on_a_copy() -> None:
    assert not Path(servetune.__file__).is_relative_to(ROOT)


@pytest.fixture(scope="module")
def data() -> ReportData:
    return make_data(make_quickstart_plan(repeats=3))


def test_the_metric_is_reviewed_judged_drawn_and_shown(data: ReportData) -> None:
    name, title = "e2e_p90_ms", "E2E p90"
    assert name in data.table
    assert name in reviewed_metrics(data.table)["bf16"]["text"]["c8"]
    assert name in JUDGED and name in set(data.judgement.verdicts["metric"])
    page, markdown = render_html(data), render_markdown(data)
    assert page.count(f'data-chart="ratio-{name}"') == 1
    assert f"{title}, ms" in page and f"{title}, ms" in markdown
    console = Console(width=200, record=True)
    console.print(render_terminal(data))
    assert title in console.export_text()


def test_the_section_stands_on_the_page_and_in_the_markdown(data: ReportData) -> None:
    page, markdown = render_html(data), render_markdown(data)
    assert '<section id="starts">' in page and '<a href="#starts">' in page
    assert "Start, s" in page and "Start, s" in markdown


def test_the_rule_judges_and_stands_on_the_card(data: ReportData) -> None:
    metrics = next(record.metrics for record in data.records.values() if record.metrics)
    status, rule, reason = check_measurement(metrics, Card(rejected_requests=3), Limits())
    assert (status, rule) == ("invalid", "rejected-requests")
    assert reason == "3 requests were longer than the workload allows"
    assert check_measurement(metrics, Card(rejected_requests=0), Limits())[0] == "ok"
    assert "Requests that were too long" in render_html(data)


def test_the_finding_is_found() -> None:
    row = {"status": "ok", "context_max_tokens": 100.0, "max_model_len": 131_072.0}
    assert "context-unused" in find(Case(row))


def test_the_server_metric_is_read() -> None:
    page = 'vllm:corrupted_requests_total{engine="0",model_name="it"} 3.0\n'
    assert read_metrics(page)["corrupted_requests"] == 3


def test_the_model_source_makes_a_checkpoint(tmp_path: Path) -> None:
    project = Project(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with tarfile.open(tmp_path / "model.tar", "w") as archive:
        archive.add(tmp_path / "config.json", "config.json")
    study = project.study()
    study["models"]["packed"] = {"source": "archive", "path": "model.tar"}
    study["variants"]["bf16"]["model"] = "packed"
    project.write_study(study)
    plan = make_plan({"study": "quickstart", "variants": ["bf16"]}, tmp_path)
    (model,) = plan.models.values()
    make_model(model, tmp_path)
    assert json.loads((checkpoint(model.id, tmp_path) / "config.json").read_text()) == {}


def test_the_generator_is_planned_and_refuses_what_it_cannot_send(tmp_path: Path) -> None:
    project = Project(tmp_path)
    study = project.study()
    study["workloads"] = {"text": {**study["workloads"]["text"], "generator": "steady"}}
    project.write_study(study)
    plan = make_plan({"study": "quickstart"}, tmp_path)
    assert {session.generators[0] for session in plan.sessions} == {"steady"}
    words = study["datasets"]["text"]
    tokens = {"input_tokens": 8, "output_tokens": 8}
    study["datasets"]["text"] = {"kind": "random", "requests": words["requests"], **tokens}
    project.write_study(study)
    refused = r"workloads\.text\.generator: steady cannot send token ids"
    with pytest.raises(UserError, match=refused):
        plan_to_measure({"study": "quickstart"}, tmp_path)


def test_the_engine_serves_a_study_and_tells_what_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    project = Project(tmp_path / "project")
    write_tokenizer(write_model(tmp_path))
    lock_file("echo", project.root).write_text("echo==1.0\n")
    project.write_study(
        {
            "question": "Does it answer?",
            "hardware": "cpu",
            "engine": "echo",
            "baseline": "plain",
            "models": {"any": {"source": "path", "path": str(tmp_path)}},
            "variants": {"plain": {"model": "any"}},
            "datasets": {"ids": {"kind": "random", "requests": 4, **LENGTHS}},
            "workloads": {
                "ids": {"dataset": "ids", "load_points": [{"concurrency": 2, "requests": 4}]}
            },
        }
    )
    plan = make_plan({"study": "quickstart"}, project.root)
    (session,) = plan.sessions
    assert session.engine is not None
    built = BuiltEngine(name="echo", python=Path(sys.executable), versions={"echo": "1.0"})
    write_json(description_file(session.engine), built)
    make_model(plan.models[str(session.model)], project.root)
    for dataset in session.datasets:
        path = project.root / "data" / "workloads" / f"{dataset}.jsonl"
        write_dataset(plan.datasets[dataset], path, project.root)
    run_session(session, project.root)
    (file,) = (project.root / "results/quickstart/records").iterdir()
    record = read_model(file, MeasurementRecord)
    assert record.metrics is not None
    assert (record.metrics.completed_requests, record.metrics.output_tokens) == (4, 4 * 6)
    assert record.card.server_output_ratio == 1.0
    assert record.card.prefix_cache_was_reset is False
