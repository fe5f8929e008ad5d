from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.study.conditions import holds
from servetune.study.reading import validate
from servetune.study.study import Study, read_study
from servetune.study.tune import Span
from tests.project import Project
from tests.unit.tune.tunings import STUDY


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("tokens < seqs", False),
        ("tokens < seqs * 100 and not dtype == 'fp8'", False),
        ("dtype in ['fp8', 'auto'] or seqs > 9", True),
        ("2 < seqs <= 4", True),
        ("environment.VLLM_X == '1'", True),
        ("unset > 3", False),
        ("not unset > 3", False),
        ("unset == null", True),
    ],
)
def test_a_condition_says_whether_settings_are_left_out(condition: str, expected: bool) -> None:
    values = {"tokens": 512, "seqs": 4, "dtype": "fp8", "environment.VLLM_X": "1"}
    assert holds(condition, values) is expected


@pytest.mark.parametrize(
    ("tune", "place", "said"),
    [
        ({"forbid": ["__import__('os').system('x') == 0"]}, "tune.forbid.0", "expected names"),
        ({"forbid": ["max_num_seqs <"]}, "tune.forbid.0", "expected a condition"),
        ({"maximize": "tpot_p50_ms", "at": "c8"}, "tune", "of tpot_p50_ms the lower is better"),
        ({"maximize": "capacitty"}, "tune", "did you mean capacity"),
        ({"minimize": "capacity"}, "tune", "maximize or minimize"),
        ({"budget": {"server_minutes": 1, "launches": 5}}, "tune.budget.launches", "8"),
        ({"space": {"x": {"low": 0, "high": 8, "step": "power of two"}}}, "tune.space.x", "low 0"),
        ({"space": {"x": {"low": 1, "high": 1e9, "step": 1}}}, "tune.space.x", "larger step"),
        ({"space": {"x": 4}}, "tune.space.x: 4", "a list of values, or low, high and step"),
        ({"space": {"x": []}}, "tune.space.x: []", "expected 1 or more"),
        ({"space": {}}, "tune.space: {}", "expected 1 or more"),
        ({"confirm": {"repeats": 1}}, "tune.confirm.repeats: 1", "2"),
    ],
)
def test_a_mistake_in_a_tuning_is_one_line_with_its_place(
    tune: dict[str, Any], place: str, said: str
) -> None:
    content = {**STUDY, "tune": {**STUDY["tune"], **tune}}
    with pytest.raises(UserError) as raised:
        validate(Study, content, Path("studies/x.yaml"))
    assert f"studies/x.yaml: {place}" in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("objective", "needed"),
    [
        ({"minimize": "cost_usd_per_million_output_tokens"}, "price_usd_per_hour"),
        ({"maximize": "slo_attainment_percent"}, "slo"),
        ({"minimize": "energy_j_per_output_token"}, "GPU"),
    ],
)
def test_an_objective_that_no_launch_can_tell_is_refused_before_any(
    project: Project, objective: dict[str, str], needed: str
) -> None:
    study = project.study("quickstart-tune")
    del study["tune"]["maximize"]
    study["tune"] |= objective
    project.write_study(study)
    with pytest.raises(UserError, match=rf"tune\.m.+imize: .*{needed}"):
        read_study("quickstart", project.root)
    study["price_usd_per_hour"] = 2.5
    study["hardware"] = "nvidia-h200"
    study["workloads"]["chat"]["slo"] = {"goodput_ratio": 0.9, "ttft_ms": 500}
    project.write_study(study)
    assert read_study("quickstart", project.root).tune


def test_a_span_has_both_ends_where_its_step_hits_them() -> None:
    assert Span(low=0.5, high=0.9, step=0.1).values == [0.5, 0.6, 0.7, 0.8, 0.9]
    assert Span(low=1000, high=9000, step="power of two").values == [1024, 2048, 4096, 8192]
    assert Span(low=1, high=27, step=3, log=True).values == [1, 3, 9, 27]
