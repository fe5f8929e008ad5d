"""What a step is wanted to have, and how Snakemake is told that it has something else."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from servetune.tables import freshness
from servetune.tables.freshness import report_digest, tables_digest, wanted, write_stamp
from tests.paths import ROOT
from tests.report_data import make_quickstart_plan

pytestmark = pytest.mark.slow

PACKAGE = ROOT / "src" / "servetune"


def test_going_back_to_an_earlier_digest_is_told_apart_from_having_had_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stamp = Path("tables.sha256")
    asked = Path(wanted(str(stamp), "no records").path)
    first = asked.read_text()
    write_stamp(stamp, "all records")
    assert wanted(str(stamp), "all records").is_current
    assert asked.read_text() == first
    assert not wanted(str(stamp), "no records").is_current
    assert asked.read_text() != first


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package, which a test may edit and whose digests are asked for."""
    copy = tmp_path / "servetune"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(freshness, "_PACKAGE", copy)
    return copy


def imported_by(*modules: str) -> set[Path]:
    """Import modules in a process of their own; returns the files of the package that it loads."""
    program = (
        f"import sys, servetune, {', '.join(modules)}\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if name.split('.')[0] == 'servetune' and module.__file__: print(module.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return {Path(line).relative_to(PACKAGE) for line in done.stdout.splitlines()}


def unchanged(files: set[Path], package: Path, digest: Callable[[], str]) -> list[str]:
    """Edit each file in turn; returns those whose edit leaves the digest as it was."""
    before, missed = digest(), []
    for file in sorted(files):
        text = (package / file).read_text()
        (package / file).write_text(text + " ")
        if digest() == before:
            missed.append(str(file))
        (package / file).write_text(text)
    assert digest() == before
    return missed


def test_an_edit_of_any_module_that_the_tables_import_makes_them_stale(package: Path) -> None:
    plan = make_quickstart_plan()
    files = imported_by("servetune.tables.write")
    assert len(files) > 50
    assert unchanged(files, package, lambda: tables_digest(plan, package)) == []


def test_an_edit_of_any_module_or_template_of_the_report_makes_it_stale(package: Path) -> None:
    plan = make_quickstart_plan()
    files = imported_by("servetune.report.html", "servetune.report.markdown")
    files -= imported_by("servetune.tables.write")
    own = (path for path in (PACKAGE / "report").rglob("*") if path.suffix not in ("", ".pyc"))
    files |= {path.relative_to(PACKAGE) for path in own}
    assert {".j2", ".css", ".js", ".py"} <= {path.suffix for path in files}
    assert unchanged(files, package, lambda: report_digest(plan, package)) == []


def test_an_edit_of_how_a_server_is_started_leaves_tables_and_report_current(package: Path) -> None:
    plan = make_quickstart_plan()
    files = {Path("sessions/launch.py"), Path("bundle/start.py"), Path("cli/app.py")}
    stale = unchanged(files, package, lambda: report_digest(plan, package))
    assert set(stale) == set(map(str, files))
