"""Verdicts come first in the report, with their intervals, their runs and what qualifies them."""

import re
from dataclasses import replace

import pytest

from servetune.analysis.judgement import judge_study
from servetune.plan.planned import Deciding
from servetune.records.trials import Relaunch
from servetune.report.html import render_html
from servetune.report.latency.section import percentile_table
from servetune.report.markdown import render_markdown
from servetune.report.ratios import forest
from servetune.report.verdicts import cautions, power_table
from servetune.study.until import UntilDecided
from tests.report_data import HOSTILE, ReportData, make_data, make_quickstart_plan, rename_variants

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def data() -> ReportData:
    return make_data(make_quickstart_plan(repeats=4))


def test_verdicts_have_their_ratios_and_intervals(data: ReportData) -> None:
    text = render_markdown(data)
    row = next(line for line in text.splitlines() if line.startswith("| text · c8 | w8a8"))
    assert "**faster** 0." in row and "\\[0." in row
    assert "39 verdicts" in text, "at a rate throughput is the rate"


def test_an_interval_that_excludes_1_and_is_undecided_is_explained_once(data: ReportData) -> None:
    for rendered in (render_html(data), render_markdown(data)):
        assert rendered.count("it is of that ratio alone") == 1


def test_ratios_that_are_not_judged_are_paired_by_launches_as_those_that_are(
    data: ReportData,
) -> None:
    # Of the baseline's launches one is twice as fast, as if its machine had been: pairs tell that.
    table = data.table[data.table["workload"] == "text"].copy()
    judged, other = "output_throughput_tok_s", "whole_load_output_throughput_tok_s"
    table[judged] = table[other] = 100.0 * table["repeat"] * (1 + (table["variant"] == "w8a8") / 10)
    only = (table["variant"] == "w8a8") & (table["repeat"] > 1)
    kept = replace(data, table=table[~only])
    rows = [row for row in kept.compared if row["variant"] == "w8a8" and row["ok"]]
    assert rows
    for row in rows:
        assert row[f"{other}_ratio"] == pytest.approx(row[f"{judged}_ratio"])


def test_one_repeat_has_no_verdict_table_and_says_why() -> None:
    data = make_data()
    page, text = render_html(data), render_markdown(data)
    assert 'class="verdicts"' not in page
    for rendered in (page, text):
        assert "decides nothing" in rendered


def test_what_the_repeats_can_call_is_a_row_a_metric(data: ReportData) -> None:
    table = power_table(data.judgement.resolution)
    assert table is not None
    assert table.heads == (
        *("Metric", "Launches vary by", "Detectable with 4 launches"),
        "Launches for 10\N{NO-BREAK SPACE}%",
    )
    assert [row[0] for row in table.rows] == ["Output throughput", "TTFT p50", "TPOT p50"]
    assert all(float(str(row[3])) > 4 for row in table.rows)
    for report in (render_html(data), render_markdown(data)):
        assert all(str(cell) in report for row in table.rows for cell in row)
    assert power_table(make_data().judgement.resolution) is None


def test_the_report_says_how_rare_a_slow_launch_may_be_to_go_unseen(data: ReportData) -> None:
    text = render_markdown(data).replace("\\", "").replace("\N{NO-BREAK SPACE}", " ")
    # 4 launches: 0.9^4, and 1 - 0.05^(1/4).
    (told,) = re.findall(r"If one launch in ten is slow, .*", text)
    assert "66 %" in told and "53 %" in told
    assert "one launch in ten" not in render_markdown(make_data())


def test_the_forest_shows_every_interval_and_every_run(data: ReportData) -> None:
    judgement = judge_study(data.design, data.table, data.quantiles)
    spec = forest(judgement, data.plan.variants, "tpot_p50_ms", "TPOT p50")
    assert spec is not None
    places, variants, repeats = 5, 4, 4
    assert len(spec["datasets"]["rows"]) == places * (variants - 1)
    assert len(spec["datasets"]["runs"]) == places * variants * repeats
    for row in spec["datasets"]["rows"]:
        assert row["low"] < row["value"] < row["high"]


def test_percentiles_are_shown_with_their_intervals_and_launches(data: ReportData) -> None:
    table = percentile_table(data.table, data.quantiles, data.plan.variants)
    assert len(table.rows) == 5 * 4 and all(row[2] == "4" for row in table.rows)
    ttft_p50 = str(table.rows[0][3])
    value, low, high = map(float, re.findall(r"[\d.]+", ttft_p50))
    assert low < value < high
    page = render_html(data)
    assert "Percentiles with intervals" in page and ttft_p50 in page


def test_a_percentile_of_too_few_requests_is_shown_without_an_interval() -> None:
    data = make_data()
    table = percentile_table(data.table, data.quantiles, data.plan.variants)
    row = next(row for row in table.rows if "c8" in str(row[1]))
    told = {head: str(cell) for head, cell in zip(table.heads, row, strict=True)}
    assert "[" in told["TTFT p50"] and told["TTFT p99"].endswith(" \N{EN DASH}")


def test_a_baseline_that_failed_is_told_and_nothing_is_compared() -> None:
    data = make_data(make_quickstart_plan(repeats=3), failed={"bf16": "no room"})
    page, text = render_html(data), render_markdown(data)
    assert "no ok measurement at this load point" in text
    assert 'class="verdicts"' not in page and "no room" in page


def test_one_variant_alone_is_told_of_no_verdicts() -> None:
    text = render_markdown(make_data(make_quickstart_plan(repeats=3, variants=["bf16"])))
    assert "Nothing is compared here, so there is no verdict." in text
    assert "hold together" not in text and "Launches vary by" in text


def test_a_rule_that_has_nothing_to_compare_tells_what_it_gave_up() -> None:
    until = UntilDecided(least=3, most=4, decide=["output_throughput_tok_s@c8"])
    over = Relaunch(1, (), given_up=("w8a8 output_throughput_tok_s@c8",))
    deciding = Deciding(declared="", until=until, rounds=[over])
    plan = make_quickstart_plan(repeats=3, variants=["bf16", "w8a8"])
    ruled = make_data(plan.model_copy(update={"deciding": deciding}), failed={"w8a8": "no room"})
    text = render_markdown(ruled)
    assert "so there is no verdict. Launches until decided: 3 to 4" in text
    assert "given up (nothing to compare, or 4 would hardly decide): w8a8 output" in text


def test_a_variant_with_too_few_ok_repeats_has_no_verdict_and_the_others_do() -> None:
    plan = make_quickstart_plan(repeats=3)
    failed = {f"w8a8-{load}-r{r}": "died" for load in ("text-c8",) for r in (2, 3)}
    data = make_data(plan, failed=failed)
    text = render_markdown(data)
    assert not any(line.startswith("| text · c8 | w8a8") for line in text.splitlines())
    assert "Undecided: w8a8 at text · c8, as an interval takes at least two ok repeats" in text
    assert any(line.startswith("| text · c8 | fp8-kv | **") for line in text.splitlines())


def test_variants_that_ran_on_some_gpus_alone_are_told_once_by_their_gpus(data: ReportData) -> None:
    judgement = judge_study(data.design, data.table, data.quantiles)
    one, other = "GPU-82c032b2-034d-adf9", "GPU-dd1c51f6-e8c8-3616"
    on = replace(judgement, on_the_same_devices={"a": one, "b": other, "c": one})
    (told,) = [note for note in cautions(data.plan, on) if "GPU" in note]
    assert "a and c on GPU-82c032b2" in told and "b on GPU-dd1c51f6." in told
    assert not any("GPU" in note for note in cautions(data.plan, judgement))


def test_gpus_are_called_blocks_only_where_launches_are_compared_within_them(
    data: ReportData,
) -> None:
    named = {"few": "ab", "many": "abcd"}
    said = {}
    for name, gpus in named.items():
        at = data.table["repeat"].map(dict(enumerate(2 * gpus, 1)))
        alone = at + (data.table["variant"] if name == "many" else "")
        said[name] = render_markdown(replace(data, table=data.table.assign(device=alone)))
    assert "ran on 2 GPUs, which are blocks in the comparison." in said["few"]
    assert "blocks in the comparison" not in said["many"]
    assert "GPUs are part of how much launches vary" in said["many"]


def test_a_variant_without_any_verdict_is_told_in_one_sentence() -> None:
    plan = make_quickstart_plan(repeats=3)
    later = [s for s in plan.sessions if s.variant == "w8a8" and s.repeat > 1]
    data = make_data(plan, failed={m.id: "died" for s in later for m in s.measurements})
    text = render_markdown(data)
    assert text.count("Undecided: w8a8") == 1
    assert "Undecided: w8a8 at every load point, as an interval takes" in text


def test_names_that_attack_are_escaped_in_verdicts_too() -> None:
    plan = make_quickstart_plan(repeats=3)
    plan = rename_variants(plan, dict(zip(plan.variants, HOSTILE, strict=True)))
    data = make_data(plan)
    page = render_html(data)
    assert "<script>window.broken" not in page and "<img src=x" not in page


def test_launches_until_decided_tell_what_they_could_not_and_propose_no_more() -> None:
    until = UntilDecided(least=3, most=4, decide=["output_throughput_tok_s@c8"])
    open_ = "fp8-kv output_throughput_tok_s@c8"
    last = Relaunch(2, (), ("w8a8 output_throughput_tok_s@c8",), (open_,))
    deciding = Deciding(declared="", until=until, rounds=[Relaunch(1, ("bf16",)), last])
    plan = make_quickstart_plan(repeats=4).model_copy(update={"deciding": deciding})
    ruled = make_data(plan)
    for page in (render_html(ruled), render_markdown(ruled).replace("\\", "")):
        assert "undecided after all 4: fp8-kv output" in page
        assert "Other comparisons take the first 3 launches" in page
        assert not re.search(r"about [\d,]+ more launch", page)
    assert not re.search(r"\bnan\b", render_markdown(ruled))
    assert {*ruled.judgement.one_look["repeat"]} == {1, 2, 3}
    assert {*ruled.judgement.launches["repeat"]} == {1, 2, 3, 4}
    by_one = judge_study(replace(ruled.design, until=None), ruled.points, ruled.distributions)
    proven = {"faster", "slower", "indistinguishable"}
    looks, one = (
        table.verdicts["verdict"].isin(proven).sum() for table in (ruled.judgement, by_one)
    )
    assert 0 < looks < one
