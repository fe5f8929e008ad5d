"""What a study measured, as both forms of the report take it, and what both make of it first."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pandas as pd

from servetune.analysis.answer import Decision, decisions
from servetune.analysis.comparison import compare, with_judged_ratios
from servetune.analysis.context_growth import Growth, growths
from servetune.analysis.findings.bounds import BEFORE_ENGINE, Bound, load_bound
from servetune.analysis.findings.gather import Case, cases
from servetune.analysis.history import follow
from servetune.analysis.hits import Hits, compare_hits
from servetune.analysis.judgement import Judgement, judge_study
from servetune.analysis.launches import at_first_look, launch_values
from servetune.analysis.lockstep import waves
from servetune.analysis.payoff import Key, Payoff, against_plain, payoffs
from servetune.analysis.tuning.answer import Answer, answer, with_confirmed
from servetune.analysis.tuning.names import labels
from servetune.analysis.verdicts import compare as compare_launches
from servetune.analysis.versus import Versus, versus
from servetune.analysis.wording import place_of, relabelled, variants_by_place
from servetune.metrics import COMPARED, COSTS, PER_GPU, WHOLE_LOAD, Metric
from servetune.numbers import known
from servetune.plan.planned import Plan
from servetune.records.sessions import SessionRecord
from servetune.records.trials import TrialResult
from servetune.report import marks
from servetune.report.capacity import view as capacity
from servetune.report.capacity.launches import with_launches
from servetune.report.quality.view import failing
from servetune.report.semantic_cache import view as cache
from servetune.report.turns.view import by_turn
from servetune.tables.design import Design, design_of
from servetune.tables.frames import PENDING, declared, grouped, numbers, records_of
from servetune.tables.history import Measuring
from servetune.tables.published import Published
from servetune.tables.reviewed import no_changes
from servetune.tables.timeline import COLUMNS


@dataclass(frozen=True, eq=False)
class Measured:
    """The tables of a study with their sessions.

    Attributes:
        plan: what was asked.
        table: a row a measurement, as `servetune.tables.write.load_points` makes it.
        quantiles: the distributions, as `servetune.tables.write.quantiles` makes them.
        sessions: session records by id; some may be missing.
        turns: conversations by turn, as `servetune.tables.write.turns` makes them.
        classes: requests by class, as `servetune.tables.write.classes` makes them.
        cached: caches of answers, as `servetune.tables.write.cached` makes it.
        over_time: telemetry, as `servetune.tables.timeline.timeline` makes it.
        published: what others measured, to stand beside it.
        searched: what searches for the capacity found.
        answers: a row a variant, as `servetune.tables.quality.qualities` makes it.
        seen: what the trials of a tuning found.
        read_past: reads `history`, which not every rendering asks for.
        read_changes: reads how capacities and quality changed (`servetune.tables.reviewed`).
        lacks: what could not be made of it so far, a line each, as the renderings find out.
    """

    plan: Plan
    table: pd.DataFrame
    quantiles: pd.DataFrame
    sessions: dict[str, SessionRecord]
    turns: pd.DataFrame
    classes: pd.DataFrame
    cached: pd.DataFrame = field(default_factory=pd.DataFrame)
    over_time: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(COLUMNS)))
    published: Published | None = None
    searched: capacity.Searched | None = None
    answers: pd.DataFrame | None = None
    seen: list[TrialResult] = field(default_factory=list)
    read_past: Callable[[], list[Measuring]] = list
    read_changes: Callable[[], pd.DataFrame] = no_changes
    lacks: list[str] = field(default_factory=list)

    @cached_property
    def design(self) -> Design:
        """What the study compares."""
        return design_of(self.plan)

    @cached_property
    def history(self) -> list[Measuring]:
        """What was measured before, oldest first, and this last."""
        return self.read_past()

    @cached_property
    def followed(self) -> pd.DataFrame:
        """The judged metrics over the commits that measured them."""
        # One commit has nothing to compare: its distributions need not be read.
        return follow(self.history if len(self.history) > 1 else [], self.plan.equivalence)

    @cached_property
    def points(self) -> pd.DataFrame:
        """The measurements of load points: probes of a search are compared with nothing."""
        return declared(self.table)

    @cached_property
    def distributions(self) -> pd.DataFrame:
        """The quantiles of load points."""
        return self._of_points(self.quantiles)

    @cached_property
    def comparison(self) -> pd.DataFrame:
        """A row a (workload, load point, variant), beside the baseline's."""
        means = compare(self.points, self.plan.baseline)
        # One method for all ratios: what is not judged is paired by launches as the rest is.
        others = tuple(metric.name for metric in COMPARED if not metric.judged)
        launches = launch_values(self.points, self.distributions, others)
        paired = compare_launches(launches, self.plan.baseline, self.plan.equivalence)
        return with_judged_ratios(with_judged_ratios(means, paired), self.judgement.verdicts)

    @cached_property
    def compared(self) -> list[dict[str, Any]]:
        """The rows of the comparison by load point, the baseline first in each."""
        by_place = grouped(records_of(self.comparison), place_of).values()
        first = self.plan.baseline
        return [
            row for same in by_place for row in sorted(same, key=lambda r: r["variant"] != first)
        ]

    @cached_property
    def hits(self) -> list[Hits]:
        """Prefix-cache hits of gateways' policies, beside the baseline's on the same launches."""
        return compare_hits(self.points, self.plan.baseline)

    @cached_property
    def metrics(self) -> list[Metric]:
        """What a comparison of variants shows: SLO attainment only with an SLO.

        Output over the whole load stands beside that of a window, where any load has one.
        """
        has_window = (self.table["throughput_window"] == "while full").any()
        return [
            metric
            for metric in COMPARED
            if self.plan.has_slo or not metric.needs_slo
            if has_window or metric.name != WHOLE_LOAD
            if not metric.is_pooled or metric.name in self.table
        ]

    @cached_property
    def gpus(self) -> dict[str, int]:
        """How many GPUs each variant has, where they differ; else nothing."""
        devices = self.plan.devices
        return devices if len({*devices.values()}) > 1 else {}

    @cached_property
    def costs(self) -> dict[str, str]:
        """The costs that are known and say more than a throughput, with their heads."""
        return {
            cost.name: cost.column
            for cost in COSTS
            if self.gpus or cost.name != PER_GPU
            if any(known(row.get(cost.name)) is not None for row in self.compared)
        }

    @cached_property
    def variants(self) -> list[str]:
        """The variants as charts show them, the baseline first."""
        return sorted(self.plan.variants, key=lambda variant: variant != self.plan.baseline)

    @cached_property
    def cases(self) -> list[Case]:
        """The load points, each with the engine that served it."""
        return cases(self.points, self.sessions, self.plan.ceilings)

    @cached_property
    def loaded(self) -> list[Case]:
        """The load points that have numbers."""
        return [case for case in self.cases if case.has_numbers]

    @cached_property
    def served(self) -> list[Case]:
        """All that has numbers, probes too: a start is one whatever was sent after it."""
        every = cases(self.table, self.sessions, self.plan.ceilings)
        return [case for case in every if case.has_numbers]

    @cached_property
    def judgement(self) -> Judgement:
        """Verdicts, effects and drift; of what a tuning confirmed, its own verdict."""
        judged = judge_study(self.design, self.points, self.distributions)
        tuning = self.plan.tuning
        if tuning is None or self.tuned is None:
            return judged
        told = with_confirmed(judged.verdicts, tuning.tune, tuning.place, self.tuned.ratios)
        return replace(judged, verdicts=told)

    @cached_property
    def decisions(self) -> list[Decision]:
        """What is shown at the loads that decide the study."""
        limits = {
            place_of(case.row): f"the {bound}"
            for case in self.loaded
            if (bound := load_bound(case)) in BEFORE_ENGINE
        }
        decided = decisions(self.design, self.comparison, self.judgement, limits)
        return [each for each in decided if each.row["workload"] not in self.plan.choosing]

    @cached_property
    def speculating(self) -> pd.DataFrame:
        """The ok measurements of variants that speculate."""
        ok = self.points[self.points["status"] == "ok"]
        return ok[numbers(ok["acceptance_length"]).notna()]

    @cached_property
    def against_plain(self) -> dict[Key, dict[str, Any]]:
        """The verdicts on variants that speculate, against what differs in that alone."""
        return against_plain(self.design, self.judgement.one_look, self.judgement.verdicts)

    @cached_property
    def payoffs(self) -> list[Payoff]:
        """Up to which load speculation pays, by variant and workload."""
        return payoffs(self.design, self.speculating, self.against_plain)

    @cached_property
    def growing(self) -> list[Growth]:
        """The lines of TPOT over context."""
        return growths(self.points, self.plan.baseline)

    @cached_property
    def by_turn(self) -> pd.DataFrame:
        """Conversations by turn, launches taken together."""
        return by_turn(self._of_points(self.turns))

    @cached_property
    def by_class(self) -> pd.DataFrame:
        """Requests by class, a row a launch."""
        return self._of_points(self.classes)

    @cached_property
    def versus(self) -> list[Versus]:
        """What workloads cost beside those that they are named with."""
        if not self.plan.versus:
            return []
        points = at_first_look(self.points)
        return versus(self.plan.versus, points, self.by_class, self.plan.equivalence)

    @cached_property
    def found(self) -> list[capacity.Found]:
        """What each search found for each tier."""
        if self.searched is None:
            return []
        found = capacity.found(self.plan, self.searched)
        # A tuning judges its candidates together: a pair of searches says something else.
        found = [replace(each, gain=None) for each in found] if self.plan.tuning else found
        return with_launches(found, self.searched.capacities, self.plan.baseline)

    @cached_property
    def deciding(self) -> list[capacity.Found]:
        """What is found of it that answers: all but what a tuning chose by."""
        return [each for each in self.found if each.row["workload"] not in self.plan.choosing]

    @cached_property
    def tuned(self) -> Answer | None:
        """What a tuning found so far; None of a study that tunes nothing, or has not begun to."""
        tuning = self.plan.tuning
        if tuning is None or not self.seen:
            return None
        return answer(
            tuning.tune,
            tuning.candidates,
            self.seen,
            tuning.rounds,
            devices=self.plan.devices,
            counts_clients=any(s.settings.over == "concurrency" for s in self.plan.searches),
        )

    @cached_property
    def behind_front_end(self) -> dict[tuple[str, str], list[str]]:
        """The variants that the front end limits, by load point."""
        limited = (case.row for case in self.loaded if load_bound(case) is Bound.FRONT_END)
        return variants_by_place(limited)

    @cached_property
    def in_lockstep(self) -> dict[tuple[str, str], list[str]]:
        """The variants whose clients send in lockstep, by load point; one launch is enough."""
        return waves(self.points)

    @cached_property
    def dummies(self) -> set[str]:
        """The variants whose weights are dummy."""
        return marks.dummies(self.table)

    @cached_property
    def labels(self) -> dict[str, str]:
        """Short names of a tuning's candidates by their own; empty of a study without one."""
        return labels(self.plan.tuning.candidates) if self.plan.tuning else {}

    def relabelled(self, text: str) -> str:
        """Put the short names of candidates into a text."""
        return relabelled(text, self.labels)

    def marked(self, variant: str) -> str:
        """Return what a variant is called, with its marks."""
        of = marks.marked_as(variant in self.dummies, variant in self.failing)
        return f"{self.labels.get(variant, variant)}{of}"

    @cached_property
    def failing(self) -> dict[str, str]:
        """The variants that break a bound of quality, or of a cache, with what they break."""
        return {**failing(self.plan, self.answers), **cache.wrong(self.cached)}

    @cached_property
    def pending(self) -> dict[str, int]:
        """How much is not measured yet, by what it is; a capacity is one of a variant and tier."""
        answers = [] if self.answers is None else list(self.answers["status"])
        counts = {
            "load point": list(self.points["status"]).count(PENDING),
            "capacity": sum(each.is_pending for each in self.found),
            "quality": answers.count(PENDING),
            "round to choose": int(self.plan.has_more),
        }
        return {name: count for name, count in counts.items() if count}

    def _of_points(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows[rows["measurement"].isin(self.points["measurement"])]
