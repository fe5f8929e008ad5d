"""What a reader has to know before reading any number."""

from collections.abc import Callable, Iterable, Iterator

from servetune.analysis.wording import listed, place_of, places, text_of
from servetune.errors import reason_of
from servetune.progress import counted
from servetune.report import choices, lockstep, provenance, throughput, verdicts
from servetune.report.lacks import lack
from servetune.report.marks import DUMMY, FRONT_END
from servetune.report.measured import Measured
from servetune.report.validity import view as validity
from servetune.tables.frames import grouped


def notes(measured: Measured) -> list[str]:
    """Say it, a sentence each; one that cannot be said is told at the end."""
    kinds: tuple[Callable[[], Iterable[str]], ...] = (
        lambda: _partial(measured),
        lambda: verdicts.cautions(measured.plan, measured.judgement),
        lambda: throughput.cautions(measured.points),
        lambda: [DUMMY] if measured.dummies else [],
        lambda: _of_front_ends(measured),
        lambda: lockstep.cautions(measured.in_lockstep),
        lambda: _of_missing_ratios(measured),
        lambda: choices.cautions(measured.sessions),
        lambda: validity.warnings(measured.table),
        lambda: provenance.cautions(measured.plan, measured.table, measured.sessions),
    )
    said, lacks = [], []
    for kind in kinds:
        try:
            said += [*kind()]
        except Exception as error:
            lacks.append(lack("A note", reason_of(error)))
    measured.lacks.extend(line for line in lacks if line not in measured.lacks)
    return [*said, *(f"{line}." for line in lacks)]


def _of_front_ends(measured: Measured) -> Iterator[str]:
    for place, variants in measured.behind_front_end.items():
        yield (
            f"{FRONT_END} At {' · '.join(place)} the front end limits {listed(variants)}, not the"
            " engine: ratios there compare front ends as much as variants."
        )


def _of_missing_ratios(measured: Measured) -> Iterator[str]:
    lacking = [row for row in measured.compared if row["ok"] and text_of(row["no_ratio"])]
    for why, rows in grouped(lacking, lambda row: row["no_ratio"]).items():
        yield f"No ratios at {places(map(place_of, rows))}: {why}."


def _partial(measured: Measured) -> list[str]:
    if not (missing := counted(measured.pending)):
        return []
    return [f"This report is partial. Not measured yet: {listed(missing)}."]
