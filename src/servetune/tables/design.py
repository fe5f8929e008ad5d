"""What a study compares: how each variant is served, and which loads it takes."""

import json
from dataclasses import dataclass
from typing import Any

from servetune.plan.planned import Plan, Session
from servetune.records.loads import Load
from servetune.study.base import Neighbours
from servetune.study.until import UntilDecided

Place = tuple[str, str, str]
"""Variant, workload and load point."""


@dataclass(frozen=True)
class Design:
    """A study as an analysis needs it.

    Attributes:
        study: its name.
        baseline: the variant that the others are compared with.
        equivalence: the smallest difference of interest, relative.
        until: the rule that it launches by until it is decided; None of a fixed number.
        variants: all of them, in their order.
        served: all that decides how each is served, by a key of its own; `speculative` is None
            of one without speculation.
        neighbours: what the sessions of each have beside them on their host.
        loads: those of load points, by their place; probes of searches are none of them.
    """

    study: str
    baseline: str
    equivalence: float
    until: UntilDecided | None
    variants: list[str]
    served: dict[str, dict[str, Any]]
    neighbours: dict[str, Neighbours | None]
    loads: dict[Place, Load]


def design_of(plan: Plan) -> Design:
    """Return what a plan compares; a variant is served as in the first of its sessions."""
    first = {session.variant: session for session in reversed(plan.sessions)}
    return Design(
        study=plan.study,
        baseline=plan.baseline,
        equivalence=plan.equivalence,
        until=plan.deciding.until if plan.deciding else None,
        variants=plan.variants,
        served={variant: _served(session) for variant, session in first.items()},
        neighbours={variant: session.neighbours for variant, session in first.items()},
        loads={
            (session.variant, point.workload, point.load_point): point.load
            for session in plan.sessions
            for point in session.measurements
        },
    )


def _served(session: Session) -> dict[str, Any]:
    speculative = session.speculative
    endpoint = session.endpoint.identity if session.endpoint else {}
    gateway = session.gateway.identity if session.gateway else {}
    gateway |= gateway.pop("arguments", {}) | gateway.pop("settings", {})
    return {
        "model": session.model,
        "engine": session.engine,
        "speculative": speculative and json.dumps([session.draft, speculative]),
        **{f"server.{name}": value for name, value in session.server.items()},
        **{f"environment.{name}": value for name, value in session.environment.items()},
        **{f"endpoint.{name}": value for name, value in endpoint.items()},
        **({"results": session.variant} if session.results else {}),
        **({"replicas": session.replicas} if session.replicas > 1 else {}),
        **{f"gateway.{name}": value for name, value in gateway.items()},
        **{f"environment_from.{name}": True for name in session.environment_from},
    }
