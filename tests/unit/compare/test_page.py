"""A comparison's page lays both sides over each other in the report's charts over load."""

import json
import re
from statistics import geometric_mean
from typing import Any

import pytest

from servetune.compare.gfm_html import as_html
from servetune.compare.page import render_html
from servetune.report.gfm import details, text
from tests.compare_data import BASE, HERE, make_comparison
from tests.report_data import make_data, make_quickstart_plan


@pytest.fixture(scope="module")
def page() -> str:
    return render_html(*make_comparison())


def charts_of(page: str) -> dict[str, Any]:
    told = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.DOTALL)
    assert told
    charts: dict[str, Any] = json.loads(told[1])["charts"]
    return charts


@pytest.mark.slow
def test_both_sides_are_in_one_chart_each_with_its_own_values(page: str) -> None:
    table = make_data(make_quickstart_plan(repeats=3)).table
    bf16 = table[(table["variant"] == "bf16") & (table["load_point"] == "c4")]
    tok_s = geometric_mean(bf16["output_throughput_tok_s"])
    ttft_ms = geometric_mean(bf16["ttft_p50_ms"])
    charts = charts_of(page)
    rows = {
        row["side"]: row
        for row in charts["tradeoff-ttft"]["datasets"]["rows"]
        if (row["variant"], row["load_point"]) == ("bf16", "c4")
    }
    assert list(rows) == [HERE, BASE]
    assert rows[HERE]["throughput"] == pytest.approx(tok_s, rel=1e-3)
    assert rows[BASE]["throughput"] == pytest.approx(tok_s / 2, rel=1e-3)
    for row in rows.values():
        assert row["value"][row["percentile"].index("p50")] == pytest.approx(ttft_ms, rel=1e-3)
    users = {
        row["side"]: row["gpu"]
        for row in charts["pareto"]["datasets"]["rows"]
        if (row["variant"], row["load_point"]) == ("bf16", "c4")
    }
    assert users == {
        HERE: pytest.approx(tok_s, rel=1e-3),
        BASE: pytest.approx(tok_s / 2, rel=1e-3),
    }


@pytest.mark.slow
def test_sides_differ_in_dashes_and_shape_and_variants_in_colour(page: str) -> None:
    for name, chart in charts_of(page).items():
        marks = [layer["encoding"] for layer in chart["layer"]]
        dashes = [mark["strokeDash"] for mark in marks if "strokeDash" in mark]
        shapes = [mark["shape"] for mark in marks if "shape" in mark]
        assert dashes and shapes, name
        for encoded in (*dashes, *shapes):
            assert encoded["field"] == "side"
            assert encoded["scale"]["domain"] == [HERE, BASE]
            assert len({*map(str, encoded["scale"]["range"])}) == 2
        assert {m["color"]["field"] for m in marks if "color" in m} == {"variant"}
        assert HERE in chart["description"] and BASE in chart["description"]


@pytest.mark.slow
def test_what_is_invalid_is_in_no_curve_and_its_reason_is_told(page: str) -> None:
    for chart in charts_of(page).values():
        for rows in chart["datasets"].values():
            assert ("w8a8", "c8") not in {(row["variant"], row.get("load_point")) for row in rows}
        drawn = {(row["variant"], row["load_point"]) for row in chart["datasets"]["rows"]}
        assert {("bf16", "c8"), ("w8a8", "c4")} <= drawn
    assert "late" in page


@pytest.mark.slow
def test_the_page_says_what_the_markdown_says(page: str) -> None:
    found, _ = make_comparison()
    verdict = found.verdicts[
        (found.verdicts["variant"] == "bf16")
        & (found.verdicts["load_point"] == "c4")
        & (found.verdicts["metric"] == "output_throughput_tok_s")
    ].iloc[0]
    assert verdict["verdict"] == "faster"
    row = next(line for line in page.splitlines() if "<strong>faster</strong>" in line)
    assert '2.00\N{MULTIPLICATION SIGN} <span class="nowrap">[' in row
    assert "Faster</strong>: " in page
    assert "What the servers resolved differently" in page


def test_text_of_others_stays_text_where_markdown_becomes_a_page() -> None:
    hostile = '<script>alert(1)</script> </details> <b> [a](javascript:b) ![c](d) **x** | "'
    table = f"| A | B |\n| --- | --: |\n| {text(hostile)} | **slower** 0.84 |"
    made = as_html(f"### Metrics\n\n> {text(hostile)}\n\n{details('3 more', table)}\n")
    assert not re.search(r"<(script|b|a|img|em)\b", made)
    assert made.count("<details><summary>3 more</summary>") == made.count("</details>") == 1
    assert made.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert '<strong class="verdict slower">slower</strong>' in made
    assert 'aria-label="Metrics"><table class="sides">' in made
    # HTML that is not ours is shown.
    assert "<img" not in as_html("<img src=x>\n\n<details open><summary>x</summary>\n")
