"""How far the throughput of a short closed loop is from that of a long one, before and after.

Loads of 1.5 to 20 requests a client are simulated against servers that batch, and compared with a
long load of the same requests, over and over. `whole` is the error over the whole load, `told` that
of `servetune.load.throughput`. Its thresholds were chosen on the first servers and lengths, and are
judged on the second. `--count N` simulates N loads of each kind.
"""

import argparse
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from simulated_closed_loop import Counts, Server, closed_loop

from servetune.load.throughput import ends_s, throughput
from servetune.records.loads import Load

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""Draws so many lengths, as multiples of their mean."""


def few_long(share: float, times: float) -> Draw:
    """Draw a few that are so many times as long as the mean, and the rest alike."""
    rest = (1 - share * times) / (1 - share)
    return lambda rng, n: np.where(rng.random(n) < share, times, rest)


def uniform(half_width: float) -> Draw:
    """Draw evenly around the mean."""
    return lambda rng, n: rng.uniform(1 - half_width, 1 + half_width, n)


CHOSEN_ON = (
    {
        "plain": Server(),
        "slow prefill": Server(per_prompt_token_s=1e-4, budget=2048),
        "slow front end": Server(front_end_s=0.1),
        "long context": Server(per_request_s=5e-5, per_context_token_s=2e-8),
    },
    {
        "fixed": lambda rng, n: np.ones(n),
        "uniform, 5 %": uniform(0.05),
        "uniform, 20 %": uniform(0.2),
        "uniform, 75 %": uniform(0.75),
        "exponential": lambda rng, n: rng.exponential(1, n),
        "lognormal": lambda rng, n: rng.lognormal(-0.5, 1, n),
        "one in 20 of 16": few_long(0.05, 16),
        "one in 10 of 6": few_long(0.1, 6),
    },
    (8, 32, 256),
    (1.5, 2, 3, 4, 8, 16),
)
JUDGED_ON = (
    {
        "prefills alone": Server(prefills_alone=True, budget=4096),
        "too few slots": Server(slots=12, per_request_s=1e-4),
        "uneven steps": Server(jitter=0.2, per_prompt_token_s=4e-5),
        "small chunks": Server(budget=512, per_prompt_token_s=5e-5, front_end_s=0.02),
    },
    {
        "fixed": lambda rng, n: np.ones(n),
        "uniform, 50 %": uniform(0.5),
        "gamma, cv 0.3": lambda rng, n: rng.gamma(11.1, 1 / 11.1, n),
        "short or long": lambda rng, n: np.where(rng.random(n) < 0.3, 0.2, 1.343),
        "lognormal, 0.6": lambda rng, n: rng.lognormal(-0.18, 0.6, n),
        "lognormal, 1.3": lambda rng, n: rng.lognormal(-0.845, 1.3, n),
        "one in 40 of 30": few_long(0.025, 30),
        "one in 8 of 5": few_long(0.125, 5),
    },
    (16, 100),
    (1.25, 2, 3, 5, 10, 20),
)

MEAN_INPUT, MEAN_OUTPUT = 384, 96
LONG = 24
"""Requests a client of the long load, at least."""
MOST = 1600
"""Requests of a load: more would only take longer."""
LOAD = {"dataset": "simulated", "endpoint": "completions", "seed": 0}


def loads(
    kinds: tuple[dict[str, Server], dict[str, Draw], Iterable[int], Iterable[float]], count: int
) -> pd.DataFrame:
    """Simulate; returns a row a load, with its errors as shares of the long load's throughput."""
    servers, draws, clients, per_client = kinds
    sizes = [(c, k, s) for c in clients for k in per_client for s in range(count) if c * k <= MOST]
    return pd.DataFrame(
        {"server": server, "lengths": lengths, **_load(servers[server], draws[lengths], *size)}
        for server, lengths, size in itertools.product(servers, draws, sizes)
    )


def _load(server: Server, draw: Draw, clients: int, per_client: float, seed: int) -> dict[str, Any]:
    rng, count = np.random.default_rng([seed, clients]), int(clients * per_client)
    prompts, answers = (
        np.maximum(1, np.rint(mean * draw(rng, count))).astype(np.int64)
        for mean in (MEAN_INPUT, MEAN_OUTPUT)
    )
    long = _long(server, clients, prompts, answers, rng)
    table = closed_loop(server, clients, prompts, answers, seed)
    declared = Load.model_validate({**LOAD, "concurrency": clients, "requests": count})
    found = throughput(table, declared)
    return {
        "clients": clients,
        "per client": per_client,
        "whole": float(answers.sum() / ends_s(table).max()) / long - 1,
        "told": found.output_tok_s / long - 1,
        "uncertain": found.is_uncertain,
    }


def _long(
    server: Server, clients: int, prompts: Counts, answers: Counts, rng: np.random.Generator
) -> float:
    """Return the throughput of the same requests over and over, between whole passes."""
    n = len(answers)
    order = np.concatenate([rng.permutation(n) for _ in range(max(6, -(-LONG * clients // n)))])
    table = closed_loop(server, clients, prompts[order], answers[order], seed=10**6)
    since_s, until_s = (
        table["start_s"].iloc[passes * n]
        for passes in (-(-4 * clients // n), (len(table) - 2 * clients) // n)
    )
    first_s = table["start_s"] + table["ttft_ms"] / 1e3
    tokens_s = np.concatenate(
        [
            at + np.cumsum([0, *gaps]) / 1e3
            for at, gaps in zip(first_s, table["itl_ms"], strict=True)
        ]
    )
    return float(((tokens_s > since_s) & (tokens_s <= until_s)).sum() / (until_s - since_s))


def show(title: str, table: pd.DataFrame) -> None:
    """Print the mean errors by lengths and requests a client, and how far all loads err."""
    print(f"\n{title}, {len(table)} loads: mean error of the whole load and as told, and uncertain")
    by = table.groupby(["lengths", "per client"], sort=False)[["whole", "told", "uncertain"]]
    print(by.mean().map(lambda value: f"{value:.1%}").unstack().to_string())
    for is_uncertain, rows in table.groupby("uncertain"):
        for column in ("whole", "told"):
            median, most, worst = rows[column].abs().quantile([0.5, 0.95, 1])
            print(
                f"{len(rows):5} {'uncertain' if is_uncertain else 'trusted'} loads, {column}: mean"
                f" error {rows[column].mean():+.1%}; its size: median {median:.1%},"
                f" 95 % below {most:.1%}, at most {worst:.1%}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3)
    count = parser.parse_args().count
    show("Chosen on", loads(CHOSEN_ON, count))
    show("Judged on", loads(JUDGED_ON, count))
