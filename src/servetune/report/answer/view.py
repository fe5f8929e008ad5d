"""The answer in a few sentences, and one row a variant.

A variant is called faster, slower or the fastest only where that is proven.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby

from servetune.analysis.answer import UNDECIDED, Decision, Outcome, Shown, shown_in
from servetune.analysis.lockstep import LOCKSTEP
from servetune.analysis.versus import Versus
from servetune.analysis.wording import (
    inside,
    listed,
    load_of,
    place_of,
    ratio,
    span,
    text_of,
)
from servetune.metrics import COSTS, METRIC, PER_GPU
from servetune.numbers import number
from servetune.report.answer.gpus import counted, gain_of_one
from servetune.report.answer.hits import of_hits
from servetune.report.answer.slo import within_slo
from servetune.report.capacity.view import Found, gained
from servetune.report.lockstep import MARK
from servetune.report.marks import ARROWS, at_front_end
from servetune.report.measured import Measured
from servetune.report.quality.view import absent, estimated
from servetune.report.semantic_cache import view as cache
from servetune.report.verdicts import few, further, interval_of, worded
from servetune.study.base import DECIDING
from servetune.tables.frames import PENDING, grouped, records_of

ONE_LAUNCH = "one launch"
"""In the place of an interval."""

MOST_NAMED, FEWEST_NAMED = 4, 2
"""Variants in a sentence, of a few and of many: the table names them all."""

RIGHT = "Right answers, change"
"""The head of the column of answers that a program checked."""

MANY = 6
"""Variants beside the baseline, a judgement: more of them made the answer longer than a screen."""


@dataclass(frozen=True)
class Cell:
    """A cell of the answer: a verdict or none, a number, a remark, and what a pointer tells."""

    verdict: str = ""
    figure: str = ""
    remark: str = ""
    hint: str = ""

    @property
    def is_open(self) -> bool:
        """Whether nothing is proven."""
        return self.verdict.endswith((UNDECIDED, "no ok measurement"))

    @property
    def estimate(self) -> str:
        """Its number with what qualifies it."""
        return f"{self.figure} {self.remark}".rstrip()


Column = tuple[str, dict[str, Cell]]
"""A head, and a cell a variant."""


@dataclass(frozen=True)
class Head:
    """The head of a column, within a group of them: a load; none of a group has the empty one."""

    title: str
    group: str = ""


@dataclass(frozen=True)
class Grid:
    """The answer as a table: heads, and the cells of each variant, the baseline first."""

    heads: list[Head]
    rows: dict[str, list[Cell]]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The groups in their order, with how many columns each has."""
        return [(group, len(list(same))) for group, same in groupby(h.group for h in self.heads)]


def said(measured: Measured) -> list[tuple[str, str]]:
    """Say what is shown: where, if that says more, and what; of a tuning, what it found."""
    return [("", of.sentence)] if (of := measured.tuned) else sentences(measured)


def sentences(measured: Measured) -> list[tuple[str, str]]:
    """Say what is shown at the loads that decide: where, with the metrics, and what.

    Of one variant alone, what workloads cost beside others is the answer.
    """
    if len(measured.variants) == 1 and measured.versus:
        return list(_with_and_without(measured))
    said = grouped(measured.decisions, lambda decision: _said(measured, decision))
    beside = [*of_hits(measured, MOST_NAMED), *within_slo(measured), *_right_answers(measured)]
    if len(said) == 1 and len(measured.decisions) > 1:
        return [*(("Everywhere", sentence) for sentence in said), *beside]
    return [*((_places(measured, same), sentence) for sentence, same in said.items()), *beside]


def _right_answers(measured: Measured) -> Iterator[tuple[str, str]]:
    """Say what is shown of answers that a program checked, where the study asks for it."""
    for head, cells in _quality(measured):
        if head == RIGHT:
            by_verdict = grouped(cells.items(), lambda each: each[1].verdict)
            yield (
                "Right answers",
                " ".join(
                    f"{verdict.capitalize()}: "
                    + few(
                        (
                            f"{name} ({cell.estimate})" if cell.figure else name
                            for name, cell in here
                        ),
                        MOST_NAMED,
                    )
                    + "."
                    for verdict, here in by_verdict.items()
                ),
            )


def _with_and_without(measured: Measured) -> Iterator[tuple[str, str]]:
    """Say of each pair of workloads what is proven of the requests that both have."""
    judged = [each for each in measured.versus if each.verdict is not None]
    for (place, other, kind), here in grouped(
        judged, lambda each: (each.place, each.other, each.kind)
    ).items():
        of = f"{kind} of " if kind else ""
        told = [
            f"{text_of(verdict).capitalize()} in {listed(map(_with_spread, same))}."
            for verdict, same in grouped(here, lambda each: each.verdict).items()
        ]
        where = f"{of}{' '.join(place)} against {' '.join(other)}"
        yield where, " ".join(sorted(told, key=lambda each: each.startswith("Undecided")))


def _with_spread(each: Versus) -> str:
    title = inside(METRIC[each.metric].title)
    spread = interval_of(each.ratio, each.low, each.high)
    return title if each.verdict == UNDECIDED else f"{title} ({spread})"


def _places(measured: Measured, decisions: list[Decision]) -> str:
    places = grouped(decisions, lambda decision: _place(measured, decision))
    return "; ".join(
        f"{place} ({listed(inside(each.metric.title) for each in here)})"
        for place, here in places.items()
    )


def reasons(measured: Measured) -> str:
    """Say why these loads decide, and by these metrics."""
    whys = list(dict.fromkeys(decision.reason for decision in measured.decisions))
    decided = f"Decided by {'; '.join(whys)}." if whys else ""
    if not measured.found or measured.plan.repeats > 1:
        return decided
    return f"{decided} Each capacity and its interval are of one search.".lstrip()


def _place(measured: Measured, decision: Shown) -> str:
    return f"{decision.place}{at_front_end(decision.row, measured.behind_front_end)}"


def _said(measured: Measured, decision: Decision) -> str:
    others, base = len(decision.outcomes) - 1, decision.outcomes.get(decision.baseline)
    if base and not others:
        return f"{decision.baseline} alone was measured, so nothing is compared."
    if base is None or base.value is None:
        return f"The baseline {decision.baseline} has no ok measurement, so nothing is compared."
    once = [each for each in decision.having(UNDECIDED).values() if _is_few(each)]
    if len(once) == others:
        return (
            "No winner is shown: one launch of each does not show how much launches vary. A verdict"
            f" takes {DECIDING} or more (repeats: {DECIDING})."
        )
    most = MOST_NAMED if others <= MANY else FEWEST_NAMED
    here = [*_proven(decision, measured.gpus, most), *_poor(measured, decision)]
    elsewhere, undecided = _against(decision, most), _open(decision, most)
    # The place that is named comes first: what is proven there, or what is not.
    return " ".join([*here, *elsewhere, *undecided] if here else [*undecided, *elsewhere])


def _proven(decision: Decision, gpus: dict[str, int], most: int) -> Iterator[str]:
    baseline, fastest = decision.baseline, decision.fastest
    better, worse, best = (
        worded(word, decision.metric) for word in ("faster", "slower", "fastest")
    )
    faster, slower, same = map(decision.having, ("faster", "slower", "indistinguishable"))
    if fastest == baseline:
        yield f"{baseline}, the baseline, is the {best}."
    elif fastest:
        first = _changed({fastest: faster.pop(fastest)}, gpus, most)
        against = baseline + (f" on {counted(gpus[baseline])}" if gpus else "")
        yield f"{first} is the {best}, against {against}."
    if faster:
        too = " too" if fastest else ""
        which = f"; which of them is the {best} is undecided" if len(faster) > 1 and not too else ""
        yield f"{_changed(faster, gpus, most)} {_are(faster)} {better} than {baseline}{too}{which}."
    if slower:
        yield f"{_changed(slower, gpus, most)} {_are(slower)} {worse} than {baseline}."
    if same:
        yield f"{few(same, most)} {_are(same)} indistinguishable from {baseline}."


def _poor(measured: Measured, decision: Decision) -> Iterator[str]:
    for variant in decision.having("faster"):
        if variant in measured.failing:
            is_cache = variant in cache.wrong(measured.cached)
            broken = "answers wrongly" if is_cache else "fails the bounds of quality"
            yield f"But {variant} {broken}."


def _against(decision: Decision, most: int) -> Iterator[str]:
    """Name what is proven by another metric, or at the lightest load, against what was said."""
    for word, but in (("slower", "But"), ("faster", "Yet")):
        found = [
            (load_of(shown.row), variant, shown.metric, outcome)
            for shown in decision.beside
            # Each latency decides by itself where a rate sets the pace.
            if shown.metric == decision.metric or decision.is_by_throughput
            for variant, outcome in shown.outcomes.items()
            if outcome.verdict == word and decision.outcomes[variant].verdict not in (word, None)
        ]
        for load, here in grouped(found, lambda each: each[0]).items():
            of = grouped(here, lambda each: each[1])
            if len(of) > most + 1:
                furthest = {name: max(_distance(out) for *_, out in of[name]) for name in of}
                of = {name: of[name] for name in sorted(of, key=lambda name: -furthest[name])}
            names = [
                f"{variant} in "
                + listed(f"{inside(metric.title)} ({ratio(out.ratio)})" for *_, metric, out in same)
                for variant, same in of.items()
            ]
            yield f"{but} {word} at {load}: {few(names, most)}."


def _distance(outcome: Outcome) -> float:
    """Return how far a ratio is from 1, up and down alike."""
    return abs(math.log(outcome.ratio or 1))


def _open(decision: Decision, most: int) -> Iterator[str]:
    outcomes = decision.having(UNDECIDED)
    once = [variant for variant, outcome in outcomes.items() if _is_few(outcome)]
    more = {variant: each for variant, each in outcomes.items() if variant not in once}
    if more:
        nearest = wanting(min(more.values(), key=lambda outcome: outcome.further_launches))
        if len(more) == 1:
            ((variant, outcome),) = more.items()
            beside = ", ".join(filter(None, (ratio(outcome.ratio), nearest)))
            yield f"Undecided: {variant} ({beside})."
        else:
            named = [f"{name} ({ratio(of.ratio)})" for name, of in more.items()]
            takes = f"; the nearest to a verdict takes {nearest}" if nearest else ""
            yield f"Undecided: {_counted(named, most)}{takes}."
    if once:
        yield (
            f"Launched once, so undecided: {_counted(once, most)}. A verdict takes {DECIDING} or"
            " more launches."
        )
    if lacking := decision.having(None):
        yield f"There is no ok measurement of {few(lacking)}."


def _changed(outcomes: dict[str, Outcome], gpus: dict[str, int], most: int) -> str:
    """Name variants with their ratios, and GPUs if told; those that differ most come first."""

    def told(name: str) -> str:
        has = f", {counted(gpus[name])}" if gpus else ""
        return f"{name} ({ratio(outcomes[name].ratio)}{has})"

    in_order = sorted(outcomes, key=lambda variant: -_distance(outcomes[variant]))
    return few(map(told, in_order), most)


def _counted(variants: Collection[str], most: int) -> str:
    """Name a few variants, and count many: their rows tell which."""
    return listed(variants) if len(variants) <= most + 1 else f"{len(variants)} variants"


def _are(those: Iterable[str]) -> str:
    return "is" if len(list(those)) == 1 else "are"


def _is_few(outcome: Outcome) -> bool:
    """Tell whether there are too few launches for an interval."""
    return outcome.low is None


def wanting(outcome: Outcome) -> str:
    """Say how many launches would decide what is undecided; the headline tells of the fewest.

    Of a rule that launched until it was decided it says nothing: more would be further looks.
    """
    more = outcome.further_launches
    if math.isnan(more):
        return ""
    if not _is_few(outcome):
        return further(more)
    launches = outcome.launches + more
    is_told = DECIDING < launches < math.inf
    return f"takes about {launches:.0f} launches" if is_told else ""


def grid(measured: Measured) -> Grid | None:
    """Make the answer's table in the order of its sentences: capacities, verdicts at the loads that
    decide, with what the first costs, and at the lightest ones, then quality; None without any.
    """
    loads = [*_matrix(measured), *_cost(measured)]
    columns = [
        *_capacities(measured),
        *chain.from_iterable(grouped(loads, lambda column: column[0].group).values()),
        *((Head(head), cells) for head, cells in _quality(measured)),
    ]
    if not columns:
        return None
    told = {variant for _, of in columns for variant in of}
    if each := measured.gpus:
        columns.insert(0, (Head("GPUs"), {v: Cell(figure=str(n)) for v, n in each.items()}))
    heads = [head for head, _ in columns]
    shown = [v for v in measured.variants if v in told or not measured.plan.tuning]
    return Grid(heads, {v: [of.get(v, Cell()) for _, of in columns] for v in shown})


def _matrix(measured: Measured) -> list[tuple[Head, dict[str, Cell]]]:
    """Make a column for each metric at each load that decides, and at the lightest of its kind."""
    return [
        (
            Head(
                f"{inside(each.metric.head or each.metric.title)}, {each.metric.unit}"
                f"\N{NO-BREAK SPACE}{ARROWS[each.metric.better or '']}",
                _place(measured, each),
            ),
            {
                variant: Cell(figure=f"{LOCKSTEP} {MARK}")
                if out.verdict == LOCKSTEP
                else _verdict(each, variant, out)
                for variant, out in each.outcomes.items()
            },
        )
        for each in shown_in(measured.decisions)
    ]


def _verdict(shown: Shown, variant: str, outcome: Outcome) -> Cell:
    """Write a cell of the matrix: a number of the baseline, and a verdict with its ratio of others.

    The interval stands below it; what would decide is told to a pointer.
    """
    cell = _outcome(shown, variant, outcome)
    if outcome.ratio is None or not cell.verdict:
        return Cell(cell.verdict, number(outcome.value) if cell.figure else "", cell.remark)
    spread = cell.figure.removeprefix(ratio(outcome.ratio)).strip()
    return Cell(
        cell.verdict,
        ratio(outcome.ratio),
        spread or ONE_LAUNCH,
        f"{number(outcome.value)} {shown.metric.unit}; {cell.remark}".removesuffix("; "),
    )


def decided(measured: Measured) -> list[Column]:
    """Make a column a decision."""
    return [
        (
            f"{_place(measured, decision)}: {inside(decision.metric.title)}"
            f"\N{NO-BREAK SPACE}{ARROWS[decision.metric.better or '']}",
            {
                variant: _outcome(decision, variant, outcome)
                for variant, outcome in decision.outcomes.items()
            },
        )
        for decision in measured.decisions
    ]


def _outcome(decision: Shown, variant: str, outcome: Outcome) -> Cell:
    value = f"{number(outcome.value)} {decision.metric.unit}"
    if outcome.value is None:
        return Cell("no ok measurement")
    if variant == decision.baseline:
        return Cell(figure=value)
    if outcome.verdict is None:
        return Cell(figure=value, remark=f"no ok measurement of {decision.baseline}")
    shown = interval_of(outcome.ratio, outcome.low, outcome.high)
    if outcome.verdict != UNDECIDED:
        return Cell(worded(outcome.verdict, decision.metric), shown)
    return Cell(UNDECIDED, shown, wanting(outcome) or ONE_LAUNCH * _is_few(outcome))


def _capacities(measured: Measured) -> Iterator[tuple[Head, dict[str, Cell]]]:
    for place, here in grouped(measured.deciding, lambda each: each.place).items():
        found = grouped(here, lambda each: str(each.row["variant"]))
        head = Head(f"{place}, {here[0].unit}\N{NO-BREAK SPACE}{ARROWS['higher']}", "Capacity")
        yield head, {variant: capacity_cell(repeats) for variant, repeats in found.items()}


def capacity_cell(repeats: list[Found]) -> Cell:
    """Write the capacity of a variant; over searches that are not taken together, their range."""
    answered = [each for each in repeats if not each.has_no_answer]
    if not answered:
        return Cell(PENDING if all(each.is_pending for each in repeats) else "no answer")
    first = answered[0].over or answered[0]
    gain = first.gained if first.gain else gained(repeats)
    if len(answered) == 1 or answered[0].over:
        ends = "" if first.is_lower_bound else f" [{first.interval.replace(' to ', ', ')}]"
        count = _searches(len(answered)) * (len(repeats) > 1)
        return Cell(figure=f"{first.capacity}{ends}", remark=gain or count, hint=count)
    values = [float(each.row["capacity"]) for each in answered]
    least = "at least " if any(each.is_lower_bound for each in answered) else ""
    remark = "; ".join(filter(None, (_searches(len(answered)), gained(repeats))))
    return Cell(figure=f"{least}{span(values, number)}", remark=remark)


def _searches(count: int) -> str:
    return f"{count} search{'' if count == 1 else 'es'}"


def _quality(measured: Measured) -> Iterator[Column]:
    if measured.answers is None or measured.plan.quality is None:
        return
    quality = measured.plan.quality
    columns = (
        (quality.corpus, "Perplexity, \N{MULTIPLICATION SIGN} baseline", "perplexity_ratio", ""),
        (quality.questions, RIGHT, "accuracy_change", "accuracy_"),
    )
    for asked, head, name, of in columns:
        if asked:
            yield (
                head,
                {
                    row["variant"]: Cell("no answers")
                    if absent(row)
                    else Cell(text_of(row[f"{of}verdict"]), *estimated(row, name))
                    for row in records_of(measured.answers)
                    if row["variant"] != measured.plan.baseline
                },
            )


def _cost(measured: Measured) -> Iterator[tuple[Head, dict[str, Cell]]]:
    """Give the first cost that is known, at the first load that decides."""
    name = next((cost.name for cost in COSTS if cost.name in measured.costs), None)
    if name is None or not measured.decisions:
        return
    decision = measured.decisions[0]
    here = [row for row in measured.compared if place_of(row) == place_of(decision.row)]
    yield (
        Head(inside(measured.costs[name]), _place(measured, decision)),
        {
            row["variant"]: Cell(
                figure=number(row[name]),
                remark=gain_of_one(measured, decision, row["variant"]) if name == PER_GPU else "",
            )
            for row in here
        },
    )
