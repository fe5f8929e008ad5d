"""`summary.html`: one file that holds its data, its charts and the program that draws them.

Nothing is fetched, and a Content-Security-Policy says so: only the two scripts of this file run,
known by their hashes. All text that users gave goes through Jinja's escaping, and into the data
of the charts as JSON whose `<`, `>` and `&` are escaped.
"""

from typing import Any

import pandas as pd
from markupsafe import Markup

from servetune.analysis.comparison import compare_kv_cache
from servetune.metrics import PERCENTILES
from servetune.plan.planned import Plan
from servetune.report import economy, page, provenance, verdicts, wording
from servetune.report.answer import charts
from servetune.report.answer import words as answer
from servetune.report.capacity import section as slo_section
from servetune.report.context import words as context
from servetune.report.grammar import Spec, heaviest, places_of
from servetune.report.latency import charts as latency_charts
from servetune.report.latency import words as percentiles
from servetune.report.latency.charts import LATENCIES
from servetune.report.measured import Measured
from servetune.report.palette import TOKENS, styles, vega_config
from servetune.report.published import words as reference
from servetune.report.quality import words as quality
from servetune.report.roofline import charts as insight
from servetune.report.speculation import words as speculation
from servetune.report.timeline import charts as timeline
from servetune.report.turns import charts as turns
from servetune.report.validity import words as validity
from servetune.tables.frames import records_of

COMPARED = {
    "ttft_p50_ms": "TTFT p50, ms",
    "tpot_p50_ms": "TPOT p50, ms",
    "e2e_p50_ms": "E2E p50, ms",
    "output_throughput_tok_s": "Output, tok/s",
}
"""The metrics of the comparison, with the head of their column."""

FULL_CARDS = 48
"""Validity cards that are shown in full, of those that break a rule and of those that do not;
the others are rows of one table."""


def render_html(measured: Measured) -> str:
    """Render the report as one self-contained page."""
    plan, table, sessions = measured.plan, measured.table, measured.sessions
    points, comparison, judgement = measured.points, measured.comparison, measured.judgement
    looks = styles(plan.variants, plan.baseline)
    names = [look.variant for look in looks]
    kv_caches = compare_kv_cache(table, plan.baseline)
    why = insight.insight(plan, table, sessions, names)
    capacity_found = slo_section.section(measured, names)
    told = quality.section(plan, measured.answers, names)
    drawn = {
        **_charts(measured, kv_caches, names),
        **_turn_charts(measured.by_turn, names),
        **timeline.drawn(measured.over_time),
        **why.charts,
        **(capacity_found.charts if capacity_found else {}),
        **(told.charts if told else {}),
    }
    runs = timeline.runs(measured.over_time)
    cards = validity.cards(table)
    program, script = page.bundle(), (page.HERE / "page.js").read_text(encoding="utf-8")
    template = page.environment().get_template("page.html.j2")
    return template.render(
        plan=plan,
        style=Markup((page.HERE / "page.css").read_text(encoding="utf-8")),
        variables=Markup(page.variables(looks)),
        scripts=[Markup(program), Markup(script)],
        script_hashes=[page.script_hash(program), page.script_hash(script)],
        charts=drawn,
        themes={theme: vega_config(theme, looks) for theme in TOKENS},
        looks={look.variant: index for index, look in enumerate(looks)},
        legend=looks,
        dummies=measured.dummies,
        state=answer.state(table),
        headline=answer.headline(plan, comparison, measured.failing),
        quality=told,
        failing=measured.failing,
        poor=answer.POOR,
        by_variant=answer.by_variant(plan, comparison),
        caution=verdicts.method(plan, judgement) if len(points) else "",
        notes=_notes(measured),
        judged=verdicts.rows(judgement) if judgement.has_intervals else [],
        judged_heads=verdicts.HEADS,
        without=verdicts.without(judgement) if plan.repeats > 1 else [],
        slo=capacity_found,
        drift_checked=verdicts.checked(judgement),
        resolved=verdicts.resolved(judgement.resolution),
        effects=records_of(judgement.effects),
        columns=COMPARED,
        costs=economy.costs(comparison),
        explained=economy.EXPLAINED,
        batches=economy.batches(comparison, plan.baseline),
        groups=_groups(plan, comparison),
        why=why,
        shown_sections=_sections(drawn, bool(runs), why),
        runs=[(name, name) for name in runs],
        phases=insight.PHASES,
        **_places("", measured.distributions),
        **_places("drafted_", measured.speculating),
        **_places("turn_", measured.by_turn),
        turns=turns.first_and_last(measured.by_turn),
        measured=_measured(comparison),
        percentiles=[f"p{percentile}" for percentile in PERCENTILES],
        latencies=LATENCIES,
        intervals=percentiles.rows(points, measured.distributions, names),
        interval_heads=percentiles.HEADS,
        speculation=speculation.drafted(
            measured.speculating,
            {each.row["measurement"]: each.speculation for each in why.seen},
            measured.speedups,
        ),
        payoffs=speculation.sentences(measured.payoffs),
        synthetic=speculation.synthetic(plan),
        kv_caches=records_of(kv_caches),
        published=_published(measured),
        context_explained=context.EXPLAINED,
        context_heads=context.HEADS,
        context_rows=context.rows(measured.growing),
        problems=answer.problems(table),
        rows=records_of(table),
        tallies=validity.tallies(cards),
        marks=validity.MARKS,
        full_cards=FULL_CARDS,
        broken_cards=[card for card in cards if card.broken],
        kept_cards=[card for card in cards if not card.broken],
        commands=provenance.commands(plan, table, sessions),
        setup=provenance.setup(plan, table, sessions),
        hosts=provenance.hosts(table, sessions),
        commits=provenance.commits(table, sessions),
        versions=provenance.versions(plan, table, sessions),
        reproduction=provenance.reproduction(plan, table, sessions),
        glossary=wording.GLOSSARY,
    )


def _published(measured: Measured) -> dict[str, Any] | None:
    plan, table, published = measured.plan, measured.table, measured.published
    if published is None:
        return None
    versions = provenance.versions(plan, table, measured.sessions)
    return {
        "explained": reference.EXPLAINED,
        "source": published.source,
        "differing": reference.source(published, plan, versions),
        "heads": reference.HEADS,
        "rows": reference.beside(plan, measured.points, published),
    }


def _charts(measured: Measured, kv_caches: pd.DataFrame, variants: list[str]) -> dict[str, Spec]:
    points, comparison = measured.points, measured.comparison
    drawn: dict[str, Spec | None] = {
        **{
            f"ratio-{metric}": verdicts.forest(
                measured.judgement, variants, metric, head.split(",")[0]
            )
            or charts.ratios(comparison, variants, metric, head.split(",")[0])
            for metric, head in COMPARED.items()
            if metric != "e2e_p50_ms"
        },
        **{
            f"distribution-{latency}": latency_charts.distribution(
                measured.distributions, variants, latency
            )
            for latency in LATENCIES
        },
        **{
            f"tradeoff-{latency}": latency_charts.tradeoff(points, comparison, variants, latency)
            for latency in LATENCIES
        },
        "acceptance": charts.acceptance(points, variants),
        "capacity": charts.kv_cache(kv_caches, variants),
    }
    return {name: spec for name, spec in drawn.items() if spec is not None}


def _sections(drawn: dict[str, Spec], has_runs: bool, why: insight.Insight) -> set[str]:
    """Name the sections that a finding can link to."""
    told = {"timeline": has_runs, "roofline": bool(why.placed), "startup": "startup" in drawn}
    told |= {"speculation": "acceptance" in drawn}
    always = {"problems", "validity", "measurements", "capacity"}
    return always | {name for name, is_there in told.items() if is_there}


def _turn_charts(reduced: pd.DataFrame, variants: list[str]) -> dict[str, Spec]:
    drawn = {f"turn-{m}": turns.over_turns(reduced, variants, m) for m in turns.DRAWN}
    return {name: spec for name, spec in drawn.items() if spec is not None}


def _notes(measured: Measured) -> list[str]:
    """What a reader has to know before reading any number."""
    missing = provenance.missing_sessions(measured.table, measured.sessions)
    return [*measured.notes, *([missing] if missing else [])]


def _groups(plan: Plan, comparison: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of the comparison by workload and load point, the baseline first in each."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for row in records_of(comparison):
        key = (row["workload"], row["load_point"])
        group = groups.setdefault(key, {"workload": key[0], "load": wording.load_of(row)})
        group.setdefault("rows", []).append(row)
    for group in groups.values():
        group["rows"].sort(key=lambda row: row["variant"] != plan.baseline)
    return list(groups.values())


def _places(prefix: str, table: pd.DataFrame) -> dict[str, Any]:
    """The workloads and load points to select from, as the charts name them, and the first."""
    places = places_of(table)
    first = heaviest(table) if places else None
    return {f"{prefix}places": [(place, place) for place in places], f"{prefix}place": first}


def _measured(comparison: pd.DataFrame) -> list[str]:
    """The workloads that have at least one ok row that is no batch: a line can be drawn."""
    rows = [row for row in records_of(comparison) if row["ok"] and not wording.is_batch(row)]
    return list(dict.fromkeys(row["workload"] for row in rows))
