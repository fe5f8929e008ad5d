"""The charts in headless Chromium: drawn, legible, and in step with what the reader selects."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from servetune.plan.planned import Tuning
from servetune.records.trials import Trial, TrialResult
from servetune.report.html import render_html
from servetune.study.space import candidates
from tests import search_data
from tests.browser.pages import (
    CROWDED_TEXT,
    FAINT_TEXT,
    MARKS,
    SHOWN,
    Scheme,
    attribute,
    box_of,
    opened,
    write,
)
from tests.quality_data import make_quality
from tests.report_data import ReportData, make_data, make_quickstart_plan
from tests.search_data import make_searches
from tests.unit.tune.tunings import study_with


def test_the_charts_follow_the_selects_and_the_legend(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        lines = page.locator("[data-chart='distribution-tpot'] .role-mark.mark-line path")
        assert page.locator("#latency select").input_value() == "text · c8"
        assert lines.count() == 3, "a line a variant that has an ok measurement"
        assert all(len(attribute(line, "d")) > 500 for line in lines.all())
        button = page.locator("#answer button[data-variant='eagle3']")
        button.focus()
        page.keyboard.press("Space")
        expect(lines).to_have_count(2)
        pressed = page.locator("button[data-variant='eagle3']")
        states = {button.get_attribute("aria-pressed") for button in pressed.all()}
        assert states == {"false"}
        before = attribute(lines.first, "d")
        page.select_option("#latency select", "text · c1")
        expect(lines.first).not_to_have_attribute("d", before)
        point = page.locator("[data-chart='tradeoff-e2e'] .role-mark.mark-symbol path").first
        before = attribute(point, "transform")
        page.select_option("#tradeoff select[data-param='percentile']", "p99")
        expect(point).not_to_have_attribute("transform", before)
        assert page.evaluate(CROWDED_TEXT) == []


def test_the_charts_follow_when_the_reader_changes_the_theme(
    browser: Browser, report: Path
) -> None:
    with opened(browser, report) as page:
        fill = f"() => document.querySelector(\"[data-chart='kv-cache'] {MARKS}\")"
        before = page.evaluate(fill + ".getAttribute('fill')")
        page.select_option("#latency select", "text · c4")
        page.emulate_media(color_scheme="dark")
        page.wait_for_selector("html[data-drawn='dark']", state="attached")
        assert page.evaluate(fill + ".getAttribute('fill')") != before
        assert page.evaluate(FAINT_TEXT) == []
        assert page.locator("#latency select").input_value() == "text · c4"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_charts_by_turn_are_drawn_and_follow_the_load_point(
    browser: Browser, all_kinds: Path, scheme: Scheme
) -> None:
    with opened(browser, all_kinds, scheme=scheme) as page:
        for name in ("prefix_cache_hit_ratio", "ttft_p50_ms", "input_tokens_mean"):
            chart = page.locator(f"[data-chart='turn-{name}']")
            assert chart.locator(".role-mark.mark-line path").count() == 3
            assert chart.locator(".role-mark.mark-symbol path").count() == 3 * 6
        lines = page.locator("[data-chart='turn-ttft_p50_ms'] .role-mark.mark-line path")
        page.select_option("#turns select", "chat · c2")
        expect(lines).to_have_count(4)
        page.locator("#turns button[data-variant='eagle3']").click()
        expect(lines).to_have_count(3)
        assert page.evaluate(FAINT_TEXT) == []


def test_every_chart_of_every_kind_of_load_is_drawn(browser: Browser, all_kinds: Path) -> None:
    with opened(browser, all_kinds) as page:
        charts = page.locator(SHOWN).all()
        assert len(charts) == 23, "bf16 drafts nothing"
        for workload in ("open", "replay", "chat"):
            page.select_option("#tradeoff select[data-param='workload']", workload)
            points = page.locator("[data-chart='tradeoff-ttft'] .role-mark.mark-symbol path")
            expect(points).not_to_have_count(0)
        # One that was not shown before is drawn only now.
        for chart in charts:
            expect(chart.locator(MARKS)).not_to_have_count(0)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_capacity_within_the_slo_is_drawn_and_follows_the_objective(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    with opened(browser, write(make_searches().measured, tmp_path), width) as page:
        names = ("rate", "violations", "latency", "goodput")
        charts = {name: page.locator(f"#capacity [data-chart='capacity-{name}']") for name in names}
        for name, chart in charts.items():
            assert chart.locator(MARKS).count() > 0, name
            assert len(attribute(chart, "aria-label")) > 20, name
        expect(charts["latency"]).to_contain_text("at most 100 ms")
        page.select_option("#capacity select", "live · strict · TPOT p99")
        expect(charts["latency"]).to_contain_text("at most 12.0 ms")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width


def test_probes_of_which_none_is_decided_are_drawn_hollow(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_data, "OUTCOMES", ("go on", *3 * ["undecided"]))
    with opened(browser, write(make_searches().measured, tmp_path)) as page:
        points = page.locator("[data-chart='capacity-goodput'] .mark-symbol path").all()
        assert {attribute(point, "fill-opacity") for point in points} == {"0"}


@pytest.mark.parametrize("width", [390, 1280])
def test_candidates_of_a_race_whose_names_begin_alike_are_told_apart(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    alike = "max_num_seqs-512-max_num_batched_tokens-16384"
    names = [f"{alike}-{end}" for end in ("a", "b")]
    tuned = make_tuned(names)
    with opened(browser, write(tuned, tmp_path), width) as page:
        chart = page.locator("[data-chart='tuning'] svg")
        # A candidate is named by what it differs in from the base.
        for name in (names[0], "2 seqs · 512 tokens"):
            expect(chart.get_by_text(name)).to_be_visible()
        assert chart.locator(".mark-symbol path").count() == len(names)
        assert page.evaluate(CROWDED_TEXT) == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_quality_is_drawn_against_its_bounds_and_told_in_words(
    browser: Browser, tmp_path: Path, width: int, scheme: Scheme
) -> None:
    plan, answers = make_quality(make_quickstart_plan())
    path = tmp_path / "summary.html"
    path.write_text(render_html(replace(make_data(plan), answers=answers)), encoding="utf-8")
    with opened(browser, path, width, scheme) as page:
        for name, bound in (("perplexity", "at most 1.02"), ("top1", "at least 95")):
            chart = page.locator(f"#quality [data-chart='quality-{name}']")
            assert chart.locator(MARKS).count() == 2, "w8a8 and fp8-kv"
            expect(chart.locator("svg").get_by_text(bound)).to_be_visible()
            told = attribute(chart, "aria-label")
            assert "fp8-kv" in told and bound in told
        expect(page.locator("#answer .note").first).to_contain_text("fp8-kv fails the bounds")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert page.evaluate(FAINT_TEXT) == []


def make_tuned(names: list[str]) -> ReportData:
    """A report of a tuning whose candidates were screened once each."""
    study = study_with()
    assert study.tune is not None
    seen = [
        TrialResult(Trial(name, "screen"), 60.0, value, value / 1.2, value * 1.2)
        for value, name in enumerate(names, 20)
    ]
    pairs = zip(candidates(study.tune, study), names, strict=False)
    of = [replace(candidate, name=name) for candidate, name in pairs]
    tuning = Tuning(declared="", tune=study.tune, place=study.tuned_at, candidates=of, rounds=[])
    data = make_data()
    plan = data.plan.model_copy(update={"tuning": tuning, "variants": names})
    return replace(data, plan=plan, seen=seen)


def lines_of(page: Page, chart: str) -> list[str | None]:
    lines = page.locator(f"[data-chart='{chart}'] .role-mark.mark-line path")
    return [line.get_attribute("d") for line in lines.all()]


def test_the_timeline_shows_the_run_that_is_selected(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        assert page.locator("#timeline select").input_value() == "bf16 · repeat 1"
        chart = page.locator("[data-chart='timeline-requests']")
        expect(chart).to_contain_text("text · c8")
        expect(chart).to_contain_text("waiting")
        assert len(lines_of(page, "timeline-requests")) == 2 * 5, "five load points"
        line = page.locator("[data-chart='timeline-requests'] .role-mark.mark-line path").first
        before = attribute(line, "stroke")
        drafts = page.locator("[data-chart='timeline-positions'] .mark-line path")
        positions = page.locator("[data-chart='timeline-positions']")
        expect(positions).to_be_hidden()
        page.select_option("#timeline select", "eagle3 · repeat 1")
        expect(drafts).to_have_count(3 * 5)
        expect(positions).to_be_visible()
        assert box_of(positions)["width"] > 900
        eagle3 = page.locator("[data-chart='kv-cache'] .role-mark.mark-rect path").nth(3)
        assert attribute(eagle3, "fill") != before
        # A variant has one colour.
        expect(line).to_have_attribute("stroke", attribute(eagle3, "fill"))
        lines = page.locator("[data-chart='timeline-kv'] .role-mark.mark-line path")
        page.locator("#timeline input[data-param='until']").focus()
        page.keyboard.type("40")
        page.keyboard.press("Tab")
        expect(lines).to_have_count(2)


def test_brushing_over_one_chart_narrows_all_of_them(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        before = {name: lines_of(page, f"timeline-{name}") for name in ("kv", "throughput")}
        chart = page.locator("[data-chart='timeline-requests'] svg")
        chart.scroll_into_view_if_needed()
        box = box_of(chart)
        y = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.3, y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.4, y, steps=4)
        page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=4)
        page.mouse.up()
        start = page.locator("#timeline input[data-param='from']")
        expect(start).not_to_have_value("")
        for name, lines in before.items():
            expect(
                page.locator(f"[data-chart='timeline-{name}'] .role-mark.mark-line path")
            ).not_to_have_count(len(lines))
        page.locator("#timeline button.whole").click()
        expect(start).to_have_value("")
        for name, lines in before.items():
            expect(
                page.locator(f"[data-chart='timeline-{name}'] .role-mark.mark-line path")
            ).to_have_count(len(lines))


def test_a_lone_variant_with_one_load_point_is_drawn(browser: Browser, tmp_path: Path) -> None:
    plan = make_quickstart_plan(variants=["eagle3"])
    session = plan.sessions[0]
    one = session.model_copy(update={"measurements": session.measurements[:1]})
    data = make_data(plan.model_copy(update={"sessions": [one]}))
    with opened(browser, write(data, tmp_path), 390) as page:
        assert all(chart.locator(MARKS).count() for chart in page.locator(SHOWN).all())


def test_latencies_that_span_decades_are_drawn_on_a_log_axis(
    browser: Browser, tmp_path: Path
) -> None:
    data = make_data()
    slow = data.quantiles["variant"] == "eagle3"
    data.quantiles.loc[slow, "value_ms"] *= 400
    data.table.loc[data.table["variant"] == "eagle3", "ttft_p50_ms"] *= 400
    with opened(browser, write(data, tmp_path)) as page:
        chart = page.locator("[data-chart='distribution-ttft']")
        assert "log scale" in (chart.text_content() or "")
        assert all(chart.locator(MARKS).count() for chart in page.locator(SHOWN).all())
