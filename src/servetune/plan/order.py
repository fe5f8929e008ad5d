"""The order in which the sessions of a plan are measured, and what is left of them."""

import random
from collections import defaultdict
from collections.abc import Container, Iterable
from operator import itemgetter

from servetune.plan.planned import Session


def measuring_order(variants: list[str], repeats: int, seed: int) -> list[tuple[str, int]]:
    """Return (variant, repeat), repeats counted from 1, in blocks of ABBA.

    Two repeats are a block: a shuffled round of all variants, then the same round backwards, so
    that all variants have the same mean position in a block and a linear drift cancels out of
    their ratios (counterbalancing; Fisher, The Design of Experiments, 1935, on systematic and
    random arrangements). A shuffle depends on the seed and the block alone: more repeats
    continue the order of fewer.
    """
    order: list[tuple[str, int]] = []
    for repeat in range(1, repeats + 1):
        block, is_second = divmod(repeat - 1, 2)
        shuffled = random.Random(f"{seed}/{block}").sample(variants, len(variants))
        order += [(variant, repeat) for variant in (shuffled[::-1] if is_second else shuffled)]
    return order


def place_of(session: Session, sessions: Iterable[Session]) -> int:
    """Return when a session is measured among these, counted from 1.

    Their `order` alone has gaps, where a variant has fewer repeats than others.
    """
    return 1 + sum(other.order < session.order for other in sessions)


def before_first_page(sessions: Iterable[Session], recorded: Container[str]) -> list[Session]:
    """Return the sessions after which there is a first page to read while the others run.

    The first two, so that there is something to compare; none where a session is recorded, as
    then there was a page, or where no other session follows.
    """
    in_order = sorted(sessions, key=lambda session: session.order)
    if len(in_order) < 3 or any(session.id in recorded for session in in_order):
        return []
    return in_order[:2]


def in_rounds(owed: Iterable[Session], planned: Iterable[Session]) -> list[Session]:
    """Return the owed sessions round by round: the next launch of each variant, then another.

    What is owed may be measured on a host of its own, which is a block of the comparison and may be
    taken back at any time. So that host launches each variant once before any of them again,
    whatever others have launched. A round has the order of one of the plan, from the earliest that
    is owed; sessions that share a launch stay together. The rounds of a tuning are as they shall
    be.
    """
    owed = sorted(owed, key=lambda session: session.order)
    place: dict[tuple[str, int], int] = {}
    for session in planned:
        at = (_served(session), session.repeat)
        place[at] = min(session.order, place.get(at, session.order))
    earliest = min((session.repeat for session in owed), default=1)
    launches: dict[str, list[int]] = defaultdict(list)
    places: list[tuple[int, int]] = []
    for session in owed:
        repeats = launches[_served(session)]
        if session.repeat not in repeats:
            repeats.append(session.repeat)
        at = (_served(session), earliest + repeats.index(session.repeat))
        places.append((session.order if session.trial else place[at], session.order))
    return [session for _, session in sorted(zip(places, owed, strict=True), key=itemgetter(0))]


def _served(session: Session) -> str:
    """Name what a launch is of: the variant, or the servers that several share."""
    servers = session.servers and session.servers.rpartition("-r")[0]
    return f"shared {servers}" if servers else session.variant
