"""`summary.html`: one file that holds its data, its charts and the program that draws them.

Nothing is fetched, and a Content-Security-Policy says so: only the two scripts of this file run,
known by their hashes. All text that users gave goes through Jinja's escaping, and into the data
of the charts as JSON whose `<`, `>` and `&` are escaped.
"""

import base64
import contextlib
import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from servetune import numbers
from servetune.analysis import wording
from servetune.engines.environments import cache_root
from servetune.errors import UserError, reason_of
from servetune.files import sha256, write_text
from servetune.report import provenance, verdicts
from servetune.report.grammar import Spec
from servetune.report.marks import POOR
from servetune.report.measured import Measured
from servetune.report.palette import FONT, TOKENS, Style, styles, vega_config
from servetune.report.quality.view import estimate
from servetune.report.section import Section, sections, unmade
from servetune.tables.frames import grouped

HERE = Path(__file__).parent

SCRIPTS = ("tables.js", "page.js")

LONGEST_UNBROKEN = 24
"""Characters: a longer word, kept whole, would widen a table. A judgement."""

CHARTS_VEGA_LITE = "6.4"
CHARTS_SHA256 = "373b1f84072b31010f15ceb787be6b415c53936411aae267c8c2b2b6ccde46e7"
"""Of the program that vl-convert 1.9.0.post1 bundles."""


def render_html(measured: Measured) -> str:
    """Render the report as one self-contained page.

    A section whose template raises is marked.
    """
    made = sections(measured)
    try:
        return _page(measured, made)
    except Exception:
        whole = [_renderable(measured, section) for section in made]
        measured.lacks.extend(line for s in whole if s not in made for line in s.lacks)
        return _page(measured, whole)


def _renderable(measured: Measured, section: Section) -> Section:
    try:
        _page(measured, [section])
        return section
    except Exception as error:
        return unmade(section.anchor, reason_of(error))


def _page(measured: Measured, shown: list[Section]) -> str:
    plan, table, sessions = measured.plan, measured.table, measured.sessions
    return render_page(
        "page.html.j2",
        styles(plan.variants, plan.baseline),
        {
            name: _labelled(spec, measured.labels)
            for section in shown
            for name, spec in section.drawn.items()
        },
        plan=plan,
        parts=grouped(shown, lambda section: section.part),
        anchors={section.anchor for section in shown},
        labels=measured.labels,
        dummies=measured.dummies,
        failing=measured.failing,
        hosts=provenance.hosts(table, sessions),
        commits=provenance.commits(table, sessions),
        versions=provenance.versions(plan, table, sessions),
    )


def render_page(
    template: str, looks: list[Style], charts: Mapping[str, Spec], **words: object
) -> str:
    """Render a page of charts that extends `frame.html.j2`, self-contained.

    `template` is a path below `report/` or below the package. `words` are what it shows, and
    `labels`, `dummies` and `failing`: what variants are called, and their marks.
    """
    scripts = [bundle(), *((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)]
    return (
        _environment()
        .get_template(template)
        .render(
            **words,
            charts=charts,
            legend=looks,
            looks={look.variant: index for index, look in enumerate(looks)},
            themes={theme: vega_config(theme, looks) for theme in TOKENS},
            poor=POOR,
            style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
            variables=Markup(_variables(looks)),
            scripts=map(Markup, scripts),
            script_hashes=map(_script_hash, scripts),
        )
    )


def _labelled(part: Any, labels: Mapping[str, str]) -> Any:
    """Put short names of candidates wherever a chart holds their own."""
    if not labels:
        return part
    if isinstance(part, dict):
        return {name: _labelled(value, labels) for name, value in part.items()}
    if isinstance(part, list):
        return [_labelled(value, labels) for value in part]
    return labels.get(part, part) if isinstance(part, str) else part


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Return where the templates are, with the filters that they use."""
    environment = Environment(
        loader=FileSystemLoader([HERE, HERE.parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": True}
    environment.filters |= {
        "number": numbers.number,
        "ratio": wording.ratio,
        "unbroken": unbroken,
        "percent": numbers.percent,
        "share": numbers.share,
        "whole": numbers.whole,
        "estimate": estimate,
        "text": wording.text_of,
        "where": wording.where_of,
        "interval": verdicts.interval,
        "verdict": verdicts.word_of,
        "wanting": verdicts.wanting,
    }
    return environment


def unbroken(text: str) -> Markup:
    """Keep a short word on one line, such as EAGLE-3 or fp8-kv: a browser breaks at hyphens."""
    kept = Markup('<span class="nowrap">{}</span>')
    words = re.split(r"(\s+)", text)
    return Markup("").join(
        kept.format(word) if "-" in word and len(word) <= LONGEST_UNBROKEN else word
        for word in words
    )


def bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one program, once for all charts.

    Kept in the cache, as bundling takes longer than the rest of the page; where the cache cannot
    be written, a report does without it. What the cache holds runs on the page, so it is taken
    only if it is what `CHARTS_SHA256` says; another version of vl-convert bundles each time.
    """
    name = f"vega-lite-{CHARTS_VEGA_LITE}-vl-convert-{version('vl-convert-python')}.js"
    kept = cache_root() / "charts" / name
    if kept.is_file() and sha256(kept) == CHARTS_SHA256:
        return kept.read_text(encoding="utf-8")
    made = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=CHARTS_VEGA_LITE
    )
    with contextlib.suppress(UserError):
        write_text(kept, made)
    return made


def _script_hash(script: str) -> str:
    """Return the SHA-256 of a script as a Content-Security-Policy names it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _variables(looks: list[Style]) -> str:
    """Return colours as CSS variables, by theme: nothing in here comes from users."""

    def declare(theme: str) -> str:
        tokens = [f"--{name}:{value}" for name, value in TOKENS[theme].items()]
        series = [f"--v{index}:{getattr(look, theme)}" for index, look in enumerate(looks)]
        return ";".join([*tokens, *series])

    light = f":root{{color-scheme:light dark;--font:{FONT};{declare('light')}}}"
    return f"{light}@media (prefers-color-scheme:dark){{:root{{{declare('dark')}}}}}"
