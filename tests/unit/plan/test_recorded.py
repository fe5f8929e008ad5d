"""A name is not an identity: what was renamed finds its records, and nothing else does."""

from typing import Any

import pytest

from servetune.files import write_json
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan, Session
from servetune.records.paths import quality_path, raw_folder, record_path, session_path
from tests.project import Project


def plan(project: Project, **params: Any) -> Plan:
    return make_plan({**project.params, "variants": ["bf16", "w8a8"], **params}, project.root)


def record(session: Session, project: Project, *, count: int | None = None) -> None:
    """Leave the records of a session: of all that it owes, or of its first load points alone."""
    told = {"variant": session.variant, "session": session.id}
    for measurement in session.measurements[:count]:
        write_json(record_path(session.study, measurement.id, project.root), told)
    write_json(raw_folder(session.study, session.id, project.root) / "launch-1.json", {})
    if count is None:
        if session.quality:
            write_json(quality_path(session.study, session.quality.id, project.root), told)
        write_json(session_path(session.study, session.id, project.root), told)


def rename(project: Project, section: str, names: dict[str, str]) -> None:
    study = project.study()
    study[section] = {names.get(name, name): spec for name, spec in study[section].items()}
    study["baseline"] = names.get(study["baseline"], study["baseline"])
    project.write_study(study)


def owed(plan: Plan) -> list[str]:
    return [id for session in plan.sessions for id in (session.id, *session.owed)]


@pytest.fixture
def recorded(project: Project) -> Plan:
    """What both variants owe, of which all is recorded."""
    made = plan(project)
    for session in made.sessions:
        record(session, project)
    return made


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("variants", {"bf16": "plain"}),
        ("variants", {"bf16": "w8a8", "w8a8": "bf16"}),
        ("workloads", {"text": "chat", "open": "text"}),
    ],
)
def test_what_was_renamed_finds_its_records(
    project: Project, recorded: Plan, section: str, names: dict[str, str]
) -> None:
    rename(project, section, names)
    variants = [
        names.get(name, name) if section == "variants" else name for name in ("bf16", "w8a8")
    ]
    after = plan(project, variants=variants)
    assert sorted(owed(after)) == sorted(owed(recorded))
    assert [session.variant for session in after.sessions] == after.variants
    for before, now in zip(
        sorted(recorded.sessions, key=lambda s: s.id),
        sorted(after.sessions, key=lambda s: s.id),
        strict=True,
    ):
        assert now.server == before.server and now.model == before.model


def test_an_interrupted_session_goes_on_under_its_id_after_its_variant_was_renamed(
    project: Project,
) -> None:
    before = plan(project)
    record(before.sessions[0], project, count=2)
    rename(project, "variants", {"bf16": "plain"})
    after = plan(project, variants=["plain", "w8a8"])
    assert owed(after) == owed(before)


def test_two_variants_that_differ_in_name_alone_stay_two(project: Project, recorded: Plan) -> None:
    study = project.study()
    study["variants"]["again"] = study["variants"]["bf16"]
    project.write_study(study)
    for variants in ("all", ["again"]):
        after = plan(project, variants=variants)
        (again,) = (session for session in after.sessions if session.variant == "again")
        assert set(again.owed).isdisjoint(owed(recorded))
