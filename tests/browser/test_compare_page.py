"""The page of a comparison in headless Chromium: both sides drawn, legible, and in step."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from servetune.compare.page import render_html
from tests.browser.pages import CROWDED_TEXT, FAINT_TEXT, Scheme, attribute, opened, unfold
from tests.compare_data import make_comparison

LINES = "[data-chart='tradeoff-ttft'] .role-mark.mark-line path"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compared") / "compare.html"
    path.write_text(render_html(*make_comparison()), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_both_sides_are_drawn_and_legible(
    browser: Browser, compared: Path, width: int, scheme: Scheme
) -> None:
    with opened(browser, compared, width, scheme) as page:
        lines = page.locator(LINES)
        expect(lines).to_have_count(2 * 4)
        dashes = [line.get_attribute("stroke-dasharray") for line in lines.all()]
        assert len({*dashes}) == 2 and all(dashes.count(each) == 4 for each in {*dashes})
        assert len({attribute(line, "stroke") for line in lines.all()}) == 4
        page.locator("button[data-variant='eagle3']").click()
        expect(lines).to_have_count(2 * 3)
        assert page.evaluate(CROWDED_TEXT) == []
        unfold(page)
        assert page.evaluate(FAINT_TEXT) == []
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
