"""Where the latency goes, and the mark of what a front end limits."""

from dataclasses import replace

import pytest

from servetune.report.html import render_html
from servetune.report.latency.parts import placed, stack
from servetune.report.latency.section import section
from servetune.report.markdown import render_markdown
from servetune.report.marks import FRONT_END
from tests.report_data import ReportData, make_data, make_quickstart_plan

pytestmark = pytest.mark.slow

LIMITED = "w8a8"


@pytest.fixture(scope="module")
def data() -> ReportData:
    """Three repeats in which the engine takes 40 % of a request of w8a8 at concurrency 8."""
    made = make_data(make_quickstart_plan(repeats=3))
    table = made.table.copy()
    e2e_ms, ttft_ms = table["e2e_mean_ms"], table["ttft_mean_ms"]
    is_limited = (table["variant"] == LIMITED) & (table["load_point"] == "c8")
    engine = is_limited.map({True: 0.4, False: 0.99})
    table["answered_e2e_mean_ms"], table["answered_ttft_mean_ms"] = e2e_ms, ttft_ms
    table["queue_time_mean_ms"] = 0.0
    table["prefill_time_mean_ms"] = engine * ttft_ms
    table["decode_time_mean_ms"] = engine * (e2e_ms - ttft_ms)
    table["running_mean"] = engine * table["concurrency"]
    return replace(made, table=table)


def test_the_parts_of_a_latency_are_drawn_and_told_by_load_point_and_variant(
    data: ReportData,
) -> None:
    made = section(data)
    assert made is not None
    for name in ("parts-ttft", "parts-e2e"):
        chart = made.charts[name]
        assert chart is not None
        rows = {(r["variant"], r["where"]): r for r in chart["datasets"]["rows"]}
        row = rows[LIMITED, "text · c8"]
        limited = dict(zip(row["part"], row["value"], strict=True))
        total_ms = sum(limited.values())
        assert limited["front end"] / total_ms == pytest.approx(0.6, abs=0.01)
        assert ("decode" in limited) == (name == "parts-e2e")
        assert LIMITED in chart["description"] and "front end" in chart["description"]
    markdown = render_markdown(data)
    (told,) = [
        line
        for line in markdown.partition("Where the latency goes")[2].splitlines()
        if line.startswith(f"| {LIMITED}") and "c8" in line
    ]
    assert told.endswith("| 60\N{NO-BREAK SPACE}% |")


def test_where_clients_run_in_lockstep_a_ttft_is_marked_and_nothing_else(data: ReportData) -> None:
    waves = {("text", "c4"): ["bf16"], ("text", "c8"): ["bf16"], ("open", "r8"): [LIMITED]}
    for latency in ("ttft", "e2e"):
        chart = stack(placed(data.cases, data.variants), data.variants, latency, "text · c8", waves)
        assert chart is not None
        marked = {param["name"]: param.get("value") for param in chart["params"]}["waves"]
        assert marked == (["text · c4", "text · c8", "open · r8"] if latency == "ttft" else [])


def test_a_report_without_the_servers_times_shows_no_parts() -> None:
    made = section(make_data())
    assert made is not None and made.charts["parts-e2e"] is None
    assert "Where the latency goes" not in render_markdown(make_data())


def test_ratios_at_a_load_point_that_the_front_end_limits_are_marked(data: ReportData) -> None:
    assert data.behind_front_end == {("text", "c8"): [LIMITED]}
    note, *_ = [line for line in render_markdown(data).splitlines() if FRONT_END in line]
    assert LIMITED in note and "text · c8" in note
    for rendered in (render_markdown(data), render_html(data)):
        assert f"text · c8 {FRONT_END}" in rendered, "verdicts"
        assert "at text · c8 it is the front end" in rendered, "the answer"
        assert f"concurrency 1 {FRONT_END}" not in rendered


def test_nothing_is_marked_where_the_front_end_limits_nothing() -> None:
    data = make_data(make_quickstart_plan(repeats=3))
    assert FRONT_END not in render_markdown(data) and FRONT_END not in render_html(data)
