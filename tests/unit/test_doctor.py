"""What is broken in a project is named, and set aside so that it is made again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from servetune.doctor import check_files, set_aside
from servetune.errors import UserError
from servetune.files import write_json
from servetune.plan.file import keep_plan, read_plan
from servetune.records.measurements import read_measurement
from servetune.sessions.owed import count_owed
from tests.paths import ROOT
from tests.recorded import plan_of

STUDY = "h200-capacity"
RESULTS = Path("results", STUDY)

Break = Callable[[Path], object]

BREAKS: dict[str, Break] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(bytes(range(256))),
    "conflict marks": lambda path: path.write_text(f"<<<<<<< HEAD\n{path.name}\n>>>>>>> b\n"),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with recorded results, a plan, a dataset, a model and an engine."""
    root = tmp_path / "project"
    shutil.copytree(ROOT / RESULTS, root / RESULTS)
    keep_plan(plan_of(STUDY), root)
    (root / "data" / "workloads").mkdir(parents=True)
    (root / "data" / "workloads" / "text-0.jsonl").write_text('{"prompt": "a"}\n' * 9)
    model = root / "data" / "models" / "tiny-0"
    model.mkdir(parents=True)
    write_json(model / "servetune.json", {"id": "tiny-0", "checkpoint": ".", "sha256": {}})
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    python = tmp_path / "python"
    python.touch()
    engine = {"name": "vllm-cpu", "python": str(python), "versions": {}}
    write_json(tmp_path / "cache" / "engines" / "vllm-cpu-0" / "engine.json", engine)
    return root


def broken(root: Path) -> list[Path]:
    return [found.path for found in check_files(root) if found]


def test_nothing_is_broken_in_what_the_project_wrote(project: Path) -> None:
    assert broken(project) == []
    assert sum(1 for _ in check_files(project)) > 20


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize(
    "pattern",
    [
        f"{RESULTS}/records/*.json",
        f"{RESULTS}/searches/*.json",
        f"{RESULTS}/sessions/*.json",
        f"{RESULTS}/load_points.parquet",
        f"{RESULTS}/metrics.json",
        ".servetune/plan-*.json",
        "data/workloads/*.jsonl",
        "data/models/*/servetune.json",
        "../cache/engines/*/engine.json",
    ],
)
def test_a_broken_file_is_named_and_gone_once_it_is_mended(
    project: Path, pattern: str, how: str
) -> None:
    path = min(project.glob(pattern))
    if path.suffix == ".jsonl":
        # A dataset without a line is one.
        how = "garbage" if how == "empty" else how
    BREAKS[how](path)
    found = [each for each in check_files(project) if each]
    assert [each.path.resolve() for each in found] == [path.resolve()]
    set_aside(found, project)
    assert not path.exists()
    assert broken(project) == []


def test_an_engine_is_broken_whose_environment_is_gone(project: Path, tmp_path: Path) -> None:
    (tmp_path / "python").unlink()
    assert [path.name for path in broken(project)] == ["engine.json"]


def test_what_is_set_aside_is_measured_again_and_nothing_else(project: Path) -> None:
    plan = plan_of(STUDY)
    assert sum(count_owed(session, project) for session in plan.sessions) == 0
    record = max((project / RESULTS / "records").glob("*.json"))
    record.write_text("")
    moved = {
        path.parent.name: path
        for path, _ in set_aside(list(filter(None, check_files(project))), project)
    }
    assert set(moved) == {"records", "searches", "sessions"}
    assert sum(count_owed(session, project) for session in plan.sessions) == 1
    assert sum(path.is_file() for path in (project / RESULTS / "sessions").glob("*.json")) == 2


def test_reading_a_broken_file_says_which_and_what_mends_it(project: Path) -> None:
    record = min((project / RESULTS / "records").glob("*.json"))
    content = json.loads(record.read_text())
    record.write_text(json.dumps({**content, "repeat": "first"}))
    with pytest.raises(UserError, match=rf"{record.name}: damaged: repeat.*servetune doctor --fix"):
        read_measurement(record)
    plan = min((project / ".servetune").glob("plan-*.json"))
    plan.write_text("{")
    with pytest.raises(UserError, match="servetune doctor --fix"):
        read_plan(plan, project)
