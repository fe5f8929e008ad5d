"""TPOT over context: lines, the ratio of their slopes and where they cross, with intervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from servetune.analysis.context_growth import break_even, fieller, fit_line, growths, slope_ratio
from servetune.numbers import NONE
from servetune.report.context.section import cells
from servetune.report.gfm import text
from servetune.report.markdown import render_markdown
from tests.recorded import results_of
from tests.report_data import make_data, make_quickstart_plan

CONTEXT = np.array([0.0, 1.0, 2.0, 3.0])


def recorded() -> pd.DataFrame:
    return pd.read_parquet(results_of("fp8-kv-context") / "load_points.parquet")


def test_a_line_is_fitted_with_the_interval_of_its_slope() -> None:
    line = fit_line(CONTEXT, np.array([1.0, 3.0, 4.0, 6.0]))
    assert (line.intercept, line.slope) == pytest.approx((1.1, 1.6))
    # Residuals -0.1, 0.3, -0.3, 0.1: variance 0.2 / 2, of the slope 0.1 / 5; t(2) is 4.3027.
    assert line.slope_interval().low == pytest.approx(1.6 - 4.3027 * 0.02**0.5, abs=1e-4)


def test_the_interval_of_a_ratio_is_fiellers() -> None:
    # (2 - 4r)^2 = 4 (0.04 + 0.16 r^2), so that 15.36 r^2 - 16 r + 3.84 = 0.
    found = fieller(2.0, 4.0, (0.04, 0.16, 0.0), 2.0)
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.375, 2 / 3))
    # Errors that go together leave the ratio more as it is: 15.36 r^2 - 15.68 r + 3.84 = 0.
    correlated = fieller(2.0, 4.0, (0.04, 0.16, 0.04), 2.0)
    assert (correlated.low, correlated.high) == pytest.approx((0.40783, 0.61301), abs=1e-5)


def test_a_denominator_that_may_be_zero_bounds_nothing() -> None:
    found = fieller(1.0, 0.1, (0.01, 0.01, 0.0), 2.0)
    assert (found.low, found.high) == (None, None)


def test_lines_without_noise_cross_where_they_cross() -> None:
    base, own = (fit_line(CONTEXT, start + slope * CONTEXT) for start, slope in ((4, 2), (5, 1)))
    assert slope_ratio(own, base).value == pytest.approx(0.5)
    crossing = break_even(own, base)
    assert crossing is not None
    assert (crossing.value, crossing.low, crossing.high) == pytest.approx((1.0, 1.0, 1.0))
    assert break_even(base, own) is None


def test_the_interval_holds_the_true_break_even_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    context = np.linspace(0, 100, 8)
    held = 0
    for _ in range(1000):
        noise = random.normal(0, 0.2, (2, 8))
        base, own = (
            fit_line(context, 5 + 0.03 * context + noise[0]),
            fit_line(context, 5.5 + 0.01 * context + noise[1]),
        )
        found = break_even(own, base)
        is_held = found is None or found.low is None or found.low <= 25 <= (found.high or 0)
        held += is_held
    assert 0.93 < held / 1000 < 0.995


def test_a_study_without_several_lengths_has_no_lines() -> None:
    assert growths(make_data().table, "bf16") == []


def test_the_recorded_study_has_both_lines() -> None:
    base, own = growths(recorded(), "bf16")
    assert (base.variant, own.variant, own.lengths, own.concurrency) == ("bf16", "fp8-kv", 8, 1)
    assert base.slope_ratio is None
    assert own.slope_ratio is not None and own.break_even_tokens is not None
    assert own.slope_ratio.low is not None and own.slope_ratio.high is not None
    base_cells, own_cells = cells(base), cells(own)
    assert base_cells[-2:] == [NONE, NONE]
    assert all("[" in cell for cell in own_cells[-3:])
    assert 0.5 < own.slope_ratio.low < own.slope_ratio.high < 1


def test_the_markdown_holds_the_lines_that_the_page_holds() -> None:
    data = replace(
        make_data(make_quickstart_plan()),
        table=recorded(),
    )
    told = render_markdown(data).split("### TPOT over context")[1]
    for each in data.growing:
        line = next(line for line in told.splitlines() if line.startswith(f"| {each.variant}"))
        assert all(text(cell) in line for cell in cells(each)[3:5])
    assert "TPOT over context" not in render_markdown(make_data(make_quickstart_plan()))
