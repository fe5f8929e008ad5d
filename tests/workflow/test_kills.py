"""Whoever is killed or stopped, nothing outlives the run, and the next one goes on."""

import base64
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import psutil
import pytest

from tests.workspace import PATIENCE_S, TABLES, Workspace


def slow_load(workspace: Workspace) -> None:
    """Make the second load point of the first launch last until it is ended from outside."""
    study = workspace.study
    # A load of a second or so has samples.
    study["server"]["standin_step_ms"] = 150
    # Each load point sends one warm-up request: the eleventh request is in the second one.
    study["server"] |= {"standin_fault": "stall-under-load", "standin_fault_after": 10}
    study["environment"] = {"STANDIN_GATE": "never"}
    study["variants"].pop("fp8-kv")
    study["workloads"]["random"]["load_points"] = [
        {"concurrency": 8, "requests": 8},
        {"concurrency": 1, "requests": 2},
    ]
    workspace.write_study(study)


SNAKEMAKE = ("snakemake", "--cores", "1", TABLES)


def start_and_wait_for_second_load_point(
    workspace: Workspace, *command: str
) -> subprocess.Popen[bytes]:
    with (workspace.root / "snakemake.log").open("w") as log:
        started = subprocess.Popen(
            command or SNAKEMAKE,
            cwd=workspace.root,
            env=workspace.cold,
            stdout=log,
            stderr=log,
            process_group=0,
            # Where tests run in the background the shell has them ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    wait_for(lambda: len(workspace.records()) == 1 and is_loading(workspace))
    assert workspace.servers() != []
    return started


def is_loading(workspace: Workspace) -> bool:
    """Tell whether a load point has begun: until it ends, its files are in a hidden folder."""
    return bool(list((workspace.root / "results/raw/standin").glob(".*/schedule.jsonl")))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def check_that_it_goes_on(workspace: Workspace) -> None:
    kept = workspace.records()
    assert len(kept) == 1
    raw = workspace.root / "results/raw/standin"
    (telemetry,) = raw.glob("*/telemetry-1.parquet")
    assert set(kept) <= set(pd.read_parquet(telemetry)["measurement"])
    workspace.collect()
    after = workspace.records()
    assert len(after) == 2
    assert {id: after[id] for id in kept} == kept
    assert not list(raw.glob(".*")), "something half-written was left"
    assert {record["status"] for record in after.values()} == {"ok"}


def processes(workspace: Workspace) -> list[str]:
    """List the commands that run in a workspace."""
    running = psutil.process_iter(["cmdline", "cwd"])
    at_work = [process.info for process in running if process.info["cwd"] == str(workspace.root)]
    return [" ".join(info["cmdline"] or []) for info in at_work]


def kill_at(workspace: Workspace, launches: int) -> None:
    """Start a run, and kill it once so many servers were ever started."""
    command = ("snakemake", "--cores", "1", "reports/summary.html")
    with (workspace.root / "killed.log").open("w") as log:
        started = subprocess.Popen(
            command, cwd=workspace.root, env=workspace.cold, stdout=log, stderr=log
        )
    wait_for(lambda: workspace.launches() >= launches)
    started.send_signal(signal.SIGKILL)
    started.wait()
    wait_for(lambda: processes(workspace) == [])


@pytest.mark.parametrize(
    ("command", "sign"),
    [
        (SNAKEMAKE, signal.SIGKILL),
        (("dvc", "repro"), signal.SIGKILL),
        (("uv", "run", "--no-project", *SNAKEMAKE), signal.SIGKILL),
    ],
)
def test_nothing_outlives_the_one_who_started_it_and_the_next_run_goes_on(
    workspace: Workspace, command: tuple[str, ...], sign: signal.Signals
) -> None:
    slow_load(workspace)
    started = start_and_wait_for_second_load_point(workspace, *command)
    started.send_signal(sign)
    started.wait()
    wait_for(lambda: processes(workspace) == [])
    check_that_it_goes_on(workspace)


SLOW_IMPORT = """
import os, sys
if sys.orig_argv[1].endswith("/snakemake"):
    open("snakemake.pid", "w").write(str(os.getpid()))
    open("gate").read()
"""


@pytest.mark.parametrize("killed", ["uv", "dvc"])
def test_nothing_is_measured_once_the_one_who_started_it_is_killed_while_snakemake_imports(
    killed: str, workspace: Workspace, tmp_path: Path
) -> None:
    command = ["dvc", "repro"] if killed == "dvc" else [*SNAKEMAKE]
    (tmp_path / "sitecustomize.py").write_text(SLOW_IMPORT)
    gate, pid = workspace.root / "gate", workspace.root / "snakemake.pid"
    os.mkfifo(gate)
    with (workspace.root / "snakemake.log").open("w") as log:
        started = subprocess.Popen(
            ["uv", "run", "--no-project", *command],
            cwd=workspace.root,
            env={**workspace.cold, "PYTHONPATH": str(tmp_path)},
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    wait_for(pid.exists)
    victim = psutil.Process(started.pid)
    if killed == "dvc":
        victim = next(p for p in victim.children() if p.name() == "dvc")
    victim.kill()
    started.wait()
    gate.write_text("go on")
    wait_for(lambda: processes(workspace) == [])
    name = "DVC" if killed == "dvc" else "`uv run`"
    told = (workspace.root / "snakemake.log").read_text()
    assert f"servetune: the {name} that started this is gone" in told
    assert not (workspace.root / "logs").exists()


def test_nothing_outlives_a_killed_session_and_the_next_run_goes_on(workspace: Workspace) -> None:
    slow_load(workspace)
    snakemake = start_and_wait_for_second_load_point(workspace)
    for process in psutil.Process(snakemake.pid).children(recursive=True):
        words = process.cmdline()
        if "session" in words and Path(words[1] if len(words) > 1 else "").name == "servetune":
            process.kill()
    wait_for(lambda: workspace.servers() == [])
    snakemake.wait(PATIENCE_S)
    check_that_it_goes_on(workspace)


@pytest.mark.parametrize(
    ("sign", "to"),
    [
        pytest.param(signal.SIGINT, os.kill, id="SIGINT-to-Snakemake-alone"),
        pytest.param(signal.SIGTERM, os.kill, id="SIGTERM-to-Snakemake-alone"),
        pytest.param(signal.SIGINT, os.killpg, id="Ctrl-C"),
    ],
)
def test_a_stop_says_in_two_lines_what_is_kept_and_the_next_run_goes_on(
    workspace: Workspace, sign: signal.Signals, to: Callable[[int, int], None]
) -> None:
    slow_load(workspace)
    snakemake = start_and_wait_for_second_load_point(workspace)
    told = workspace.root / "snakemake.log"
    wait_for(lambda: "load point 2 of 2" in told.read_text())
    before = len(told.read_text())
    to(snakemake.pid, sign)
    assert snakemake.wait(PATIENCE_S) == 128 + sign
    assert processes(workspace) == []
    lines = told.read_text()[before:].splitlines()
    # A step may have warned meanwhile of a load that stands still, on a line of its progress.
    kept, _ = [line for line in lines if not re.match(r"\[ *\d+:\d\d\] ", line)]
    assert "1 of 2 measured" in kept
    check_that_it_goes_on(workspace)


def test_an_interrupt_while_the_workflow_is_read_is_one_line(
    workspace: Workspace, tmp_path: Path
) -> None:
    # A module that the workflow imports, and Snakemake does not: it makes of an exception another.
    (tmp_path / "graphlib.py").write_text(
        "import os, signal\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "except BaseException as error:\n    raise ImportError('hidden') from error\n"
    )
    done = subprocess.run(
        SNAKEMAKE,
        cwd=workspace.root,
        env={**workspace.cold, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert done.stderr.splitlines()[-1] == "servetune: stopped before the first step"
    assert "Traceback" not in done.stdout + done.stderr


def mark_incomplete(workspace: Workspace, output: Path) -> None:
    """Leave what Snakemake leaves where it is killed while a step runs."""
    key = base64.b64encode(str(output.relative_to(workspace.root)).encode()).decode()
    (workspace.root / ".snakemake/incomplete" / key).write_text('{"external_jobid": null}')


def test_a_step_that_ended_after_its_pipeline_was_killed_hides_no_session(
    workspace: Workspace,
) -> None:
    workspace.collect("--until", "make_model")
    (model,) = workspace.root.glob("data/models/*/servetune.json")
    mark_incomplete(workspace, model)
    assert re.search(r"measure_session +2\n", workspace.dry_run())


def test_success_is_told_only_if_the_report_of_this_plan_stands(workspace: Workspace) -> None:
    workspace.collect("--until", "make_model")
    # Snakemake takes no step for needed whose inputs are ancient and made again.
    done = workspace.run("snakemake", "--cores", "1", "--forcerun", "make_model")
    assert done.returncode == 1
    assert "2 of 2 sessions are missing: plain-" in done.stderr
    assert "Traceback" not in done.stderr
