"""The report in headless Chromium: offline, complete, legible, usable with keys and on a phone.

A missing Chromium fails these tests; CHROMIUM may name it.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, FloatRect, Locator, Page, expect, sync_playwright

from servetune.report.html import render_html
from tests.quality_data import make_quality
from tests.report_data import (
    HOSTILE,
    ReportData,
    make_all_kinds,
    make_data,
    make_hostile_data,
    make_quickstart_plan,
)
from tests.search_data import make_searches

Scheme = Literal["light", "dark"]

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MARKS = ".role-mark:is(.mark-symbol, .mark-line, .mark-rect) path"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert executable, "no chromium on PATH: apt-get install chromium, or set CHROMIUM"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def data() -> ReportData:
    plan = make_quickstart_plan(repeats=2)
    return make_data(plan, failed={"fp8-kv-text-c8": "died"}, invalid={"w8a8-text-c1": "late"})


@pytest.fixture(scope="module")
def report(data: ReportData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(data, tmp_path_factory.mktemp("report"))


def _write(data: ReportData, folder: Path) -> Path:
    path = folder / "summary.html"
    path.write_text(render_html(data), encoding="utf-8")
    return path


@contextmanager
def _opened(
    browser: Browser, path: Path, width: int = 1280, scheme: Scheme = "light"
) -> Iterator[Page]:
    """Open a report offline; on leaving, fail if anything was requested or went wrong."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        offline=True,
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("websocket", lambda socket: requests.append(socket.url))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", state="attached")
    yield page
    context.close()
    assert requests == [path.as_uri()]
    assert complaints == []


def attribute(element: Locator, name: str) -> str:
    value = element.get_attribute(name)
    assert value is not None, name
    return value


def box_of(element: Locator) -> FloatRect:
    box = element.bounding_box()
    assert box is not None, "not visible"
    return box


def test_the_report_opens_without_a_network_and_without_a_complaint(
    browser: Browser, report: Path
) -> None:
    with _opened(browser, report) as page:
        assert page.title() == "quickstart · servetune"


@pytest.mark.parametrize("width", [390, 1280])
def test_every_chart_has_marks_axes_and_a_text_alternative(
    browser: Browser, report: Path, width: int
) -> None:
    with _opened(browser, report, width) as page:
        charts = page.locator("[data-chart]")
        assert charts.count() == 18
        for chart in charts.all():
            name = chart.get_attribute("data-chart")
            assert chart.locator(MARKS).count() > 0, name
            assert chart.locator("svg text").count() > 2, name
            assert chart.get_attribute("role") == "graphics-document"
            assert len(attribute(chart, "aria-label")) > 20, name
            box = box_of(chart)
            assert 250 < box["width"] <= width and box["height"] > 60, name


def test_the_curves_of_the_distributions_are_drawn_for_each_ok_measurement(
    browser: Browser, report: Path
) -> None:
    with _opened(browser, report) as page:
        lines = page.locator("[data-chart='distribution-tpot'] .role-mark.mark-line path")
        assert page.locator("#latency select").input_value() == "text · c8"
        assert lines.count() == 3 * 2
        assert all(len(attribute(line, "d")) > 500 for line in lines.all())


def test_the_page_is_no_wider_than_a_phone(browser: Browser, report: Path) -> None:
    for scheme in ("light", "dark"):
        with _opened(browser, report, 390, scheme) as page:
            for details in page.locator("details > summary").all():
                details.click()
            assert page.evaluate("document.scrollingElement.scrollWidth") <= 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa_in_both_themes(
    browser: Browser, report: Path, scheme: Scheme
) -> None:
    with _opened(browser, report, scheme=scheme) as page:
        for details in page.locator("details > summary").all():
            details.click()
        faint = page.evaluate(FAINT_TEXT)
        assert faint == []
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", background))) < 60) == (scheme == "dark")


def test_the_charts_follow_when_the_reader_changes_the_theme(
    browser: Browser, report: Path
) -> None:
    with _opened(browser, report) as page:
        fill = f"() => document.querySelector(\"[data-chart='kv-cache'] {MARKS}\")"
        before = page.evaluate(fill + ".getAttribute('fill')")
        page.select_option("#latency select", "text · c4")
        page.emulate_media(color_scheme="dark")
        page.wait_for_selector("html[data-drawn='dark']", state="attached")
        assert page.evaluate(fill + ".getAttribute('fill')") != before
        assert page.evaluate(FAINT_TEXT) == []
        assert page.locator("#latency select").input_value() == "text · c4"


def test_selecting_a_load_point_redraws_the_distributions(browser: Browser, report: Path) -> None:
    with _opened(browser, report) as page:
        line = page.locator("[data-chart='distribution-ttft'] .role-mark.mark-line path").first
        before = line.get_attribute("d")
        page.select_option("#latency select", "text · c1")
        expect(line).not_to_have_attribute("d", before)


def test_selecting_a_percentile_moves_the_points_of_the_tradeoff(
    browser: Browser, report: Path
) -> None:
    with _opened(browser, report) as page:
        point = page.locator("[data-chart='tradeoff-e2e'] .role-mark.mark-symbol path").first
        before = point.get_attribute("transform")
        page.select_option("#tradeoff select[data-param='percentile']", "p99")
        expect(point).not_to_have_attribute("transform", before)


def test_a_variant_that_is_hidden_leaves_every_chart(browser: Browser, report: Path) -> None:
    with _opened(browser, report) as page:
        lines = page.locator("[data-chart='distribution-e2e'] .role-mark.mark-line path")
        assert lines.count() == 6
        button = page.locator("#answer button[data-variant='eagle3']")
        button.click()
        expect(lines).to_have_count(4)
        pressed = page.locator("button[data-variant='eagle3']")
        states = {button.get_attribute("aria-pressed") for button in pressed.all()}
        assert states == {"false"}


def test_the_copy_button_copies_the_exact_command(
    browser: Browser, report: Path, data: ReportData
) -> None:
    with _opened(browser, report) as page:
        page.locator("#commands summary").first.click()
        button = page.locator("#commands button.copy").first
        button.click()
        expect(page.locator("#spoken")).to_have_text("Copied to the clipboard")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert shlex.split(copied) == next(iter(data.records.values())).server_command


def test_without_a_clipboard_the_command_is_selected(browser: Browser, report: Path) -> None:
    with _opened(browser, report) as page:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.evaluate("document.execCommand = () => false")
        page.locator("#reproduce button.copy").first.click()
        expect(page.locator("#spoken")).to_have_text("Selected: press Ctrl+C to copy")
        assert "git checkout" in page.evaluate("window.getSelection().toString()")


def test_everything_that_can_be_used_can_be_reached_with_the_keyboard(
    browser: Browser, report: Path
) -> None:
    with _opened(browser, report) as page:
        for details in page.locator("details").all():
            details.evaluate("element => (element.open = true)")
        wanted = page.evaluate(
            "document.querySelectorAll('a[href], button, select, input, summary, .box, pre').length"
        )
        page.evaluate("document.body.focus()")
        reached = 0
        for _ in range(wanted + 5):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement === document.body"):
                break
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
            reached += 1
        assert reached == wanted


def test_a_button_works_with_the_keyboard(browser: Browser, report: Path) -> None:
    with _opened(browser, report) as page:
        button = page.locator("#answer button[data-variant='w8a8']")
        button.focus()
        page.keyboard.press("Space")
        assert button.get_attribute("aria-pressed") == "false"


def test_hostile_text_does_nothing_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    with _opened(browser, _write(make_hostile_data(), tmp_path)) as page:
        page.locator("[data-chart='distribution-ttft'] .role-mark.mark-symbol path").first.hover()
        assert page.evaluate("window.broken") is None
        assert page.locator("main img").count() == 0
        assert all(chart.locator(MARKS).count() for chart in page.locator("[data-chart]").all())
        names = page.locator("#answer .legend button").all_text_contents()
        assert [" ".join(name.split()) for name in names] == list(HOSTILE)


@pytest.fixture(scope="module")
def all_kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    warm = {"implied_prefix_cache_hit_ratio": 0.2}
    data = make_data(make_all_kinds(), cards={"w8a8-chat-c8": warm})
    return _write(data, tmp_path_factory.mktemp("all-kinds"))


@pytest.mark.parametrize("width", [390, 700, 1280])
def test_the_validity_card_can_be_opened_and_read(
    browser: Browser, all_kinds: Path, width: int
) -> None:
    with _opened(browser, all_kinds, width) as page:
        card = page.locator("#validity details.card").first
        expect(card.locator("summary")).to_contain_text("61% of the prompt tokens came from")
        expect(card.locator("table")).to_be_hidden()
        card.locator("summary").focus()
        page.keyboard.press("Enter")
        expect(card.locator("table")).to_be_visible()
        row = card.locator("tr", has_text="Prefix-cache hit rate")
        expect(row).to_contain_text("at most 5 points above implied")
        expect(row.locator(".broken")).to_have_text("broken")
        expect(card.locator("tr", has_text="Send delay")).to_contain_text("pass")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_marks_of_a_card_stand_under_the_names_of_their_rules(
    browser: Browser, all_kinds: Path
) -> None:
    with _opened(browser, all_kinds) as page:
        heads = page.locator("#validity .heads").first.locator("span:not(:first-child)").all()
        marks = page.locator("#validity details.card").first.locator("summary > i").all()
        assert len(heads) == len(marks) == 29
        for head, mark in zip(heads, marks, strict=True):
            above, below = box_of(head), box_of(mark)
            middles = [box["x"] + box["width"] / 2 for box in (above, below)]
            assert abs(middles[0] - middles[1]) < 3


def test_a_screen_reader_is_told_the_verdicts_without_the_marks(
    browser: Browser, all_kinds: Path
) -> None:
    with _opened(browser, all_kinds) as page:
        told = page.locator("#validity details.card").first.aria_snapshot()
        assert "1 broken, 10 pass, 18 not judged" in told
        assert "\N{CHECK MARK}" not in told


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_charts_by_turn_are_drawn_and_follow_the_load_point(
    browser: Browser, all_kinds: Path, scheme: Scheme
) -> None:
    with _opened(browser, all_kinds, scheme=scheme) as page:
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
    with _opened(browser, all_kinds) as page:
        charts = page.locator("[data-chart]").all()
        assert len(charts) == 21
        for workload in ("open", "replay", "chat"):
            page.select_option("#tradeoff select[data-param='workload']", workload)
            points = page.locator("[data-chart='tradeoff-ttft'] .role-mark.mark-symbol path")
            expect(points).not_to_have_count(0)
        assert all(chart.locator(MARKS).count() for chart in charts)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_capacity_within_the_slo_is_drawn_and_follows_the_objective(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    with _opened(browser, _write(make_searches().measured, tmp_path), width) as page:
        names = ("rate", "violations", "latency", "goodput")
        charts = {name: page.locator(f"#capacity [data-chart='capacity-{name}']") for name in names}
        for name, chart in charts.items():
            assert chart.locator(MARKS).count() > 0, name
            assert len(attribute(chart, "aria-label")) > 20, name
        expect(charts["latency"]).to_contain_text("at most 100 ms")
        page.select_option("#capacity select", "live · strict · TPOT p99")
        expect(charts["latency"]).to_contain_text("at most 12.0 ms")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_quality_is_drawn_against_its_bounds_and_told_in_words(
    browser: Browser, tmp_path: Path, width: int, scheme: Scheme
) -> None:
    plan, answers = make_quality(make_quickstart_plan())
    path = tmp_path / "summary.html"
    path.write_text(render_html(replace(make_data(plan), answers=answers)), encoding="utf-8")
    with _opened(browser, path, width, scheme) as page:
        for name, bound in (("perplexity", "at most 1.02"), ("top1", "at least 95")):
            chart = page.locator(f"#quality [data-chart='quality-{name}']")
            assert chart.locator(MARKS).count() == 2, "w8a8 and fp8-kv"
            expect(chart).to_contain_text(bound)
            told = attribute(chart, "aria-label")
            assert "fp8-kv" in told and bound in told
        expect(page.locator("#answer .note").first).to_contain_text("fp8-kv fails the bounds")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert page.evaluate(FAINT_TEXT) == []


def lines_of(page: Page, chart: str) -> list[str | None]:
    lines = page.locator(f"[data-chart='{chart}'] .role-mark.mark-line path")
    return [line.get_attribute("d") for line in lines.all()]


def test_the_timeline_shows_the_run_that_is_selected(browser: Browser, report: Path) -> None:
    with _opened(browser, report) as page:
        assert page.locator("#timeline select").input_value() == "bf16 · repeat 1"
        chart = page.locator("[data-chart='timeline-requests']")
        expect(chart).to_contain_text("text · c8")
        expect(chart).to_contain_text("waiting")
        assert len(lines_of(page, "timeline-requests")) == 2 * 5, "five load points"
        assert lines_of(page, "timeline-positions") == [None], "no drafts, so nothing is drawn"
        missing = page.get_by_text("This run told none; eagle3 · repeat 1 did.")
        assert missing.count() == 2, "in the charts of the acceptance"
        page.select_option("#timeline select", "eagle3 · repeat 1")
        positions = page.locator("[data-chart='timeline-positions'] .mark-line path")
        expect(missing).to_have_count(0)
        expect(positions).to_have_count(3 * 5)


def test_brushing_over_one_chart_narrows_all_of_them(browser: Browser, report: Path) -> None:
    with _opened(browser, report) as page:
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


def test_the_time_can_be_narrowed_with_the_keyboard(browser: Browser, report: Path) -> None:
    with _opened(browser, report) as page:
        lines = page.locator("[data-chart='timeline-kv'] .role-mark.mark-line path")
        expect(lines).to_have_count(5)
        page.locator("#timeline input[data-param='until']").focus()
        page.keyboard.type("40")
        page.keyboard.press("Tab")
        expect(lines).to_have_count(2)


def test_the_table_of_speculation_fits_its_place(browser: Browser, report: Path) -> None:
    with _opened(browser, report) as page:
        box = page.locator("#speculation .box")
        expect(box.locator("tbody tr")).to_have_count(5)
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_a_finding_leads_to_its_chart(browser: Browser, report: Path) -> None:
    with _opened(browser, report) as page:
        link = page.locator("#findings a[href='#timeline']").first
        link.focus()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("#timeline$"))
        expect(page.locator("[data-chart='timeline-kv']")).to_be_in_viewport()


def test_a_lone_variant_with_one_load_point_is_drawn(browser: Browser, tmp_path: Path) -> None:
    plan = make_quickstart_plan(variants=["eagle3"])
    session = plan.sessions[0]
    one = session.model_copy(update={"measurements": session.measurements[:1]})
    data = make_data(plan.model_copy(update={"sessions": [one]}))
    with _opened(browser, _write(data, tmp_path), 390) as page:
        assert all(chart.locator(MARKS).count() for chart in page.locator("[data-chart]").all())


def test_latencies_that_span_decades_are_drawn_on_a_log_axis(
    browser: Browser, tmp_path: Path
) -> None:
    data = make_data()
    slow = data.quantiles["variant"] == "eagle3"
    data.quantiles.loc[slow, "value_ms"] *= 400
    data.table.loc[data.table["variant"] == "eagle3", "ttft_p50_ms"] *= 400
    with _opened(browser, _write(data, tmp_path)) as page:
        chart = page.locator("[data-chart='distribution-ttft']")
        assert "log scale" in (chart.text_content() or "")
        assert all(chart.locator(MARKS).count() for chart in page.locator("[data-chart]").all())


# Text whose contrast with its background is below WCAG AA (4.5:1, or 3:1 if large), in HTML
# and in the charts. Opaque backgrounds are looked for upwards; SVG text has its fill.
FAINT_TEXT = """() => {
  const channels = (color) => (color.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => {
      c /= 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const background = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const c = channels(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let looked = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const color = channels(element.closest("svg") ? style.fill : style.color);
    const [a, b] = [luminance(color), luminance(background(element))].sort((p, q) => q - p);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5)) faint.push([walker.currentNode.textContent, ratio]);
    looked += 1;
  }
  return looked > 300 ? faint : ["looked at too little", looked];
}"""
