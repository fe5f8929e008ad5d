"""A copy of the project's files, in which real vLLM serves."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from servetune.analysis.findings.gather import Finding, cases, find
from servetune.records.sessions import read_session
from tests.paths import ROOT
from tests.project import PARAMS
from tests.workspace import QUIET


class Clone:
    """A copy of the project's files, without anything that was ever made in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "GIT_AUTHOR_NAME": "A Tester",
            "GIT_AUTHOR_EMAIL": "tester@example.org",
            "GIT_COMMITTER_NAME": "A Tester",
            "GIT_COMMITTER_EMAIL": "tester@example.org",
        }

    def run(self, *command: str) -> str:
        """Run a command that must succeed; returns what it printed."""
        done = subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
        return done.stdout

    def measure(self) -> str:
        return self.run("snakemake", "--cores", "1", "reports/summary.html")

    def table(self, study: str = "quickstart") -> pd.DataFrame:
        return pd.read_parquet(self.root / "results" / study / "load_points.parquet")

    def launches(self, study: str = "quickstart") -> int:
        return len(list((self.root / "results/raw" / study).glob("*/launch-*.json")))

    def findings(self, variant: str, workload: str, load_point: str) -> dict[str, Finding]:
        """Find what there is to say of one measurement, by rule."""
        paths = (self.root / "results/quickstart/sessions").glob("*.json")
        sessions = {path.stem: read_session(path) for path in paths}
        table = self.table()
        rows = table[["variant", "workload", "load_point"]].apply(tuple, axis=1)
        row = table[rows == (variant, workload, load_point)].reset_index(drop=True)
        (case,) = cases(row, sessions, None)
        return find(case)

    def choose(self, study: str) -> None:
        (self.root / "params.yaml").write_text(PARAMS.format(study=study))

    def study(self) -> dict[str, Any]:
        """Return the quickstart, launched once: more launches are more of the same."""
        path = self.root / "studies/quickstart.yaml"
        study: dict[str, Any] = yaml.safe_load(path.read_text())
        return {**study, "repeats": 1}

    def write_study(self, study: dict[str, Any], name: str = "quickstart") -> None:
        """Write a study without the rules that a busy test machine breaks."""
        quiet = {**study, "validity": QUIET}
        path = self.root / "studies" / f"{name}.yaml"
        path.write_text(yaml.safe_dump(quiet, sort_keys=False))


def make_clone(root: Path, models: Path) -> Clone:
    """Make a clone in which nothing was ever made but what it finds in the folder of models."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    made_here = ("results/quickstart/", "results/raw/", "reports/")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(made_here):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    (root / "data/models").symlink_to(models)
    made = Clone(root)
    made.choose("quickstart")
    made.run("git", "init", "-q", "-b", "main")
    made.run("git", "add", "-A")
    made.run("git", "commit", "-qm", "A clone")
    return made
