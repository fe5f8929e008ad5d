"""A server that was prepared serves as one that was started plainly, or a plain start follows."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import psutil
import pytest

from servetune.engines.vllm.dialect import DIALECT
from servetune.engines.vllm.inside_prepared import METHOD
from servetune.serving.server import Server
from tests.standin.serving import PATIENCE_S, PYTHON, write_model

OWN = frozenset(os.sched_getaffinity(0))


@pytest.fixture
def made(tmp_path: Path) -> Iterator[list[Server]]:
    """The servers of a test, which it leaves to be stopped."""
    servers: list[Server] = []
    yield servers
    for server in servers:
        server.stop()


def prepared(made: list[Server], folder: Path, **environment: str) -> Server:
    """Return a server whose process was started ahead."""
    (folder / "model").mkdir()
    server = Server(
        dialect=DIALECT,
        python=PYTHON,
        model=str(write_model(folder / "model")),
        arguments=["--max-num-seqs", "7"],
        environment={"STANDIN_DEVICE": "GPU", **environment},
        name="it",
        log=folder / "server.log",
        folder=folder,
    )
    made.append(server)
    server.prepare(OWN)
    return server


def copy_of(server: Server, made: list[Server]) -> Server:
    """Return a server that is like another, not prepared."""
    copied = Server(**{each.name: getattr(server, each.name) for each in fields(server)})
    made.append(copied)
    return copied


def waiting(server: Server) -> psutil.Process:
    """Return the process that waits to become a server."""
    assert server.ahead is not None
    pids = sorted(server.ahead.pids)
    found = [psutil.Process(pid) for pid in pids]
    return next(each for each in found if any("inside_prepared" in w for w in each.cmdline()[:4]))


def settle(server: Server, within_s: float = PATIENCE_S) -> None:
    assert server.ahead is not None
    server.ahead.settle(within_s)


def serve(server: Server) -> None:
    server.start()
    server.wait_ready(PATIENCE_S, lambda _: None)


def refusal(server: Server) -> str | None:
    """Start a server and tell why its start was a plain one."""
    serve(server)
    assert server.ahead is not None and not server.ahead.has_begun
    return server.ahead.refusal


def wait_until_asleep(process: psutil.Process) -> None:
    """Wait until a process that has told that it waits does so."""
    deadline = time.monotonic() + PATIENCE_S
    switches = None
    # What waits for a core switches nothing either.
    while (
        switches != (switches := process.num_ctx_switches())
        or process.status() != psutil.STATUS_SLEEPING
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def threads(process: psutil.Process) -> list[set[int]]:
    """Return the cores of each thread of a process."""
    return [os.sched_getaffinity(thread.id) for thread in process.threads()]


def described(process: psutil.Process) -> dict[str, Any]:
    """Return what a server is given, but for what differs between any two."""
    environment = process.environ()
    for name in ("SERVETUNE_OWNERS", "SERVETUNE_KEY"):
        environment.pop(name)
    serving = process.cmdline()[process.cmdline().index("serve") :]
    port = serving.index("--port") + 1
    return {
        "environment": environment,
        "arguments": [*serving[:port], *serving[port + 1 :]],
        "folder": process.cwd(),
        "input": os.readlink(f"/proc/{process.pid}/fd/0"),  # noqa: PTH115
    }


def test_what_waits_becomes_the_server_that_a_plain_start_would_be(
    made: list[Server], tmp_path: Path
) -> None:
    server = prepared(made, tmp_path)
    settle(server)
    process = waiting(server)
    assert threads(process) == [OWN, OWN] and not server.log.exists()
    wait_until_asleep(process)
    assert process.status() == psutil.STATUS_SLEEPING
    serve(server)
    assert server.ahead is not None and server.ahead.has_begun and not server.ahead.pids
    assert {frozenset(cores) for cores in threads(process)} == {OWN}
    assert "Application startup complete." in server.log.read_text()
    assert [file.name for file in tmp_path.glob(".*")] == []
    told = described(process)
    server.stop()
    serve(copy_of(server, made))
    family = psutil.Process().children(recursive=True)
    others = [each for each in family if "vllm.entrypoints.cli.main" in each.cmdline()]
    assert [described(each) for each in others if each.name() != "sh"][-1:] == [told]


def told_method(server: Server) -> str:
    """Return how a running server says that it starts its engine core."""
    told: dict[str, str] = server.get("/server_info?config_format=json").json()["vllm_env"]
    return told[METHOD]


def test_its_engine_core_is_forked_unless_the_study_says_otherwise(
    made: list[Server], tmp_path: Path
) -> None:
    methods = []
    for name, declared in (("by itself", {}), ("declared", {METHOD: "spawn"})):
        (tmp_path / name).mkdir()
        server = prepared(made, tmp_path / name, **declared)
        settle(server)
        serve(server)
        methods.append(told_method(server))
        server.stop()
    plain = copy_of(made[0], made)
    serve(plain)
    methods.append(told_method(plain))
    assert methods == ["fork", "spawn", "spawn"]


def test_a_start_counts_from_the_word(made: list[Server], tmp_path: Path) -> None:
    server = prepared(made, tmp_path)
    settle(server)
    word_s = time.monotonic()
    serve(server)
    assert server.startup_s is not None
    assert server.startup_s <= time.monotonic() - word_s + 0.01


def test_imports_that_open_a_gpu_are_refused(made: list[Server], tmp_path: Path) -> None:
    offered = tmp_path / "offered/torch"
    offered.mkdir(parents=True)
    (offered / "cuda.py").write_text("def is_initialized():\n    return True\n")
    (offered / "__init__.py").write_text("from . import cuda\n")
    source = os.pathsep.join([str(offered.parent), str(Path(__file__).parents[3] / "src")])
    server = prepared(made, tmp_path, PYTHONPATH=source)
    settle(server)
    opened = "vllm.entrypoints.openai.api_server"
    assert refusal(server) == f"opened a GPU when it imported {opened}"
    assert server.ahead is not None and server.ahead.opened == opened
    server.stop()
    again = copy_of(server, made)
    again.prepare(OWN, {opened})
    settle(again)
    serve(again)
    assert again.ahead is not None and again.ahead.has_begun


def test_one_whose_imports_fail_tells_its_last_line(made: list[Server], tmp_path: Path) -> None:
    server = prepared(made, tmp_path, STANDIN_IMPORTS="die")
    settle(server)
    assert refusal(server) == "ended with exit code 1: RuntimeError: these imports fail"


def test_one_that_is_late_is_ended(made: list[Server], tmp_path: Path) -> None:
    server = prepared(made, tmp_path, STANDIN_IMPORTS="hang")
    settle(server, 0.0)
    assert server.ahead is not None and not server.ahead.pids
    assert refusal(server) == "was not ready after 0 s"


def test_one_that_still_imports_at_its_turn_is_ended(made: list[Server], tmp_path: Path) -> None:
    server = prepared(made, tmp_path, STANDIN_IMPORTS="hang")
    assert refusal(server) == "still did its imports"


def test_one_that_was_killed_while_it_waited_costs_nothing(
    made: list[Server], tmp_path: Path
) -> None:
    server = prepared(made, tmp_path)
    settle(server)
    waiting(server).send_signal(signal.SIGKILL)
    assert str(refusal(server)).startswith("ended with exit code 137")


def test_one_that_is_not_needed_leaves_nothing(made: list[Server], tmp_path: Path) -> None:
    server = prepared(made, tmp_path)
    settle(server)
    process = waiting(server)
    server.stop()
    assert not process.is_running()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_one_that_dies_after_the_word_is_followed_by_a_plain_start(
    made: list[Server], tmp_path: Path
) -> None:
    server = prepared(made, tmp_path, STANDIN_IMPORTS="die later")
    settle(server)
    assert refusal(server) == "did not start: RuntimeError: these imports were of no use"
    assert "of no use" not in server.log.read_text()


WITH_OWNER = """\
import sys, time
from pathlib import Path
from tests.unit.serving.test_prepared import OWN, prepared, settle, waiting
made = []
server = prepared(made, Path(sys.argv[1]))
settle(server)
print(waiting(server).pid, flush=True)
time.sleep(3600)
"""


def test_one_that_waits_ends_with_a_killed_owner(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITH_OWNER, str(tmp_path)]
    root = Path(__file__).parents[3]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        process = psutil.Process(int(owner.stdout.readline()))
        family = [process, *process.parents()[:1]]
        owner.kill()
    assert psutil.wait_procs(family, timeout=PATIENCE_S)[1] == []


def test_one_that_waits_does_nothing(made: list[Server], tmp_path: Path) -> None:
    server = prepared(made, tmp_path)
    settle(server)
    process = waiting(server)
    wait_until_asleep(process)
    before = process.num_ctx_switches(), process.cpu_times()
    time.sleep(0.5)
    assert (process.num_ctx_switches(), process.cpu_times()) == before
