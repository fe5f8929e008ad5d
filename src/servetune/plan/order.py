"""The order in which the sessions of a plan are measured."""

import random


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
