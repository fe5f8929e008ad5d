"""The report tells who fails the bounds of quality, before it tells who is fast."""

import io
import json
import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from servetune.analysis.wording import first_sentence
from servetune.plan.planned import Plan
from servetune.report.answer.view import grid
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.quality import view as quality
from servetune.report.quality.section import section as quality_section
from servetune.report.terminal import render_terminal
from servetune.tables.quality import metrics, qualities
from tests.quality_data import BOUNDS, make_failed, make_quality, make_record
from tests.report_data import HOSTILE, ReportData, make_data, make_quickstart_plan

pytestmark = pytest.mark.slow

SAID = (
    "fp8-kv fails the bounds of quality: its perplexity is 1.310x that of bf16 (bound 1.02x) and"
    " its most likely token is that of bf16 at 82.0 % of positions (bound 95 %)."
)


def words(text: str) -> str:
    plain = text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MULTIPLICATION SIGN}", "x")
    return " ".join(plain.split())


@pytest.fixture(scope="module")
def made() -> tuple[ReportData, Plan, pd.DataFrame]:
    plan, table = make_quality(make_quickstart_plan(repeats=3))
    return make_data(plan), plan, table


def section(page: str) -> str:
    found = re.search(r'<section id="quality">.*?</section>', page, re.DOTALL)
    return found[0] if found else ""


def test_a_variant_that_fails_is_told_in_the_answer_of_every_report(made: Any) -> None:
    data, _, table = made
    printed = io.StringIO()
    Console(width=200, file=printed).print(render_terminal(replace(data, answers=table)))
    page = words(render_html(replace(data, answers=table)))
    markdown = words(render_markdown(replace(data, answers=table)))
    for text in (page, markdown, words(printed.getvalue())):
        assert SAID in text.replace("\\", "")
    assert page.index(SAID) < page.index('class="headline"')
    assert markdown.index(SAID) < markdown.index("output throughput")


def test_the_interval_of_a_perplexity_stands_on_a_line_of_its_own_in_the_answer(made: Any) -> None:
    data, _, table = made
    answer = grid(replace(data, answers=table))
    assert answer is not None
    (at,) = (i for i, head in enumerate(answer.heads) if head.title.startswith("Perplexity"))
    cell = answer.rows["fp8-kv"][at]
    assert (cell.verdict, cell.figure) == ("fails", "1.310\N{MULTIPLICATION SIGN}")
    assert re.fullmatch(r"\[[\d.]+, [\d.]+\]", cell.remark)


def test_a_best_variant_that_fails_is_named_with_what_it_costs(made: Any) -> None:
    data, plan, _ = made
    poor = {name: make_record(name, 0 if name == "bf16" else 0.3) for name in plan.variants}
    table = qualities(plan, poor)
    page = words(render_html(replace(data, answers=table)))
    said = r"w8a8 \([\d.]+x\).*? faster than bf16.*?\. But w8a8 fails the bounds"
    assert re.search(said, page)


def test_it_is_marked_wherever_it_is_named(made: Any) -> None:
    data, _, table = made
    page = render_html(replace(data, answers=table))
    verdicts = re.search(r'<table class="verdicts">.*?</table>', page, re.DOTALL)
    assert verdicts is not None
    marks = re.findall(r"</svg></span>|</svg>([\w-]+)<sup title=\"fails the bounds", verdicts[0])
    assert set(marks) == {"fp8-kv"}
    markdown = render_markdown(replace(data, answers=table))
    rows = [line for line in markdown.splitlines() if line.startswith("| text")]
    assert all(("fp8-kv ‡" in row) == ("fp8-kv" in row) for row in rows)
    assert any("fp8-kv ‡" in row for row in rows)


def test_the_section_has_a_row_a_variant(made: Any) -> None:
    data, _, table = made
    told = words(section(render_html(replace(data, answers=table))))
    for text in (
        "1.310x [",
        "82.0 % [",
        "Bounds, against bf16: a perplexity of at most 1.02x its own and its most likely token",
        '<span class="verdict fails">fails</span>',
        '<span class="verdict passes">passes</span>',
        "the server refused a document: no prompt_logprobs",
        "lm-evaluation-harness",
        "0.62",
    ):
        assert text in told, text


def test_each_row_of_the_markdown_has_a_cell_below_every_head(made: Any) -> None:
    data, _, table = made
    markdown = render_markdown(replace(data, answers=table))
    for block in re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}) == 1, block


def test_a_variant_without_answers_is_told_with_its_reason(made: Any) -> None:
    _, plan, table = made
    assert (
        "The quality of eagle3 is undecided: the server refused a document: no prompt_logprobs."
        in quality.warnings(plan, table)
    )


def test_the_charts_show_interval_and_bound_and_say_so(made: Any) -> None:
    data, _, table = made
    found = quality_section(replace(data, answers=table))
    assert found is not None
    charts = {name: chart for name, chart in found.charts.items() if chart}
    assert set(charts) == {"quality-perplexity", "quality-top1"}
    for chart in charts.values():
        assert [row["variant"] for row in chart["datasets"]["rows"]] == ["w8a8", "fp8-kv"]
        assert "fp8-kv" in chart["description"] and "Bound: " in chart["description"]
    assert charts["quality-perplexity"]["datasets"]["bounds"][0]["value"] == 1.02
    assert charts["quality-top1"]["datasets"]["bounds"][0]["value"] == 0.95
    assert '"align": "left"' in json.dumps(charts["quality-perplexity"])
    passing = replace(data, answers=table[table["variant"] != "fp8-kv"])
    beyond = quality_section(passing)
    assert beyond is not None
    aligned = json.dumps(beyond.charts["quality-perplexity"])
    assert '"align": "right"' in aligned, "its label stands where there is room"


def test_a_perplexity_beyond_all_numbers_fails_and_breaks_no_chart() -> None:
    plan = make_quickstart_plan().model_copy(update={"quality": BOUNDS})
    broken = make_record("w8a8", 9999)
    table = qualities(plan, {"bf16": make_record("bf16", 0), "w8a8": broken})
    assert table.set_index("variant").loc["w8a8", "verdict"] == "fails"
    found = quality_section(replace(make_data(plan), answers=table))
    assert found is not None and found.charts["quality-perplexity"] is None
    assert "perplexity_ratio" not in metrics(table)["w8a8"]


def test_a_study_that_does_not_ask_has_no_section(made: Any) -> None:
    data, plan, _ = made
    silent = plan.model_copy(update={"quality": None})
    empty = qualities(silent, {})
    asked_nothing = replace(data, plan=silent, answers=empty)
    assert not section(render_html(asked_nothing))
    assert "### Quality" not in render_markdown(asked_nothing)


def test_without_bounds_there_are_numbers_and_no_verdict(made: Any) -> None:
    data, plan, _ = made
    asked = BOUNDS.model_copy(update={"max_perplexity_ratio": None, "min_top1_agreement": None})
    plan = plan.model_copy(update={"quality": asked})
    table = qualities(plan, {name: make_record(name, 0.3) for name in ("bf16", "w8a8")})
    told = section(render_html(replace(data, plan=plan, answers=table)))
    assert "declares no bound" in told and "no bound</span>" in told
    assert quality.warnings(plan, table) == []


def test_text_of_a_server_is_escaped(made: Any) -> None:
    data, plan, _ = made
    table = qualities(plan, {"bf16": make_failed("bf16", HOSTILE[0])})
    page = render_html(replace(data, answers=table))
    assert HOSTILE[0] not in page
    assert HOSTILE[0] not in render_markdown(replace(data, answers=table))


def test_a_long_reason_is_told_whole_once_and_by_its_first_sentence_above() -> None:
    why = "the server did not start: it needs 19.07 GiB of KV cache (of 1.0 GiB). Try it."
    assert first_sentence(why) == why.removesuffix(". Try it.")
    assert first_sentence("died.") == "died" and first_sentence("died") == "died"
