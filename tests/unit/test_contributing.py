"""The worked examples of CONTRIBUTING.md: applied to a copy of the code, each does what it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.slow

EXAMPLE = re.compile(r"^```(\w+) title=\"([^\"]+)\"\n(.*?)^```$", re.M | re.S)
CHECKS = ROOT / "tests/unit/contributed.py"


BREACHES = {
    "imports only go down": ("records/base.py", "servetune.analysis.comparison"),
    "tables, analysis and report reach no session": ("tables/frames.py", "servetune.sessions.pool"),
    "an analysis takes tables, and no plan": ("analysis/drift.py", "servetune.plan.planned"),
    "a plan knows no load generator and no tuner": ("plan/order.py", "servetune.tune.race"),
    "a report asks no tuner and starts no process": ("report/table.py", "subprocess"),
    "load clients need only what their environments hold": ("load/client/http.py", "pandas"),
    "makers and probes need only what their environments hold": (
        "sessions/inside_device.py",
        "httpx",
    ),
}
"""Of each contract, a file and an import that breaks it."""


def apply(example: re.Match[str], root: Path) -> None:
    """Write a file, or change one as a diff says: each of its lines stands in the file once."""
    kind, path, text = example.groups()
    file = root / path
    if kind != "diff":
        assert not file.exists()
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return
    lines = text.splitlines()
    before = "\n".join(line[1:] for line in lines if not line.startswith("+"))
    after = "\n".join(line[1:] for line in lines if not line.startswith("-"))
    content = file.read_text()
    assert content.count(before) == 1, f"{path} does not hold, once:\n{before}"
    file.write_text(content.replace(before, after))


@pytest.fixture(scope="module")
def contributed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of src/ with all examples applied."""
    root = tmp_path_factory.mktemp("contributed")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests/echo", root / "src/servetune/engines/echo")
    for example in EXAMPLE.finditer((ROOT / "CONTRIBUTING.md").read_text()):
        apply(example, root)
    return root


def test_the_examples_do_what_they_say(contributed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", str(CHECKS)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(contributed / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


def test_a_breach_of_any_contract_is_refused(contributed: Path, tmp_path: Path) -> None:
    """With the examples the contracts hold."""

    def lint(source: Path) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        words = [*command, "--config", str(ROOT / "pyproject.toml")]
        return subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    kept = lint(contributed / "src")
    assert kept.returncode == 0, kept.stdout
    shutil.copytree(contributed / "src", tmp_path / "src")
    for contract, (file, breach) in BREACHES.items():
        assert f"{contract} KEPT" in kept.stdout
        with (tmp_path / "src/servetune" / file).open("a") as source:
            source.write(f"\nimport {breach}\n")
    broken = lint(tmp_path / "src")
    assert broken.returncode == 1
    for contract in BREACHES:
        assert f"{contract} BROKEN" in broken.stdout
