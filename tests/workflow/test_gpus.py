"""A study over the GPUs of one host, by a stand-in for NVML."""

import os
from pathlib import Path
from typing import Any

import pytest

from servetune.sessions.host_verdicts import KeptVerdict, keep_verdict
from tests.paths import ROOT
from tests.workflow.test_bundle import Host, export
from tests.workspace import TABLES, Workspace


def with_gpus(workspace: Workspace, count: int) -> None:
    """Give the workspace's host so many GPUs, and have its study measure on them."""
    nvml = {"PYTHONPATH": str(ROOT / "tests/standin/nvml"), "STANDIN_GPUS": str(count)}
    workspace.environment |= nvml
    study = workspace.study
    study["hardware"] = "stand-in"
    study["workloads"]["random"]["load_points"] = [{"concurrency": 1, "requests": 1}]
    workspace.write_study(study)


def meet(study: dict[str, Any], count: int, folder: Path) -> None:
    """Let no server be ready before so many stand."""
    study["server"] |= {"standin_fault": "meet", "standin_fault_after": count}
    study["environment"] = {"STANDIN_MEETING": str(folder / "meeting")}
    (folder / "meeting").mkdir()


def test_one_session_on_four_gpus_and_four_on_one_run_beside_each_other(
    workspace: Workspace,
) -> None:
    with_gpus(workspace, 8)
    study = workspace.study
    study["repeats"], study["baseline"] = 4, "one"
    study["variants"] = {
        "one": {"model": "standin"},
        "four": {"model": "standin", "repeats": 1, "server": {"tensor_parallel_size": 4}},
    }
    meet(study, 5, workspace.root)
    workspace.write_study(study)
    workspace.check("snakemake", "--cores", "8", TABLES)
    launches = [session["launches"] for session in workspace.sessions()]
    assert [len(each) for each in launches] == 5 * [1]
    slots = [launch["slot"] for (launch,) in launches]
    assert sorted(len(slot["gpus"]) for slot in slots) == [1, 1, 1, 1, 4]
    assert len({uuid for slot in slots for uuid in slot["gpus"]}) == 8
    for slot in slots:
        assert slot["gpus"] == [f"GPU-{index:04}" for index in slot["indices"]]
        assert slot["node"] == os.uname().nodename and slot["cores"]
    assert len({slot["host"] for slot in slots}) == 1
    records = list(workspace.records().values())
    assert {record["device"] for record in records} == {"+".join(s["gpus"]) for s in slots}
    # No GPU is given back before the first of the loads has ended, and all may be before the last.
    assert any(record["card"]["other_gpus_in_use"] > 0 for record in records)


def prove_alike(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the verdict that sessions on this host measure beside each other as alone."""
    ask = "from servetune.sessions.hardware import host_id; print(host_id())"
    host = workspace.check("python", "-c", ask).split()[-1]
    told: dict[str, Any] = {"study": "standin", "launches": 5, "judged_at": "2026-11-01"}
    monkeypatch.setenv("SERVETUNE_CACHE", workspace.environment["SERVETUNE_CACHE"])
    keep_verdict(KeptVerdict(way="together", host=host, verdict="alike", **told))


@pytest.mark.parametrize("is_asked", [True, False], ids=["asked", "proven alike"])
def test_a_bundle_measures_sessions_together(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_asked: bool
) -> None:
    with_gpus(workspace, 2)
    if not is_asked:
        prove_alike(workspace, monkeypatch)
    study = workspace.study
    meet(study, 2, workspace.root)
    workspace.write_study(study)
    bundle = export(workspace)
    host = Host(tmp_path / "host")
    paths = [workspace.environment["PYTHONPATH"], host.environment["PYTHONPATH"]]
    host.environment |= {"PYTHONPATH": os.pathsep.join(paths), "STANDIN_GPUS": "2"}
    results = host.measure(bundle, *(["--together"] if is_asked else []))
    told = workspace.check("servetune", "bundle", "import", str(results))
    assert "2 sessions complete, 0 load points still missing" in told
    devices = [record["device"] for record in workspace.records().values()]
    assert sorted(devices) == ["GPU-0000", "GPU-0001"]


def test_a_host_where_sessions_disturb_each_other_runs_one_at_a_time(workspace: Workspace) -> None:
    with_gpus(workspace, 2)
    study = workspace.study
    study["baseline"] = "alone"
    study["variants"] = {
        "alone": {"model": "standin", "neighbours": "none"},
        "beside": {"model": "standin", "neighbours": "all"},
    }
    workspace.write_study(study)
    told = workspace.check("servetune", "interference", "--study", "standin")
    # One launch each proves nothing, and what is not proven alike is not allowed.
    (line,) = [line for line in told.splitlines() if line.startswith("host ")]
    assert ": undecided: sessions run one at a time" in line
    (kept,) = Path(workspace.environment["SERVETUNE_CACHE"]).glob("hosts/together/*.json")
    by_variant = {record["variant"]: record for record in workspace.records().values()}
    others = {name: record["card"]["other_gpus_in_use"] for name, record in by_variant.items()}
    assert others == {"alone": 0, "beside": 1}
    assert {record["device"] for record in by_variant.values()} == {"GPU-0000"}
    assert {session["launches"][0]["slot"]["host"] for session in workspace.sessions()} == {
        kept.stem
    }

    study["variants"] = {"one": {"model": "standin"}, "two": {"model": "standin"}}
    study["baseline"] = "one"
    workspace.write_study(study)
    workspace.check("snakemake", "--cores", "2", TABLES)
    started = [s["launches"][0] for s in workspace.sessions() if s["variant"] in ("one", "two")]
    first, second = sorted(started, key=lambda launch: launch["started_at"])
    assert first["stopped_at"] <= second["started_at"]
    assert {launch["slot"]["together"] for launch in started} == {"undecided"}
    assert [launch["slot"]["gpus"] for launch in (first, second)] != [first["slot"]["gpus"]] * 2
