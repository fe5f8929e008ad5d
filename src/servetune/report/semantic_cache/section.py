"""A cache of answers: hits by text and by meaning, what they save, and how many are wrong."""

import numpy as np

from servetune.analysis.cached import Cache, caches
from servetune.numbers import number, share
from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.semantic_cache.view import Caches, examples, saved, written
from servetune.report.table import Cell, Name, Table

TITLE = "Answers from a cache"

MEANS = (
    "A hit is wrong if its answer was stored for another question that the labels do not call the"
    " same. Wrong answers are shares of all answers, and below each kind of its questions, with"
    " their 95 % intervals (Wilson); the launches of a variant are taken together."
)

LATENCIES = {
    "hit_e2e_p50_ms": "Hit E2E p50, ms",
    "hit_e2e_p99_ms": "Hit E2E p99, ms",
    "miss_e2e_p50_ms": "Miss E2E p50, ms",
    "miss_e2e_p99_ms": "Miss E2E p99, ms",
}


def section(measured: Measured) -> Section | None:
    """Make the section; None where no answer tells of a cache."""
    found = caches(measured.cached)
    if not found:
        return None
    gains = _gains(measured, found)
    said = " ".join(filter(None, (saved(found, gains), examples(found), MEANS)))
    table = _table(measured, found, gains)
    return Section(
        "semantic-cache",
        TITLE,
        Plain(said, table),
        markdown=lambda fit: f"### {TITLE}\n\n{said}\n\n{table_of(measured, table, fit.rows)}",
        link="Cache",
    )


def _gains(measured: Measured, found: Caches) -> dict[tuple[str, str, str], float]:
    """Return the requests per second of each over the baseline's, of geometric means."""
    ok = measured.points[measured.points["status"] == "ok"]
    by_place = ok.groupby(["workload", "load_point", "variant"])["request_throughput_rps"]
    means = by_place.apply(lambda values: float(np.exp(np.log(values.astype(float)).mean())))
    rates = {tuple(map(str, key)): float(value) for key, value in means.items()}  # type: ignore[call-overload]
    gains = {}
    for workload, point, variant in found:
        before = rates.get((workload, point, measured.plan.baseline))
        after = rates.get((workload, point, variant))
        if before and after:
            gains[workload, point, variant] = after / before
    return gains


def _table(measured: Measured, found: Caches, gains: dict[tuple[str, str, str], float]) -> Table:
    kinds = list(dict.fromkeys(kind for cache in found.values() for kind in cache.kinds))
    wrong_kinds = [kind for kind in kinds if any(_of(c, kind) for c in found.values())]
    heads = (
        *("Load point", "Variant", "Requests/s", "Same text", "Same meaning", "Wrong answers"),
        *("Bound", "Bypassed"),
        *LATENCIES.values(),
        *(f"Wrong: {kind.replace('_', ' ')}" for kind in wrong_kinds),
    )
    times = measured.cached.groupby(["workload", "load_point", "variant"])[list(LATENCIES)].mean()
    rows: list[list[Cell]] = []
    for key, cache in found.items():
        gain = gains.get(key)
        rows.append(
            [
                f"{key[0]} {key[1]}",
                Name(key[2]),
                f"{gain:.2f}\N{MULTIPLICATION SIGN}" if gain else "",
                share(cache.exact.value),
                share(cache.semantic.value),
                written(cache.wrong),
                cache.verdict or "",
                share(cache.bypassed / cache.requests),
                *(number(times.loc[key, name]) for name in LATENCIES),
                *(written(cache.kinds[k]) if k in cache.kinds else "" for k in wrong_kinds),
            ]
        )
    texts = ("Load point", "Variant", "Bound")
    return Table(TITLE, heads, rows, texts=texts, css=("tall", ""))


def _of(cache: Cache, kind: str) -> int:
    return cache.kinds[kind].count if kind in cache.kinds else 0
