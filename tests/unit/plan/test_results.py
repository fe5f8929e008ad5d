"""Result files as a variant: what identifies them, and what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servetune.bundle.export import export_bundle
from servetune.deploy.served import served
from servetune.errors import UserError
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from tests.paths import ROOT
from tests.project import TUNE, Project
from tests.unit.plan.test_endpoints import CAPACITY

Edit = Callable[[dict[str, Any]], object]

SAMPLE = ROOT / "tests/data/imports/aiperf-0.13.json"


def planned(project: Project, *edits: Edit, files: int = 1) -> Plan:
    """The quickstart with a variant that is result files of AIPerf."""
    study = project.study()
    study.pop("quality", None)
    study["workloads"].pop("guidellm", None)
    names = [f"old-{index}.json" for index in range(files)]
    for index, name in enumerate(names):
        if not (project.root / name).exists():
            (project.root / name).write_text(SAMPLE.read_text() + "\n" * index)
    study["variants"]["before"] = {"results": names, "workloads": ["text"]}
    study["repeats"] = max(files, 1)
    for edit in edits:
        edit(study)
    project.write_study(study)
    return make_plan(project.params, project.root)


def of(plan: Plan, variant: str) -> list[str]:
    return [m.id for s in plan.sessions if s.variant == variant for m in s.measurements]


def test_each_file_is_a_launch_that_needs_nothing_of_a_host(project: Project) -> None:
    plan = planned(project, files=3)
    sessions = [session for session in plan.sessions if session.variant == "before"]
    assert [s.results and s.results.path for s in sessions] == [f"old-{i}.json" for i in range(3)]
    for session in sessions:
        assert (session.gpus, session.engines, session.datasets, session.tools) == (0, [], [], [])


def test_the_bytes_of_a_file_identify_it_and_its_name_does_not(project: Project) -> None:
    first = of(planned(project), "before")
    (project.root / "old-0.json").rename(project.root / "renamed.json")

    def renamed(study: dict[str, Any]) -> None:
        study["variants"]["before"]["results"] = ["renamed.json"]

    shutil.copy(project.root / "renamed.json", project.root / "old-0.json")
    assert of(planned(project, renamed), "before") == first
    assert of(planned(project, lambda s: s["server"].update(max_num_seqs=2)), "before") == first
    (project.root / "old-0.json").write_text(json.dumps(json.loads(SAMPLE.read_text())))
    assert not set(of(planned(project), "before")) & set(first)


def test_results_change_no_identity_of_the_variants_beside_them(project: Project) -> None:
    study = project.study()
    del study["quality"]
    project.write_study(study)
    alone = of(make_plan(project.params, project.root), "bf16")
    assert of(planned(project), "bf16") == [id for id in alone if "guidellm" not in id]


def on(**keys: Any) -> Edit:
    return lambda study: study["variants"]["before"].update(keys)


REFUSED: list[tuple[Edit, str]] = [
    (on(model="tiny"), r"variants\.before: has a model and results; leave one of both out"),
    (on(server={"max_num_seqs": 1}), r"variants\.before\.server: its results are measured already"),
    (on(results=[]), r"variants\.before\.results: "),
    (on(results=["none.json"]), r"variants\.before\.results: .*none\.json: no such file"),
    (on(results=["params.yaml"]), r"variants\.before\.results: .*not a result file that is known"),
    (on(results=["old-0.json", "old-0.json"]), r"2 files, each a launch, but repeats is 1"),
    (
        lambda s: s.update(quality={"corpus": "prose"}),
        r"yaml: quality: before is results, which nothing can be asked",
    ),
    (
        lambda s: s["workloads"].update(text={"dataset": "text", "capacity": CAPACITY}),
        r"workloads\.text\.capacity: before is results",
    ),
    (lambda s: s.update(tune=TUNE), r"tune: before is results"),
]


@pytest.mark.parametrize(("edit", "expected"), REFUSED, ids=[each for _, each in REFUSED])
def test_what_results_cannot_be_asked_is_one_line(
    project: Project, edit: Edit, expected: str
) -> None:
    with pytest.raises(UserError, match=expected) as caught:
        planned(project, edit)
    assert "\n" not in str(caught.value)


def test_a_file_given_twice_is_not_two_launches(project: Project) -> None:
    def twice(study: dict[str, Any]) -> None:
        study["repeats"] = 2
        study["variants"]["before"]["results"] = ["old-0.json", "old-0.json"]

    with pytest.raises(UserError, match=r"results: a file is given twice; each is one launch"):
        planned(project, twice)


def test_results_are_neither_bundled_nor_deployed(project: Project, tmp_path: Path) -> None:
    plan = planned(project)
    with pytest.raises(UserError, match=r"variants\.before\.results: are measured already"):
        export_bundle(plan, tmp_path / "bundle.pyz", project.root)
    with pytest.raises(UserError, match="before: was measured before, by another tool"):
        served(plan, "before", project.root)
