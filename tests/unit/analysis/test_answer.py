"""A winner is named where it is proven, by the metric and at the load that decide."""

from dataclasses import replace

from servetune.analysis.answer import Decision, decisions
from servetune.analysis.comparison import compare
from servetune.analysis.judgement import judge_study
from servetune.metrics import METRIC
from servetune.report.answer.view import grid, sentences
from servetune.report.reading import read_measured
from tests.recorded import plan_of, results_of
from tests.report_data import (
    ReportData,
    make_all_kinds,
    make_data,
    make_quickstart_plan,
    make_twelve_variants,
)


def places(data: ReportData) -> list[tuple[str, str, str]]:
    return [(d.row["workload"], d.row["load_point"], d.metric.name) for d in data.decisions]


def test_a_rate_is_decided_by_latency_and_a_closed_loop_by_throughput_at_its_heaviest() -> None:
    assert places(make_data(make_all_kinds())) == [
        ("text", "c8", "output_throughput_tok_s"),
        ("open", "r8", "ttft_p50_ms"),
        ("open", "r8", "tpot_p50_ms"),
        ("guidellm", "r8", "ttft_p50_ms"),
        ("guidellm", "r8", "tpot_p50_ms"),
        ("chat", "c8", "output_throughput_tok_s"),
        ("open", "rinf", "output_throughput_tok_s"),
        ("replay", "t1", "ttft_p50_ms"),
        ("replay", "t1", "tpot_p50_ms"),
    ]


def test_one_repeat_names_no_winner_and_tells_how_many_launches_it_takes() -> None:
    data = make_data()
    ((_, said),) = sentences(data)
    assert "No winner" in said and "3 or more" in said
    table = grid(data)
    assert table is not None
    cells = [cell for variant in ("w8a8", "fp8-kv", "eagle3") for cell in table.rows[variant]]
    assert {cell.verdict for cell in cells} == {"undecided"}
    assert {cell.remark for cell in cells} == {"one launch"}


def test_a_workload_of_the_baseline_alone_answers_nothing_beside_those_of_several() -> None:
    plan = make_all_kinds()
    alone = [
        session
        if session.variant == plan.baseline
        else session.model_copy(
            update={"measurements": [m for m in session.measurements if m.workload == "text"]}
        )
        for session in plan.sessions
    ]
    data = make_data(plan.model_copy(update={"sessions": alone}))
    assert {workload for workload, *_ in places(data)} == {"text"}
    only = [each for each in alone if each.variant == plan.baseline]
    data = make_data(plan.model_copy(update={"sessions": only, "variants": [plan.baseline]}))
    assert {workload for workload, *_ in places(data)} > {"text", "open"}


def test_throughput_at_a_rate_has_no_verdict() -> None:
    verdicts = make_data(make_quickstart_plan(repeats=3)).judgement.verdicts
    judged = verdicts[verdicts["metric"] == "output_throughput_tok_s"]
    assert set(judged["workload"]) == {"text"}


def scaled(data: ReportData, factors: dict[str, float]) -> list[Decision]:
    """Decide a study whose variants have these throughputs, with launches that vary by 0.1 %."""
    table = data.table[data.table["workload"] == "text"].copy()
    noise = 1 + 0.001 * (table["repeat"] % 3 - 1)
    table["output_throughput_tok_s"] = 100 * table["variant"].map(factors) * noise
    judgement = judge_study(data.design, table, data.quantiles)
    return decisions(data.design, compare(table, data.plan.baseline), judgement, {})


def test_the_fastest_is_named_only_where_it_is_proven_against_every_other() -> None:
    data = make_data(make_quickstart_plan(repeats=5))
    for factors, fastest in (
        ((1.0, 1.3, 1.0, 0.9), "w8a8"),
        ((1.0, 1.3, 1.0, 1.1), "w8a8"),
        ((1.0, 1.3, 1.0, 1.301), None),
        ((1.0, 0.8, 0.7, 0.9), "bf16"),
        ((1.0, 1.0, 1.0, 1.0), None),
    ):
        by_variant = dict(zip(("bf16", "w8a8", "fp8-kv", "eagle3"), factors, strict=True))
        (decision,) = scaled(data, by_variant)
        assert decision.fastest == fastest, factors


def test_a_load_that_the_front_end_bounds_does_not_decide_and_the_answer_says_why() -> None:
    recorded = read_measured(plan_of("h200-llama8b"), results_of("h200-llama8b").parents[1])
    (decision,) = recorded.decisions
    assert decision.row["load_point"] == "c128" and "c256" in decision.reason
    assert set(decision.having("faster")) == {"w8a8", "fp8"}
    assert decision.fastest is None, "w8a8 and fp8 are alike"
    assert decision.metric is METRIC["output_throughput_tok_s"]
    assert decision.outcomes["fp8-kv"].launches == 1


def test_a_proven_harm_and_a_gain_elsewhere_are_named_beside_the_throughput() -> None:
    name = "h200-llama8b-graphs"
    measured = read_measured(plan_of(name), results_of(name).parents[1])
    ((_, said),) = sentences(measured)
    said = said.replace("\N{MULTIPLICATION SIGN}", "x")
    assert "But slower at concurrency 128: eagle3-2.5 in TTFT p50 (1.74x) and eagle3-3 in" in said
    assert "Yet faster at concurrency 1: eagle3-2.5 in output throughput (1.84x)" in said
    assert "w8a8 in" not in said, "what is faster in all that is proven is named once"


def test_the_answer_begins_at_the_place_that_it_names_where_nothing_is_proven_there() -> None:
    data = make_data(make_quickstart_plan(repeats=3))
    table = data.table.copy()
    turn = (table["repeat"] + table["variant"].map(data.plan.variants.index)) % 3 - 1
    at = {name: table["load_point"] == name for name in ("c1", "c8")}
    output = 100 * (1 + turn * at["c8"].map({True: 0.5, False: 0.001}))
    tenth = (table["variant"] == "eagle3") & at["c1"]
    table["output_throughput_tok_s"] = output.where(~tenth, output / 10)
    said = dict(sentences(replace(data, table=table)))
    (answer,) = (text for where, text in said.items() if where.startswith("text"))
    assert answer.startswith("Undecided: w8a8 (1.00")
    assert "; the nearest to a verdict takes more than 200 launches." in answer
    assert "But slower at concurrency 1: eagle3 in output throughput (0.10" in answer


def test_the_answer_of_one_variant_is_what_its_workloads_cost_beside_others() -> None:
    plan = make_quickstart_plan(repeats=3)
    only = [each for each in plan.sessions if each.variant == plan.baseline]
    data = make_data(
        plan.model_copy(
            update={"sessions": only, "variants": [plan.baseline], "versus": {"text": "open"}}
        )
    )
    table = data.table.copy()
    steady = 1 + 0.001 * (table["repeat"] % 3 - 1)
    for metric, factor in (("ttft_p50_ms", 3.0), ("tpot_p50_ms", 1.0)):
        table[metric] = 10 * steady * table["workload"].map({"text": factor}).fillna(1.0)
    classes = data.classes[data.classes["class"].isna()]
    said = sentences(replace(data, table=table, classes=classes))
    assert said and all(" against open " in where for where, _ in said)
    assert said[0][1].startswith("Slower in TTFT p50 (3.00\N{MULTIPLICATION SIGN} [")
    assert "Indistinguishable in TPOT p50" in said[0][1]
    assert not any("nothing is compared" in each for _, each in said)


def test_the_answer_of_twelve_variants_names_a_few_and_counts_the_others() -> None:
    said = sentences(make_data(make_twelve_variants(make_quickstart_plan(repeats=3))))
    assert len(said) > 1 and any(" more are " in answer for _, answer in said)
    assert max(len(answer.split()) for _, answer in said) <= 70


def test_the_worst_harm_is_named_wherever_many_are_harmed() -> None:
    data = make_data(make_twelve_variants(make_quickstart_plan(repeats=3)))
    table = data.table.copy()
    last = data.plan.variants[-1]
    at = table["load_point"].map({"c8": 2.0, "c1": 0.9}).fillna(1.0)
    at = at.where((table["variant"] != last) | (table["load_point"] != "c1"), 0.2)
    steady = 1 + 0.001 * (table["repeat"] % 3 - 1)
    table["output_throughput_tok_s"] = 100 * steady * at.where(table["variant"] != "bf16", 1.0)
    said = sentences(replace(data, table=table))
    (answer,) = (text for where, text in said if where.startswith("text"))
    assert f"But slower at concurrency 1: {last} in output throughput (0.20" in answer


def test_the_answers_table_has_output_ttft_and_tpot_at_the_heaviest_and_the_lightest_load() -> None:
    name = "h200-llama8b-graphs"
    table = grid(read_measured(plan_of(name), results_of(name).parents[1]))
    assert table is not None
    heads = [(head.group, head.title.partition(",")[0]) for head in table.heads]
    heaviest, lightest = "closed, concurrency 128", "closed, concurrency 1"
    judged = ["output", "TTFT p50", "TPOT p50"]
    assert heads == [
        *((heaviest, of) for of in (*judged, "J/output token")),
        *((lightest, of) for of in judged),
    ]
    verdicts = [cell.verdict for cell in table.rows["eagle3-3"]]
    assert verdicts == ["faster", "slower", "faster", "", "faster", "undecided", "faster"]
    assert [cell.figure for cell in table.rows["bf16"][:2]] == ["6,279", "109"]
