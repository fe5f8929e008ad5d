"""Variants that combine changes tell main effects from interactions."""

from typing import Any

import pytest

from servetune.analysis.factorial import effects, find_factorial
from tests.rows import rows_by
from tests.unit.analysis.launch_data import make_values

SETTINGS: dict[str, dict[str, Any]] = {
    "bf16": {"model": "a", "kv": None},
    "w8a8": {"model": "b", "kv": None},
    "fp8-kv": {"model": "a", "kv": "fp8"},
    "w8a8-fp8-kv": {"model": "b", "kv": "fp8"},
    "int4": {"model": "c", "kv": None},
}


def test_the_variants_that_combine_changes_are_found() -> None:
    found = find_factorial(SETTINGS, "bf16")
    assert found is not None
    assert found.factors == ["w8a8", "fp8-kv"]
    assert found.cells[frozenset(["w8a8", "fp8-kv"])] == "w8a8-fp8-kv"


def test_levels_of_one_setting_are_no_factorial() -> None:
    assert (
        find_factorial({name: SETTINGS[name] for name in ("bf16", "w8a8", "int4")}, "bf16") is None
    )


def test_three_factors_are_found_when_every_combination_is_there() -> None:
    cells = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    settings = {f"v{a}{b}{c}": {"a": a, "b": b, "c": c} for a, b, c in cells}
    found = find_factorial(settings, "v000")
    assert found is not None and set(found.factors) == {"v100", "v010", "v001"}
    del settings["v111"]
    found = find_factorial(settings, "v000")
    assert found is not None and len(found.factors) == 2


def test_a_factorial_is_found_among_hundreds_of_variants() -> None:
    settings: dict[str, dict[str, Any]] = {"base": {}}
    settings |= {f"v{n}": {f"key{n}": n} for n in range(120)}
    assert find_factorial(settings, "base") is None
    settings["both"] = settings["v7"] | settings["v110"]
    found = find_factorial(settings, "base")
    assert found is not None and found.factors == ["v7", "v110"]


def test_effects_that_multiply_have_no_interaction() -> None:
    factorial = find_factorial(SETTINGS, "bf16")
    assert factorial is not None
    values = make_values({"bf16": 10.0, "w8a8": 8.0, "fp8-kv": 11.0, "w8a8-fp8-kv": 8.8})
    told = rows_by(effects(values, factorial), "effect", "load_point")
    main = told["w8a8", "c8"]
    assert main["ratio"] == pytest.approx(0.8, rel=0.02)
    assert main["is_proven"] and main["ratio_low"] < 0.8 < main["ratio_high"]
    together = told["w8a8 \N{MULTIPLICATION SIGN} fp8-kv", "c8"]
    assert together["ratio_low"] < 1 < together["ratio_high"]
    assert not together["is_proven"]


def test_effects_that_do_not_multiply_are_an_interaction() -> None:
    factorial = find_factorial(SETTINGS, "bf16")
    assert factorial is not None
    values = make_values({"bf16": 10.0, "w8a8": 8.0, "fp8-kv": 11.0, "w8a8-fp8-kv": 11.0})
    told = rows_by(effects(values, factorial), "effect", "load_point")
    together = told["w8a8 \N{MULTIPLICATION SIGN} fp8-kv", "c8"]
    assert together["is_proven"]
    assert together["ratio"] == pytest.approx(1.25, rel=0.03)


def test_a_cell_that_failed_leaves_no_effect_at_its_load_point() -> None:
    factorial = find_factorial(SETTINGS, "bf16")
    assert factorial is not None
    values = make_values(dict.fromkeys(list(SETTINGS)[:4], 10.0))
    gone = (values["variant"] == "fp8-kv") & (values["load_point"] == "c8")
    assert set(effects(values[~gone], factorial)["load_point"]) == {"c1"}
    assert effects(values[values["variant"] != "fp8-kv"], factorial).empty
