"""Variants that share launches: those that differ in their gateways alone.

The servers stay, the gateway is changed and the caches are emptied in between. So a difference
between two gateways is not that of two launches.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from servetune.plan.identity import digest
from servetune.plan.planned import Session
from servetune.records.paths import session_path
from servetune.study.gateways import KV_AWARE, DeclaredGateway
from servetune.study.study import Params, Study, passed_to


@dataclass(frozen=True)
class Servers:
    """The servers of a variant.

    `name` is the same of variants that share them, None of one that shares with none. They publish
    the blocks that they cache where any gateway before them goes by these.
    """

    name: str | None = None
    has_kv_events: bool = False


def share_servers(study: Study, params: Params) -> dict[str, Servers]:
    """Tell with whom each variant that servetune serves shares its servers.

    It follows from what is declared of all variants of a study, whichever are chosen to be
    measured: those without a gateway alone share none, so that two alike have launches of their
    own.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for name, variant in study.variants.items():
        if variant.is_served:
            declared = variant.model_dump(
                mode="json", include={"model", "replicas", "neighbours", "adapters", "speculative"}
            )
            if variant.roles:
                declared["roles"] = variant.roles.model_dump(mode="json")
            declared["engine"] = str(variant.engine or study.engine)
            server = {**study.server, **variant.server, **params.overrides}
            declared["server"] = {key: value for key, value in server.items() if value is not None}
            declared["environment"] = {**study.environment, **variant.environment}
            declared["passed"] = passed_to(study, variant)
            alike[digest(declared)].append(name)
    told: dict[str, Servers] = {}
    for key, names in alike.items():
        gateways = [gateway for name in names if (gateway := study.variants[name].gateway)]
        is_shared = len(names) > 1 and bool(gateways)
        routers = [each for each in gateways if isinstance(each, DeclaredGateway)]
        has_events = any(each.policy == KV_AWARE for each in routers)
        told |= dict.fromkeys(names, Servers(key if is_shared else None, has_events))
    return told


def keep_together(
    order: Iterable[tuple[str, int]], servers: Mapping[str, str]
) -> list[tuple[str, int]]:
    """Put the variants of one launch after each other, at the place of the first of them.

    `order` is of (variant, repeat), `servers` are the names of what some variants share.
    """
    launches: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    for variant, repeat in order:
        launches[servers.get(variant, f"{variant} alone"), repeat].append((variant, repeat))
    return [at for launch in launches.values() for at in launch]


def sharing(session: Session, sessions: Iterable[Session]) -> list[Session]:
    """Return the sessions that a launch of this one measures, this one among them, in order."""
    if session.servers is None:
        return [session]
    others = {each.id: each for each in sessions if each.servers == session.servers}
    return sorted({**others, session.id: session}.values(), key=lambda each: each.order)


def leader_of(session: Session, sessions: Iterable[Session], root: Path) -> Session:
    """Return the session whose launch measures this one: the first that is not complete."""
    incomplete = (
        each
        for each in sharing(session, sessions)
        if not session_path(each.study, each.id, root).is_file()
    )
    return next(incomplete, session)
