"""`summary.html`: one file that holds its data, its charts and the program that draws them.

Nothing is fetched, and a Content-Security-Policy says so: only the two scripts of this file run,
known by their hashes. All text that users gave goes through Jinja's escaping, and into the data
of the charts as JSON whose `<`, `>` and `&` are escaped.
"""

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from servetune.analysis.comparison import compare, compare_capacity, numbers, records_of
from servetune.analysis.context import growths
from servetune.analysis.judgement import Judgement, judge_study
from servetune.insight.payoff import payoffs, speedups
from servetune.latencies import PERCENTILES
from servetune.plan import Plan
from servetune.published import Published
from servetune.records import SessionRecord
from servetune.report import (
    answer,
    charts,
    context,
    economy,
    insight,
    latency_charts,
    percentiles,
    provenance,
    quality,
    slo,
    slo_section,
    speculation,
    timeline,
    turns,
    validity,
    verdicts,
    wording,
)
from servetune.report import published as reference
from servetune.report.grammar import Spec, heaviest, places_of
from servetune.report.latency_charts import LATENCIES
from servetune.report.palette import FONT, TOKENS, Style, styles, vega_config
from servetune.tables import declared
from servetune.timeline import COLUMNS

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

HERE = Path(__file__).parent
CHARTS_VEGA_LITE = "6.4"


def render_html(
    plan: Plan,
    table: pd.DataFrame,
    quantiles: pd.DataFrame,
    sessions: dict[str, SessionRecord],
    by_turn: pd.DataFrame,
    over_time: pd.DataFrame | None = None,
    published: Published | None = None,
    searched: slo.Searched | None = None,
    answers: pd.DataFrame | None = None,
) -> str:
    """Render the report as one self-contained page.

    Args:
        plan: what was asked.
        table: a row a measurement, as `servetune.tables.load_points` makes it.
        quantiles: the distributions, as `servetune.tables.quantiles` makes them.
        sessions: session records by id; some may be missing.
        by_turn: conversations by turn, as `servetune.tables.turns` makes them.
        over_time: telemetry, as `servetune.timeline.timeline` makes it; by default none.
        published: what others measured, to stand beside it.
        searched: what searches for the capacity found; by default none.
        answers: a row a variant, as `servetune.quality_tables.qualities` makes it; by default none.

    Probes of a search are measurements, but no load points: they are compared with nothing.
    """
    points = declared(table)
    quantiles, by_turn = (
        each[each["measurement"].isin(points["measurement"])] for each in (quantiles, by_turn)
    )
    comparison = compare(points, plan.baseline)
    capacities = compare_capacity(table, plan.baseline)
    judgement = judge_study(plan, points, quantiles)
    looks = styles(plan.variants, plan.baseline)
    reduced, names = turns.by_turn(by_turn), [look.variant for look in looks]
    drawn = _charts(points, quantiles, comparison, capacities, judgement, names)
    drawn |= _turn_charts(reduced, names)
    over_time = pd.DataFrame(columns=list(COLUMNS)) if over_time is None else over_time
    why = insight.insight(plan, table, sessions, names)
    drawn |= {**timeline.drawn(over_time), **why.charts}
    capacity_found = slo_section.section(plan, table, searched, names)
    drawn |= capacity_found.charts if capacity_found else {}
    told = quality.section(plan, answers, names)
    drawn |= told.charts if told else {}
    cards = validity.cards(table)
    ok = points[points["status"] == "ok"]
    speculating = ok[numbers(ok["acceptance_length"]).notna()]
    measured = speedups(plan, judgement.launches)
    program, page = _bundle(), (HERE / "page.js").read_text(encoding="utf-8")
    template = _environment().get_template("template.html.j2")
    return template.render(
        plan=plan,
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        variables=Markup(_variables(looks)),
        scripts=[Markup(program), Markup(page)],
        script_hashes=[_hash(program), _hash(page)],
        charts=drawn,
        themes={theme: vega_config(theme, looks) for theme in TOKENS},
        looks={look.variant: index for index, look in enumerate(looks)},
        legend=looks,
        dummies=answer.dummies(table),
        state=answer.state(table),
        headline=answer.headline(plan, comparison, told.failing if told else None),
        quality=told,
        failing=told.failing if told else {},
        poor=answer.POOR,
        by_variant=answer.by_variant(plan, comparison),
        caution=verdicts.method(plan, judgement) if len(points) else "",
        notes=[
            *(told.warnings if told else []),
            *verdicts.cautions(plan, judgement),
            *_notes(plan, table, comparison, sessions),
        ],
        judged=verdicts.rows(judgement) if judgement.has_intervals else [],
        judged_heads=verdicts.HEADS,
        without=verdicts.without(judgement) if plan.repeats > 1 else [],
        slo=capacity_found,
        drift_checked=verdicts.checked(judgement),
        effects=records_of(judgement.effects),
        columns=COMPARED,
        costs=economy.costs(comparison),
        explained=economy.EXPLAINED,
        batches=economy.batches(comparison, plan.baseline),
        groups=_groups(plan, comparison),
        why=why,
        shown_sections=_sections(drawn, bool(timeline.runs(over_time)), why),
        runs=[(name, name) for name in timeline.runs(over_time)],
        phases=insight.PHASES,
        **_places("", quantiles),
        **_places("drafted_", speculating),
        **_places("turn_", reduced),
        turns=turns.first_and_last(reduced),
        measured=_measured(comparison),
        percentiles=[f"p{percentile}" for percentile in PERCENTILES],
        latencies=LATENCIES,
        intervals=percentiles.rows(points, quantiles, names),
        interval_heads=percentiles.HEADS,
        speculation=speculation.drafted(
            speculating,
            {each.row["measurement"]: each.speculation for each in why.seen},
            measured,
        ),
        payoffs=speculation.sentences(payoffs(plan, speculating, measured)),
        synthetic=speculation.synthetic(plan),
        capacities=records_of(capacities),
        published=_published(plan, points, sessions, published),
        context_explained=context.EXPLAINED,
        context_heads=context.HEADS,
        context_rows=context.rows(growths(points, plan.baseline)),
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


def _published(
    plan: Plan,
    table: pd.DataFrame,
    sessions: dict[str, SessionRecord],
    published: Published | None,
) -> dict[str, Any] | None:
    if published is None:
        return None
    return {
        "explained": reference.EXPLAINED,
        "source": published.source,
        "differing": reference.source(published, plan, provenance.versions(plan, table, sessions)),
        "heads": reference.HEADS,
        "rows": reference.beside(plan, table, published),
    }


def _charts(
    table: pd.DataFrame,
    quantiles: pd.DataFrame,
    comparison: pd.DataFrame,
    capacities: pd.DataFrame,
    judgement: Judgement,
    variants: list[str],
) -> dict[str, Spec]:
    drawn: dict[str, Spec | None] = {
        **{
            f"ratio-{metric}": verdicts.forest(judgement, variants, metric, head.split(",")[0])
            or charts.ratios(comparison, variants, metric, head.split(",")[0])
            for metric, head in COMPARED.items()
            if metric != "e2e_p50_ms"
        },
        **{
            f"distribution-{latency}": latency_charts.distribution(quantiles, variants, latency)
            for latency in LATENCIES
        },
        **{
            f"tradeoff-{latency}": latency_charts.tradeoff(table, comparison, variants, latency)
            for latency in LATENCIES
        },
        "acceptance": charts.acceptance(table, variants),
        "capacity": charts.capacity(capacities, variants),
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


def _notes(
    plan: Plan, table: pd.DataFrame, comparison: pd.DataFrame, sessions: dict[str, SessionRecord]
) -> list[str]:
    """What a reader has to know before reading any number."""
    missing = provenance.missing_sessions(table, sessions)
    return [
        *([answer.DUMMY] if answer.dummies(table) else []),
        *answer.no_ratios(plan, comparison),
        *provenance.mixed(table, sessions),
        *([missing] if missing else []),
    ]


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


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": True}
    environment.filters |= {
        "number": wording.number,
        "ratio": wording.ratio,
        "percent": wording.percent,
        "share": wording.share,
        "whole": wording.whole,
        "estimate": quality.estimate,
        "text": lambda value: value if isinstance(value, str) else "",
        "where": wording.where_of,
        "load": wording.load_of,
        "from_to": turns.from_to,
        "interval": verdicts.interval,
        "wanting": verdicts.wanting,
        "speedup": speculation.interval,
    }
    return environment


@lru_cache(maxsize=1)
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one program, once for all charts."""
    return vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=CHARTS_VEGA_LITE
    )


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _variables(looks: list[Style]) -> str:
    """Colours as CSS variables, by theme: nothing in here comes from users."""

    def declare(theme: str) -> str:
        tokens = [f"--{name}:{value}" for name, value in TOKENS[theme].items()]
        series = [f"--v{index}:{getattr(look, theme)}" for index, look in enumerate(looks)]
        return ";".join([*tokens, *series])

    light = f":root{{color-scheme:light dark;--font:{FONT};{declare('light')}}}"
    return f"{light}@media (prefers-color-scheme:dark){{:root{{{declare('dark')}}}}}"
