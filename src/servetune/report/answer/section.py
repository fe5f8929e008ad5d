"""The answer: what is proven where the study is decided, one row a variant, and its chart."""

from dataclasses import dataclass

from servetune.analysis.wording import state
from servetune.numbers import NONE
from servetune.report.answer.tuning import Words, charts_of, markdown_of, tuning_of
from servetune.report.answer.view import Cell, Grid, grid, reasons, said
from servetune.report.capacity.launches import launches_together
from servetune.report.capacity.view import sentences as capacities
from servetune.report.gfm import bullets, escaped, pipe_table, text
from servetune.report.measured import Measured
from servetune.report.notes import notes
from servetune.report.quality.view import warnings
from servetune.report.ratios import gains
from servetune.report.section import Section
from servetune.report.semantic_cache import view as cache
from servetune.tables.frames import broken

NOTHING = "No measurement is ok, so there is no answer yet."
NOTHING_DECIDES = "What decides this study is not measured yet."


@dataclass(frozen=True)
class Answer:
    """What the template and the Markdown take.

    `said` holds what is shown with the loads where it is, `capacities` the capacity within each
    SLO, `tuned` what led to the answer of a tuning. `warnings` of poor quality come before any
    speed, `notes` after the numbers. `nothing` says why nothing is said.
    """

    said: list[tuple[str, str]]
    capacities: list[tuple[str, str, str]]
    grid: Grid | None
    reasons: str
    state: str
    has_problems: bool
    warnings: list[str]
    notes: list[str]
    nothing: str
    tuned: Words | None


def section(measured: Measured) -> Section:
    """Make the section."""
    tuned = tuning_of(measured)
    # A tuning answers by what it confirmed; the capacities of its candidates are its evidence.
    told, within = said(measured), [] if tuned else capacities(measured.deciding)
    has_values = bool((measured.table["status"] == "ok").any())
    unanswered = sum(each.has_no_answer and not each.is_pending for each in measured.found)
    words = Answer(
        said=told,
        capacities=within,
        grid=grid(measured),
        reasons="" if tuned else reasons(measured),
        state=state(measured.table, unanswered, len(measured.found)),
        has_problems=bool(len(broken(measured.table))),
        warnings=[
            measured.relabelled(each)
            for each in (
                *warnings(measured.plan, measured.answers),
                *cache.warnings(measured.cached),
            )
        ],
        notes=[measured.relabelled(note) for note in notes(measured)],
        nothing="" if told or within else NOTHING_DECIDES if has_values else NOTHING,
        tuned=tuned,
    )
    drawn = gains(measured.decisions, launches_together(measured.deciding), measured.variants)
    charts = charts_of(measured) if tuned else {"answer": drawn}
    return Section(
        "answer", "Answer", words, charts, lambda fit: _markdown(measured, words, fit.rows)
    )


def _markdown(measured: Measured, words: Answer, most: int | None) -> str:
    told = [
        f"**{text(place)}:** {text(sentence)}" if place else f"**{text(sentence)}**"
        for place, sentence in words.said
    ]
    within = [f"**{text(at)}** ({text(slo)}): {text(it)}" for at, slo, it in words.capacities]
    blocks = [
        *(f"> {text(warning)}" for warning in words.warnings),
        bullets([*within, *told]) or words.nothing,
        _table(measured, words.grid) if words.grid else "",
        text(f"{words.reasons} {words.state}".strip()),
        markdown_of(measured, words.tuned, most) if words.tuned else "",
        *(f"> {text(note)}" for note in words.notes),
    ]
    return "\n\n".join(block for block in blocks if block)


def _table(measured: Measured, of: Grid) -> str:
    baseline = measured.plan.baseline
    rows = [
        [
            text(measured.marked(variant)) + (", baseline" if variant == baseline else ""),
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
