"""Server-busy seconds to find the capacity of a real server: servetune against fixed probes.

Run: uv run python benchmarks/capacity_cost.py [--searches N] [--peers N] [--requests N ...]
     [--only guidellm grid auto-tune]

One real vLLM server on this machine's CPU takes everything, through one client: N searches of
servetune, each with requests and arrivals of its own, and between them the searches of the peers
(benchmarks/capacity_peers.py) with a fixed number of requests a probe. All send the same kind of
load to the same server, so that what differs is which loads are sent and for how long. The true
capacity is taken to be the median of servetune's searches; their spread is printed beside it.
A machine's own speed may move by more than a search is wrong by: answers are compared a second
time over the rate of the closed loop that each search begins with.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from capacity_peers import PEERS, Peer

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from servetune import probes, searches  # noqa: E402
from servetune.capacity.search import Capacity  # noqa: E402
from servetune.engines import build_engine  # noqa: E402
from servetune.load.declared import LoadPoint  # noqa: E402
from servetune.paths import search_path  # noqa: E402
from servetune.plan import make_plan  # noqa: E402
from servetune.planned import Measurement, PlannedSearch, Session  # noqa: E402
from servetune.records import MeasurementRecord  # noqa: E402
from servetune.session import run_session  # noqa: E402
from workspace import QUIET, make_workspace  # noqa: E402

LIMITS = {"ttft_ms": 100, "tpot_ms": 12}
GOODPUT_RATIO = 0.9
OWN = "servetune"


def study(ways: list[str], count: int) -> dict[str, Any]:
    """One server, and a workload for each search: alike, with prompts of its own."""
    quickstart = yaml.safe_load((ROOT / "studies/quickstart-capacity.yaml").read_text())
    workload = quickstart["workloads"]["chat"]
    settings = workload["capacity"] | {"slo": {"slo": {"goodput_ratio": GOODPUT_RATIO, **LIMITS}}}
    names = [f"{way}-{n}" for n in range(count) for way in ways]
    return {
        **{key: quickstart[key] for key in ("hardware", "engine", "server", "environment")},
        "question": "What does it cost to find the capacity?",
        "baseline": "bf16",
        "models": {"tiny": {"source": "tiny"}},
        "variants": {"bf16": {"model": "tiny"}},
        "datasets": {
            name: {**quickstart["datasets"]["text"], "requests": 256 + place}
            for place, name in enumerate(names)
        },
        "workloads": {
            name: {"generator": "vllm-bench", "dataset": name, "capacity": settings}
            for name in names
        },
        # A machine that does other things costs accuracy here, and not the run.
        "validity": QUIET,
    }


def _key(peer: str) -> str:
    return peer.split()[0].lower().replace("_", "-")


class MoreNeededError(Exception):
    """A peer's algorithm asks for a rate that was not sent yet."""


def peer_step(
    peer: Peer, requests: int, raw: Path
) -> Callable[[PlannedSearch, list[MeasurementRecord]], Measurement | dict[str, Capacity]]:
    """Return what chooses a peer's next probe: its algorithm, replayed over the records so far."""

    def next_measurement(
        search: PlannedSearch, records: list[MeasurementRecord]
    ) -> Measurement | dict[str, Capacity]:
        if not records:
            return probes.scout(search)
        scout, left = records[0].metrics, iter(records[1:])
        assert scout is not None and scout.e2e_mean_ms
        top = scout.request_throughput_rps
        start = 4 * top / probes.SCOUT_CONCURRENCY

        def passes(rate: float) -> bool:
            record = next(left, None)
            if record is None:
                raise MoreNeededError(rate)
            return _keeps_slo(record, raw)

        try:
            rate = peer(passes, start, top)
        except MoreNeededError as need:
            point = LoadPoint(rate_rps=float(f"{need.args[0]:.3g}"), requests=requests)
            return probes.measurement(search, len(records), point, {})
        return {"slo": Capacity("slo", "found", rate, rate, rate, "", "")}

    return next_measurement


def _keeps_slo(record: MeasurementRecord, raw: Path) -> bool:
    table = pd.read_parquet(raw / record.measurement / "requests.parquet")
    late = (table["ttft_ms"] > LIMITS["ttft_ms"]) | (table["tpot_ms"] > LIMITS["tpot_ms"])
    return float((late | ~table["is_ok"]).mean()) <= 1 - GOODPUT_RATIO


def measure(session: Session, root: Path, sizes: list[int]) -> None:
    """Run all searches on one server, the peers by their own choice of probes."""
    raw = root / "results" / "raw" / session.study
    peers = {
        f"{_key(name)}-{size}": peer_step(peer, size, raw)
        for name, peer in PEERS.items()
        for size in sizes
    }
    own = searches.next_measurement

    def choose(
        search: PlannedSearch, records: list[MeasurementRecord]
    ) -> Measurement | dict[str, Capacity]:
        return peers.get(search.workload.rsplit("-", 1)[0], own)(search, records)

    searches.next_measurement = choose
    run_session(session, root)


def busy_s(records: list[MeasurementRecord]) -> float:
    return sum(each.metrics.duration_s for each in records if each.metrics)


def holding(intervals: list[tuple[float, float]], value: float) -> str:
    return f"{sum(low <= value <= high for low, high in intervals)} of {len(intervals)}"


def overlaps(intervals: list[tuple[float, float]]) -> str:
    pairs = [(a, b) for i, a in enumerate(intervals) for b in intervals[i + 1 :]]
    return f"{sum(max(a[0], b[0]) <= min(a[1], b[1]) for a, b in pairs)} of {len(pairs)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--searches", type=int, default=10, help="of servetune")
    parser.add_argument("--peers", type=int, default=1, help="searches of each peer and size")
    parser.add_argument(
        "--requests", type=int, nargs="+", default=[1000], help="of a peer's probe: its sizes"
    )
    keys = [_key(peer) for peer in PEERS]
    parser.add_argument("--only", nargs="+", choices=keys, default=keys, help="these peers")
    arguments = parser.parse_args()
    ways = [f"{peer}-{size}" for peer in arguments.only for size in arguments.requests]
    with tempfile.TemporaryDirectory() as folder:
        workspace = make_workspace(Path(folder, "w"), Path.home() / ".cache" / "servetune")
        workspace.write_study(study([OWN, *ways], arguments.searches))
        for name in ("TMPDIR", "SERVETUNE_CACHE"):
            workspace.environment.pop(name)
        root = workspace.root
        (session,) = make_plan({"study": "standin"}, root).sessions
        kept = []
        for search in session.searches:
            way, count = search.workload.rsplit("-", 1)
            if way == OWN or int(count) < arguments.peers:
                kept.append(search)
        session = session.model_copy(update={"searches": kept})
        build_engine("vllm-cpu", root)
        made = [f"data/models/{id}/servetune.json" for id in session.models]
        made += [f"data/workloads/{id}.jsonl" for id in session.datasets]
        workspace.check("snakemake", "--cores", "1", *made, timeout_s=1800)
        # Ctrl-C ends the searches, and those that were made are reported.
        with contextlib.suppress(KeyboardInterrupt):
            measure(session, root, arguments.requests)
        report(session, root)


@dataclass(frozen=True)
class Answer:
    """What a search found, the seconds that it kept the server busy, and the closed loop's rate."""

    found: Capacity
    busy_s: float
    closed_loop_rps: float

    @property
    def rps(self) -> float:
        return self.found.capacity or 0

    @property
    def relative(self) -> float:
        return self.rps / self.closed_loop_rps


def read_answers(session: Session, root: Path) -> dict[str, list[Answer]]:
    """Read what each way found, in its order."""
    answers: dict[str, list[Answer]] = {}
    for search in session.searches:
        path = search_path(session.study, search.id, root)
        if not path.is_file():
            continue
        record = searches.read_search(path)
        sent = searches.probes_of([record], root)
        way, found = search.workload.rsplit("-", 1)[0], record.tiers["slo"]
        if found.ended == "failed" or sent[0].metrics is None:
            print(f"{way} failed: {found.reason}")
            continue
        answer = Answer(found, busy_s(sent), sent[0].metrics.request_throughput_rps)
        answers.setdefault(way, []).append(answer)
    return answers


def report(session: Session, root: Path) -> None:
    """Print each way's answers, their spread, and the seconds that the server was busy."""
    answers = read_answers(session, root)
    ours = answers.pop(OWN, [])
    if not ours:
        print("no search of servetune ended")
        return
    capacity = statistics.median(each.rps for each in ours)
    relative = statistics.median(each.relative for each in ours)
    seconds = statistics.mean(each.busy_s for each in ours)
    print(f"servetune: {len(ours)} searches on one server, median {capacity:.1f} req/s")
    intervals = [(each.found.lower, each.found.upper or float("inf")) for each in ours]
    for each, (low, high) in zip(ours, intervals, strict=True):
        print(
            f"  {each.rps:6.1f} ({low:.1f} to {high:.1f}), {each.found.ended},"
            f" {each.busy_s:.0f} s; the closed loop before it {each.closed_loop_rps:.1f} req/s"
        )
    scaled = [
        (low / each.closed_loop_rps, high / each.closed_loop_rps)
        for (low, high), each in zip(intervals, ours, strict=True)
    ]

    def near(way: list[Answer]) -> str:
        is_near = [abs(each.rps / capacity - 1) <= 0.1 for each in way]
        is_near_relative = [abs(each.relative / relative - 1) <= 0.1 for each in way]
        return (
            f"within 10 % of the median {sum(is_near)} of {len(way)},"
            f" over the closed loop {sum(is_near_relative)}"
        )

    print(f"  intervals that hold the median: {holding(intervals, capacity)}")
    print(f"  the same, over the closed loop: {holding(scaled, relative)}")
    print(f"  pairs of intervals that overlap: {overlaps(intervals)}")
    print(f"  the same, over the closed loop: {overlaps(scaled)}")
    print(f"  {near(ours)}; busy {seconds:.0f} s a search")
    for way, told in answers.items():
        cost = statistics.mean(each.busy_s for each in told)
        rates = ", ".join(f"{each.rps:.1f}" for each in told)
        print(
            f"{way} requests a probe: {rates} req/s; {near(told)};"
            f" busy {cost:.0f} s a search: {cost / seconds:.1f} times ours"
        )


if __name__ == "__main__":
    main()
