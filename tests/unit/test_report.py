"""The renderings of a plan and its tables: complete, escaped, small, and never in the way."""

import json
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from rich.console import Console

from report_data import (
    HOSTILE,
    make_data,
    make_hostile_data,
    make_quickstart_plan,
    rename_variants,
)
from servetune.report import render_html, render_markdown, render_terminal


class Page(HTMLParser):
    """The tags, visible text and scripts of a page."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self._inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self.words.append(data)
        elif self._inside[-1] == "script":
            self.scripts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def charts(self) -> dict:
        return json.loads(self.scripts[0])["charts"]

    @property
    def places(self) -> set[str]:
        return {attrs["data-chart"] for _, attrs in self.tags if "data-chart" in attrs}


def _page(data) -> Page:
    return Page(render_html(*data.arguments))


@pytest.fixture(scope="module")
def page() -> Page:
    return _page(make_data())


def test_the_page_answers_first_and_holds_every_part(page):
    sections = [attrs["id"] for tag, attrs in page.tags if tag == "section"]
    assert " ".join(sections) == (
        "answer latency tradeoff speculation capacity problems measurements commands"
        " setup reproduce glossary"
    )
    for text in (
        "Which of w8a8",
        "AMD EPYC 7R13, 2 cores",
        "torch 2.13.0+cpu",
        "0b4e11e6a7c1",
        "All 16 measurements are ok.",
        "1,048,576",
        "uv run dvc exp run -S max_num_seqs=16",
        "A ratio is not a verdict",
    ):
        assert text in page.text


def test_every_place_for_a_chart_has_its_chart_and_every_chart_its_description(page):
    assert page.places == set(page.charts)
    assert len(page.charts) == 11
    assert all(len(chart["description"]) > 20 for chart in page.charts.values())


def test_the_page_asks_for_nothing_from_outside(page):
    sources = [a for _, attrs in page.tags for a in attrs if a in ("src", "srcset", "action")]
    links = [attrs.get("href", "") for _, attrs in page.tags if "href" in attrs]
    assert not sources
    assert links and all(link.startswith("#") for link in links)
    policy = next(a["content"] for t, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_the_page_of_the_quickstart_is_under_five_megabytes():
    assert len(render_html(*make_data().arguments).encode()) < 2_000_000


def test_the_same_tables_give_the_same_page():
    data = make_data()
    assert render_html(*data.arguments) == render_html(*data.arguments)


def test_hostile_text_is_shown_and_not_obeyed():
    data = make_hostile_data()
    html = render_html(*data.arguments)
    page = Page(html)
    assert not any(tag == "img" for tag, _ in page.tags)
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 3
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    for text in HOSTILE:
        assert " ".join(text.split()) in page.text
    data_block = re.search(r'id="charts">(.*?)</script>', html, re.S).group(1)
    assert not re.search("[<>&']", data_block)


def test_names_of_users_never_enter_an_expression_of_a_chart():
    page = _page(make_hostile_data())

    def expressions(value):
        if isinstance(value, dict):
            for key, inner in value.items():
                if key in ("filter", "calculate", "expr", "labelExpr"):
                    yield str(inner)
                else:
                    yield from expressions(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from expressions(inner)

    found = list(expressions(page.charts))
    assert found
    assert not any(name in expression for name in HOSTILE for expression in found)


def test_a_failed_variant_has_its_row_its_reason_and_its_log():
    reason = "max_model_len 400000 is above the KV-cache capacity of 262144 tokens"
    data = make_data(failed={"eagle3": reason}, log_tail=["the last words"])
    for text in (_page(data).text, render_markdown(*data.arguments)):
        assert "12 of 16 measurements are ok, 4 failed." in text
        assert reason in text
        assert "the last words" in text
        assert "no ok measurement of eagle3" in text


def test_an_invalid_measurement_names_its_rule():
    data = make_data(invalid={"w8a8-text-c8": "the client waited"})
    for text in (_page(data).text, render_markdown(*data.arguments)):
        assert "client_kept_up" in text and "the client waited" in text


def test_a_failed_baseline_is_told_and_the_others_keep_their_numbers():
    data = make_data(failed={"bf16": "no room"})
    page = _page(data)
    assert "the baseline bf16 has no ok measurement" in page.text
    assert not any(name.startswith("ratio-") for name in page.charts)
    assert page.places == set(page.charts)
    assert "the baseline bf16 has no ok measurement" in render_markdown(*data.arguments)


def test_a_study_without_an_ok_measurement_still_has_its_report():
    names = ("bf16", "w8a8", "fp8-kv", "eagle3")
    data = make_data(failed=dict.fromkeys(names, "no engine"))
    page = _page(data)
    assert "No measurement is ok" in page.text
    assert page.places == set(page.charts) == set()
    assert "No measurement is ok" in render_markdown(*data.arguments)
    _terminal(data)


@pytest.mark.parametrize("variant", ["bf16", "w8a8"])
def test_one_variant_alone_is_rendered(variant):
    data = make_data(make_quickstart_plan(variants=[variant]))
    page = _page(data)
    assert page.places == set(page.charts)
    assert "speculation" not in {attrs.get("id") for _, attrs in page.tags}
    assert variant in render_markdown(*data.arguments)


def test_twelve_variants_each_look_different():
    plan = make_quickstart_plan()
    session = plan.sessions[0]
    names = [f"v{i}.[x]" for i in range(12)]
    sessions = [
        session.model_copy(
            update={
                "id": f"s{i}",
                "variant": name,
                "measurements": [
                    m.model_copy(update={"id": f"{name}-{m.id}"}) for m in session.measurements
                ],
            }
        )
        for i, name in enumerate(names)
    ]
    plan = plan.model_copy(update={"sessions": sessions, "variants": names, "baseline": names[0]})
    page = _page(make_data(plan))
    themes = json.loads(page.scripts[0])["themes"]
    for theme in themes.values():
        looks = list(zip(*theme["range"].values(), strict=True))
        assert len(set(looks)) == 12


def test_missing_session_records_are_named_and_cost_nothing_else():
    data = make_data()
    absent = data.plan.sessions[0].id
    sessions = {id: s for id, s in data.sessions.items() if id != absent}
    page = Page(render_html(data.plan, data.table, data.quantiles, sessions))
    assert f"No record of 1 session: {absent}." in page.text
    none = Page(render_html(data.plan, data.table, data.quantiles, {}))
    assert "not recorded" in none.text and "vllm 0.32.0" in none.text
    assert "VLLM_CPU_KVCACHE_SPACE=1" in none.text
    render_markdown(data.plan, data.table, data.quantiles, {})


def test_rows_from_different_hosts_are_pointed_out():
    data = make_data()
    other = make_data(host="Intel Xeon 8488C").sessions
    first = data.plan.sessions[0].id
    sessions = {**data.sessions, first: other[first]}
    text = Page(render_html(data.plan, data.table, data.quantiles, sessions)).text
    assert "measured on 2 different hosts" in text


def test_dummy_weights_are_said_plainly():
    data = make_data()
    table = data.table.assign(is_dummy=True)
    arguments = (data.plan, table, data.quantiles, data.sessions)
    assert "Speed is real; text, quality and acceptance" in Page(render_html(*arguments)).text
    assert "Weights are dummy" in render_markdown(*arguments)


def test_tables_read_from_parquet_render_the_same(tmp_path):
    data = make_data(failed={"w8a8-text": "died"})
    data.table.to_parquet(tmp_path / "t.parquet")
    data.quantiles.to_parquet(tmp_path / "q.parquet")
    table, quantiles = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in "tq")
    again = render_html(data.plan, table, quantiles, data.sessions)
    assert Page(again).text == _page(data).text


def test_the_markdown_table_has_a_cell_a_column_whatever_the_names():
    data = make_hostile_data()
    lines = render_markdown(*data.arguments).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| Workload"))
    rows = [line for line in lines[start:] if line.startswith("|")][:18]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert not any("<" in line.replace("<details>", "") for line in lines[:start])


def test_the_markdown_of_a_log_cannot_leave_its_fence():
    data = make_data(failed={"w8a8": "x"}, log_tail=["```", "# heading", "````", "@everyone"])
    text = render_markdown(*data.arguments)
    assert "`````\n```\n# heading\n````\n@everyone\n`````" in text


def test_the_markdown_fits_a_comment_however_large_the_study():
    plan = make_quickstart_plan(repeats=60)
    log = ["x" * 200] * 40
    data = make_data(plan, failed={"eagle3": "no"}, log_tail=log)
    assert len(render_markdown(*data.arguments)) < 65_536


def test_the_terminal_shows_a_row_a_load_point_with_its_ratio():
    text = _terminal(make_data(failed={"eagle3": "no"}))
    rows = [line for line in text.splitlines() if " text " in line or " guidellm " in line]
    assert len(rows) == 16
    assert sum("failed" in row for row in rows) == 4
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_terminal_reads_no_markup_in_names():
    plan = rename_variants(make_quickstart_plan(), {"w8a8": "[red]w8a8[/red]"})
    assert "[red]" in _terminal(make_data(plan), width=140)


def _terminal(data, width: int = 80) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(render_terminal(data.plan, data.table))
    return captured.get()
