"""Ctrl-C ends a command in one line, also while it imports."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from servetune.lifetime.owners import mark
from tests.paths import ROOT

HIDING = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except BaseException as error:
    raise ImportError("what an import makes of it") from error
"""
PLAIN = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


def interrupted(
    folder: Path, module: str, source: str, command: str, ignores: bool = False, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command with a module in whose import Ctrl-C comes."""
    (folder / f"{module}.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "servetune", command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder), **variables},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_IGN if ignores else signal.default_int_handler
        ),
    )


def test_an_interrupt_while_the_command_imports_is_one_line(tmp_path: Path) -> None:
    done = interrupted(tmp_path, "typer", HIDING, "plan")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "servetune: stopped\n")


def test_a_step_is_not_interrupted_before_it_can_end_in_order(tmp_path: Path) -> None:
    source = f"{PLAIN}; raise SystemExit('it goes on')"
    done = interrupted(tmp_path, "typer", source, "plan", ignores=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "it goes on\n")


@pytest.mark.parametrize(("owners", "line"), [("", "servetune: stopped\n"), ("mine", "")])
def test_an_interrupt_of_a_running_command_is_one_line_and_that_of_a_step_none(
    owners: str, line: str, tmp_path: Path
) -> None:
    done = interrupted(
        tmp_path, "pandas", PLAIN, "show", SERVETUNE_OWNERS=owners and mark(os.getpid())
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", line)
