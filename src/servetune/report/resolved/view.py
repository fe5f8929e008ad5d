"""What launches of several variants resolved differently: columns of those that are alike."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from servetune.analysis.wording import listed
from servetune.records.resolved import ANSWERS, NONE, REFUSES, answered, chosen, rank, resolved
from servetune.records.sessions import Launch
from servetune.tables.frames import grouped

Told = dict[str, str]
"""What the launches of a variant told, as text, by name."""


@dataclass(frozen=True)
class Differences:
    """What differs: variants that are alike in all share a column.

    `rows` are a name and its values; `shut` says which endpoints some answer and others refuse.
    """

    columns: list[str]
    rows: list[list[str]]
    shut: list[str]


def differences(launches: Mapping[str, Sequence[Launch]]) -> Differences | None:
    """Compare the launches of variants; None where fewer than two told anything else."""
    told = {name: values for name, some in launches.items() if (values := _told(some))}
    alike = grouped(told, lambda name: tuple(sorted(told[name].items())))
    if len(alike) < 2:
        return None
    columns = {listed(names): told[names[0]] for names in alike.values()}
    return Differences([*columns], _rows([*columns.values()]), list(_shut(columns)))


def _told(launches: Sequence[Launch]) -> Told:
    values = answered(launches) | chosen(launches) | resolved(launches)
    return {name: " or ".join(sorted(texts)) for name, texts in values.items()}


def _rows(sides: list[Told]) -> list[list[str]]:
    """Return what differs, and last what some have no word of."""
    names = {name: None for side in sides for name in side}
    cells = {name: [side.get(name, NONE) for side in sides] for name in names}
    differing = [name for name, values in cells.items() if len(set(values)) > 1]
    ordered = sorted(differing, key=lambda name: (any(name not in s for s in sides), rank(name)))
    # An endpoint that one has no word of is news, too.
    ordered.sort(key=lambda name: not name.startswith(ANSWERS))
    return [[name, *cells[name]] for name in ordered]


def _shut(columns: Mapping[str, Told]) -> Iterator[str]:
    for name in sorted({name for told in columns.values() for name in told}):
        how = {column: told.get(name, "") for column, told in columns.items()}
        refusing = [column for column, text in how.items() if text.startswith(REFUSES)]
        if name.startswith(ANSWERS) and refusing and len(refusing) < len(columns):
            path = name.removeprefix(ANSWERS)
            yield f"{path} is shut in {listed(refusing)} ({how[refusing[0]]}) alone."
