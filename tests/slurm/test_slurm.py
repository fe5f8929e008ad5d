"""What a user of a cluster gets: a study over the nodes of a real Slurm, on this machine.

Skipped where Slurm is not installed; docs/slurm.md says how.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.slurm.cluster import CONF, Cluster, cluster, missing
from tests.workspace import Workspace, make_workspace

pytestmark = pytest.mark.skipif(
    bool(missing()) or os.getuid() != 0 or (CONF / "slurm.conf").exists(),
    reason="needs root, and slurmctld, slurmd and munge that serve nothing else",
)

SUBMIT = (
    *("snakemake", "--profile", "profiles/slurm"),
    *("--slurm-no-account", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "2"),
    *("--set-threads", "measure_session=1"),
    *("--set-resources", "measure_session:mem_mb=1000"),
)
REPORT = ("--", "reports/summary.html")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the executor's plugin."""
    environment = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run(
        ["uv", "sync", "--quiet", "--extra", "slurm", "--no-dev"],
        cwd=ROOT,
        env={**os.environ, "UV_PROJECT_ENVIRONMENT": str(environment)},
        check=True,
    )
    return environment / "bin"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "slurm") as running:
        yield running


@pytest.fixture
def on_cluster(tmp_path: Path, programs: Path) -> Workspace:
    made = make_workspace(tmp_path / "workspace", tmp_path / "cache")
    path = os.pathsep.join([str(programs), made.cold["PATH"]])
    made.environment = {**made.cold, "PATH": path}
    return made


def test_a_study_is_measured_on_both_nodes_at_once(nodes: Cluster, on_cluster: Workspace) -> None:
    output = on_cluster.check(*SUBMIT, *REPORT)
    slots = [session["launches"][0]["slot"] for session in on_cluster.sessions()]
    assert {slot["node"] for slot in slots} == {"n1", "n2"}
    assert len({slot["job"] for slot in slots}) == 2
    assert {slot["partition"] for slot in slots} == {"main"}
    assert (on_cluster.root / "reports/summary.html").is_file()
    assert "Finished jobid" in output
    assert nodes.run("squeue", "-h") == ""


def test_state_and_report_in_the_middle_tell_of_both_nodes(
    nodes: Cluster, on_cluster: Workspace
) -> None:
    study = on_cluster.study
    # Two servers wait for a third one, which is this test.
    meeting = on_cluster.root / "meeting"
    meeting.mkdir()
    waits = {"standin_fault": "meet", "standin_fault_after": 3}
    study["environment"] = {"STANDIN_MEETING": str(meeting)}
    study["variants"] = {"done": {"model": "standin"}}
    study["baseline"] = "done"
    on_cluster.write_study(study)
    on_cluster.collect()
    # Now there is a job for each node, and none that waits for one.
    study["variants"] |= {
        "left": {"model": "standin", "server": {"kv_cache_dtype": "fp8", **waits}},
        "right": {"model": "standin", "server": waits},
    }
    on_cluster.write_study(study)
    with _submitted(on_cluster) as run:
        try:
            _until(lambda: len([*meeting.iterdir()]) == 2, run)
            told = on_cluster.check("servetune", "status")
            state = json.loads(on_cluster.check("servetune", "status", "--json"))
            partial = on_cluster.check("servetune", "report", "--partial")
        finally:
            (meeting / "test").touch()
        assert run.wait() == 0
    sessions = {session["variant"]: session for session in state["sessions"]}
    assert {name: session["status"] for name, session in sessions.items()} == {
        **{"done": "done", "left": "running", "right": "running"}
    }
    assert {sessions[name]["running"]["node"] for name in ("left", "right")} == {"n1", "n2"}
    assert "on n1" in told and "on n2" in told
    assert "still to come: 4 load points" in partial
    assert len(on_cluster.records()) == 6


def test_a_node_that_dies_loses_nothing_and_measures_nothing_twice(
    nodes: Cluster, on_cluster: Workspace
) -> None:
    study = on_cluster.study
    points = [{"concurrency": 1, "requests": 4}, {"concurrency": 2, "requests": 4}]
    study["workloads"]["random"]["load_points"] = points
    # Each load point sends one warm-up request: no second one ends before the gate is there.
    study["server"] |= {"standin_fault": "stall-under-load", "standin_fault_after": 6}
    study["environment"] = {"STANDIN_GATE": str(on_cluster.root / "gate")}
    on_cluster.write_study(study)
    with _submitted(on_cluster) as run:
        _until(lambda: len(on_cluster.records()) >= 2, run)
        before = _contents(on_cluster)
        (job,) = nodes.run("squeue", "-h", "-w", "n2", "-o", "%i").split()
        nodes.kill_node("n2")
        _until(lambda: nodes.run("squeue", "-h", "-j", job, "-o", "%t").strip() == "PD", run)
        (on_cluster.root / "gate").touch()
        # Slurm would wait for two minutes.
        nodes.run("scontrol", "update", f"JobId={job}", "StartTime=now")
        assert run.wait() == 0
    after = _contents(on_cluster)
    assert before.items() <= after.items()
    assert len(after) == 4
    launches = [session["launches"] for session in on_cluster.sessions()]
    assert sorted(len(of) for of in launches) == [1, 2]
    (moved,) = (of for of in launches if len(of) == 2)
    assert [launch["slot"]["node"] for launch in moved] == ["n2", "n1"]
    assert [len(launch["measured"]) for launch in moved] == [1, 1]


def test_what_sbatch_refuses_is_shown_as_it_says_it(nodes: Cluster, on_cluster: Workspace) -> None:
    done = on_cluster.run(*SUBMIT, "--default-resources", "slurm_partition=nowhere", *REPORT)
    assert done.returncode != 0
    assert "invalid partition" in (done.stdout + done.stderr).lower()
    assert nodes.run("squeue", "-h") == ""


def _submitted(workspace: Workspace) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*SUBMIT, *REPORT],
        cwd=workspace.root,
        env=workspace.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )


def _until(is_so: Callable[[], bool], run: subprocess.Popen[bytes]) -> None:
    while not is_so():
        assert run.poll() is None, "the run ended before"
        time.sleep(0.2)


def _contents(workspace: Workspace) -> dict[str, bytes]:
    folder = workspace.root / "results/standin/records"
    return {file.name: file.read_bytes() for file in folder.glob("*.json")}
