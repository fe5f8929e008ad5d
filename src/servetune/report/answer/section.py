"""The answer: what is proven where the study is decided, one row a variant, and its chart."""

from dataclasses import dataclass

from servetune.analysis.wording import state
from servetune.numbers import NONE
from servetune.report.answer.view import Cell, Grid, grid, reasons, sentences
from servetune.report.capacity.view import sentences as capacities
from servetune.report.gfm import bullets, escaped, pipe_table, text
from servetune.report.marks import marked
from servetune.report.measured import Measured
from servetune.report.notes import notes
from servetune.report.quality.view import warnings
from servetune.report.ratios import gains
from servetune.report.section import Section
from servetune.tables.frames import broken

INVERSE = "; in latency, how many times as short"

NOTHING = "No measurement is ok, so there is no answer yet."
NOTHING_DECIDES = "What decides this study is not measured yet."


@dataclass(frozen=True)
class Answer:
    """What the template and the Markdown take.

    `said` holds what is shown with the loads where it is, `capacities` the capacity within each
    SLO. `warnings` of poor quality come before any speed, `notes` after the numbers. `inverse`
    says what a gain in latency is, where one is drawn. `nothing` says why nothing is said.
    """

    said: list[tuple[str, str]]
    capacities: list[tuple[str, str, str]]
    grid: Grid | None
    reasons: str
    state: str
    has_problems: bool
    warnings: list[str]
    notes: list[str]
    inverse: str
    nothing: str


def section(measured: Measured) -> Section:
    """Make the section."""
    has_latency = any(decision.metric.better == "lower" for decision in measured.decisions)
    said, within = sentences(measured), capacities(measured.deciding)
    has_values = bool((measured.table["status"] == "ok").any())
    words = Answer(
        said=said,
        capacities=within,
        grid=grid(measured),
        reasons=reasons(measured),
        state=state(measured.table),
        has_problems=bool(len(broken(measured.table))),
        warnings=warnings(measured.plan, measured.answers),
        notes=notes(measured),
        inverse=INVERSE if has_latency else "",
        nothing="" if said or within else NOTHING_DECIDES if has_values else NOTHING,
    )
    charts = {"answer": gains(measured.decisions, measured.deciding, measured.variants)}
    return Section("answer", "Answer", words, charts, lambda fit: _markdown(measured, words))


def _markdown(measured: Measured, words: Answer) -> str:
    said = [f"**{text(place)}:** {text(sentence)}" for place, sentence in words.said]
    within = [f"**{text(at)}** ({text(slo)}): {text(it)}" for at, slo, it in words.capacities]
    blocks = [
        *(f"> {text(warning)}" for warning in words.warnings),
        bullets([*within, *said]) or words.nothing,
        _table(measured, words.grid) if words.grid else "",
        text(f"{words.reasons} {words.state}"),
        *(f"> {text(note)}" for note in words.notes),
    ]
    return "\n\n".join(block for block in blocks if block)


def _table(measured: Measured, of: Grid) -> str:
    baseline = measured.plan.baseline
    rows = [
        [
            text(marked(variant, measured.dummies, measured.failing))
            + (", baseline" if variant == baseline else ""),
            *map(_cell, cells),
        ]
        for variant, cells in of.rows.items()
    ]
    named = (f"{head.group}: {head.title}" if head.group else head.title for head in of.heads)
    heads = ["Variant", *map(escaped, named)]
    return pipe_table(heads, rows, numeric_from=len(heads))


def _cell(cell: Cell) -> str:
    verdict = cell.verdict if cell.is_open or not cell.verdict else f"**{cell.verdict}**"
    said = " ".join(filter(None, (verdict, escaped(cell.figure))))
    before = " " if cell.remark.startswith("[") else "; "
    return before.join(filter(None, (said, escaped(cell.remark)))) or NONE
