"""The examples of docs/classes.md, on real vLLM."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.e2e.clone import Clone, make_clone
from tests.rows import Row, rows_by
from tests.workflow.test_documented_workloads import blocks

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory, models: Path) -> dict[Any, Row]:
    """What one server measured of both examples, by workload and class."""
    made = make_clone(tmp_path_factory.mktemp("classes") / "servetune", models)
    made.write_study(_study(made))
    print(made.measure())
    print(made.table()[["workload", "status", "reason"]].to_string())
    assert set(made.table()["status"]) == {"ok"}
    table = pd.read_parquet(made.root / "results/quickstart/classes.parquet")
    print(table.to_string())
    named = table.assign(**{"class": table["class"].fillna("all")})
    return rows_by(named, "workload", "class")


def _study(clone: Clone) -> dict[str, Any]:
    structured, adapted = (each for each in blocks("classes") if {"server", "variants"} & {*each})
    study = {**clone.study(), **adapted, "baseline": "adapted"}
    study["server"] = {**clone.study()["server"], **structured["server"]}
    study["datasets"] = {"short": adapted["datasets"]["chat"], **structured["datasets"]}
    study["workloads"] = {**structured["workloads"], **adapted["workloads"]}
    study["workloads"]["tenants"]["dataset"] = "short"
    del study["quality"]
    return study


def test_structured_answers_are_judged_and_their_first_is_told_by_itself(
    classes: dict[Any, Row],
) -> None:
    graded, plain = classes["mixed", "graded"], classes["mixed", "plain"]
    assert graded["valid_answers_ratio"] == 1
    assert graded["first_ttft_ms"] > 0 and pd.isna(plain["first_ttft_ms"])
    assert graded["requests"] + plain["requests"] == classes["mixed", "all"]["requests"] == 32
    assert plain["requests"] > graded["requests"] > 0
    assert graded["output_share_ratio"] + plain["output_share_ratio"] == pytest.approx(1)


def test_an_adapter_answers_the_requests_of_its_class(classes: dict[Any, Row]) -> None:
    plain, styled = classes["tenants", "plain"], classes["tenants", "styled"]
    assert plain["completed_requests"] + styled["completed_requests"] == 32
    assert min(plain["completed_requests"], styled["completed_requests"]) > 0
