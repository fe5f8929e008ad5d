"""Speculative decoding: acceptance, and up to which load it pays."""

from dataclasses import dataclass

from servetune.report.gfm import bullets, text
from servetune.report.grammar import Places
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.speculation.charts import acceptance
from servetune.report.speculation.words import drafted, interval, sentences, synthetic
from servetune.report.table import Cell, Name, Table
from servetune.report.wording import NONE, TIMES, number, percent, ratio


@dataclass(frozen=True)
class Speculation:
    """What the template takes; `synthetic` names variants whose acceptance is set."""

    table: Table
    sentences: list[str]
    synthetic: str
    places: Places


def section(measured: Measured) -> Section | None:
    """Make the section; None where no variant speculates."""
    rows: list[list[Cell]] = [
        [
            *(Name(each.variant), each.where, number(each.length), percent(each.acceptance)),
            ", ".join(map(percent, each.positions)),
            *(number(each.step_cost), number(each.measured_step_cost), ratio(each.predicted)),
            interval(each.measured) if each.measured else NONE,
            each.pays_until,
        ]
        for each in drafted(measured)
    ]
    if not rows:
        return None
    heads = (
        *(
            "Variant",
            "Load point",
            "Length",
            "Ratio",
            "By position",
            f"Step, {TIMES} plain",
            "measured",
        ),
        *("Speed-up, predicted", "measured", "Pays until"),
    )
    texts = ("Variant", "Load point", "By position")
    words = Speculation(
        Table("Acceptance", heads, rows, texts, css=("tall after", "dense")),
        sentences(measured.payoffs),
        synthetic(measured.plan),
        Places.of(measured.speculating),
    )
    return Section(
        "speculation",
        "Speculative decoding",
        words,
        {"acceptance": acceptance(measured.points, measured.variants)},
        lambda fit: _markdown(words),
        link="Speculation",
    )


def _markdown(words: Speculation) -> str | None:
    if not words.sentences:
        return None
    told = [text(words.synthetic)] if words.synthetic else []
    return "\n\n".join(["### Speculation", *told, bullets(list(map(text, words.sentences)))])
