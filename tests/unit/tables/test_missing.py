"""What a run that ends says of a report that is not there."""

from pathlib import Path

import pytest

from servetune.files import write_text
from servetune.plan.planned import Plan
from servetune.records.paths import session_path
from servetune.tables.freshness import report_digest, write_stamp
from servetune.tables.missing import missing
from tests.project import Project
from tests.report_data import make_quickstart_plan


@pytest.fixture
def plan(project: Project, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The plan of a project of the test's own, in which nothing was made."""
    monkeypatch.setenv("SERVETUNE_CACHE", str(project.root / "cache"))
    monkeypatch.chdir(project.root)
    return make_quickstart_plan()


def finish(plan: Plan, root: Path) -> None:
    """Write the records of all sessions; what they hold is not looked at."""
    for session in plan.sessions:
        write_text(session_path(plan.study, session.id, root), "{}")


def test_missing_sessions_are_named_with_the_logs_of_what_they_lack(
    plan: Plan, project: Project
) -> None:
    finish(plan, project.root)
    lost = plan.sessions[0]
    session_path(plan.study, lost.id, project.root).unlink()
    log = f"logs/model/{lost.model}.log"
    write_text(project.root / log, "no space left")
    told = "\n".join(missing(plan, project.root))
    assert f"1 of {len(plan.sessions)} sessions are missing: {lost.id}\n" in told
    assert f"see {log}\n" in told
    assert plan.sessions[1].id not in told


def test_a_report_of_other_records_does_not_stand(plan: Plan, project: Project) -> None:
    finish(plan, project.root)
    reports = project.root / "reports"
    for name in ("summary.html", "summary.md", "summary.json"):
        write_text(reports / name, "a report")
    write_stamp(reports / "summary.sha256", "of other records")
    assert "not of their records" in missing(plan, project.root)[1]
    write_stamp(reports / "summary.sha256", report_digest(plan, project.root))
    assert missing(plan, project.root) == []
