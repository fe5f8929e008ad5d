"""No sentence of a report says what one of its tables denies, in any recorded study.

One comparison has one ratio and one verdict, in the answer, the sections, charts, the Markdown, the
terminal and summary.json.
"""

import io
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from servetune.analysis.findings.bounds import Bound
from servetune.analysis.findings.gather import findings
from servetune.analysis.wording import inside, ratio, where_of
from servetune.metrics import METRICS
from servetune.numbers import known
from servetune.report.answer.front import front
from servetune.report.answer.standings import standings
from servetune.report.answer.view import grid, said, sentences
from servetune.report.headline import headline
from servetune.report.load_points.section import LoadPoints
from servetune.report.markdown import render_markdown
from servetune.report.measured import Measured
from servetune.report.reading import read_measured
from servetune.report.roofline.section import section as roofline
from servetune.report.section import sections
from servetune.report.speculation.view import payoff_table
from servetune.report.table import Name
from servetune.report.terminal import render_terminal
from servetune.report.verdicts import interval, word_of
from servetune.tables.frames import records_of
from tests.recorded import RECORDED, plan_of, results_of

pytestmark = pytest.mark.slow

OF_STEP = {
    "decode-at-the-bandwidth-ceiling": Bound.BANDWIDTH,
    "decode-far-from-the-ceiling": Bound.STEP,
}
OF_LOAD = {
    "client-bound": Bound.CLIENT,
    "front-end-is-the-limit": Bound.FRONT_END,
    "kv-bound": Bound.KV_CACHE,
    "throttled-by-max-num-seqs": Bound.FULL_BATCH,
    "token-budget": Bound.FULL_BATCH,
}


OF_ENGINE = {"kv-under-used", "prefill-bound-ttft", "queueing-dominates-ttft"}
"""What is said of an engine that nothing before it keeps from its work."""


@pytest.fixture(scope="module", params=RECORDED)
def measured(request: pytest.FixtureRequest) -> Measured:
    return read_measured(plan_of(request.param), results_of(request.param).parents[1])


def test_findings_roofline_verdicts_and_answer_agree(measured: Measured) -> None:
    made = roofline(measured)
    placed = made.words["placed"] if made and isinstance(made.words, dict) else []
    bounds: dict[tuple[str, str], set[tuple[Any, Any]]] = {}
    for case, step, load in placed:
        at = (case.row["variant"], where_of(case.row))
        bounds.setdefault(at, set()).add((step, load))
    for told in findings(measured.cases):
        for variant, places in told.places.items():
            for here in (bounds[variant, at] for at in places if (variant, at) in bounds):
                claim = OF_STEP.get(told.rule), OF_LOAD.get(told.rule)
                assert any(
                    claim[0] in (None, step) and claim[1] in (None, load) for step, load in here
                ), told
    found = {told.rule: told.places for told in findings(measured.cases)}
    for variant, places in found.get("front-end-is-the-limit", {}).items():
        for rule in OF_ENGINE & found.keys():
            assert not {*places} & {*found[rule].get(variant, ())}, (rule, variant)
    proven = {
        (row.variant, row.workload, row.load_point, row.metric): row.verdict
        for row in measured.judgement.verdicts.itertuples()
    }
    for decision in measured.decisions:
        place = decision.row["workload"], decision.row["load_point"], decision.metric.name
        for verdict in ("faster", "slower", "indistinguishable"):
            assert all(proven[variant, *place] == verdict for variant in decision.having(verdict))
    if measured.plan.repeats == 1:
        assert not any(
            word in said for _, said in sentences(measured) for word in ("faster", "is the fastest")
        )


TIMES = "\N{MULTIPLICATION SIGN}"
RATIO = re.compile(rf"([\d,.]+{TIMES})")

Quantity = tuple[str, str, str]
"""Variant, load point in a few words, metric."""


def ratio_in(text: str) -> str:
    found = RATIO.search(text)
    return found[1] if found else ""


Told = Iterator[tuple[Quantity, str, str]]
"""Ratios to the baseline, each with where it stands."""


def told_in_tables(measured: Measured) -> Told:
    words = LoadPoints(measured) if measured.compared else None
    for row in words.judged if words else []:
        for metric, cell in row["cells"].items():
            if cell["verdict"] != "lockstep":
                at = (row["variant"], where_of(row), metric)
                yield at, ratio_in(interval(cell)), "verdicts"
    for row in measured.compared:
        for column in measured.metrics:
            value = row.get(f"{column.name}_ratio")
            if row["variant"] != measured.plan.baseline and known(value) is not None:
                yield (row["variant"], where_of(row), column.name), ratio(value), "comparison"
    for payoff in measured.payoffs:
        for _, row in payoff.points if payoff.plain == measured.plan.baseline else ():
            yield (payoff.variant, where_of(row), payoff.metric), ratio(row["ratio"]), "speculation"


def told_in_the_answer(measured: Measured) -> Told:
    for decision in measured.decisions:
        for shown in (decision, *decision.beside):
            for variant, outcome in shown.outcomes.items():
                if outcome.ratio is not None:
                    at = (variant, where_of(shown.row), shown.metric.name)
                    yield at, ratio(outcome.ratio), "answer"
    if any(not each.has_no_answer | each.is_lower_bound for each in measured.deciding):
        return
    for variant, numbers in headline(measured).items():
        first = measured.decisions[0]
        if "x" in numbers:
            at = (variant, where_of(first.row), first.metric.name)
            # It has more digits: what was rounded once is not to be rounded again.
            exact = first.outcomes[variant].ratio
            is_same = exact is not None and numbers["x"] == float(f"{exact:.4g}")
            yield at, ratio(exact if is_same else numbers["x"]), "summary.json"


def told_in_charts(measured: Measured) -> Told:
    titles = {inside(metric.head or metric.title): metric.name for metric in METRICS}
    charts = {name: spec for each in sections(measured) for name, spec in each.drawn.items()}
    for name, spec in charts.items():
        for row in spec["datasets"].get("rows", []):
            if name.startswith("ratio-"):
                where = row["where"].split(" \N{PILCROW SIGN}")[0]
                at = (row["variant"], where, name.removeprefix("ratio-"))
                yield at, ratio_in(row["shown"]), f"chart {name}"
            elif name == "answer" and "capacity" not in row["where"]:
                where, title = row["where"].split("\n")
                at = (row["variant"], where, titles[title[:-2]])
                yield at, ratio_in(row["shown"]), "chart answer"


def told_ratios(measured: Measured) -> Told:
    yield from told_in_tables(measured)
    yield from told_in_the_answer(measured)
    yield from told_in_charts(measured)


def test_one_comparison_has_one_ratio_wherever_it_stands(measured: Measured) -> None:
    found: dict[Quantity, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for quantity, value, where in told_ratios(measured):
        found[quantity][value].add(where)
    assert {at: dict(values) for at, values in found.items() if len(values) > 1} == {}
    if measured.decisions and len(measured.variants) > 1 and measured.judgement.has_intervals:
        places = {where for values in found.values() for of in values.values() for where in of}
        assert {"verdicts", "comparison", "answer"} <= places


def test_one_comparison_has_one_verdict_wherever_it_stands(measured: Measured) -> None:
    proven = {
        (row["variant"], where_of(row), row["metric"]): row["verdict"]
        for row in records_of(measured.judgement.verdicts)
    }
    for payoff in measured.payoffs:
        for end, verdicts in (
            (payoff.pays_at, ("faster",)),
            (payoff.stops_at, ("slower", "indistinguishable")),
        ):
            if end and payoff.plain == measured.plan.baseline:
                at = (payoff.variant, where_of(end[1]), payoff.metric)
                assert proven[at] in verdicts
    # What is said in a sentence is the ratio of its row, at the load and by the metric it names.
    for decision in measured.decisions if measured.tuned is None else []:
        told = " ".join(sentence for _, sentence in sentences(measured))
        for variant, outcome in decision.outcomes.items():
            if outcome.verdict in ("faster", "slower") and len(measured.decisions) == 1:
                named = re.search(rf"(?<![\w-]){re.escape(variant)} \(([^),]+)", told)
                assert named is None or named[1] == ratio(outcome.ratio), variant


def test_the_terminal_and_the_markdown_tell_the_ratios_of_the_page(measured: Measured) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(render_terminal(measured))
    lines, markdown = console.export_text(), render_markdown(measured)
    throughput = "output_throughput_tok_s"
    ratios = {
        ratio(row[f"{throughput}_ratio"]): row["variant"]
        for row in measured.compared
        if known(row[f"{throughput}_ratio"]) is not None
        and row["workload"] not in measured.plan.choosing
    }
    assert all(told in lines for told in ratios)
    table = grid(measured)
    for variant, cells in table.rows.items() if table else []:
        for cell in cells:
            if cell.verdict and RATIO.fullmatch(cell.figure):
                assert f"{cell.figure} \\[" in markdown or cell.figure in markdown, variant


def test_what_has_no_answer_is_not_called_ok(measured: Measured) -> None:
    text = render_markdown(measured)
    if any(each.has_no_answer and not each.is_pending for each in measured.found):
        assert "no answer" in text or "measurements are ok." not in text
    assert "the rest invalid" not in text
    assert "not known" not in text.partition("<details>")[0] or measured.tuned is None


def test_the_winner_of_a_tuning_is_on_its_own_front(measured: Measured) -> None:
    tuning, tuned = measured.plan.tuning, measured.tuned
    if tuning is None or tuned is None or tuned.winner is None:
        return
    table = front(tuning, standings(tuning, measured.seen), measured.table, tuned.winner)
    assert table is None or Name(tuned.winner) in [row[0] for row in table.rows]
    ((_, sentence),) = said(measured)
    assert tuned.ratio and ratio_in(sentence) == ratio(tuned.ratio.value)
    # The same comparison in the tables of load points, if it is one there.
    metric = tuning.tune.objective
    for row in records_of(measured.judgement.verdicts):
        place = (row["variant"], row["workload"], row["load_point"])
        if place == (tuned.winner, *tuning.place) and row["metric"] == metric:
            assert (ratio(row["ratio"]), row["verdict"]) == (ratio(tuned.ratio.value), "faster")


def test_verdicts_have_one_word(measured: Measured) -> None:
    words = {word_of(row) for row in records_of(measured.judgement.verdicts)}
    allowed = {"faster", "slower", "better", "worse", "indistinguishable", "undecided"}
    assert words <= {*allowed, "lockstep \N{PILCROW SIGN}"}
    assert not payoff_table(measured.payoffs).rows or "Speed-up" not in render_markdown(measured)
