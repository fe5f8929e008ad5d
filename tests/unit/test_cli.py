"""What the commands say."""

import json
from importlib.metadata import version

import pytest
from typer.testing import CliRunner, Result

from servetune.cli import app
from servetune.files import write_json
from servetune.plan.make import make_plan
from servetune.records.paths import quality_path, search_path
from servetune.sessions import hardware
from tests.paths import ROOT
from tests.project import Project


def run(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(app, words, prog_name="servetune", env=variables)


@pytest.mark.parametrize("command", ["plan", "show", "doctor", "retry"])
def test_a_command_given_elsewhere_says_where_the_project_is(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    command: str,
) -> None:
    (project.root / "Snakefile").touch()
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "of" / "notes"
    elsewhere.mkdir(parents=True)
    (elsewhere.parent / "params.yaml").touch()
    for folder, told in ((project.root / "studies", project.root), (elsewhere, ROOT)):
        monkeypatch.chdir(folder)
        done = run(command)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"servetune: {folder}: ")
        assert done.stderr.endswith(f"cd {told}\n") and done.stderr.count("\n") == 1
        assert run(command, "--help").exit_code == 0


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").output == f"servetune {version('servetune')}\n"


def test_a_shell_completes_commands_and_studies(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)

    def completed(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
        return run(_SERVETUNE_COMPLETE="complete_bash", **words).output.split()

    assert completed("servetune com") == ["compare"]
    assert completed("servetune retry --study h200-l") == [
        "h200-llama8b",
        "h200-llama8b-graphs",
        "h200-llama8b-varied",
    ]


def planned(project: Project, study: str, *more: str) -> str:
    (project.root / "params.yaml").write_text(f"study: {study}\nvariants: all\nseed: 0\n")
    done = CliRunner().invoke(app, ["plan", *more], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    "words",
    [
        *(("plan",), ("show",), ("status",), ("report", "--partial"), ("history", "ttft_p50_ms")),
        *(("compare", "HEAD"), ("deploy", "plain"), ("predict",), ("retry",), ("interference",)),
        ("bundle", "export"),
    ],
)
def test_every_command_names_a_study_in_the_same_way(
    project: Project, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(project.root)
    done = run(*words, "--study", "nowhere")
    told = done.stderr + done.output
    assert "nowhere" in told and "no such option" not in told.lower()


def test_a_plan_is_of_the_study_that_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    assert run("plan", "--study", "quickstart-capacity").output.startswith("quickstart-capacity on")
    both = run("show", "--plan", "plan.json", "--study", "quickstart")
    assert both.exit_code == 2 and "leave one of them out" in both.stderr


def test_plan_says_that_this_machine_is_not_the_declared_hardware(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    monkeypatch.setattr(hardware, "places", lambda visible: [])
    lines = planned(project, "h100-llama8b").splitlines()
    told = [line for line in lines if line.startswith("hardware: ")]
    assert len(told) == 1 and "declares nvidia-h100" in told[0]
    assert "this machine has no GPU" in told[0]
    assert "this machine has" not in planned(project, "quickstart")


@pytest.mark.parametrize("study", ["quickstart", "quickstart-capacity"])
def test_plan_lists_all_that_is_owed_and_whether_it_is_there(
    project: Project, monkeypatch: pytest.MonkeyPatch, study: str
) -> None:
    monkeypatch.chdir(project.root)
    plan = make_plan({"study": study, "variants": "all", "seed": 0}, project.root)
    owed = sum(len(session.owed) for session in plan.sessions)
    assert owed > 0
    assert planned(project, study).count("to measure") == owed
    for search in plan.searches:
        write_json(search_path(study, search.id, project.root), {})
    for quality in plan.qualities:
        write_json(quality_path(study, quality.id, project.root), {})
    there = len(plan.searches) + len(plan.qualities)
    assert there > 0
    assert planned(project, study).count("measured") == there
    told = json.loads(planned(project, study, "--json"))
    items = [item for session in told["sessions"] for item in session["items"]]
    assert (len(items), sum(item["is_measured"] for item in items)) == (owed, there)
