"""The capacity within the SLO comes first in the report, and probes are compared with nothing."""

import io
import math
import re
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from servetune.analysis.capacities import Gain, gain, gains, gains_over_launches
from servetune.capacity.search import Capacity
from servetune.capacity.steadiness import Change
from servetune.plan.planned import Plan
from servetune.report.answer import view as answers
from servetune.report.capacity import charts, probes
from servetune.report.capacity import view as words
from servetune.report.capacity.launches import (
    ALL,
    before_each,
    launches_together,
    with_launches,
)
from servetune.report.html import render_html
from servetune.report.markdown import render_markdown
from servetune.report.terminal import render_terminal
from servetune.report.timeline import charts as timeline
from servetune.tables.capacity import metrics
from servetune.tables.frames import PENDING
from tests.search_data import ENDS, SearchData, make_searches

pytestmark = pytest.mark.slow

Results = dict[str, words.Found]


@pytest.fixture(scope="module")
def data() -> SearchData:
    return make_searches()


@pytest.fixture(scope="module")
def results(data: SearchData) -> Results:
    return {each.row["variant"]: each for each in words.found(data.report.plan, data.searched)}


def test_the_answer_says_what_each_variant_takes(data: SearchData, results: Results) -> None:
    ((place, within, said),) = words.sentences(list(results.values()))
    assert place == "live, strict"
    assert within == "TTFT p99 ≤ 100 ms and TPOT p99 ≤ 12 ms"
    bf16, w8a8, fp8, eagle3 = said.replace("\N{NO-BREAK SPACE}", " ").split("; ")[:4]
    assert bf16 == "bf16 takes 50.0 requests/s, by 25 s of load on one server"
    assert said.endswith(" TTFT p99 limits bf16.")
    assert w8a8.startswith(
        "w8a8 takes at least 200 requests/s (at least 3.20\N{MULTIPLICATION SIGN})"
    )
    assert fp8 == "fp8-kv does not meet it at the lowest load, 1.00 requests/s"
    assert eagle3.startswith("eagle3 has no answer, as its search failed (the server did not start")


def test_a_capacity_that_is_only_bounded_bounds_its_gain(results: Results) -> None:
    assert results["bf16"].gained == results["eagle3"].gained == "\N{EN DASH}"
    w8a8, fp8 = results["w8a8"].gain, results["fp8-kv"].gain
    assert w8a8 is not None and w8a8.ratio is None and w8a8.low == 200 / 62.5
    assert fp8 is not None and fp8.high == 1 / 40


def test_a_gain_is_the_same_from_either_side() -> None:
    one = {"ended": "found", "capacity": 60.0, "lower": 50.0, "upper": 80.0}
    base = {"ended": "found", "capacity": 40.0, "lower": 35.0, "upper": 44.0}
    there, back = gain(one, base), gain(base, one)
    assert there is not None and back is not None and back.low and back.high
    assert there.ratio == pytest.approx(1.5) and back.ratio == pytest.approx(1 / 1.5)
    assert there.low == pytest.approx(1 / back.high) and there.high == pytest.approx(1 / back.low)
    known = {**base, "lower": 40.0, "upper": 40.0}
    against_known = gain(one, known)
    assert against_known is not None and against_known.low == pytest.approx(50 / 40)


def search(variant: str, repeat: int, capacity: float, device: str = "a") -> dict[str, object]:
    """Make a row of the table of capacities, with an interval of 10 % to each side."""
    ends = {"capacity": capacity, "lower": capacity / 1.1, "upper": 1.1 * capacity}
    about = {"workload": "live", "tier": "strict", "ended": "found", "confidence": 0.95}
    return {"variant": variant, "repeat": repeat, "device": device, **ends, **about}


def test_a_gain_is_over_the_baseline_on_the_same_gpu() -> None:
    searches = [
        search("bf16", 1, 40.0, "a"),
        search("bf16", 2, 50.0, "b"),
        search("fp8", 1, 60.0, "b"),
        search("fp8", 2, 70.0, "c"),
        search("tp2", 1, 80.0, "a+c"),
    ]
    _, _, met, apart, wide = gains(pd.DataFrame(searches), "bf16")
    assert met is not None and met.ratio == pytest.approx(60 / 50) and not met.is_across
    assert apart is not None and apart.ratio == pytest.approx(70 / 50) and apart.is_across
    assert wide is not None and wide.ratio == pytest.approx(2) and not wide.is_across


def test_a_gain_over_launches_is_as_wide_as_launches_and_searches_ask() -> None:
    bf16 = [search("bf16", repeat, 40.0 + 0.01 * repeat) for repeat in (1, 2, 3)]
    alike = [search("fp8", repeat, 60.0 + 0.02 * repeat) for repeat in (1, 2, 3)]
    ((place, gain),) = gains_over_launches(pd.DataFrame(bf16 + alike), "bf16").items()
    assert place == ("live", "strict", "fp8") and gain.ratio == pytest.approx(1.5, rel=1e-3)
    # What each search says of itself: 1.1 to each side, over three launches of both.
    assert gain.high == pytest.approx(1.5 * 1.1 ** (2 / 3) ** 0.5, rel=1e-3)
    apart = [search("fp8", repeat, value) for repeat, value in ((1, 45.0), (2, 60.0), (3, 80.0))]
    ((_, wide),) = gains_over_launches(pd.DataFrame(bf16 + apart), "bf16").items()
    assert wide.ratio == pytest.approx(1.5, rel=1e-3) and wide.low is not None and wide.low < 1.1


def test_a_gain_over_launches_is_not_one_of_gpus() -> None:
    # GPU b is slower by a tenth, and both variants ran on it.
    speeds = {"a": 1.0, "b": 0.9}
    met = [
        search(variant, repeat, (at + 0.01 * repeat) * speeds[device], device)
        for variant, at in (("bf16", 40.0), ("fp8", 60.0))
        for repeat, device in enumerate("abab", 1)
    ]
    ((_, gain),) = gains_over_launches(pd.DataFrame(met), "bf16").items()
    assert gain.ratio == pytest.approx(1.5, rel=1e-3) and gain.low is not None and gain.low > 1.4
    apart = [
        search(variant, repeat, at + 0.01 * repeat, device)
        for variant, at, device in (("bf16", 40.0, "a"), ("fp8", 60.0, "b"))
        for repeat in (1, 2, 3)
    ]
    assert gains_over_launches(pd.DataFrame(apart), "bf16") == {}


def test_a_gain_over_launches_takes_two_of_each_and_none_that_is_only_bounded() -> None:
    bf16 = [search("bf16", repeat, 40.0) for repeat in (1, 2)]
    bounded = {**search("w8a8", 2, 60.0), "upper": None, "ended": "unbounded"}
    others = [search("fp8", 1, 60.0), search("w8a8", 1, 60.0), bounded]
    assert gains_over_launches(pd.DataFrame(bf16 + others), "bf16") == {}
    assert gains_over_launches(pd.DataFrame(others), "bf16") == {}


def test_repeats_are_told_by_those_with_an_answer_and_on_the_same_gpu(results: Results) -> None:
    bf16 = results["bf16"]
    there = Gain(1.5, 1.2, 1.8, is_across=True)
    pending = {**bf16.row, "ended": PENDING, "capacity": float("nan"), "seconds": 0.0}
    repeats = [
        replace(bf16, gain=Gain(1.2, 1.0, 1.4)),
        replace(bf16, gain=there),
        replace(bf16, row=pending),
    ]
    told = sentence_of(repeats)
    assert "over 2 of 3 repeats of 25 s of load (1.20\N{MULTIPLICATION SIGN})" in told
    alone = replace(bf16, gain=there)
    assert alone.gained.endswith("[1.20, 1.80], not on the same GPU")
    assert "1.50\N{MULTIPLICATION SIGN}, not on the same GPU" in sentence_of([alone])


def test_several_launches_are_told_by_one_capacity_with_its_interval(data: SearchData) -> None:
    searched, plan = data.searched, data.report.plan
    first = searched.capacities[searched.capacities["variant"].isin(["bf16", "w8a8"])]
    ends: dict[str, Any] = {
        "ended": "found",
        "lower": 40.0,
        "capacity": 50.0,
        "upper": 62.5,
        "device": "a",
    }
    twice = pd.concat([first.assign(**ends, repeat=repeat) for repeat in (1, 2)], ignore_index=True)
    is_w8a8 = twice["variant"] == "w8a8"
    twice.loc[is_w8a8, ["lower", "capacity", "upper"]] *= 1.5
    both = replace(searched, capacities=twice)
    found = with_launches(words.found(plan, both), twice, plan.baseline)
    narrower = math.sqrt(1.25 / 0.8) ** (1 / math.sqrt(2))
    for each in found:
        assert each.over is not None
        times = 1.5 if each.row["variant"] == "w8a8" else 1
        assert each.over.row["capacity"] == pytest.approx(times * 50)
        assert each.over.row["lower"] == pytest.approx(times * 50 / narrower)
        assert each.over.row["probes"] == 2 * each.row["probes"]
        assert each.over.ended == "found; over 2 launches"
    bf16, w8a8 = sentence_of(found).split("; ")[:2]
    assert bf16.startswith("bf16 takes 50.0 requests/s [42.7, 58.5] over 2 repeats of 25 s of load")
    assert "w8a8 takes 75.0 requests/s [64.1, 87.8]" in w8a8
    gain = gains_over_launches(twice, plan.baseline)["live", "strict", "w8a8"]
    assert f"(1.50\N{MULTIPLICATION SIGN} [{gain.low:.2f}, {gain.high:.2f}])" in w8a8
    nested = metrics(twice)
    assert nested["bf16"]["live"]["capacity_rps_lower"] == 42.7
    rows = before_each(found)
    assert [each.row["repeat"] for each in rows] == [ALL, 1, 2, ALL, 1, 2]
    assert [each.row["repeat"] for each in launches_together(found)] == [ALL, ALL]


def test_a_gain_over_one_search_of_the_baseline_is_told_wherever_the_capacity_is(
    data: SearchData,
) -> None:
    both = data.searched.capacities[data.searched.capacities["variant"].isin(["bf16", "w8a8"])]
    ends: dict[str, Any] = {"ended": "found", "lower": 40.0, "capacity": 50.0, "upper": 62.5}
    once = both.assign(**ends, device="a")
    more = once[once["variant"] == "w8a8"].assign(repeat=2)
    searched = replace(data.searched, capacities=pd.concat([once, more], ignore_index=True))
    given = replace(data, searched=searched)
    gain = "1.00\N{MULTIPLICATION SIGN}"
    assert "w8a8 takes 50.0 requests/s" in sentence_of(given.measured.deciding)
    assert f"({gain})" in sentence_of(given.measured.deciding)
    w8a8 = [each for each in given.measured.deciding if each.row["variant"] == "w8a8"]
    cell = answers.capacity_cell(w8a8)
    assert (cell.remark, cell.hint) == (gain, "2 searches")
    rows = [line for line in _terminal(given).splitlines() if line.startswith(" w8a8")]
    assert any("over 2 launches" in row and row.rstrip().endswith(gain) for row in rows)


def test_launches_of_which_one_found_only_a_bound_are_not_taken_together(data: SearchData) -> None:
    searched, plan = data.searched, data.report.plan
    bounded = searched.capacities[searched.capacities["variant"] == "w8a8"]
    twice = pd.concat([bounded.assign(repeat=repeat) for repeat in (1, 2)], ignore_index=True)
    found = words.found(plan, replace(searched, capacities=twice))
    assert all(each.over is None for each in with_launches(found, twice, plan.baseline))


def test_the_row_of_all_launches_says_no_more_than_its_searches(data: SearchData) -> None:
    searched, plan = data.searched, data.report.plan
    bf16 = searched.capacities[searched.capacities["variant"] == "bf16"]
    about = bf16.assign(ended="budget", is_steady=None, preemptions=math.nan)
    preempted = about.assign(preemptions=3.0, is_steady=True, repeat=2)
    twice = pd.concat([preempted, about], ignore_index=True)
    found = found_in(plan, searched, twice)
    over = with_launches(found, twice, plan.baseline)[0].over
    assert over is not None
    assert over.ended.startswith("probes used up; over 2 launches; 3 preemptions")
    assert over.cost == found[0].cost
    assert over.row["is_steady"] is None, "one of the two is not known to be"
    twice.loc[0, "ended"] = "found"
    over = with_launches(found_in(plan, searched, twice), twice, plan.baseline)[0].over
    assert over is not None and over.ended.startswith("found; over 2 launches")


def test_the_one_search_of_several_that_has_an_answer_has_its_interval(results: Results) -> None:
    bf16 = results["bf16"]
    failed = replace(bf16, row={**bf16.row, "ended": "failed", "capacity": None})
    cell = answers.capacity_cell([bf16, failed])
    assert (cell.figure, cell.remark) == ("50.0 [40.0, 62.5]", "1 search")


def test_a_gain_of_some_repeats_is_not_told_where_others_are_only_bounded(results: Results) -> None:
    bf16, w8a8 = results["bf16"], results["w8a8"]
    exact = replace(bf16, gain=Gain(1.2, 1.0, 1.4))
    bounded = replace(w8a8, row={**w8a8.row, "variant": "bf16"})
    assert "of load. " in sentence_of([exact, bounded])
    assert "of load (1.20\N{MULTIPLICATION SIGN}). " in sentence_of([exact, exact])


def test_searches_that_are_all_to_come_are_no_searches_without_an_answer(results: Results) -> None:
    reason = "not measured yet, 2 loads so far"
    row = {**results["bf16"].row, "ended": PENDING, "capacity": None, "reason": reason}
    pending = [replace(results["bf16"], row=row)] * 2
    assert sentence_of(pending) == f"bf16 is {reason}."
    assert answers.capacity_cell(pending) == answers.Cell(PENDING)


def test_the_upper_end_of_searches_of_which_one_has_none_is_not_told(data: SearchData) -> None:
    bf16 = data.searched.capacities[data.searched.capacities["variant"] == "bf16"]
    beyond: dict[str, Any] = {"capacity": 200.0, "lower": 200.0, "upper": math.nan}
    twice = pd.concat([bf16, bf16.assign(repeat=2, ended="unbounded", **beyond)])
    assert metrics(twice)["bf16"]["live"] == {"capacity_rps": 125, "capacity_rps_lower": 120}


def found_in(plan: Plan, searched: words.Searched, capacities: pd.DataFrame) -> list[words.Found]:
    return words.found(plan, replace(searched, capacities=capacities))


def sentence_of(found: list[words.Found]) -> str:
    ((_, _, said),) = words.sentences(found)
    return said.replace("\N{NO-BREAK SPACE}", " ")


def test_a_search_over_several_launches_says_so(results: Results) -> None:
    row = {**results["bf16"].row, "launches": 2, "device": "a+b"}
    several = replace(results["bf16"], row=row)
    assert several.ended == "found; over 2 launches on different GPUs"
    assert sentence_of([several]).startswith(
        "bf16 takes 50.0 requests/s, by 25 s of load over 2 launches on different GPUs"
    )
    assert results["bf16"].ended == "found"


@pytest.mark.parametrize("with_points", [False, True])
def test_probes_are_no_load_points(with_points: bool) -> None:
    data = make_searches(with_points=with_points)
    page, text = render_html(data.measured), render_markdown(data.measured)
    assert page.index("live, strict") < page.index('id="capacity"')
    assert "no answer yet" not in page + text
    comparison = re.search(r'<table class="comparison">.*?</table>', page, re.DOTALL)
    assert bool(comparison) == with_points
    assert "decides nothing" in text or not with_points
    places = re.findall(r'<option value="([^"]*)"', page)
    assert not any(place in ("live · r20", "live · r80") for place in places)
    assert not any(line.startswith("| live | r") for line in text.splitlines())
    every = page[page.index('id="measurements"') : page.index('id="commands"')]
    assert every.count(">r80<") == 3, "but they stay among all measurements"


def test_a_probe_of_which_no_request_settled_is_in_no_chart(data: SearchData) -> None:
    probes = data.searched.probes
    bare = replace(
        data.searched,
        probes=probes.assign(objective=probes["objective"].where(probes["probe"] != 1)),
    )
    seen = charts.observations(data.searched, data.report.table)
    assert 0 < len(charts.observations(bare, data.report.table)) < len(seen)


def test_every_end_of_a_search_has_its_row_in_the_markdown(data: SearchData) -> None:
    text = render_markdown(data.measured)
    rows = [line for line in text.splitlines() if line.startswith("| live · strict |")]
    for row, told in zip(
        rows, ("found", "a lower bound: kept", "violated at the lowest", "failed: "), strict=True
    ):
        assert told in row


def _terminal(data: SearchData) -> str:
    printed = io.StringIO()
    report = render_terminal(data.measured)
    Console(width=80, file=printed).print(report)
    return printed.getvalue()


def test_the_terminal_shows_the_capacities(data: SearchData) -> None:
    printed = _terminal(data)
    assert "at least 200" in printed and "40.0 to 62.5" in printed
    assert all(len(line) <= 80 for line in printed.splitlines())


def test_the_terminal_tells_below_the_capacities_why_a_search_failed(
    data: SearchData, results: Results
) -> None:
    lines = _terminal(data).splitlines()
    reason = results["eagle3"].row["reason"]
    assert reason.startswith("the server did not start")
    assert " ".join(lines).count(f"eagle3 has no capacity: {reason}") == 1
    (row,) = (line for line in lines if line.startswith(" eagle3"))
    assert " failed " in row and "server" not in row


def test_the_charts_show_every_probe_and_limit_and_say_so(
    data: SearchData, results: Results
) -> None:
    seen = charts.observations(data.searched, data.report.table)
    made = charts.drawn(list(results.values()), seen, data.report.plan.variants)
    drawn = {name: chart for name, chart in made.items() if chart}
    assert set(drawn) == {f"capacity-{of}" for of in ("rate", "violations", "latency", "goodput")}
    rows = drawn["capacity-violations"]["datasets"]["rows"]
    assert len(rows) == 3 * 3 * 2, "variants, probes, objectives"
    assert {row["value"] for row in rows} == {0.5 / 400, 8 / 400, 300 / 400}
    limits = drawn["capacity-latency"]["datasets"]["limits"]
    assert {row["value"] for row in limits} == {100.0, 12.0}
    for chart in drawn.values():
        assert "bf16" in chart["description"]


def test_the_chart_of_capacities_has_a_lane_for_what_it_shows_alone(results: Results) -> None:
    variants = ["bf16", "w8a8", "fp8-kv", "eagle3", *(f"unmeasured-{n}" for n in range(8))]
    chart = charts.capacity(list(results.values()), variants, "rate")
    assert chart is not None
    shown = {row["lane"] for row in chart["datasets"]["rows"]}
    lanes = [
        layer["encoding"]["yOffset"]["scale"]["domain"]
        for layer in chart["layer"]
        if "yOffset" in layer["encoding"]
    ]
    assert lanes and all(set(domain) == shown for domain in lanes)


def test_the_table_of_probes_tells_loads_verdicts_and_why_they_stopped(data: SearchData) -> None:
    told = probes.sent(data.report.table, data.searched)
    mine = [each for each in told if each.row["variant"] == "bf16"]
    assert [each.load for each in mine] == [4, 20, 50, 80]
    assert mine[0].verdicts == []
    assert [each.verdicts[0][1] for each in mine[1:]] == ["pass", "undecided", "fail"]
    assert [each.stopped for each in mine[1:]] == ["decided", "requests used up", "decided"]


def test_a_thousand_requests_at_the_slo_have_their_cost_where_the_study_has_a_price(
    data: SearchData, results: Results
) -> None:
    assert {each.cost for each in results.values()} == {"\N{EN DASH}"}, "without a price"
    plan = data.report.plan.model_copy(update={"price_usd_per_hour": 3.6})
    priced = {each.row["variant"]: each.cost for each in words.found(plan, data.searched)}
    # 3.60 an hour is 0.001 a second, in which the capacity is 50 requests, or 62.5 to 40.
    assert priced["bf16"] == "0.020 [0.016, 0.025]"
    assert priced["w8a8"] == "at most 0.0050"
    assert priced["fp8-kv"] == priced["eagle3"] == "\N{EN DASH}"
    priced_report = replace(data.measured, plan=plan)
    for text in (render_html(priced_report), render_markdown(priced_report).replace("\\", "")):
        assert "USD/1k requests" in text and "0.020 [0.016, 0.025]" in text
    assert "USD/1k requests" not in render_html(data.measured)


def test_a_server_on_two_gpus_has_its_capacity_per_gpu_and_costs_both(data: SearchData) -> None:
    plan = data.report.plan.model_copy(update={"price_usd_per_hour": 3.6})
    sessions = [
        session.model_copy(update={"hardware": "gpu", "server": {"tensor_parallel_size": size}})
        for session in plan.sessions
        for size in [2 if session.variant == "bf16" else 1]
    ]
    plan = plan.model_copy(update={"sessions": sessions})
    told = {each.row["variant"]: each for each in words.found(plan, data.searched)}
    assert told["bf16"].per_gpu == "25.0"
    assert told["bf16"].cost == "0.040 [0.032, 0.050]"
    assert told["w8a8"].cost == "at most 0.0050"
    shown = replace(data.measured, plan=plan)
    for text in (render_html(shown), render_markdown(shown)):
        assert "Per GPU" in text
    assert "Per GPU" not in render_html(data.measured)


UNSTEADY = Capacity(
    "strict",
    "unsteady",
    None,
    0.0,
    None,
    "ttft_p99_ms",
    "the speed of the server was 0.50 times as usual from 110 to 130 s of the search",
    (Change(110.0, 130.0, 0.5),),
)


def test_a_server_that_was_not_steady_has_its_times_and_no_interval() -> None:
    data = make_searches(ends={**ENDS, "w8a8": UNSTEADY})
    (row,) = (
        line
        for line in render_markdown(data.measured).splitlines()
        if line.startswith("| live · strict | w8a8")
    )
    assert "not steady" in row and "110 to 130 s" in row
    assert "200" not in row.split("not steady")[0]
    page = render_html(data.measured)
    assert "not steady" in page and "110 to 130 s" in page
    printed = " ".join(_terminal(data).split())
    assert "not steady" in printed and "110 to 130 s" in printed
    ((_, _, said),) = words.sentences(words.found(data.report.plan, data.searched))
    assert "w8a8 has no answer, as it was not steady" in said
    nested = metrics(data.searched.capacities)
    assert nested["w8a8"]["live"] == {"capacity_rps_not_steady": 1}


def test_searches_whose_steadiness_is_not_known_are_named_once(results: Results) -> None:
    assert words.not_told(list(results.values())).endswith("is not known of any variant.")
    data = make_searches(ends={**ENDS, "bf16": replace(ENDS["bf16"], changes=())})
    told = words.not_told(words.found(data.report.plan, data.searched))
    assert "w8a8" in told and "bf16" not in told


def test_an_interval_tells_preemptions() -> None:
    steady = replace(ENDS["bf16"], changes=(), preemptions=0)
    preempted = replace(steady, preemptions=12)
    known, noted = (
        next(
            each.ended
            for each in words.found(data.report.plan, data.searched)
            if each.row["variant"] == "bf16"
        )
        for end in (steady, preempted)
        for data in [make_searches(ends={**ENDS, "bf16": end})]
    )
    assert known == "found"
    assert "12 preemptions" in noted and "not calibrated" in noted


def test_two_probes_of_the_same_load_are_two_lines_of_the_timeline() -> None:
    told = {"variant": "bf16", "repeat": 1, "launch": 1, "workload": "live", "load_point": "r20"}
    row = {**told, "requests_running": 1.0, "acceptance_by_position": None}
    rows = [{**row, "measurement": id, "time_s": at} for id in ("a", "b") for at in (1.0, 2.0)]
    missing = ("requests_waiting", "kv_cache_usage_ratio", "output_throughput_tok_s")
    over_time = pd.DataFrame(rows).assign(acceptance_length=None, **dict.fromkeys(missing))
    chart = timeline.drawn(timeline.samples_of(over_time), ["bf16"])["timeline-requests"]
    assert chart is not None
    (line,) = (layer for layer in chart["layer"] if layer["mark"]["type"] == "line")
    field = line["encoding"]["detail"]["field"]
    assert len({row[field] for row in chart["datasets"]["rows"]}) == 2


def test_the_table_of_the_answer_begins_with_what_its_sentences_begin_with() -> None:
    study = make_searches(with_points=True).measured
    table = answers.grid(study)
    assert table is not None
    groups = [group for group, _ in table.groups]
    assert groups[0] == "Capacity" and len(groups) > 1
    # Each load has one head, below which stands what it costs too.
    assert len(groups) == len({*groups})
