"""A comparison reads what another revision holds as data, whatever that is."""

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from servetune.cli import app
from servetune.files import write_json
from servetune.plan.make import make_plan, read_params
from servetune.report.headline import headline
from servetune.report.reading import read_partial
from tests.paths import GALLERY
from tests.project import Project
from tests.unit.test_terminal import STEERING, steers

STUDY = "h200-neighbours"
RESULTS = Path("results", STUDY)


def git(*words: str) -> None:
    author = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org")
    subprocess.run(["git", *author, *words], check=True)


def commit_results(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit the results of a recorded study in a project of their own, and work there."""
    shutil.copytree(GALLERY / RESULTS, project.root / RESULTS)
    (project.root / "params.yaml").write_text(f"study: {STUDY}\nvariants: all\nseed: 0\n")
    (project.root / "Snakefile").touch()
    monkeypatch.chdir(project.root)
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "Measured")


@pytest.fixture
def compared(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Result]:
    """Commit what a test changes as the branch `other`, and compare with it."""
    commit_results(project, monkeypatch)
    git("checkout", "-qb", "other")

    def compare() -> Result:
        git("add", "-A")
        git("commit", "-qm", "Changed")
        git("checkout", "-q", "main")
        return CliRunner().invoke(app, ["compare", "other"])

    return compare


def test_a_study_that_was_moved_since_is_compared_with_what_it_was(
    compared: Callable[[], Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = subprocess.run(
        ["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    )
    Path("gallery").mkdir()
    for name in ("params.yaml", "Snakefile", "studies", "results", "data", "workflow"):
        git("mv", name, "gallery")
    git("commit", "-qm", "Moved")
    Path("params.yaml").write_text("study: another\n")
    monkeypatch.chdir("gallery")
    done = CliRunner().invoke(app, ["compare", before.stdout.strip()])
    assert done.exit_code == 0, done.output
    assert "No parameter of params.yaml or the study changed." in done.stdout


def edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text()))


def column(name: str, value: str) -> Callable[[str], str]:
    """Return a change of a CSV: each value of a column."""

    def change(table: str) -> str:
        head, *rows = csv.reader(io.StringIO(table))
        at = head.index(name)
        changed = io.StringIO()
        write = csv.writer(changed, lineterminator="\n").writerows
        write([head, *([*row[:at], value, *row[at + 1 :]] for row in rows)])
        return changed.getvalue()

    return change


DAMAGED = {
    "empty": ("load_points.csv", lambda _: " ", "load_points.csv: damaged: "),
    "cut": ("load_points.csv", lambda table: table[:300], "load_points.csv: damaged: "),
    "a quote": ("load_points.csv", lambda table: f'"{table}', "load_points.csv: damaged: "),
    "a row too long": ("load_points.csv", lambda t: t + "," * 500, "load_points.csv: damaged: "),
    "conflicts": ("load_points.csv", lambda t: f"<<<<<<< HEAD\n{t}", "load_points.csv: damaged: "),
    "text for a number": (
        *("load_points.csv", column("ttft_p50_ms", "fast")),
        "load_points.csv: damaged: ttft_p50_ms: expected numbers",
    ),
    "no number": (
        *("load_points.csv", column("completed_requests", "inf")),
        "load_points.csv: damaged: completed_requests: expected finite numbers",
    ),
    "another status": (
        *("load_points.csv", column("status", "great")),
        "load_points.csv: damaged: status: great: expected one of ok, failed, invalid",
    ),
    "no time": (
        *("load_points.csv", column("started_at", "yesterday")),
        "load_points.csv: damaged: started_at: expected times, such as ",
    ),
    "a path for an id": (
        *("load_points.csv", column("measurement", "../../../secret")),
        "load_points.csv: damaged: measurement: expected ids",
    ),
    "no variant": (
        *("load_points.csv", column("variant", "")),
        "load_points.csv: damaged: variant: lacks a value",
    ),
    "no column": (
        *("load_points.csv", lambda table: table.replace("session,", "sitting,", 1)),
        "load_points.csv: damaged: has no column session",
    ),
}


@pytest.mark.parametrize(("file", "change", "told"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_table_is_a_line_with_its_file_and_revision(
    compared: Callable[[], Result], file: str, change: Callable[[str], str], told: str
) -> None:
    edit(RESULTS / file, change)
    done = compared()
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("servetune: other (")
    assert f"): {RESULTS}/{told}" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", ["records", "sessions"])
def test_a_damaged_record_is_a_line_with_its_file_and_revision(
    compared: Callable[[], Result], kind: str
) -> None:
    file = sorted((RESULTS / kind).glob("*.json"))[0]
    edit(file, lambda content: content[:-20])
    done = compared()
    assert done.exit_code == 2, done.output
    assert f"): {file}: damaged: no JSON" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("content", ["- a list\n", "study: [\n", "\x00\n"])
@pytest.mark.parametrize("file", ["params.yaml", f"studies/{STUDY}.yaml"])
def test_damaged_yaml_is_a_line_with_its_file_and_revision(
    compared: Callable[[], Result], file: str, content: str
) -> None:
    if file != "params.yaml":
        edit(Path("params.yaml"), lambda given: f"# changed\n{given}")
    Path(file).write_text(content)
    done = compared()
    assert done.exit_code == 2, done.output
    assert f"): {file}: " in done.stderr and done.stderr.count("\n") == 1


def test_a_table_in_latin_1_is_a_line(compared: Callable[[], Result]) -> None:
    (RESULTS / "load_points.csv").write_bytes((RESULTS / "load_points.csv").read_bytes() + b"\xff")
    done = compared()
    assert done.exit_code == 2 and done.stderr.count("\n") == 1


def test_a_link_for_a_table_is_none(compared: Callable[[], Result], tmp_path: Path) -> None:
    table = RESULTS / "load_points.csv"
    table.rename(tmp_path / "outside.csv")
    table.symlink_to(tmp_path / "outside.csv")
    done = compared()
    assert done.exit_code == 2, done.output
    assert f"): {table}: no tables; " in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("variant", "not measured here any more"),
        ("load_point", "not measured here any more"),
        ("reason", "failed at the base: "),
    ],
)
def test_text_of_another_revision_steers_no_terminal_and_formats_nothing(
    compared: Callable[[], Result], name: str, told: str
) -> None:
    hostile = f"{STEERING}<img src=x> ![a](http://b.org) | @team **x** `y`".replace("\r", "")
    hostile = hostile.replace("\udcff", "")
    edit(RESULTS / "load_points.csv", column("status", "failed"))
    edit(RESULTS / "load_points.csv", column(name, hostile))
    # Measured another time.
    edit(RESULTS / "load_points.csv", lambda table: re.sub(r"-r(\d+)-", r"-r\1-0", table))
    edit(
        Path("studies", f"{STUDY}.yaml"), lambda given: f'{given}\n"<b>\u202e": "![a](http://b)"\n'
    )
    done = compared()
    assert done.exit_code == 0, done.output
    assert told in done.stdout
    assert not steers(done.stdout)
    for sign in ("<img", "![a](", "@team", "**x**", "`y`", "<b>", "http://"):
        assert sign not in done.stdout
    assert r"\\u202e" in done.stdout


def test_times_of_another_revision_are_text(compared: Callable[[], Result]) -> None:
    edit(RESULTS / "load_points.csv", column("started_at", "2026-01-01T00:00:00Z"))
    done = compared()
    assert done.exit_code == 0, done.output
    assert "measured 2026-01-01 00:00 UTC." in done.stdout


@pytest.fixture
def checked(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Compare the working tree with what is committed, as a CI job does."""
    commit_results(project, monkeypatch)

    def compare(*words: str) -> Result:
        job = ["compare", "main", "--out", "verdict.md", "--fail-on", "slower,stale", *words]
        return CliRunner().invoke(app, job)

    return compare


def test_results_that_are_those_of_the_parameters_pass_the_job(
    checked: Callable[..., Result],
) -> None:
    assert checked().exit_code == 0
    assert "Stale" not in Path("verdict.md").read_text()


def test_a_table_that_its_records_do_not_make_fails_the_job_and_is_said(
    checked: Callable[..., Result],
) -> None:
    edit(RESULTS / "load_points.csv", column("ttft_p50_ms", "1.5"))
    assert checked().exit_code == 1
    told = Path("verdict.md").read_text()
    assert "> **Stale results:** results/h200-neighbours/load\\_points.csv" in told or (
        "> **Stale results:** results/h200-neighbours/load_points.csv is not what" in told
    )


@pytest.mark.parametrize("file", [RESULTS / "metrics.json", Path("reports/summary.json")])
def test_numbers_that_dvc_shows_and_the_records_do_not_make_fail_the_job(
    checked: Callable[..., Result], file: Path
) -> None:
    plan = make_plan(read_params(Path()), Path())
    write_json(Path("reports/summary.json"), headline(read_partial(plan, Path())))
    assert checked().exit_code == 0
    edit(file, lambda text: re.sub(r"\d+\.\d+", "9.5", text, count=1))
    assert checked().exit_code == 1
    assert "Stale results" in Path("verdict.md").read_text()
    # The reports are of the study of params.yaml, and of no other.
    assert checked("--study", STUDY).exit_code == ("metrics" in file.name)


def test_parameters_whose_results_are_not_measured_are_refused_with_the_reason(
    checked: Callable[..., Result],
) -> None:
    edit(Path("params.yaml"), lambda text: f"{text}max_num_seqs: 7\n")
    assert checked().exit_code != 0
    told = Path("verdict.md").read_text()
    assert told.startswith("## servetune: no verdict against main")
    assert "5 measurements of params.yaml have no record" in told


def test_a_revision_that_is_not_there_is_refused_with_the_reason(
    checked: Callable[..., Result],
) -> None:
    words = ["compare", "elsewhere", "--out", "verdict.md"]
    assert CliRunner().invoke(app, words).exit_code == 2
    assert "elsewhere: no such Git revision" in Path("verdict.md").read_text()


def test_the_study_that_is_named_is_the_one_that_is_told(checked: Callable[..., Result]) -> None:
    edit(Path("params.yaml"), lambda given: given.replace(STUDY, "quickstart"))
    done = CliRunner().invoke(app, ["compare", "main", "--study", STUDY])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"## servetune: {STUDY} against main (")
    assert "No parameter of params.yaml or the study changed." in done.stdout


def test_an_experiment_goes_by_its_name(checked: Callable[..., Result]) -> None:
    git("update-ref", f"refs/exps/ab/{'c' * 38}/seqs-2", "main")
    done = CliRunner().invoke(app, ["compare", "seqs-2"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"## servetune: {STUDY} against seqs-2 (")


@pytest.mark.slow
def test_another_folder_is_compared_and_its_page_names_both(
    checked: Callable[..., Result], tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "project"
    shutil.copytree(Path(), other)
    done = CliRunner().invoke(app, ["compare", str(other), "--html", "page.html"])
    assert done.exit_code == 0, done.output
    assert "the same measurements on both sides" in done.stdout
    page = Path("page.html").read_text()
    assert f"<h1>{STUDY}: this revision against {other}</h1>" in page
    assert "the same measurements on both sides" in page
    # Offline: nothing but the page's own scripts may run, and nothing be fetched.
    assert "default-src 'none'" in page and 'src="http' not in page


def test_a_page_is_of_revisions(checked: Callable[..., Result]) -> None:
    done = CliRunner().invoke(app, ["compare", "a.json", "b.json", "--html", "page.html"])
    assert done.exit_code == 2
    assert done.stderr.startswith("servetune: --html: is of revisions")


def test_another_reason_to_fail_is_a_line(checked: Callable[..., Result]) -> None:
    assert "expected slower, stale" in checked("--fail-on", "old").stderr


def test_a_pull_request_shows_at_most_sixty_lines_of_one_variant(
    checked: Callable[..., Result],
) -> None:
    """Each value that a server resolved changed, as after an upgrade."""
    for path in (RESULTS / "sessions").glob("*.json"):
        edit(path, lambda text: text.replace("0.26.0", "0.27.0").replace("true", "false"))
    edit(Path("params.yaml"), lambda text: text.replace("all", "[bf16]"))
    checked()
    told = Path("verdict.md").read_text()
    in_sight = re.sub(r"<details>.*?</details>", "", told, flags=re.DOTALL)
    assert "<details>" in told
    assert len(in_sight.splitlines()) <= 60, in_sight
