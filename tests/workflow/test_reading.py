"""Looking at a study, at its results or at another tree starts no program but Git."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.workspace import PATIENCE_S, Workspace, make_workspace

AUDIT = """\
import json, os, sys

def note(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "pty.spawn"):
        words = arguments[1] if len(arguments) > 1 else arguments
        started = [os.fsdecode(arguments[0]), *map(str, words or [])]
    elif event == "import" and arguments[1] and str(arguments[1]).startswith(os.getcwd()):
        if "/src/servetune/" in arguments[1]:
            return
        started = ["import", arguments[1]]
    else:
        return
    with open(os.environ["STARTED"], "a") as file:
        file.write(json.dumps(started) + "\\n")

if "STARTED" in os.environ:
    sys.addaudithook(note)
"""
"""A sitecustomize.py: notes all that a Python process starts, and code of a study that it loads."""

READING = (
    *("plan", "plan --json", "status", "status --json", "show", "report", "report --partial"),
    *("doctor", "compare main", "history ttft_p50_ms", "history ttft_p50_ms --json"),
    *("clean", "deploy plain", "deploy plain --as compose", "retry"),
    "predict --concurrency 4",
)


@pytest.fixture
def armed(tmp_path: Path) -> Workspace:
    """A measured workspace, whose engine leaves a mark from now on when it is run."""
    workspace = make_workspace(tmp_path / "workspace", tmp_path / "cache")
    engine = tmp_path / "engine"
    packages = engine / "lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (packages / "standin.pth").write_text(str(ROOT / "tests/standin/site"))
    (engine / "pyvenv.cfg").write_text("version = 3.11.0\n")
    python = engine / "bin/python"
    python.parent.mkdir()
    python.write_text(
        f"#!/bin/sh\n[ -e {tmp_path}/armed ] && touch {tmp_path}/mark\n"
        f'exec {ROOT}/tests/standin/python "$@"\n'
    )
    python.chmod(0o755)
    workspace.write_study({**workspace.study, "engine": {"python": str(python)}})
    workspace.measure()
    workspace.commit("Measured")
    workspace.check("git", "branch", "fetched")
    (tmp_path / "armed").touch()
    site = tmp_path / "audit"
    site.mkdir()
    (site / "sitecustomize.py").write_text(AUDIT)
    workspace.cold |= {"PYTHONPATH": str(site), "STARTED": str(tmp_path / "started")}
    return workspace


def started(workspace: Workspace, *command: str) -> list[str]:
    """Run a command; returns the programs that its Python processes started."""
    done = subprocess.run(
        command,
        cwd=workspace.root,
        env=workspace.cold,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 2), done.stderr
    file = Path(workspace.cold["STARTED"])
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return [" ".join(json.loads(line)) for line in lines]


def test_reading_starts_nothing_but_git(armed: Workspace, tmp_path: Path) -> None:
    for command in READING:
        programs = started(armed, "servetune", *command.split())
        assert [each for each in programs if not each.startswith("git ")] == [], command
    programs = started(armed, "snakemake", "-n", "--cores", "1", "reports/summary.html")
    # Snakemake itself asks which processor this is.
    assert [each for each in programs if not each.startswith(("git ", "uname "))] == []
    assert not (tmp_path / "mark").exists()
    shutil.rmtree(tmp_path / "cache/engines")
    assert started(armed, "servetune", "engine", str(tmp_path / "engine/bin/python"))
    assert (tmp_path / "mark").exists(), "what starts the engine leaves its mark"
