"""A tuning: the answer, the race of the candidates, and how to run the winner."""

from collections.abc import Mapping
from dataclasses import dataclass

import altair as alt

from servetune.analysis.tuning.answer import Answer
from servetune.analysis.wording import listed
from servetune.numbers import number
from servetune.progress import counted
from servetune.report.answer.front import FRONT, front
from servetune.report.answer.race import (
    effects,
    expectations,
    failures,
    objective,
    race,
    unknown_effects,
    untried,
    value_of,
)
from servetune.report.answer.standings import LEVELS, Standing, standings
from servetune.report.commands.section import command_of
from servetune.report.gfm import details, fence, table_of, text
from servetune.report.grammar import Spec, data, layered, look, says, shown, spec, tooltip
from servetune.report.lacks import drawing
from servetune.report.measured import Measured
from servetune.report.table import Table

LANE_PX = 36
"""A candidate's in the chart: its name, and its launches under it."""


@dataclass(frozen=True)
class Words:
    """What the template and the Markdown take; `command` serves the winner."""

    how: str
    race: Table
    front: Table | None
    front_means = FRONT
    effects: Table | None
    unknown: str
    axis: str
    winner: str | None
    command: str


def tuning_of(measured: Measured) -> Words | None:
    """Return what is told of a tuning; None of a study that tunes nothing, or has not begun to."""
    tuning, outcome = measured.plan.tuning, measured.tuned
    if tuning is None or outcome is None:
        return None
    found = standings(tuning, measured.seen)
    minutes = sum(each.server_s for each in measured.seen) / 60
    counts = counted({"launch": len(measured.seen), "round": len(tuning.rounds)})
    how = [
        f"{listed(counts)}, {number(minutes)} server minutes.",
        failures(found),
        untried(outcome, found),
        expectations(tuning, found),
    ]
    return Words(
        how=" ".join(filter(None, how)),
        race=race(tuning, found, outcome),
        front=front(tuning, found, measured.table, outcome.winner),
        effects=effects(outcome),
        unknown=unknown_effects(outcome),
        axis=objective(tuning),
        winner=outcome.winner,
        command=_command(measured, outcome),
    )


def charts_of(measured: Measured) -> dict[str, Spec | None]:
    """Draw the race; nothing of a study that tunes nothing."""
    tuning = measured.plan.tuning
    if tuning is None or measured.tuned is None:
        return {}
    return {
        "tuning": _chart(
            measured.variants, standings(tuning, measured.seen), objective(tuning), measured.labels
        )
    }


def _command(measured: Measured, outcome: Answer) -> str:
    """Return the command that served the winner last."""
    rows = measured.table[measured.table["variant"] == outcome.winner]
    return command_of(rows["server_command"].iloc[-1]) if len(rows) else ""


@drawing
def _chart(
    variants: list[str], found: list[Standing], axis: str, labels: Mapping[str, str]
) -> Spec | None:
    """Draw each launch of each candidate with its interval, the best candidate first."""
    rows = [
        {
            "variant": of.name,
            "value": each.value,
            "low": each.lower,
            "high": min(each.upper, each.value * 2),
            "opacity": 0.9 if each in of.telling else 0.45,
            "shown": f"{LEVELS[each.trial.level]}: {value_of(each)}",
        }
        for of in found
        for each in of.seen
        if each.value is not None
    ]
    if not rows:
        return None
    lanes = list(dict.fromkeys(str(row["variant"]) for row in rows))
    x = alt.X("value:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title=axis, tickCount=5))
    # A name stands above its lane, where it has room.
    y = alt.Y(
        "variant:N",
        sort=lanes,
        axis=alt.Axis(
            title=None,
            ticks=False,
            domain=False,
            labelAlign="left",
            labelPadding=-4,
            labelOffset=-13,
            labelLimit=0,
        ),
    )
    colour, shape = look(variants)
    opacity = alt.Opacity("opacity:Q", scale=None)
    base = alt.Chart(data()).encode(y, colour, opacity, tooltip=tooltip(axis, "shown"))
    layers = (
        base.mark_rule(strokeWidth=2).encode(alt.X("low:Q", title=axis), alt.X2("high:Q")),
        base.mark_point(filled=True, size=70).encode(x, shape),
    )
    facts = [
        f"{labels.get(of.name, of.name)} {value_of(of.best_known)}"
        for of in found
        if of.best_known.value
    ]
    description = f"{axis} of each launch, the best candidate first. {says(facts)}"
    return spec(shown(layered(*layers)), description, 40 + LANE_PX * len(lanes), rows=rows)


def markdown_of(measured: Measured, words: Words, most: int | None) -> str:
    """Write what led to the answer: a command to run the winner, and the folded race."""
    tables = [table_of(measured, words.race, most)]
    if words.front:
        tables.append(table_of(measured, words.front, most, after=FRONT))
    if words.effects:
        tables.append(table_of(measured, words.effects, most, after=text(words.unknown)))
    run = fence(f"servetune deploy {words.winner}\n{words.command}", "sh")
    blocks = [text(words.how), *([run] if words.winner else [])]
    return "\n\n".join([*blocks, details("The race", "\n\n".join(tables))])
