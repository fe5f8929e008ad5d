"""Published numbers stand beside measured ones, with ratios, and never enter them."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from servetune.errors import UserError
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.published.section import beside
from servetune.study.published import COLUMNS, Source
from servetune.tables.published import Published, read_published
from tests.recorded import results_of
from tests.report_data import ReportData, make_data

pytestmark = pytest.mark.slow

SOURCE = Source(
    title="A write-up <b>",
    hardware="one L4",
    engine="vLLM 0.6",
    weights="real ones",
    differs=["One run of each."],
)


def published(*rows: tuple[str, str, str, str, int, float]) -> Published:
    return Published(SOURCE, pd.DataFrame(list(rows), columns=COLUMNS))


@pytest.fixture(scope="module")
def data() -> ReportData:
    return make_data()


def test_each_number_has_its_ratio_to_the_measured_one_and_to_its_own_baseline(
    data: ReportData,
) -> None:
    told = published(
        ("bf16", "text", "c8", "tpot_p50_ms", 1, 20.0),
        ("w8a8", "text", "c8", "tpot_p50_ms", 1, 8.0),
        ("w8a8", "text", "c8", "tpot_p50_ms", 2, 12.0),
    )
    base, row = beside(data.plan, data.table, told).itertuples()
    table = data.table.set_index(["variant", "workload", "load_point"])["tpot_p50_ms"]
    measured, reference = table["w8a8", "text", "c8"], table["bf16", "text", "c8"]
    assert (row.published, row.runs, row.low, row.high) == (10.0, 2, 8.0, 12.0)
    assert row.measured == pytest.approx(measured)
    assert row.published_ratio == 0.5
    assert row.measured_ratio == pytest.approx(measured / reference)
    assert str(base.published_ratio) == str(base.measured_ratio) == "nan"


def test_a_number_of_a_server_needs_no_load_point(data: ReportData) -> None:
    told = published(("fp8-kv", "", "", "kv_cache_tokens", 1, 524288))
    assert list(beside(data.plan, data.table, told)["measured"]) == [1048576]


def test_what_lines_over_context_tell_stands_beside_what_was_published(data: ReportData) -> None:
    table = pd.read_parquet(results_of("fp8-kv-context") / "load_points.parquet")
    told = published(
        ("fp8-kv", "", "", "itl_slope_over_bf16_ratio", 1, 0.54),
        ("fp8-kv", "", "", "break_even_tokens", 1, 7010),
    )
    slope, crossing = beside(data.plan, table, told)["measured"]
    assert 0.5 < slope < 1
    assert 7010 < crossing < 20000
    # A study without such lines has nothing to put there.
    assert beside(data.plan, data.table, told)["measured"].isna().all()


def test_what_was_not_measured_is_shown_without_a_ratio(data: ReportData) -> None:
    told = published(
        ("bf16", "", "", "max_slo_rate_rps", 1, 2.0), ("gone", "text", "c8", "ttft_p50_ms", 1, 1.0)
    )
    both = beside(data.plan, data.table, told)
    assert both[["measured", "measured_over_published"]].isna().all(axis=None)
    dashes = "| \N{EN DASH} " * 4
    assert render_markdown(replace(data, published=told)).count(f"{dashes}|") == 2


def test_failed_and_invalid_measurements_stand_beside_nothing() -> None:
    data = make_data(failed={"w8a8": "no room"}, invalid={"fp8-kv": "a request failed"})
    told = published(
        ("w8a8", "text", "c8", "ttft_p50_ms", 1, 1.0),
        ("fp8-kv", "text", "c8", "ttft_p50_ms", 1, 1.0),
    )
    assert beside(data.plan, data.table, told)["measured"].isna().all()


def test_both_reports_show_them_with_their_source_and_what_differs(data: ReportData) -> None:
    told = published(("w8a8", "text", "c8", "ttft_p50_ms", 1, 123456.0))
    page = render_html(replace(data, published=told))
    text = render_markdown(replace(data, published=told))
    for shown in (page, text):
        assert "123,456" in shown
        assert "A write-up &lt;b&gt;" in shown
        assert "one L4" in shown and "vLLM 0.6" in shown and "One run of each." in shown
    assert 'id="published"' not in render_html(data)
    # Only the section itself holds the number.
    assert page.count("123,456") == 1


def test_a_variant_that_only_the_publication_has_is_shown_by_its_name(data: ReportData) -> None:
    told = published(("len-4096", "text", "c8", "ttft_p50_ms", 1, 123456.0))
    for shown in (render_html, render_markdown):
        assert "len-4096" in shown(replace(data, published=told))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("variant,value\na,1\n", "expected the columns variant, workload"),
        (
            "variant,workload,load_point,metric,run,value\na,,,m_ms,1,2\na,,,m_ms,1,x\n",
            "line 3: value: expected a number",
        ),
    ],
)
def test_a_mistake_in_the_data_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    folder = tmp_path / "data/published"
    folder.mkdir(parents=True)
    (folder / "x.csv").write_text(text)
    (folder / "x.yaml").write_text("{title: t, hardware: h, engine: e, weights: w}")
    with pytest.raises(UserError, match=problem):
        read_published("x", tmp_path)
