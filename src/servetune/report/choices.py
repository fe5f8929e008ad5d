"""What the servers chose only as they started, and the settings that they ignored."""

from collections.abc import Iterable

from servetune.analysis.wording import listed
from servetune.engines.vllm.choices import UNKNOWN_VARIABLE
from servetune.records.sessions import Launch, SessionRecord

Sessions = dict[str, SessionRecord]


def chosen(sessions: Sessions) -> list[str]:
    """List each choice, with the variants that made it where not all did."""
    variants = {session.variant for session in sessions.values()}
    known = {variant for variant, launch in _launches(sessions) if launch.choices is not None}
    lines = [
        f"{name}: {value}{_of(those, variants)}"
        for name, values in _values(sessions).items()
        for value, those in values.items()
    ]
    unknown = [variant for variant in variants if variant not in known]
    return [*lines, *([f"not known{_of(unknown, variants)}"] if unknown else [])]


def ignored(sessions: Sessions) -> list[str]:
    """List what the servers said that they ignored or changed, with the variants."""
    variants = {session.variant for session in sessions.values()}
    told: dict[str, list[str]] = {}
    for variant, launch in _launches(sessions):
        for message in launch.ignored or []:
            told.setdefault(message, []).append(variant)
    return [f"{message}{_of(those, variants)}" for message, those in told.items()]


def cautions(sessions: Sessions) -> list[str]:
    """Warn where launches or variants chose differently, and of variables that no server knows."""
    notes = []
    for name, values in _values(sessions).items():
        if len(values) > 1:
            sides = (f"{value} ({listed(sorted(set(those)))})" for value, those in values.items())
            of_launches = [variant for those in values.values() for variant in sorted(set(those))]
            twice = sorted({v for v in of_launches if of_launches.count(v) > 1})
            who = f"Launches of {listed(twice)}" if twice else "Servers"
            notes.append(f"{who} differ in a choice of their own, {name}: {listed(sides)}.")
    unknown: dict[str, list[str]] = {}
    for variant, launch in _launches(sessions):
        for message in launch.ignored or []:
            told = message.partition(UNKNOWN_VARIABLE)[2]
            if told.partition(";")[0] in launch.environment:
                unknown.setdefault(told, []).append(variant)
    for told, those in unknown.items():
        name, _, hint = told.partition(";")
        notes.append(
            f"The study sets {name} for {listed(sorted(set(those)))}, but this vLLM does not know"
            f" it{f':{hint}' if hint else '.'}"
        )
    return notes


def _launches(sessions: Sessions) -> list[tuple[str, Launch]]:
    return [
        (session.variant, launch) for session in sessions.values() for launch in session.launches
    ]


def _values(sessions: Sessions) -> dict[str, dict[str, list[str]]]:
    """Return the variants of each launch by what it chose, by the name of the choice."""
    values: dict[str, dict[str, list[str]]] = {}
    for variant, launch in _launches(sessions):
        for name, value in (launch.choices or {}).items():
            values.setdefault(name, {}).setdefault(value, []).append(variant)
    return values


def _of(those: Iterable[str], variants: set[str]) -> str:
    """Name some variants in brackets; nothing where they are all."""
    return "" if set(those) == variants else f" ({', '.join(sorted(set(those)))})"
