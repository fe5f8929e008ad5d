"""The report in headless Chromium: offline, complete, legible, usable with keys and on a phone."""

import re
import shlex
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from servetune.records.rules import RULES
from servetune.report.reading import read_measured
from tests.browser.pages import (
    CROWDED_TEXT,
    FAINT_TEXT,
    MARKS,
    SHOWN,
    Scheme,
    attribute,
    box_of,
    opened,
    unfold,
    write,
)
from tests.recorded import plan_of, results_of
from tests.report_data import (
    HOSTILE,
    ReportData,
    make_data,
    make_hostile_data,
    make_quickstart_plan,
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_all_of_the_page_is_legible_on_a_phone_and_on_a_desk_in_both_themes(
    browser: Browser, report: Path, width: int, scheme: Scheme
) -> None:
    with opened(browser, report, width, scheme) as page:
        unfold(page)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        assert page.evaluate(FAINT_TEXT) == []
        assert page.evaluate(CROWDED_TEXT) == []
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", background))) < 60) == (scheme == "dark")
        charts = page.locator("[data-chart]")
        assert charts.count() == 22
        hidden = page.locator("figure[hidden] [data-chart]")
        names = [attribute(chart, "data-chart") for chart in hidden.all()]
        assert names == ["timeline-acceptance", "timeline-positions"], "bf16 drafts nothing"
        for chart in page.locator(SHOWN).all():
            name = attribute(chart, "data-chart")
            assert chart.locator(MARKS).count() > 0, name
            assert chart.locator("svg text").count() > 2, name
            assert chart.get_attribute("role") == "graphics-document"
            assert len(attribute(chart, "aria-label")) > 20, name
            box = box_of(chart)
            assert 250 < box["width"] <= width and box["height"] > 60, name


def test_on_a_phone_the_answer_comes_before_the_links_and_tables_say_that_they_scroll(
    browser: Browser, report: Path
) -> None:
    with opened(browser, report, 390) as page:
        answer = box_of(page.locator("#answer"))
        links = [box_of(link) for link in page.locator("nav a").all()]
        assert len({link["y"] for link in links if link["y"] < answer["y"]}) == 1, "one line"
        unfold(page)
        cell, head = (page.locator(f"#load-points .verdicts {last}").last for last in ("td", "th"))
        assert box_of(head)["y"] < box_of(cell)["y"]
        name = page.locator("#answer tbody th").first
        before = box_of(name)["x"]
        page.locator("#answer .box").evaluate("(box) => box.scrollBy(150, 0)")
        assert box_of(name)["x"] == before, "a variant's name stays beside its verdicts"
        page.wait_for_function(
            "[...document.querySelectorAll('.box')].every((box) =>"
            " box.classList.contains('scrolls') === box.scrollWidth > box.clientWidth)"
        )
        wide = page.locator(".box.scrolls").first
        said = wide.evaluate("(box) => getComputedStyle(box, '::before').content")
        assert "scroll" in said


@pytest.mark.parametrize("study", ["h200-headline", "h200-llama8b-graphs", "h100-front-end"])
def test_on_a_desk_the_answer_of_a_recorded_study_needs_no_scrolling(
    browser: Browser, tmp_path: Path, study: str
) -> None:
    path = write(read_measured(plan_of(study), results_of(study).parents[1]), tmp_path)
    with opened(browser, path, 1400) as page:
        box = page.locator("#answer .box")
        assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0


def test_on_a_desk_the_answer_of_the_first_study_needs_no_scrolling(
    browser: Browser, tmp_path: Path
) -> None:
    path = write(make_data(make_quickstart_plan(repeats=3)), tmp_path)
    # Its longest name, in the place of one of the same study.
    path.write_text(path.read_text(encoding="utf-8").replace("fp8-kv", "no-prefix-cache"))
    with opened(browser, path, 1400) as page:
        box = page.locator("#answer .box")
        assert box.locator("text=no-prefix-cache").count() == 1
        assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0


def test_what_is_folded_opens_by_a_link_by_the_keyboard_and_on_paper(
    browser: Browser, report: Path, tmp_path: Path
) -> None:
    linked = f"{report.as_uri()}#startup"
    with opened(browser, report) as page:
        folds = page.locator("details.folded")
        assert folds.count() == page.locator("details.folded:not([open])").count() == 8
        expect(page.locator("#validity summary").first).to_contain_text("36 loads ok, 2 invalid")
        page.goto(linked)
        expect(page.locator("#startup [data-chart]")).to_be_in_viewport()
        expect(page.locator("details.folded[open]")).to_have_count(1)
        page.locator("#startup summary").first.focus()
        page.keyboard.press("Enter")
        expect(page.locator("details.folded[open]")).to_have_count(0)
        page.evaluate("addEventListener('afterprint', () => (window.printed = true), {once: true})")
        page.evaluate(
            "addEventListener('beforeprint', () => (window.unfolded ="
            " document.querySelectorAll('details:not([open])').length), {once: true})"
        )
        page.pdf(path=tmp_path / "summary.pdf")
        page.wait_for_function("window.printed")
        assert page.evaluate("window.unfolded") == 0
        assert page.locator("details[open]").count() == 0


def test_a_link_opens_what_is_folded_again(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        link, fold = page.locator("a[href='#problems']"), page.locator("#problems details").first
        for _ in range(2):
            link.click()
            expect(fold).to_have_attribute("open", "")
            fold.locator("summary").first.click()
            expect(fold).not_to_have_attribute("open", "")


def test_the_copy_button_copies_the_exact_command(
    browser: Browser, report: Path, data: ReportData
) -> None:
    with opened(browser, report) as page:
        unfold(page)
        button = page.locator("#commands button.copy").first
        button.click()
        expect(page.locator("#spoken")).to_have_text("Copied to the clipboard")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert shlex.split(copied) == next(iter(data.records.values())).server_command


def test_without_a_clipboard_the_command_is_selected(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        page.evaluate("document.execCommand = () => false")
        unfold(page)
        page.locator("#reproduce button.copy").first.click()
        expect(page.locator("#spoken")).to_have_text("Selected: press Ctrl+C to copy")
        assert "git checkout" in page.evaluate("window.getSelection().toString()")


def test_everything_that_can_be_used_can_be_reached_with_the_keyboard(
    browser: Browser, report: Path
) -> None:
    with opened(browser, report) as page:
        unfold(page)
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


def test_hostile_text_does_nothing_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, write(make_hostile_data(), tmp_path)) as page:
        page.locator("[data-chart='distribution-ttft'] .role-mark.mark-symbol path").first.hover()
        assert page.evaluate("window.broken") is None
        assert page.locator("main img").count() == 0
        assert all(chart.locator(MARKS).count() for chart in page.locator(SHOWN).all())
        names = page.locator("#answer .legend button").all_text_contents()
        assert [" ".join(name.split()) for name in names] == list(HOSTILE)


@pytest.mark.parametrize("width", [390, 700, 1280])
def test_the_validity_card_can_be_opened_and_read(
    browser: Browser, all_kinds: Path, width: int
) -> None:
    with opened(browser, all_kinds, width) as page:
        page.locator("#validity summary").first.click()
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
    with opened(browser, all_kinds) as page:
        unfold(page)
        heads = page.locator("#validity .heads").first.locator("span:not(:first-child)").all()
        marks = page.locator("#validity details.card").first.locator("summary > i").all()
        assert len(heads) == len(marks) == len(RULES)
        for head, mark in zip(heads, marks, strict=True):
            above, below = box_of(head), box_of(mark)
            middles = [box["x"] + box["width"] / 2 for box in (above, below)]
            assert abs(middles[0] - middles[1]) < 3


def test_a_screen_reader_is_told_the_verdicts_without_the_marks(
    browser: Browser, all_kinds: Path
) -> None:
    with opened(browser, all_kinds) as page:
        page.locator("#validity summary").first.click()
        told = page.locator("#validity details.card").first.aria_snapshot()
        assert f"1 broken, 10 pass, {len(RULES) - 11} not judged" in told
        assert "\N{CHECK MARK}" not in told


def test_a_finding_leads_to_its_chart(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        link = page.locator("#findings a[href='#timeline']").first
        link.focus()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("#timeline$"))
        expect(page.locator("[data-chart='timeline-kv']")).to_be_in_viewport()
