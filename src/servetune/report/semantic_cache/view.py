"""What is said of caches of answers: which of them answer wrongly, and what is saved without."""

from collections.abc import Mapping

import pandas as pd

from servetune.analysis.cached import Cache, Share, caches
from servetune.numbers import share
from servetune.report.marks import POOR
from servetune.tables.frames import grouped

Caches = Mapping[tuple[str, str, str], Cache]
"""By workload, load point and variant."""

EXAMPLES = 3
"""Wrong answers that are named on the page: enough to see of what kind they are."""


def wrong(table: pd.DataFrame) -> dict[str, str]:
    """Say by variant how it breaks the bound on wrong answers."""
    return {
        variant: f"{written(cache.wrong)} of its answers are those to another question"
        f" (bound {share(cache.bound)})"
        for variant, cache in _failing(table)
    }


def warnings(table: pd.DataFrame) -> list[str]:
    """Say which caches answer wrongly, before any speed is told: a sentence a bound."""
    by_bound = grouped(_failing(table), lambda failing: failing[1].bound)
    return [
        f"{POOR} Wrong answers beyond the bound of {share(bound)}: "
        + ", ".join(f"{variant} {written(cache.wrong)}" for variant, cache in here)
        + ". A wrong one is the answer to another question."
        for bound, here in by_bound.items()
    ]


def _failing(table: pd.DataFrame) -> list[tuple[str, Cache]]:
    return [
        (variant, cache)
        for (_, _, variant), cache in caches(table).items()
        if cache.verdict == "fails"
    ]


def written(found: Share) -> str:
    """Write a share with its interval."""
    return f"{share(found.value)} [{share(found.low)}, {share(found.high)}]"


def saved(found: Caches, gains: Mapping[tuple[str, str, str], float]) -> str:
    """Say which cache saves most among those that keep to the bound; `gains` are ratios."""
    bounds = {cache.bound for cache in found.values()} - {None}
    if not bounds:
        return ""
    within = [key for key, cache in found.items() if cache.verdict == "passes" and key in gains]
    bound = " or ".join(share(bound) for bound in sorted(bounds, key=str))
    if not within:
        return f"No cache is proven to answer at most {bound} wrongly."
    best = max(within, key=lambda key: gains[key])
    kept = f"Of those that are proven to answer at most {bound} wrongly,"
    times = f"{gains[best]:.2f} times the requests per second."
    if gains[best] <= 1:
        return f"{kept} none saves requests: {best[2]} has {times}"
    return f"{kept} {best[2]} saves most: {times}"


def examples(found: Caches) -> str:
    """Name wrong answers of the cache that has the most."""
    worst = max(found.values(), key=lambda cache: cache.wrong.value)
    shown = [
        f"\N{LEFT DOUBLE QUOTATION MARK}{hit['asked']}\N{RIGHT DOUBLE QUOTATION MARK} got the"
        f" answer to \N{LEFT DOUBLE QUOTATION MARK}{hit['answered']}"
        "\N{RIGHT DOUBLE QUOTATION MARK}"
        + (f" ({hit['similarity']:.3f} alike)" if hit["similarity"] is not None else "")
        for hit in worst.examples[:EXAMPLES]
    ]
    return f"Such as: {'; '.join(shown)}." if shown else ""
