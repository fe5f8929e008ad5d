"""The order in which the sessions of a plan are measured, and what is left of them."""

import random
from collections.abc import Iterable

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


def in_rounds(owed: Iterable[Session], planned: Iterable[Session]) -> list[Session]:
    """Return the owed sessions in the plan's order, interleaved where a variant is far ahead.

    What is owed may be measured on a host of its own, which is a block of the comparison. Where
    the next repeat of a variant is two rounds or more after another's, its launches would follow
    all others there; they take the places that its earlier repeats have in the plan instead. The
    rounds of a tuning are as they shall be.
    """
    owed = list(owed)
    place = {(session.variant, session.repeat): session.order for session in planned}
    first: dict[str, int] = {}
    for session in owed:
        first[session.variant] = min(session.repeat, first.get(session.variant, session.repeat))
    earliest = min(first.values(), default=1)

    def key(session: Session) -> tuple[int, int]:
        if session.trial:
            return session.order, 0
        ahead = first[session.variant] - earliest
        at = (session.variant, session.repeat - (ahead if ahead > 1 else 0))
        return place[at], session.order

    return sorted(owed, key=key)
