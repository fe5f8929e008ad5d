"""Pictures of the report, to look at before a release: light and dark, at two widths.

`uv run python -m tests.browser.pictures FOLDER [STUDY ...]`: by default of the recorded
`h200-headline`, of which `docs/report.png` is made anew too, and `h200-capacity`, and of two
with made numbers: the quickstart launched once, and twelve variants.
"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from servetune.report.html import render_html
from servetune.report.measured import Measured
from servetune.report.reading import read_measured
from tests.browser.conftest import launch
from tests.browser.pages import Scheme, opened
from tests.paths import ROOT
from tests.recorded import plan_of, results_of
from tests.report_data import make_data, make_quickstart_plan, make_twelve_variants

SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SHOWN = "h200-headline"


def main(folder: Path, names: list[str]) -> None:
    """Write a report and four pictures of each into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for name in names or ["quickstart", SHOWN, "h200-capacity", "twelve"]:
            page = folder / f"{name}.html"
            page.write_text(render_html(measured(name)), encoding="utf-8")
            shoot(browser, page)
        browser.close()


def measured(name: str) -> Measured:
    """Read a recorded study, or make one."""
    if name == "quickstart":
        return make_data()
    if name == "twelve":
        return make_data(make_twelve_variants(make_quickstart_plan(repeats=3)))
    return read_measured(plan_of(name), results_of(name).parents[1])


def shoot(browser: Browser, path: Path) -> None:
    """Take the pictures of a page, each of all of it."""
    for width in (1400, 390):
        for scheme in SCHEMES:
            with opened(browser, path, width, scheme) as page:
                picture = path.with_name(f"{path.stem}-{width}-{scheme}.png")
                page.screenshot(path=picture, full_page=True)
                print(picture)
    if path.stem == SHOWN:
        with opened(browser, path) as page:
            first = page.locator("#answer").bounding_box()
            assert first
            clip = {"x": 0.0, "y": 0.0, "width": 1280.0, "height": first["y"] + first["height"]}
            page.screenshot(path=ROOT / "docs" / "report.png", clip=clip, full_page=True)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
