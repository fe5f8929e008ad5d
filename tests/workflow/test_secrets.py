"""A variable of the caller reaches the server by its name; its value is in nothing that is kept."""

import zipfile
from pathlib import Path

import pytest

from tests.workspace import Workspace, make_workspace

NAME, VALUE = "STANDIN_DEVICE", "planted-0123456789"
"""The stand-in writes this variable into its log, and so into the tail of a failed record."""


@pytest.fixture
def passing(tmp_path: Path, engine_cache: Path) -> Workspace:
    made = make_workspace(tmp_path / "passing", engine_cache)
    study = made.study
    study["environment_from"] = [NAME]
    dies = {"standin_fault": "die-under-load", "standin_fault_after": 2}
    study["variants"] = {
        "plain": {"model": "standin"},
        "dies": {"model": "standin", "server": dies},
    }
    made.write_study(study)
    return made


def holding(value: str, root: Path) -> list[Path]:
    """Return the files of a folder that hold a text, packed ones included."""
    files = [path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts]
    return [path for path in files if value.encode() in path.read_bytes()]


def test_a_run_without_its_variable_is_one_line_before_anything_is_made(passing: Workspace) -> None:
    passing.dry_run()
    done = passing.run("snakemake", "--cores", "1", "reports/summary.html")
    assert done.returncode != 0
    line = f"servetune: environment_from: {NAME}: not set; export it in the shell that runs this"
    assert line in done.stderr and "Traceback" not in done.stderr
    assert not (passing.root / "results/raw").exists()
    assert not (passing.root / "data/workloads").exists()
    told = passing.check("servetune", "plan")
    assert f"environment_from: {NAME}: not set here; a run needs a value" in told


def test_a_passed_value_is_in_no_log_record_report_or_bundle(passing: Workspace) -> None:
    passing.environment[NAME] = VALUE
    passing.measure()
    assert holding(VALUE, passing.root) == []
    tails = [record["log_tail"] for record in passing.records().values()]
    assert any("*** KV cache size" in line for tail in tails for line in tail)
    logs = sorted((passing.root / "results/raw/standin").rglob("server-*.log"))
    assert logs and all("*** KV cache size" in log.read_text() for log in logs)
    launches = [launch for session in passing.sessions() for launch in session["launches"]]
    assert {tuple(launch["environment_from"]) for launch in launches} == {(NAME,)}
    del passing.environment[NAME]
    assert "Nothing to be done" in passing.dry_run()
    for form in ("command", "compose", "systemd", "deployment", "kserve", "llm-inference-service"):
        deployed = passing.check("servetune", "deploy", "plain", "--as", form)
        assert NAME in deployed and VALUE not in deployed


def test_a_bundle_holds_the_name_alone_and_stops_on_a_host_that_lacks_it(
    passing: Workspace, tmp_path: Path
) -> None:
    passing.environment[NAME] = VALUE
    job = passing.check("servetune", "bundle", "export", "--kubernetes")
    assert NAME in job and VALUE not in job
    bundle = passing.root / "bundles/standin.pyz"
    with zipfile.ZipFile(bundle) as content:
        assert not any(VALUE.encode() in content.read(name) for name in content.namelist())
    del passing.environment[NAME]
    done = passing.run("python3", str(bundle), "--folder", str(tmp_path / "h"), "--results", "r.gz")
    assert done.returncode == 2
    assert done.stderr.startswith(f"servetune: environment_from: {NAME}: not set")
