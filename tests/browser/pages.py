"""Reports in headless Chromium: how one is opened, and what is looked for in all of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, FloatRect, Locator, Page, expect

from servetune.report.html import render_html
from servetune.report.measured import Measured

Scheme = Literal["light", "dark"]

MARKS = ".role-mark:is(.mark-symbol, .mark-line, .mark-rect) path"
SHOWN = "figure:not([hidden]) [data-chart]"

PATIENCE_MS = 300_000
"""For what takes a moment, also on a machine that has much else to do."""

expect.set_options(timeout=PATIENCE_MS)


def write(data: Measured, folder: Path) -> Path:
    """Write a report into a folder."""
    path = folder / "summary.html"
    path.write_text(render_html(data), encoding="utf-8")
    return path


@contextmanager
def opened(
    browser: Browser, path: Path, width: int = 1280, scheme: Scheme = "light"
) -> Iterator[Page]:
    """Open a report offline; on leaving, fail if anything was requested or went wrong."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,
        offline=True,
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(PATIENCE_MS)
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
    assert complaints == [], complaints


def attribute(element: Locator, name: str) -> str:
    value = element.get_attribute(name)
    assert value is not None, name
    return value


def box_of(element: Locator) -> FloatRect:
    box = element.bounding_box()
    assert box is not None, "not visible"
    return box


def unfold(page: Page) -> None:
    """Open all that is folded, and wait until the page has made room for it."""
    page.evaluate(UNFOLD)


UNFOLD = """async () => {
  const folded = [...document.querySelectorAll("details:not([open])")];
  const toggled = folded.map(
    (fold) => new Promise((resolve) => fold.addEventListener("toggle", resolve, { once: true })),
  );
  for (const fold of folded) fold.open = true;
  await Promise.all(toggled);
  for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
}"""


# Text of a chart that meets other text, or leaves its chart.
CROWDED_TEXT = """() => {
  const crowded = [];
  for (const svg of document.querySelectorAll("[data-chart] svg")) {
    if (!svg.checkVisibility()) continue;
    const chart = svg.closest("[data-chart]").dataset.chart;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter(
      (text) =>
        text.textContent.trim() &&
        text.checkVisibility({ opacityProperty: true, visibilityProperty: true }),
    );
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((a, i) => {
      const isCut =
        a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1;
      if (isCut) crowded.push([chart, texts[i].textContent]);
      boxes.slice(i + 1).forEach((b, j) => {
        const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        const other = texts[i + 1 + j].textContent;
        if (width > 1 && height > 2) crowded.push([chart, texts[i].textContent, other]);
      });
    });
  }
  return crowded;
}"""


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
