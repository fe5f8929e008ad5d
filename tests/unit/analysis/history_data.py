"""A Git repository in which a study was measured commit by commit."""

import subprocess
from pathlib import Path

import numpy as np
import pandas as pd

from servetune.tables.committed import NUMBERS, TEXTS
from servetune.tables.history import TABLE

METRIC = "output_throughput_tok_s"


class Measured:
    """A project in a folder of a repository, with one study at one load point."""

    def __init__(self, repository: Path, project: str = "project") -> None:
        self.root = repository / project
        (self.root / "results/mine").mkdir(parents=True)
        self.repository, self.random, self.day = repository, np.random.default_rng(7), 0
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=A Tester", "-c", "user.email=tester@example.org")
        command = ["git", "-C", str(self.repository), *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def rows(
        self, speeds: dict[str, float], launches: int = 3, version: str = "0.31.0"
    ) -> pd.DataFrame:
        """Measure variants at these tokens a second, each launch within 0.2 %."""
        self.day += 1
        rows = [
            {
                **{"variant": variant, "workload": "text", "load_point": "c8", "repeat": repeat},
                **{"measurement": f"{variant}-text-c8-r{repeat}", "status": "ok", "order": repeat},
                **{"session": f"{variant}-r{repeat}", "completed_requests": 64, "concurrency": 8},
                "started_at": f"2026-11-{self.day:02}T00:00:00+00:00",
                "vllm_version": version,
                METRIC: speed * self.random.normal(1, 0.002),
            }
            for variant, speed in speeds.items()
            for repeat in range(1, launches + 1)
        ]
        return pd.DataFrame(rows, columns=[*TEXTS, *NUMBERS])

    def write(self, *tables: pd.DataFrame) -> None:
        """Write the table of the study."""
        pd.concat(tables).to_csv(self.root / "results/mine" / TABLE, index=False)

    def commit(self, *tables: pd.DataFrame) -> str:
        """Commit the table, or something else; returns the commit."""
        if tables:
            self.write(*tables)
        self.git("add", "-A")
        self.git("commit", "-qm", "A change", "--allow-empty")
        return self.git("rev-parse", "HEAD")
