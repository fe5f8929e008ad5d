"""Any input either plans or gives one line that names its place, to a plan and to Snakemake."""

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servetune.errors import UserError
from servetune.plan.make import make_plan, read_params
from tests.bad_inputs import CASES, INF, NAN, Case
from tests.paths import ROOT, home_of
from tests.project import Project


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.name}")
def test_a_bad_input_is_one_line_with_its_place(project: Project, case: Case) -> None:
    case.edit(project)
    with pytest.raises(UserError) as caught:
        make_plan(read_params(project.root), project.root)
    line = str(caught.value)
    assert line.isprintable()
    assert line.startswith(("params.yaml: ", "studies/", "data/"))
    assert case.place in line


def plan_or_line(project: Project) -> None:
    """Plan, or fail with one line that names the file: any other error fails the test."""
    try:
        make_plan(read_params(project.root), project.root)
    except UserError as error:
        line = str(error)
        assert line.isprintable()
        assert line.startswith(("params.yaml: ", "studies/", "engine: ")), line


NUMBERS = st.sampled_from([0, -1, 1, 2**31, 2**63, 10**90, 0.5, 1e300, -0.0, INF, -INF, NAN])
WORDS = st.sampled_from(
    [
        "",
        "text",
        "bf16",
        "tiny",
        "../up",
        "--host",
        "-1",
        "1k",
        "3%",
        "inf",
        "a" * 300,
        "a\nb",
        "%s{}",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.integers() | st.floats() | WORDS | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def paths(content: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield where each value of a document stands."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in pairs:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*path, key))


def documents(name: str) -> st.SearchStrategy[str]:
    """Draw a study of the project in which some values were replaced, dropped or added."""
    study = yaml.safe_load((home_of(name) / "studies" / f"{name}.yaml").read_text())
    places = st.sampled_from(list(paths(study)))
    edit = st.tuples(places, st.sampled_from(["set", "drop", "add"]), WORDS, VALUES)

    def edited(changes: list[tuple[tuple[str | int, ...], str, str, Any]]) -> str:
        document = copy.deepcopy(study)
        for path, how, key, value in changes:
            *parents, last = path
            with contextlib.suppress(LookupError, TypeError):
                here = document
                for parent in parents:
                    here = here[parent]
                if how == "drop":
                    del here[last]
                else:
                    here[last if how == "set" else key] = value
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)

    return st.lists(edit, max_size=2).map(edited)


def garbled(text: str) -> st.SearchStrategy[bytes]:
    """Draw a text of which a part was replaced by bytes."""
    content = text.encode()
    part = st.tuples(st.integers(0, len(content)), st.integers(0, 40))
    marks = st.sampled_from([b"&a ", b"*a", b"{", b"[", b"]", b"!!", b"? ", b"\n- ", b"\t", b": "])
    return st.builds(
        lambda cut, new: content[: cut[0]] + new + content[cut[0] + cut[1] :],
        part,
        marks | st.binary(max_size=8),
    )


# Not by time: a machine that is busy is no reason to fail.
ANY = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@ANY
@given(data=st.data())
@pytest.mark.parametrize("study", ["quickstart", "granite-latency", "h200-capacity"])
def test_any_study_plans_or_gives_one_line(
    project: Project, study: str, data: st.DataObject
) -> None:
    text = data.draw(documents(study))
    (project.root / "studies" / f"{study}.yaml").write_text(text)
    (project.root / "params.yaml").write_text(f"study: {study}\n")
    plan_or_line(project)


@ANY
@given(data=st.data())
def test_any_bytes_plan_or_give_one_line(project: Project, data: st.DataObject) -> None:
    path = project.root / "studies/quickstart.yaml"
    path.write_bytes(data.draw(garbled((ROOT / "studies/quickstart.yaml").read_text())))
    plan_or_line(project)


@ANY
@given(params=st.dictionaries(WORDS | st.sampled_from(["study", "repeats", "variants"]), VALUES))
def test_any_params_plan_or_give_one_line(project: Project, params: dict[str, Any]) -> None:
    given = {"study": "quickstart", **params}
    (project.root / "params.yaml").write_text(yaml.safe_dump(given, allow_unicode=True))
    plan_or_line(project)
