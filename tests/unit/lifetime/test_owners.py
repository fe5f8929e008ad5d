"""Whom a process must not outlive, and what becomes of one that did."""

import os
import select
import signal
import subprocess
import sys

import pytest

from servetune.lifetime import owners
from servetune.lifetime.owners import OWNERS, end_left_behind, mark, owned_by

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
HOST = f"a-host-of-this-test-{os.getpid()}:pid-1"
STEP = f"""\
import sys, time
from servetune.lifetime import owners
from servetune.lifetime.owners import end_with_owners
owners._host = lambda: "{HOST}"
owners.STOP_WITHIN_S = 600
end_with_owners()
try:
    print("began", flush=True)
    time.sleep(600)
finally:
    print("stopped", flush=True)
"""

STOPPED_TWICE = """\
import os, signal
from servetune.lifetime.owners import end_with_owners
end_with_owners()
both = [signal.SIGINT, signal.SIGTERM]
signal.pthread_sigmask(signal.SIG_BLOCK, both)
for number in both:
    os.kill(os.getpid(), number)
signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
"""


@pytest.fixture(autouse=True)
def _own_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be on a host of its own: pipelines beside this one end all that is left behind on theirs."""
    monkeypatch.setattr(owners, "_host", lambda: HOST)


def ended_owner() -> str:
    """Return the mark of a process that is no more."""
    with subprocess.Popen(SLEEP) as owner:
        owned = mark(owner.pid)
        owner.kill()
    return owned


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_step_stops_in_order_when_one_of_its_owners_is_gone(sign: signal.Signals) -> None:
    with subprocess.Popen(SLEEP) as owner:
        environment = owned_by(owned_by(dict(os.environ), os.getpid()), owner.pid)
        with subprocess.Popen(
            [sys.executable, "-c", STEP], env=environment, stdout=subprocess.PIPE, text=True
        ) as step:
            assert step.stdout is not None and step.stdout.readline() == "began\n"
            owner.send_signal(sign)
            assert step.stdout.read() == "stopped\n"
    assert step.returncode == 143


def test_a_process_with_a_thousand_open_files_stops_with_its_owner_as_well() -> None:
    many = """\
import os, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (2048 if hard < 0 else min(2048, hard), hard))
[os.dup(0) for _ in range(1100)]
"""
    with subprocess.Popen(SLEEP) as owner:
        environment = owned_by(dict(os.environ), owner.pid)
        with subprocess.Popen(
            [sys.executable, "-c", many + STEP], env=environment, stdout=subprocess.PIPE, text=True
        ) as step:
            assert step.stdout is not None and step.stdout.readline() == "began\n"
            owner.kill()
            assert step.stdout.read() == "stopped\n"


def test_a_step_that_is_told_to_stop_twice_ends_in_silence() -> None:
    """A terminal's Ctrl-C reaches it and Snakemake, which tells it again."""
    command = [sys.executable, "-c", STOPPED_TWICE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert done.stdout + done.stderr == ""


def test_a_step_does_not_begin_without_its_owner() -> None:
    environment = {**os.environ, OWNERS: ended_owner()}
    done = subprocess.run(
        [sys.executable, "-c", STEP], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "servetune: the pipeline that asked for this is gone\n"


def test_what_a_killed_run_left_behind_is_told_and_ended(
    capfd: pytest.CaptureFixture[str],
) -> None:
    environment = owned_by(dict(os.environ), os.getpid())
    elsewhere = ended_owner().replace(HOST, "another-boot:pid-1")
    kept = [begun(environment), begun({**os.environ, OWNERS: elsewhere})]
    left = begun({**os.environ, OWNERS: f"{mark(1)} {ended_owner()}"})
    end_left_behind()
    assert left.wait() != 0
    assert f"({left.pid})" in capfd.readouterr().err
    for process in kept:
        assert process.poll() is None
        process.kill()
        process.wait()


def begun(environment: dict[str, str]) -> subprocess.Popen[str]:
    """Start a process and wait until it runs: before, its environment may not be readable yet."""
    command = [sys.executable, "-c", "print('began', flush=True); import time; time.sleep(600)"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "began\n"
    return process


def test_a_mark_names_a_process_and_not_its_pid() -> None:
    with subprocess.Popen(SLEEP) as first:
        marks = {mark(first.pid)}
        handle = os.pidfd_open(first.pid)
        first.kill()
        select.select([handle], [], [])
        # It is a zombie now, whose pid is not free.
        marks.add(mark(first.pid))
    assert len(marks) == 2
