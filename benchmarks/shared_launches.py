"""How often a table of variants that share launches holds a wrong verdict, and what it calls.

    uv run python benchmarks/shared_launches.py [--tables 400]

Variants that differ in their gateways alone are measured on the same launches of servers. A
launch's own speed is then common to them all: it is drawn once a launch, with so many times the
variance of the rest (`ratio`), beside what each variant and load point varies on it. One more
variant, `other`, has launches of its own. Of so many tables of equal variants, those with any
faster or slower at margin 0, and with any verdict where all differ by just the margin of 3 %; then
the share of differences of 10 % that are called, among those that share launches and of `other`.
`fresh` is what would be called if each variant had launches of its own.
"""

import argparse
import math
from collections.abc import Callable
from functools import partial

import numpy as np

from servetune.analysis.differences import (
    CONFIDENCE,
    Difference,
    Floats,
    Group,
    difference,
    holm,
    three_sided,
)
from servetune.analysis.spread import Spread, can_decide, spread

METRICS = 3
MARGIN = math.log1p(0.03)
SPREAD = 0.01
"""Of what a variant varies from launch to launch, beside the launch's own: one percent."""

RANDOM = np.random.default_rng(52)


def noise(shape: tuple[int, ...], degrees: float) -> Floats:
    """Draw from Student's t of variance 1."""
    return np.asarray(RANDOM.standard_t(degrees, shape) / math.sqrt(degrees / (degrees - 2)))


def draw(
    tables: int, variants: int, points: int, launches: int, ratio: float, how: "Structure"
) -> Floats:
    """Draw log values [tables, metrics, points, variants, launches], the last variant apart.

    Half of what a variant varies on a launch is common to its load points.
    """
    of_servers = noise((tables, 1, 1, 1, launches), how.degrees)
    of_other = noise((tables, 1, 1, 1, launches), how.degrees)
    speed = np.concatenate([np.repeat(of_servers, variants, -2), of_other], -2)
    full = (tables, METRICS, points, variants + 1, launches)
    of_launch = noise((tables, METRICS, 1, *full[3:]), how.degrees)
    rest = (of_launch + noise(full, how.degrees)) / math.sqrt(2)
    rest *= np.array(how.scales(variants + 1))[:, None]
    return np.asarray(SPREAD * (math.sqrt(ratio) * speed + rest))


class Structure:
    """How launches vary: tails of Student's t, and by how many times each variant."""

    def __init__(self, degrees: float, scales: Callable[[int], list[float]]) -> None:
        """Take the degrees of freedom of the tails, and scales by the number of variants."""
        self.degrees, self.scales = degrees, scales


def of_one(count: int, at: int = -1, by: float = 1.0) -> list[float]:
    """Scale one of so many variants."""
    scales = [1.0] * count
    scales[at] = by
    return scales


STRUCTURES = {
    "alike": Structure(1000, of_one),
    "heavy tails": Structure(4, of_one),
    "the baseline 5x": Structure(1000, partial(of_one, at=0, by=5.0)),
    "a policy 3x": Structure(1000, partial(of_one, at=1, by=3.0)),
    "the other 5x": Structure(1000, partial(of_one, by=5.0)),
}


def compared(launches: Floats, seen: Spread) -> Difference:
    """Compare each variant with the first."""
    count = np.full_like(seen.mean, launches.shape[-1])
    fields = (count, seen.mean, seen.variance, np.full_like(count, np.nan), seen.degrees)
    variant = Group(*(each[..., 1:] for each in fields))
    base = Group(*(np.broadcast_to(each[..., :1], each[..., 1:].shape) for each in fields))
    return difference(variant, base)


def judge(launches: Floats, margin: float) -> Floats:
    """Give the verdicts of each table, as the product does: 1 above, 0 within, -1 below, or NaN."""
    variants = launches.shape[-2]
    together = np.array([variants - 1] * (variants - 1) + [1])
    apart = compared(launches, spread(launches, has_rounds=False, together=together))
    within = compared(launches[..., :-1, :], spread(launches[..., :-1, :], is_shared=True))
    joined = Difference(
        *(
            np.concatenate([getattr(within, name), getattr(apart, name)[..., -1:]], -1)
            for name in ("log_ratio", "standard_error", "degrees")
        )
    )
    return proven(joined, margin, launches.shape[-1])


def proven(measured: Difference, margin: float, launches: int) -> Floats:
    """Give the verdicts that hold at once."""
    claim, p_value = three_sided(measured, max(margin, 1e-9))
    holds = np.stack([holm(p) for p in p_value.reshape(len(p_value), -1)]) <= 1 - CONFIDENCE
    decides = can_decide(np.full(claim.shape, float(launches)), measured.degrees)
    return np.where(holds.reshape(claim.shape) & decides, claim, np.nan)


def row(
    tables: int, variants: int, points: int, launches: int, ratio: float, how: Structure
) -> Floats:
    """Return tables with a false verdict, at 0 and at the edge, and differences called; in %."""
    size = (variants, points, launches, ratio, how)
    equal = np.abs(judge(draw(tables, *size), 0.0)) == 1
    edge = draw(tables, *size)
    signs = RANDOM.choice([-1.0, 1.0], (tables, METRICS, 1, variants + 1, 1))
    signs[..., 0, :] = 0.0
    at_edge = np.isfinite(judge(edge + MARGIN * signs, MARGIN))
    faster = draw(tables, *size)
    faster[..., 1:, :] -= math.log1p(0.1)
    called = judge(faster, MARGIN) == -1
    # Each variant with launches of its own: the speed of a launch is of one variant alone.
    fresh = draw(tables, variants, points, launches, 0.0, how)
    fresh += SPREAD * math.sqrt(ratio) * noise((tables, 1, 1, variants + 1, launches), how.degrees)
    fresh[..., 1:, :] -= math.log1p(0.1)
    alone = proven(compared(fresh, spread(fresh)), MARGIN, launches) == -1
    any_of = (1, 2, 3)
    counts = [equal.any(any_of), at_edge.any(any_of), called[..., :-1], called[..., -1:], alone]
    return 100 * np.array([np.mean(each) for each in counts])


def main() -> None:
    """Print a row a structure and size, and the highest share of false tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tables", type=int, default=400)
    tables, highest = parser.parse_args().tables, 0.0
    print("                                         false tables, %   called of 10 %, %")
    print("launches vary    variants points launches ratio    0  edge   shared  other  fresh")
    for name, how in STRUCTURES.items():
        for launches in (3, 5):
            for variants, points in ((2, 3), (3, 2), (4, 4), (7, 4)):
                for ratio in (0.0, 1.0, 10.0, 100.0):
                    zero, edge, *called = row(tables, variants, points, launches, ratio, how)
                    highest = max(highest, zero, edge)
                    size = f"{variants:8} {points:6} {launches:8} {ratio:5g}"
                    shares = "".join(f"{share:7.0f}" for share in called)
                    print(f"{name:17}{size} {zero:4.1f} {edge:5.1f} {shares}", flush=True)
    print(f"highest: {highest:.1f} %")


if __name__ == "__main__":
    main()
