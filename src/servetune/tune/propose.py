"""Which candidates to try next: those that may be best, given all trials so far."""

from collections.abc import Callable, Sequence

import numpy as np

from servetune.tune.outlook import Outlook

NOTHING = 1.0
"""How far below the only one that works, as a logarithm, a round is in which none does."""

NEAR = 2
"""One trial in so many changes one setting of the best, once that is known.

A far candidate promises more by how little is known of it, so that the best beside a cliff may
never be tried (Eriksson et al., Scalable Global Optimization via Local Bayesian Optimization,
NeurIPS 2019).
"""

Proposer = Callable[[Outlook | None, Sequence[str], int, Sequence[int]], list[str]]
"""From what the model says, the candidates that may be tried, how many and a seed to a choice."""


def propose(
    outlook: Outlook | None, names: Sequence[str], width: int, seed: Sequence[int]
) -> list[str]:
    """Return at most `width` of the candidates: each the best of a function that may be true.

    Thompson sampling (Thompson, Biometrika 25, 1933), a draw a trial, so that the trials of a
    round differ by as much as is not known (Kandasamy et al., AISTATS 2018). One in `NEAR` is the
    best of those near the best so far. Where only one works so far, each adds most to what the
    best of the round is expected to be, such as one that may work where the others fail
    (Ginsbourger, Le Riche and Carraro, Kriging is well-suited to parallelize optimization, 2010).
    """
    if outlook is None:
        return in_random_order(names, width, seed)
    known, chosen = set(names), list[str]()
    left = {name: i for i, name in enumerate(outlook.names) if name in known}
    reached = None
    if outlook.only:
        reached = outlook.draws[:, outlook.names.index(outlook.only)] - NOTHING
    for trial, draw in enumerate(outlook.draws[: min(width, len(left))]):
        near = [name for name in left if trial % NEAR == 0 and name in outlook.near]
        among = near or list(left)
        places = [left[name] for name in among]
        if reached is None:
            best = among[int(np.argmax(draw[places]))]
        else:
            reaching = np.maximum(outlook.draws[:, places], reached[:, None])
            best = among[int(np.argmax(reaching.mean(axis=0)))]
            reached = np.maximum(reached, outlook.draws[:, left[best]])
        chosen.append(best)
        del left[best]
    return chosen


def in_random_order(names: Sequence[str], width: int, seed: Sequence[int]) -> list[str]:
    """Return at most `width` of the candidates, by chance."""
    order = np.random.default_rng([*seed, 2]).permutation(len(names))
    return [names[i] for i in order[:width]]
