"""One look for page and charts: colours by theme, and one colour and shape per variant.

The baseline is always ink and a circle. The colours of the others keep their distance under
deuteranopia, protanopia and tritanopia (Machado 2009) for the first six, and at least 3:1 to the
background for all (WCAG 1.4.11); the shape says the same once more.
"""

from dataclasses import dataclass
from typing import Any

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif'

TOKENS = {
    "light": {
        "page": "#ffffff",
        "raised": "#f5f6f8",
        "ink": "#1c2026",
        "muted": "#565e69",
        "line": "#dfe3e8",
        "accent": "#0060a8",
        "bad": "#a3260b",
        "warn": "#7a5200",
    },
    "dark": {
        "page": "#14171b",
        "raised": "#1d2127",
        "ink": "#e9ecef",
        "muted": "#a6aeb9",
        "line": "#343a43",
        "accent": "#6db6f7",
        "bad": "#ff9a80",
        "warn": "#f0c05a",
    },
}

SERIES = (
    ("#0069b4", "#4ea3f1"),
    ("#d9560b", "#f5883f"),
    ("#1fa37c", "#2f9e7c"),
    ("#8a2f7d", "#c97fc0"),
    ("#7a5800", "#fad26b"),
    ("#7f8fd9", "#6f6bdc"),
    ("#6b1d1d", "#d1524a"),
    ("#c76a96", "#8fe0c8"),
    ("#2938aa", "#fba4bf"),
    ("#44610d", "#9db04a"),
    ("#0e93a8", "#3d7fa8"),
)
"""The colours of the other variants, in the light and in the dark theme."""

PARTS = (
    ("#8a929c", "#6f7883"),
    ("#5b7fa3", "#93aeca"),
    ("#23405c", "#d3e0ee"),
    ("#d11149", "#ff5c8a"),
)
"""The parts of a latency: three shades for the engine's, and one that no variant has."""

# In a box from -1 to 1, as Vega scales them; the page's legend draws the same paths.
BASELINE_SHAPE = "M0.8,0A0.8,0.8,0,1,1,-0.8,0A0.8,0.8,0,1,1,0.8,0Z"
SHAPES = (
    "M-0.75,-0.75H0.75V0.75H-0.75Z",
    "M0,-0.95L0.95,0.75H-0.95Z",
    "M0,-1L1,0L0,1L-1,0Z",
    "M-0.95,-0.75H0.95L0,0.95Z",
    "M-0.3,-0.9H0.3V-0.3H0.9V0.3H0.3V0.9H-0.3V0.3H-0.9V-0.3H-0.3Z",
    "M0.9,-0.95L-0.8,0L0.9,0.95Z",
    "M-0.9,-0.95L0.8,0L-0.9,0.95Z",
)
SIDE_SHAPES = (BASELINE_SHAPE, SHAPES[2])
"""Where two runs are laid over each other: of the first, and of what it is compared with."""


@dataclass(frozen=True)
class Style:
    """How one variant looks in every chart: its place in the legend, colours and shape."""

    variant: str
    light: str
    dark: str
    shape: str


def styles(variants: list[str], baseline: str) -> list[Style]:
    """Give each variant its look, the baseline first; colours repeat after eleven others."""
    ink = Style(baseline, TOKENS["light"]["ink"], TOKENS["dark"]["ink"], BASELINE_SHAPE)
    others = [variant for variant in variants if variant != baseline]
    coloured = [
        Style(variant, *SERIES[index % len(SERIES)], SHAPES[index % len(SHAPES)])
        for index, variant in enumerate(others)
    ]
    return [ink, *coloured] if baseline in variants else coloured


def vega_config(theme: str, looks: list[Style]) -> dict[str, Any]:
    """Make the Vega-Lite configuration of a theme; the charts themselves name no colour."""
    token = TOKENS[theme]
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": token["muted"],
            "titleColor": token["muted"],
            "gridColor": token["line"],
            "domainColor": token["line"],
            "tickColor": token["line"],
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelOverlap": True,
            "labelPadding": 6,
        },
        "legend": {
            "labelColor": token["muted"],
            "labelFontSize": 12,
            "symbolStrokeColor": token["muted"],
        },
        "rect": {"color": token["raised"]},
        "rule": {"color": token["ink"]},
        "text": {"color": token["muted"], "fontSize": 11},
        "bar": {"color": token["muted"]},
        "line": {"strokeWidth": 2, "color": token["muted"]},
        "range": {
            "category": [getattr(look, theme) for look in looks],
            "symbol": [look.shape for look in looks],
            "ordinal": [light if theme == "light" else dark for light, dark in PARTS],
        },
    }
