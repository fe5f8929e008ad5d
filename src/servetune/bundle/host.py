"""Measuring on a host that has only the bundle: no network, no Git, no Snakemake, no project.

Every record is kept when its load point ends, so a run that was stopped or killed goes on where
it was: in the same folder by itself, on a bare host from the results that it gave back. Of a
tuning it also chooses the rounds, until the tuning or the time ends.
"""

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from servetune.bundle.manifest import GATEWAY, Manifest, read_manifest
from servetune.bundle.results import pack_results, take_results
from servetune.bundle.turns import one_at_a_time, together, without_record
from servetune.engines.environments import adopt_engine, adopt_tool
from servetune.errors import UserError
from servetune.files import write_json
from servetune.lifetime.owners import end_left_behind, end_with_owners
from servetune.models.make import MANIFEST, model_folder
from servetune.plan.pending import pending_of
from servetune.progress import say
from servetune.serving.vllm_router import MODULE
from servetune.sessions.hardware import host_id, places
from servetune.sessions.host_verdicts import read_verdict
from servetune.sessions.passed import from_caller
from servetune.telemetry.gpus import EVERY
from servetune.terminal import echo


def main() -> int:
    """Measure what the bundle owes, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python3 BUNDLE",
        description="Measure what is still missing of this bundle's sessions.",
        epilog="--folder DIR is where to unpack it; by default named after the bundle. --packages"
        " DIR is where to install what this Python lacks, with the bundle's pins and hashes.",
    )
    parser.add_argument("project", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--results",
        type=Path,
        required=True,
        metavar="FILE.tar.gz",
        help="where to write the results, after each session and at the end",
    )
    parser.add_argument(
        "--resume",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE.tar.gz",
        help="results of an earlier run, to go on from",
    )
    parser.add_argument(
        "--stop-after",
        type=_seconds,
        default=math.inf,
        metavar="SECONDS",
        help="start no load point after this time; a running one is finished. Where there is no"
        " time for all, the variants with the fewest launches come first",
    )
    order = parser.add_mutually_exclusive_group()
    order.add_argument(
        "--together",
        action=argparse.BooleanOptionalAction,
        help="run sessions beside each other, where there are several GPUs; by default where this "
        "host was proven to measure alike so",
    )
    order.add_argument(
        "--prepare",
        nargs="*",
        metavar="VARIANT",
        help="do the imports of a server while the one before it starts, of all variants or of "
        "those named; not of replicas, nor where a session has less than 8 cores. By default, "
        "unless sessions run beside each other, where servers were proven to serve alike so",
    )
    parser.add_argument(
        "--no-prepare", action="store_true", help="start each server once it has its turn"
    )
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(sys.executable),
        metavar="PATH",
        help="the Python that imports vllm; by default the one running this",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="MODEL=PATH",
        help="a checkpoint on this host that the bundle does not include",
    )
    parser.add_argument(
        "--without-output",
        action="store_true",
        help="smaller results, without the load generator's own output; records, requests, "
        "telemetry and logs stay",
    )
    arguments = parser.parse_args()
    if arguments.no_prepare and arguments.prepare is not None:
        parser.error("argument --no-prepare: not allowed with argument --prepare")
    try:
        return _run(arguments)
    except UserError as error:
        echo(f"servetune: {error}", error=True)
        return 2


def _run(arguments: argparse.Namespace) -> int:
    until_s = time.monotonic() + arguments.stop_after
    _check_writable(arguments.results)
    project: Path = arguments.project
    manifest = read_manifest(project)
    os.environ["SERVETUNE_CACHE"] = str(project / ".cache")
    # SIGTERM ends the servers and writes the results, as --stop-after does.
    end_with_owners()
    end_left_behind()
    for file in arguments.resume:
        take_results(file, project, [manifest.study])
    if manifest.is_tuned or any(
        pending_of(session, project).count for session in manifest.sessions
    ):
        from_caller(manifest.environment_from)
    _find_models(manifest, arguments.model, project)
    for id, engine in manifest.engines.items():
        # Not resolved: a virtual environment's Python is a link to one without its packages.
        adopt_engine(id, arguments.python.absolute(), engine.vllm, engine.packages)
    _find_gateways(manifest, arguments.python.absolute(), project)
    measure = _way(arguments, manifest)

    def keep() -> None:
        pack_results(project, arguments.results, not arguments.without_output)

    try:
        for part in _rounds(manifest, project):
            measure(part, project, until_s, keep)
    finally:
        keep()
    manifest = read_manifest(project)
    owed = sum(pending_of(session, project).count for session in manifest.sessions)
    total = sum(len(session.owed) for session in manifest.sessions)
    done = f"{total - owed} of {total} load points, searches and qualities"
    say(f"{done} measured; results in {arguments.results}")
    return 0


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if not math.isnan(seconds := float(text)):
            return seconds
    raise argparse.ArgumentTypeError(f"{text}: expected seconds, such as 540")


def _check_writable(results: Path) -> None:
    """Refuse a place that results cannot be written to, before any is measured."""
    if results.is_dir():
        raise UserError(f"--results {results}: a folder; expected a file, such as results.tar.gz")
    try:
        results.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=results.parent):
            pass
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"--results {results}: cannot be written: {why}") from None


def _way(arguments: argparse.Namespace, manifest: Manifest) -> Callable[..., None]:
    """Return how to measure sessions: as was asked for, or as this host was proven to bear."""
    if arguments.prepare is not None:
        variants = {session.variant for session in manifest.sessions}
        if unknown := sorted({*arguments.prepare} - variants):
            known = ", ".join(sorted(variants))
            raise UserError(f"--prepare: {unknown[0]}: is no variant of this bundle: {known}")
        return partial(one_at_a_time, prepared={*arguments.prepare})
    host, is_together = host_id(), arguments.together
    if is_together is None:
        is_together = len(places(EVERY)) > 1 and read_verdict("together", host) == "alike"
    if is_together:
        return together
    is_prepared = not arguments.no_prepare and read_verdict("prepared", host) == "alike"
    return partial(one_at_a_time, prepared=()) if is_prepared else one_at_a_time


def _rounds(manifest: Manifest, project: Path) -> Iterator[Manifest]:
    """Yield what to measure; of a tuning again with each round, once that before is measured."""
    if not manifest.is_tuned:
        yield manifest
        return
    from servetune.bundle.rounds import with_next, with_rounds

    more: Manifest | None = with_rounds(manifest, project)
    while more:
        yield more
        more = None if without_record(more, project) else with_next(more, project)


def _find_gateways(manifest: Manifest, python: Path, project: Path) -> None:
    """Have the host's Python find the gateways that came along, before others of the host."""
    if manifest.gateways:
        paths = [str((project / GATEWAY).absolute()), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    for id, gateway in manifest.gateways.items():
        adopt_tool(id, gateway.kind, gateway.version, MODULE, python)


def _find_models(manifest: Manifest, named: list[str], project: Path) -> None:
    places = dict(pair.split("=", 1) for pair in named if "=" in pair)
    for id, source in manifest.elsewhere.items():
        name = id.rsplit("-", 1)[0]
        if name not in places:
            raise UserError(f"{name}: not in the bundle; pass --model {name}=PATH")
        path = Path(places[name]).absolute()
        if not path.is_dir():
            raise UserError(f"--model {name}: {path}: no such folder; expected a checkpoint")
        found = {"id": id, "source": source.model_dump(mode="json"), "checkpoint": str(path)}
        write_json(model_folder(id, project) / MANIFEST, found)


if __name__ == "__main__":
    sys.exit(main())
