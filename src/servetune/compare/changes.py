"""What differs between two revisions: declared, resolved by the server, and installed."""

from dataclasses import dataclass

from servetune.compare.sides import Side
from servetune.records.resolved import NONE, answered, chosen, leaves, rank, resolved, show
from servetune.records.sessions import Launch


@dataclass(frozen=True)
class Change:
    """A value on both sides, as text, and the variants that it holds for (all: empty)."""

    name: str
    base: str
    here: str
    variants: tuple[str, ...] = ()


def declared_changes(base: Side, here: Side) -> list[Change]:
    """List what differs in params.yaml and in the study."""
    changes = []
    for prefix, *sides in (("", base.params, here.params), ("study: ", base.study, here.study)):
        before, after = (dict(leaves(side)) for side in sides)
        changes += [
            Change(f"{prefix}{name}", show(before.get(name)), show(after.get(name)))
            for name in dict.fromkeys([*before, *after])
            if before.get(name) != after.get(name)
        ]
    return changes


def resolved_changes(base: Side, here: Side) -> list[Change]:
    """List what the servers of a variant resolved differently, the same change of many as one.

    A value that varies from launch to launch of one side is not a change.
    """
    changed: dict[tuple[str, str, str], list[str]] = {}
    common = [name for name in here.variants if name in base.variants]
    for variant in common:
        for read in (resolved, chosen, answered):
            before, after = (read(_launches(side, variant)) for side in (base, here))
            if not before or not after:
                continue
            for name in sorted(before.keys() | after.keys(), key=rank):
                one, other = before.get(name, {show(None)}), after.get(name, {show(None)})
                if one.isdisjoint(other):
                    change = (name, " or ".join(sorted(one)), " or ".join(sorted(other)))
                    changed.setdefault(change, []).append(variant)
    return [
        Change(*change, () if variants == common else tuple(variants))
        for change, variants in sorted(changed.items(), key=lambda item: rank(item[0][0]))
    ]


def installed_changes(base: Side, here: Side) -> list[Change]:
    """List changes of engines, versions, checkpoints and hosts."""
    before, after = _installed(base), _installed(here)
    kinds = ["engine", "model", "host", "GPU"]
    names = [*kinds, *sorted((before.keys() | after.keys()) - {*kinds})]
    values = [(name, before.get(name, NONE), after.get(name, NONE)) for name in names]
    return [Change(*change) for change in values if change[1] != change[2]]


def _launches(side: Side, variant: str) -> list[Launch]:
    sessions = (session for session in side.sessions.values() if session.variant == variant)
    return [launch for session in sessions for launch in session.launches]


def _installed(side: Side) -> dict[str, str]:
    """All that the sessions of a side name of each kind, and all versions of each package."""
    sessions = side.sessions.values()
    launches = [launch for session in sessions for launch in session.launches]
    gpus = [gpu for launch in launches for gpu in launch.host.get("gpus", [])]
    installed: dict[str, set[str]] = {
        "engine": {session.engine for session in sessions if session.engine},
        "model": {str(id) for session in sessions for id in session.model.values() if id},
        "host": {launch.host.get("cpu") or NONE for launch in launches if launch.host},
        "GPU": {str(gpu.get("name")) for gpu in gpus},
    }
    for launch in launches:
        for name, version in launch.versions.items():
            installed.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(values)) or NONE for name, values in installed.items()}
