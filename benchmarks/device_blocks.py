"""Verdicts where devices differ by 5 %: how often false, and how often a difference is called.

    uv run python benchmarks/device_blocks.py [--quick]

Whole tables are simulated as in verdict_errors.py (launches vary by 1 %, half of it shared by the
load points and metrics of a launch), on devices of which one is 5 % slower, half are, or each has a
speed of its own within 5 %. Sessions are dealt to devices as on a host, or at random, or each
variant has one device alone. Printed are tables with any false verdict, of equal variants, at
margins of 0 and 3 %, and the share of true differences of 10 % that are called beyond 3 %: with
devices as blocks, and without.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from verdict_errors import METRICS, RANDOM, Structure, count_any, draw, judge

from servetune.analysis.differences import Floats
from servetune.analysis.spread import Spread, spread
from servetune.plan.order import measuring_order
from servetune.plan.planned import Session
from servetune.sessions.allocation import assign

Ints = NDArray[np.int64]

POINTS = 2
SLOWER = np.log(1.05)
CASES = (
    *((variants, count, 2) for variants in (2, 4, 8) for count in (3, 6)),
    *((variants, count, 8) for variants in (2, 4, 8) for count in (4, 8)),
)
"""Variants with the baseline, launches of each, devices."""


def one_slow(devices: int, tables: int) -> Floats:
    return np.asarray(np.argsort(RANDOM.random((tables, devices)), -1) == 0, float)


def half_slow(devices: int, tables: int) -> Floats:
    return np.asarray(np.argsort(RANDOM.random((tables, devices)), -1) < devices // 2, float)


def each_its_own(devices: int, tables: int) -> Floats:
    return np.asarray(RANDOM.random((tables, devices)))


def dealt(variants: int, count: int, devices: int) -> Ints:
    """Deal devices as on a host, [variants, rounds]."""
    names = [str(i) for i in range(variants)]
    sessions = []
    for order, (name, repeat) in enumerate(measuring_order(names, count, 0)):
        known: dict[str, Any] = {"id": f"{name} {repeat}", "order": order, "variant": name}
        sessions.append(Session.model_construct(**known, hardware="gpu", server={}))
    at = assign(sessions, [str(i) for i in range(devices)])
    return np.array([[int(at[f"{name} {r + 1}"][0]) for r in range(count)] for name in names])


def at_random(variants: int, count: int, devices: int) -> Ints:
    return np.asarray(RANDOM.integers(0, devices, (variants, count)))


def apart(variants: int, count: int, devices: int) -> Ints:
    """Every variant on one device alone, as when somebody pins them."""
    return np.asarray(np.repeat(np.arange(variants)[:, None] % devices, count, 1))


def seen_by(launches: Floats, devices: Ints | None) -> Spread:
    on = None if devices is None else np.eye(devices.max() + 1)[devices]
    seen = spread(launches, devices=on)
    return replace(seen, degrees=np.where(seen.groups == seen.groups[..., :1], seen.degrees, 0))


def tell(
    speeds: Callable[[int, int], Floats], devices: Ints, tables: int
) -> tuple[list[list[int]], list[float]]:
    """Return tables with a false verdict by margin, and the share called, of each method."""
    variants, count = devices.shape
    launches = draw(Structure(), tables, variants, POINTS, count)
    slow = SLOWER * speeds(devices.max() + 1, tables)[:, devices]
    launches += slow[:, None, None]
    differ = launches.copy()
    differ[..., 1:, :] += np.log(1.1)
    false, called = [], []
    for used in (devices, None):
        seen = seen_by(launches, used)
        false.append([count_any(np.abs(judge(launches, m, seen)) == 1) for m in (0.0, 0.03)])
        claims = judge(differ, 0.03, seen_by(differ, used))
        called.append(float(np.mean(claims == 1)))
    return false, called


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tables")
    tables = 40 if parser.parse_args().quick else 400
    print(f"Tables of {tables} with any false verdict at margin 0 / 3 %, and 10 % called")
    print(f"{'devices are':16}{'dealt':8}variants launches devices   with blocks  without")
    rounds = tables // 20
    for name, speeds in (
        ("one slow", one_slow),
        ("half slow", half_slow),
        ("each its own", each_its_own),
    ):
        for how in (dealt, at_random, apart):
            for case in CASES:
                told = [tell(speeds, how(*case), tables // rounds) for _ in range(rounds)]
                false = np.sum([each[0] for each in told], 0)
                called = np.mean([each[1] for each in told], 0)
                cells = (
                    f"{' / '.join(map(str, counts)):>10} {share:5.0%}"
                    for counts, share in zip(false, called, strict=True)
                )
                print(
                    f"{name:16}{how.__name__:10}{case[0]:6}{case[1]:9}{case[2]:8} "
                    + " ".join(cells),
                    flush=True,
                )
    print(f"{METRICS} metrics at {POINTS} load points each")


if __name__ == "__main__":
    main()
