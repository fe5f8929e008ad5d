"""Variants that were measured by another tool stand in a study beside all others."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.paths import ROOT
from tests.workspace import Workspace, make_workspace

SAMPLE = ROOT / "tests/data/imports/aiperf-0.13.json"


def write_runs(root: Path, name: str, factor: float) -> list[str]:
    """Write three exports of AIPerf, each a little off."""
    random = np.random.default_rng(len(name))
    files = []
    for index in range(3):
        export = json.loads(SAMPLE.read_text())
        off = factor * float(np.exp(0.002 * random.standard_normal()))
        for metric in ("time_to_first_token", "inter_token_latency", "request_latency"):
            export[metric] = {
                key: off * value if isinstance(value, float) else value
                for key, value in export[metric].items()
            }
        export["output_token_throughput"]["avg"] /= off
        path = root / "before" / f"{name}-{index}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(export))
        files.append(f"before/{name}-{index}.json")
    return files


def study_of(workspace: Workspace) -> dict[str, Any]:
    study = workspace.study
    (workload,) = (
        name for name in study["workloads"] if "capacity" not in study["workloads"][name]
    )
    kept = {**study["workloads"][workload], "load_points": [{"concurrency": 4, "requests": 8}]}
    return {**study, "workloads": {workload: kept}, "repeats": 3}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    made = make_workspace(tmp_path_factory.mktemp("results") / "w", engine_cache)
    study = study_of(made)
    study["variants"] = {
        "ours": {"model": "standin", "repeats": 1},
        "old": {"results": write_runs(made.root, "old", 1.0)},
        "newer": {"results": write_runs(made.root, "newer", 1.3)},
    }
    study["baseline"] = "old"
    made.write_study(study)
    made.first_output = made.measure()
    return made


def rows(workspace: Workspace, variant: str) -> pd.DataFrame:
    table = pd.read_parquet(workspace.root / "results/standin/load_points.parquet")
    return table[table["variant"] == variant]


def test_each_file_is_a_launch_with_the_numbers_that_its_tool_summed_up(
    measured: Workspace,
) -> None:
    old = rows(measured, "old")
    assert list(old["status"]) == ["ok"] * 3
    files = [json.loads((measured.root / f"before/old-{i}.json").read_text()) for i in range(3)]
    assert sorted(old["ttft_p50_ms"]) == sorted(
        each["time_to_first_token"]["p50"] for each in files
    )
    assert list(rows(measured, "ours")["status"]) == ["ok"]
    assert "Nothing to be done" in measured.dry_run()


def test_verdicts_hold_by_the_rules_of_our_own_launches(measured: Workspace) -> None:
    page = (measured.root / "reports/summary.md").read_text()
    (row,) = [line for line in page.splitlines() if "newer" in line and "**slower**" in line][:1]
    assert "1.30" in row
    summary = (measured.root / "reports/summary.html").read_text()
    assert "before/newer-0.json" in summary
    assert "Measured before, by other tools" in summary


def test_no_server_is_started_for_results(measured: Workspace) -> None:
    launches = {session["variant"]: len(session["launches"]) for session in measured.sessions()}
    assert launches == {"ours": 1, "old": 0, "newer": 0}


def test_a_changed_file_is_measured_anew_and_a_foreign_one_is_one_line(
    measured: Workspace,
) -> None:
    path = measured.root / "before/old-0.json"
    text = path.read_text()
    try:
        path.write_text(text.replace('"p90"', '"p90" '))
        assert "Nothing to be done" not in measured.dry_run()
        path.write_text("{}")
        done = measured.run("servetune", "plan")
        assert done.returncode == 2 and "Traceback" not in done.stderr
        told = "variants.old.results: " + "before/old-0.json: not a result file that is known"
        assert told in done.stderr
    finally:
        path.write_text(text)
