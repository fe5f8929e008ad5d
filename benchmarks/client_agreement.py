"""Do the load generators measure the same of the same server? Throughput, TTFT and TPOT, as ratios.

    uv run python benchmarks/client_agreement.py [ROUNDS]

One real vLLM on this machine's CPU takes closed loops of 1, 8 and 32 clients, a rate, and a chat
from each generator, one after another in each round. Printed are the ratios of each generator to
`servetune`'s own in the same round: their median, least and most. `again` is `servetune` itself
once more: it shows by how much the machine changes from one load to the next. TPOT and E2E latency
are also divided by the means that the server timed of the same requests: what is left is what a
client adds, or defines otherwise.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.study.generators import GENERATORS  # noqa: E402
from tests.e2e.clone import Clone, make_clone  # noqa: E402

OWN, AGAIN = "servetune", "again"
LOADS: dict[str, dict[str, Any]] = {
    "c1": {"dataset": "text", "load_points": [{"concurrency": 1, "requests": 32}]},
    "c8": {"dataset": "text", "load_points": [{"concurrency": 8, "requests": 80}]},
    "c32": {"dataset": "text", "load_points": [{"concurrency": 32, "requests": 160}]},
    "rate": {
        "dataset": "text",
        "arrivals": "constant",
        "load_points": [{"rate_rps": 4, "requests": 40}],
    },
    "chat": {
        "dataset": "text",
        "endpoint": "chat",
        "load_points": [{"concurrency": 4, "requests": 40}],
    },
}
METRICS = (
    *("output_throughput_tok_s", "ttft_p50_ms", "tpot_p50_ms"),
    *("tpot_over_server", "e2e_over_server"),
)


def study(quickstart: dict[str, Any], rounds: int) -> dict[str, Any]:
    """One server, all loads in turn; the order of generators is another in each round."""
    names = [OWN, AGAIN, *(name for name in GENERATORS if name != OWN)]
    turns = [names[turn % len(names) :] + names[: turn % len(names)] for turn in range(rounds)]
    return {
        **{key: value for key, value in quickstart.items() if key != "quality"},
        "variants": {"bf16": {"model": "tiny"}},
        "server": {**quickstart["server"], "max_num_seqs": 32},
        "datasets": {
            "text": {"kind": "text", "requests": 64, "input_words": 48, "output_tokens": 48}
        },
        "workloads": {
            f"{name}-{load}-{turn}": {"generator": OWN if name == AGAIN else name, **declared}
            for turn, order in enumerate(turns)
            for load, declared in LOADS.items()
            for name in order
        },
    }


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row a (load, generator, round) with its ratios to the own client's."""
    table = table.assign(
        tpot_over_server=table["tpot_mean_ms"] / table["server_tpot_mean_ms"],
        e2e_over_server=table["e2e_mean_ms"] / table["server_e2e_mean_ms"],
    )
    place = table["workload"].str.rsplit("-", n=2, expand=True)
    table = table.assign(generator=place[0], load=place[1], round=place[2])
    own = table[table["generator"] == OWN]
    pairs = table.merge(own, on=["load", "round"], suffixes=("", "_own"))
    found = {metric: pairs[metric] / pairs[f"{metric}_own"] for metric in METRICS}
    return pairs[["load", "generator"]].assign(**found)


def main() -> None:
    """Measure, and print a row a load and generator."""
    rounds = int(sys.argv[1]) if sys.argv[1:] else 3
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "models").mkdir()
        clone: Clone = make_clone(Path(folder) / "clone", Path(folder) / "models")
        clone.write_study(study(clone.study(), rounds))
        clone.measure()
        table = clone.table()
    bad = table[table["status"] != "ok"]
    print(f"{len(table) - len(bad)} of {len(table)} loads ok", *bad["reason"].unique(), sep="\n")
    found = ratios(table[table["status"] == "ok"])
    heads = ("load", "generator", *METRICS)
    print(f"\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for (load, generator), rows in found.groupby(["load", "generator"], sort=False):
        if generator == OWN:
            continue
        cells = (
            f"{np.median(of):.3f} [{of.min():.3f}, {of.max():.3f}]"
            for of in (rows[metric] for metric in METRICS)
        )
        print(f"| {load} | {generator} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
