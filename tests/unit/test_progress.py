"""What is printed on standard error, and its copy in a log."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servetune.progress import BEGAN, about, figure

PROGRAM = """
import signal, subprocess, sys
from pathlib import Path
from servetune.progress import copy_to, say
# Ignored where the tests run in the background of a shell.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
copy_to(Path(sys.argv[1]))
try:
    say("begun")
    subprocess.run([sys.executable, "-c", "import sys; print('a child', file=sys.stderr)"])
    {then}
finally:
    say("stopped")
"""


def test_a_figure_has_four_digits_and_no_exponent() -> None:
    written = {
        0.03519: "0.03519",
        49.944: "49.94",
        999.96: "1,000",
        1582.4: "1,582",
        1e5: "100,000",
    }
    assert {value: figure(value) for value in written} == written


def test_a_time_to_come_is_told_as_coarsely_as_it_is_known() -> None:
    told = {2: "5 s", 31: "30 s", 59: "1 min", 250: "4 min", 5900: "98 min", 6100: "1 h 40 min"}
    told |= {7300: "2 h", 86400: "24 h"}
    assert {seconds: about(seconds) for seconds in told} == {
        seconds: f"about {words}" for seconds, words in told.items()
    }


def program(then: str, log: Path) -> "subprocess.Popen[str]":
    words = [sys.executable, "-c", PROGRAM.format(then=then), str(log)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_a_log_holds_what_the_terminal_shows_of_a_step_its_children_and_its_end(
    tmp_path: Path,
) -> None:
    log = tmp_path / "logs" / "step.log"
    running = program("raise RuntimeError('broken')", log)
    _, shown = running.communicate()
    assert running.returncode == 1
    assert [word in shown for word in ("begun", "a child", "stopped", "broken")] == [True] * 4
    assert log.read_text() == shown


def test_a_step_tells_the_time_since_its_run_began() -> None:
    hours = 10
    step = "from servetune.progress import say; say('begun')"
    began = {**os.environ, BEGAN: str(time.time() - hours * 3600)}
    command = [sys.executable, "-c", step]
    done = subprocess.run(command, env=began, stderr=subprocess.PIPE, text=True, check=True)
    assert int(done.stderr[1:].split(":")[0]) >= 60 * hours


def test_the_steps_of_a_process_know_when_it_began() -> None:
    step = f"import os; print(os.environ['{BEGAN}'])"
    run = f"""
import os, subprocess, sys
import servetune.progress
subprocess.run([sys.executable, "-c", {step!r}], check=True)
print(os.environ["{BEGAN}"], flush=True)
"""
    fresh = {name: value for name, value in os.environ.items() if name != BEGAN}
    command = [sys.executable, "-c", run]
    done = subprocess.run(command, env=fresh, stdout=subprocess.PIPE, text=True, check=True)
    told = done.stdout.split()
    assert len(told) == 2 and told[0] == told[1]


def test_an_interrupt_of_the_terminal_loses_no_line_and_keeps_the_exit_status(
    tmp_path: Path,
) -> None:
    log = tmp_path / "step.log"
    for number, status in ((signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)):
        # Told to wait: while the child is put away, Python may drop the interrupt.
        running = program("say('waits'); signal.pause()", log)
        assert running.stderr is not None
        shown = "".join(running.stderr.readline() for _ in range(3))
        assert "a child" in shown and "waits" in shown
        os.killpg(running.pid, number)
        shown += running.stderr.read()
        assert running.wait() == status
        assert "stopped" in shown
        assert log.read_text() == shown


SAYS = """
import sys
from pathlib import Path
from servetune.progress import copy_to, say
if sys.argv[1:]:
    copy_to(Path(sys.argv[1]))
for number in range(LINES):
    say(f"line {number} {1000 * '.'}")
print("measured")
"""


@pytest.mark.parametrize("to", ["full", "gone", "still"])
def test_a_line_that_nobody_takes_neither_ends_nor_holds_up_a_step(to: str, tmp_path: Path) -> None:
    read, write = os.pipe()
    if to == "gone":
        os.close(read)
    elif to == "still":
        os.set_blocking(write, False)
        while to_write := select.select([], [write], [], 0)[1]:
            os.write(to_write[0], bytes(4096))
        os.set_blocking(write, True)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", SAYS.replace("LINES", "3")],
            stdout=subprocess.PIPE,
            stderr=full if to == "full" else write,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (0, "measured\n")


def test_the_log_of_a_step_goes_on_where_its_terminal_is_gone(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    log = tmp_path / "step.log"
    done = subprocess.run(
        [sys.executable, "-c", SAYS.replace("LINES", "30"), str(log)],
        stdout=subprocess.PIPE,
        stderr=write,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "measured\n")
    assert log.read_text().count("line ") == 30


def test_a_log_that_cannot_be_written_does_not_end_a_step(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("no folder")
    for log in (tmp_path / "logs/step.log", Path("/dev/full")):
        command = [sys.executable, "-c", SAYS.replace("LINES", "3"), str(log)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "measured\n")
        assert "line 2" in done.stderr
