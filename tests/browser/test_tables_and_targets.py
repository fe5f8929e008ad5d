"""What a reader does with the page: tables as CSV, sorted and filtered; links; moved targets."""

import csv
import io
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from servetune.report.targets.section import PERCENTS
from tests.browser.pages import CROWDED_TEXT, FAINT_TEXT, MARKS, opened, unfold, write
from tests.report_data import ReportData, make_data, make_quickstart_plan


def saved(page: Page, label: str) -> list[list[str]]:
    """Save a table as CSV, and read it as a spreadsheet does."""
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Save {label} as CSV").click()
    file = Path(download.value.path())
    assert download.value.suggested_filename.endswith(".csv")
    return list(csv.reader(io.StringIO(file.read_text(encoding="utf-8-sig"))))


def names_in(page: Page) -> list[str]:
    rows = page.locator("#answer tbody tr:not([hidden]) th").all_inner_texts()
    return [row.split()[0] for row in rows]


def test_a_table_is_saved_as_csv_with_its_groups_and_every_row(
    browser: Browser, report: Path, data: ReportData
) -> None:
    with opened(browser, report) as page:
        unfold(page)
        heads, *rows = saved(page, "The answer by variant")
        assert heads[0] == "Variant" and any(
            head.startswith("text, concurrency 8: ") for head in heads
        )
        assert [row[0].split()[0] for row in rows] == ["bf16", "w8a8", "fp8-kv", "eagle3"]
        assert len({len(row) for row in (heads, *rows)}) == 1
        heads, *rows = saved(page, "Comparison of variants")
        assert heads[:3] == ["", "Variant", "Status"] and len(rows) == len(data.compared)
        assert {row[0] for row in rows} >= {"text, concurrency 8", "open, 8 requests/s"}
        assert all(len(row) == len(heads) for row in rows)


def test_a_name_that_a_spreadsheet_would_run_is_text(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        page.locator("#answer tbody th").nth(2).evaluate("(cell) => (cell.textContent = '=1+cmd')")
        assert "'=1+cmd" in [row[0] for row in saved(page, "The answer by variant")]


def test_a_table_is_sorted_by_a_head_both_ways_and_by_the_keyboard(
    browser: Browser, report: Path
) -> None:
    with opened(browser, report) as page:
        before = names_in(page)
        head = page.locator("#answer thead button.sort", has_text="output, tok/s").first
        head.focus()
        page.keyboard.press("Enter")
        values = page.locator("#answer tbody tr td:nth-of-type(1)").all_inner_texts()
        numbers = [re.match(r"[\d.]+", value.replace(",", "")) for value in values]
        known = [float(number[0]) for number in numbers if number]
        assert known == sorted(known) and len(known) >= 3
        # What has no number comes last.
        assert all(numbers[: len(known)])
        expect(page.locator("#answer th[aria-sort='ascending']")).to_have_count(1)
        page.keyboard.press("Enter")
        expect(page.locator("#answer th[aria-sort='descending']")).to_have_count(1)
        assert sorted(names_in(page)) == sorted(before)


def test_a_filter_leaves_the_rows_that_have_all_its_words(browser: Browser, report: Path) -> None:
    with opened(browser, report) as page:
        unfold(page)
        filter = page.get_by_label("Filter the rows of Comparison of variants")
        filter.fill("eagle3 open")
        shown = page.locator("#load-points .comparison tbody tr:not(.group):not([hidden])")
        expect(shown).to_have_count(1)
        expect(shown).to_contain_text("eagle3")
        filter.fill("")
        expect(page.locator("#load-points .comparison tbody tr[hidden]")).to_have_count(0)


def test_a_link_keeps_the_load_the_percentile_and_what_is_hidden(
    browser: Browser, report: Path
) -> None:
    with opened(browser, report) as page:
        page.select_option("#latency select", "text · c1")
        page.select_option("#tradeoff select[data-param='percentile']", "p95")
        page.locator("#answer button[data-variant='eagle3']").click()
        page.locator("#targets input[data-param='ttft']").fill("150")
        page.keyboard.press("Tab")
        link = page.url
    assert "latency.where" in link
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("html[data-drawn]", state="attached")
    expect(page.locator("#latency select")).to_have_value("text · c1")
    expect(page.locator("#tradeoff select[data-param='percentile']")).to_have_value("p95")
    expect(page.locator("#targets input[data-param='ttft']")).to_have_value("150")
    hidden = page.locator("#answer button[data-variant='eagle3']")
    expect(hidden).to_have_attribute("aria-pressed", "false")
    lines = page.locator("[data-chart='distribution-tpot'] .role-mark.mark-line path")
    expect(lines).to_have_count(2)
    context.close()


HIGHEST = "[data-chart='targets-highest']"


def best_loads(page: Page) -> str:
    return " ".join(
        page.locator("[data-chart='targets-highest'] .mark-text text").all_text_contents()
    )


def test_moved_targets_change_the_highest_load_and_the_goodput(
    browser: Browser, tmp_path: Path
) -> None:
    data = make_data(make_quickstart_plan(repeats=3))
    page_file = write(data, tmp_path)
    at = (data.points["variant"] == "bf16") & (data.points["load_point"] == "c8")
    p99 = data.points.loc[at, "ttft_p99_ms"].astype(float)
    with opened(browser, page_file) as page:
        expect(page.locator(f"{HIGHEST} .role-mark.mark-text text")).to_have_count(4)
        assert "no measured load" not in best_loads(page)
        limit = page.locator("#targets input[data-param='ttft']")
        limit.fill("0.001")
        page.keyboard.press("Tab")
        none = page.locator(
            "[data-chart='targets-highest']", has_text="no measured load keeps them"
        )
        expect(none).to_have_count(1)
        limit.fill(f"{3 * p99.max():.0f}")
        page.keyboard.press("Tab")
        text = page.locator(HIGHEST, has_text="concurrency 8")
        expect(text).to_have_count(1)
        points = page.locator("[data-chart='targets-goodput']").locator(MARKS)
        assert points.count() > 4
        assert page.evaluate(FAINT_TEXT) == []


@pytest.mark.parametrize("width", [390, 1400])
def test_the_targets_and_the_front_are_legible(browser: Browser, report: Path, width: int) -> None:
    with opened(browser, report, width) as page:
        assert page.evaluate(CROWDED_TEXT) == []
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        front = page.locator("[data-chart='pareto'] .role-mark.mark-line path")
        expect(front.first).to_be_attached()
        assert "100" in [str(percent) for percent in PERCENTS]
