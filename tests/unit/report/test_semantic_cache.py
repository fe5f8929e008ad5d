"""A cache that answers wrongly is marked wherever it is named, and its errors are on the page."""

import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from servetune.analysis.cached import caches, share_of
from servetune.records.cached import CachedAnswers, KindOfQuestion, WrongHit
from servetune.report.answer.view import sentences
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.marks import POOR
from servetune.report.section import Fit
from servetune.report.semantic_cache.section import section
from servetune.report.semantic_cache.view import saved, warnings
from tests.report_data import ReportData, make_data, make_quickstart_plan

WRONG = WrongHit(kind="negation", asked="Disable <it>?", answered="Enable it?", similarity=0.9)


def row(variant: str, wrong: int, bound: float | None = 0.01) -> dict[str, Any]:
    kinds = [
        KindOfQuestion(name="negation", requests=100, hits=40, wrong=wrong),
        KindOfQuestion(name="paraphrase", requests=500, hits=200, wrong=0),
    ]
    told = CachedAnswers(
        **{"requests": 600, "exact": 60, "semantic": 180, "misses": 360, "bypassed": 0},
        **{"wrong": wrong, "unknown": 0, "hit_e2e_p50_ms": 30.0, "miss_e2e_p50_ms": 900.0},
        first_wrong=[WRONG] if wrong else [],
    )
    return {
        **{"variant": variant, "workload": "text", "load_point": "c8", "repeat": 1},
        **told.model_dump(),
        "kinds": json.dumps([kind.model_dump() for kind in kinds]),
        "first_wrong": json.dumps([hit.model_dump() for hit in told.first_wrong]),
        "max_wrong_answers": bound,
    }


@pytest.fixture(scope="module")
def data() -> ReportData:
    table = pd.DataFrame([row("w8a8", 40), row("eagle3", 0)])
    return replace(make_data(make_quickstart_plan(repeats=3)), cached=table)


def test_a_cache_that_answers_wrongly_is_marked_before_any_speed(data: ReportData) -> None:
    assert "w8a8" in data.failing and "eagle3" not in data.failing
    page, markdown = render_html(data), render_markdown(data)
    for text in (page, markdown):
        head = text[: text.index("Answers from a cache")]
        assert f"{POOR} Wrong answers beyond the bound of 1" in head and ": w8a8 6.7" in head
    assert any("But w8a8 answers wrongly." in said for _, said in sentences(data))


def test_caches_that_answer_wrongly_share_a_sentence() -> None:
    """Each in one of its own, the speeds would not be on the first screen."""
    (line,) = warnings(pd.DataFrame([row("w8a8", 40), row("eagle3", 0), row("w4a16", 30)]))
    assert ": w8a8 6.7" in line and ", w4a16 5" in line and "eagle3" not in line
    assert not warnings(pd.DataFrame([row("eagle3", 0)]))


@pytest.mark.parametrize(
    ("gain", "said"), [(1.2, "a saves most: 1.20 times"), (0.97, "none saves requests: a has 0.97")]
)
def test_a_cache_that_keeps_the_bound_and_saves_nothing_is_told_so(gain: float, said: str) -> None:
    (key,) = found = caches(pd.DataFrame([row("a", 0)]))
    assert said in saved(found, {key: gain})


def test_the_page_names_wrong_answers_and_tells_kinds_with_intervals(data: ReportData) -> None:
    made = section(data)
    assert made is not None
    markdown = made.markdown(Fit())
    assert markdown is not None
    assert "got the answer to" in markdown and "(0.900 alike)" in markdown
    assert "Wrong: negation" in markdown and "Wrong: paraphrase" not in markdown
    assert "eagle3 saves most" in markdown
    page = render_html(data)
    assert "Disable &lt;it&gt;?" in page and "Disable <it>" not in page


def test_a_bound_is_decided_by_the_interval() -> None:
    found = caches(pd.DataFrame([row("a", 40), row("b", 0), row("c", 6), row("d", 9, None)]))
    verdicts = {variant: cache.verdict for (_, _, variant), cache in found.items()}
    assert verdicts == {"a": "fails", "b": "passes", "c": "undecided", "d": None}


def test_launches_of_a_variant_are_taken_together() -> None:
    (cache,) = caches(pd.DataFrame([row("a", 4), {**row("a", 6), "repeat": 2}])).values()
    assert (cache.wrong.count, cache.wrong.of) == (10, 1200)
    assert cache.kinds["negation"].of == 200


def test_a_share_has_its_score_interval() -> None:
    found = share_of(1, 10)
    assert found is not None
    # Newcombe 1998, Stat. Med. 17, table I, method 3: 1 of 10 would be 0.0179 to 0.4042.
    assert (round(found.low, 4), round(found.high, 4)) == (0.0179, 0.4042)
    assert share_of(0, 0) is None
