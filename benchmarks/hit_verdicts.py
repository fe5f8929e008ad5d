"""How often a table of gateways' policies holds a false verdict on hits, and what it calls.

    uv run python benchmarks/hit_verdicts.py [--tables 500]

A launch of the replicas gives each policy one hit ratio at a load point: a half, what is common to
the launch, and what the policy varies on it, a standard deviation of three points, as seen in
fleet-quickstart. Ratios are of 96 requests and rounded to whole ones; in `steps` to a standard
deviation, three requests. `false` is the share of tables of policies that hit alike with any
verdict of more or fewer; `called` that of policies that hit ten points more and are called so.
"""

import argparse
from collections.abc import Callable

import numpy as np
import pandas as pd

from servetune.analysis.hits import compare_hits

SPREAD = 0.03
HALF = 0.5
MORE = 0.1
REQUESTS = 96
RANDOM = np.random.default_rng(55)

Draw = Callable[[tuple[int, ...]], np.ndarray]


def heavy(shape: tuple[int, ...]) -> np.ndarray:
    """Draw from Student's t with four degrees of freedom, of variance 1."""
    return np.asarray(RANDOM.standard_t(4, shape) / np.sqrt(2))


def skewed(shape: tuple[int, ...]) -> np.ndarray:
    """Draw from an exponential distribution to the left, of mean 0 and variance 1."""
    return 1 - RANDOM.exponential(1, shape)


def collapsing(shape: tuple[int, ...]) -> np.ndarray:
    """Draw mostly a tenth of the noise, and in every fifth launch a collapse."""
    fell = RANDOM.random(shape) < 0.2
    noise = 0.1 * RANDOM.standard_normal(shape)
    return np.asarray(noise - np.where(fell, 2.5, 0.0) + 0.5)


def stepped(shape: tuple[int, ...]) -> np.ndarray:
    """Draw normal noise in whole steps: many launches are equal."""
    return np.asarray(np.round(RANDOM.standard_normal(shape)))


STRUCTURES: dict[str, Draw] = {
    "normal": RANDOM.standard_normal,
    "heavy tails": heavy,
    "skewed": skewed,
    "collapses": collapsing,
    "steps": stepped,
}


def table(draw: Draw, policies: int, loads: int, launches: int, more: float) -> pd.DataFrame:
    """Make the tidy table of policies, the first of which is the baseline."""
    own = draw((policies, loads, launches)) * SPREAD
    common = RANDOM.standard_normal((1, loads, launches)) * 2 * SPREAD
    ratio = np.clip(HALF + own + common, 0, 1)
    ratio[1:] = np.clip(ratio[1:] + more, 0, 1)
    ratio = np.round(ratio * REQUESTS) / REQUESTS
    policy, load, launch = (axis.ravel() for axis in np.indices(ratio.shape))
    return pd.DataFrame(
        {
            "variant": policy.astype(str),
            "workload": "chats",
            "load_point": [f"r{at}" for at in load],
            "servers": launch.astype(str),
            "status": "ok",
            "fleet": "two",
            "requests": REQUESTS,
            "prefix_cache_hit_ratio": ratio.ravel(),
        }
    )


def main() -> None:
    """Print a row a structure and size, and the highest share of false tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tables", type=int, default=500)
    tables, highest = parser.parse_args().tables, 0.0
    print("launches vary  policies loads launches  false, %  called, %")
    for name, draw in STRUCTURES.items():
        for policies, loads in ((2, 1), (4, 1), (4, 3)):
            for launches in (3, 4, 6):
                size = (policies, loads, launches)
                alike = [compare_hits(table(draw, *size, 0.0), "0") for _ in range(tables)]
                false = float(
                    np.mean([any(h.verdict != "undecided" for h in each) for each in alike])
                )
                told = [
                    h
                    for _ in range(tables // 5)
                    for h in compare_hits(table(draw, *size, MORE), "0")
                ]
                called = float(np.mean([h.verdict == "more" for h in told]))
                highest = max(highest, 100 * false)
                row = f"{name:14} {policies:8} {loads:5} {launches:8}"
                print(f"{row} {100 * false:9.1f} {100 * called:10.0f}", flush=True)
    print(f"highest: {highest:.1f} %")


if __name__ == "__main__":
    main()
