"""What the page is made with: its templates, the program that draws its charts, its colours."""

import base64
import contextlib
import hashlib
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from servetune.engines.environments import cache_root
from servetune.files import write_text
from servetune.report import verdicts, wording
from servetune.report.palette import FONT, TOKENS, Style
from servetune.report.quality import words as quality

HERE = Path(__file__).parent
CHARTS_VEGA_LITE = "6.4"


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return where the templates are, with the filters that they use."""
    made = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": True}
    made.filters |= {
        "number": wording.number,
        "ratio": wording.ratio,
        "percent": wording.percent,
        "share": wording.share,
        "whole": wording.whole,
        "estimate": quality.estimate,
        "text": wording.text_of,
        "where": wording.where_of,
        "interval": verdicts.interval,
        "wanting": verdicts.wanting,
    }
    return made


def bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one program, once for all charts.

    Kept in the cache, as bundling takes longer than the rest of the page; where the cache cannot
    be written, a report does without it.
    """
    name = f"vega-lite-{CHARTS_VEGA_LITE}-vl-convert-{version('vl-convert-python')}.js"
    kept = cache_root() / "charts" / name
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    made = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=CHARTS_VEGA_LITE
    )
    with contextlib.suppress(OSError):
        write_text(kept, made)
    return made


def script_hash(script: str) -> str:
    """Return the SHA-256 of a script as a Content-Security-Policy names it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def variables(looks: list[Style]) -> str:
    """Return colours as CSS variables, by theme: nothing in here comes from users."""

    def declare(theme: str) -> str:
        tokens = [f"--{name}:{value}" for name, value in TOKENS[theme].items()]
        series = [f"--v{index}:{getattr(look, theme)}" for index, look in enumerate(looks)]
        return ";".join([*tokens, *series])

    light = f":root{{color-scheme:light dark;--font:{FONT};{declare('light')}}}"
    return f"{light}@media (prefers-color-scheme:dark){{:root{{{declare('dark')}}}}}"
