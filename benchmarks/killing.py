"""One run of the pipeline that is to be killed, what was there of it, and what is left."""

import json
import os
import signal
import subprocess
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import psutil

from tests.workspace import Workspace

STOPS_WITHIN_S = 15.0
"""How long one that is asked to stop may take, with all that it started."""

GONE_WITHIN_S = 10.0
"""How long anything may outlive the one who started it."""

PATIENCE_S = 1800.0
LOOK_EVERY_S = 0.1

STARTERS = ("snakemake", "dvc", "uv run")
"""Who is there all the time, DVC only where it starts the run."""

STEPS = {
    "engine step": " engine ",
    "model step": " model ",
    "workload step": " workload ",
    "session": " session ",
    "tables": " tables ",
    "report": " report ",
}
PREPARATION = ("engine step", "model step", "workload step")
"""The steps before the session, of which any may come first."""

KINDS = {
    **{"snakemake": "/snakemake ", "dvc": "/dvc ", "uv run": "uv run "},
    **STEPS,
    "trainer": "servetune.models.inside",
    "guard": "servetune.lifetime.guard",
    "server": "vllm.entrypoints",
    "engine core": "EngineCore|sleep 600",
    "client": "servetune.load.",
}
"""Each kind of process by what its command line holds."""

SIGNALS = {
    "kill -9": signal.SIGKILL,
    "SIGTERM": signal.SIGTERM,
    "Ctrl-C": signal.SIGINT,
    "SIGINT": signal.SIGINT,
}

START = "start"
"""The first seconds of a run: most of them go by before any code of the pipeline's."""

MARK = "SERVETUNE_KILLS"


@dataclass(frozen=True)
class Kill:
    """Whom to kill, in which step, how, and when.

    That is `after_s` after a process of the kind `during` was first there, or after the run was
    started for START, or at once when a file of the pattern `writes` is written in the step.
    """

    kind: str
    step: str
    sign: str
    during: str
    after_s: float = 0.0
    writes: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of a kill: `last_s` is how long the last one that had to end took, seconds."""

    kill: Kill
    orphans: int
    last_s: float
    has_traceback: bool
    changed: int = 0
    doubled: int = 0
    is_whole: bool = False


class Run:
    """A run in a workspace, which it marks as its own."""

    def __init__(self, workspace: Workspace, by_dvc: bool) -> None:
        """Start it, in a process group of its own, as a terminal does."""
        pipeline = ["dvc", "repro"] if by_dvc else ["snakemake", "--cores", "1"]
        self._workspace = workspace
        self.log = workspace.root.with_name("output.txt")
        self._began_s = time.monotonic()
        with self.log.open("a") as output:
            self.process = subprocess.Popen(
                ["uv", "run", "--no-project", *pipeline],
                cwd=workspace.root,
                env={**workspace.cold, MARK: str(workspace.root)},
                stdout=output,
                stderr=output,
                process_group=0,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    def durations(self) -> dict[str, float]:
        """Watch it to its end; returns for how long a process of each kind was there, seconds."""
        first: dict[tuple[str, int], float] = {}
        last: dict[tuple[str, int], float] = {}
        while self.process.poll() is None:
            for process in self._processes():
                for kind in KINDS:
                    if _is_kind(process, kind):
                        last[kind, process.pid] = time.monotonic()
                        first.setdefault((kind, process.pid), time.monotonic())
            time.sleep(LOOK_EVERY_S)
        lasted = defaultdict(list)
        for kind, pid in first:
            lasted[kind].append(last[kind, pid] - first[kind, pid])
        return {kind: max(seconds) for kind, seconds in lasted.items()}

    def wait_for(self, kill: Kill) -> psutil.Process | None:
        """Wait for the moment of a kill; returns whom to kill, None if the run is past it."""
        if kill.during == START:
            time.sleep(max(0.0, self._began_s + kill.after_s - time.monotonic()))
            return self._find(kill.kind) if self.process.poll() is None else None
        if not self._wait(kill.step, kill.during):
            return None
        if kill.writes:
            return self._wait_for_writer(kill)
        time.sleep(kill.after_s)
        return self._wait(kill.step, kill.kind)

    def _wait(self, step: str, kind: str) -> psutil.Process | None:
        """Wait for a process of a kind; returns it, None if the run goes on after its step."""
        steps = [name for name in STEPS if step not in PREPARATION or name not in PREPARATION]
        later = steps[steps.index(step) + 1 :] if step in steps else steps
        while self.process.poll() is None and not any(map(self._find, later)):
            if found := self._find(kind):
                return found
            time.sleep(LOOK_EVERY_S)
        return None

    def strike(self, kill: Kill, victim: psutil.Process) -> Outcome | None:
        """Send the signal and wait for its effect; None if the process has ended by itself."""
        offset, began_s = self.log.stat().st_size, time.monotonic()
        try:
            if kill.kind in STARTERS or kill.sign == "Ctrl-C":
                below = marked(self._workspace)
            else:
                below = [victim, *victim.children(recursive=True)]
            if kill.sign == "Ctrl-C":
                os.killpg(self.process.pid, signal.SIGINT)
                victim = psutil.Process(self.process.pid)
            else:
                victim.send_signal(SIGNALS[kill.sign])
        except (psutil.NoSuchProcess, ProcessLookupError):
            return None
        wait_until_gone([victim], began_s + STOPS_WITHIN_S)
        if kill.during == START and not any(map(_is_step, below)):
            left = self._wait_for_imports(below)
        else:
            left = wait_until_gone(below, time.monotonic() + GONE_WITHIN_S)
        last_s = time.monotonic() - began_s
        for process in left:
            print(f"left by {kill}: {process}", flush=True)
            process.kill()
        has_traceback = kill.sign != "kill -9" and b"Traceback" in self.log.read_bytes()[offset:]
        return Outcome(kill, len(left), last_s, has_traceback)

    def _wait_for_imports(self, importing: list[psutil.Process]) -> list[psutil.Process]:
        """Wait for the end of what imports, however slow the host; returns it if a step begins."""
        while left := wait_until_gone(importing, time.monotonic() + LOOK_EVERY_S):
            if begun := list(filter(_is_step, marked(self._workspace))):
                return [*left, *begun]
        return list(filter(_is_step, marked(self._workspace)))

    def _wait_for_writer(self, kill: Kill) -> psutil.Process | None:
        before, victim = self._written(kill), self._find(kill.step)
        while victim and not is_gone(victim):
            if self._written(kill) != before:
                return victim
            time.sleep(0.001)
        return None

    def _written(self, kill: Kill) -> set[tuple[str, int]]:
        state = set()
        for path in self._workspace.root.glob(str(kill.writes)):
            try:
                state.add((path.name, path.stat().st_mtime_ns))
            except OSError:
                continue
        return state

    def _find(self, kind: str) -> psutil.Process | None:
        """Find the newest process of a kind."""
        return next((p for p in reversed(self._processes()) if _is_kind(p, kind)), None)

    def _processes(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.Error:
            return []


def _is_kind(process: psutil.Process, kind: str) -> bool:
    try:
        words = " ".join(process.cmdline()) + " "
    except psutil.Error:
        return False
    # A guard names what it guards, and a step's shell the step.
    is_other = "lifetime.guard" in words and kind != "guard"
    is_other |= kind in STEPS and "/servetune " not in words
    is_shell = words.startswith(("/bin/", "/usr/bin/bash", "bash", "sh ", "tee"))
    return not is_other and not is_shell and any(part in words for part in KINDS[kind].split("|"))


def _is_step(process: psutil.Process) -> bool:
    return any(_is_kind(process, step) for step in STEPS)


def is_gone(process: psutil.Process) -> bool:
    """Tell whether a process has ended, reaped or not."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_gone(processes: list[psutil.Process], until_s: float) -> list[psutil.Process]:
    """Wait until processes have ended; returns those that are there at `until_s`, monotonic."""
    while (left := [p for p in processes if not is_gone(p)]) and time.monotonic() < until_s:
        time.sleep(0.05)
    return left


def marked(workspace: Workspace) -> list[psutil.Process]:
    """Find all that was started for a workspace, by a mark of this benchmark's own."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(workspace.root) and not is_gone(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


class Ledger:
    """The records of a workspace as they were when they were first there."""

    def __init__(self, workspace: Workspace) -> None:
        """Begin with none."""
        self._root = workspace.root
        self._known: dict[Path, str] = {}

    def check(self) -> tuple[int, int]:
        """Count the records that changed, or whose samples are lost, and those with a double."""
        now = {path: path.read_text() for path in self._root.glob("results/*/records/*.json")}
        changed = sum(now.get(path) != text for path, text in self._known.items())
        self._known |= now
        records = [json.loads(text) for text in now.values()]
        files = self._root.glob("results/raw/*/[!.]*/telemetry-*.parquet")
        sampled = {name for path in files for name in pd.read_parquet(path)["measurement"]}
        changed += sum(r["status"] == "ok" and r["measurement"] not in sampled for r in records)
        return changed, len(records) - len({record["measurement"] for record in records})
