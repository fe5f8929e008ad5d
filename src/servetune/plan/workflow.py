"""The workflow, run by a command that needs some of its files."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from servetune.engines.source import environment_with_source
from servetune.lifetime.owners import owned_by


def run_workflow(targets: Iterable[str], options: list[str], root: Path) -> bool:
    """Make these files; returns whether all could be.

    What it prints when it succeeds is about results, and is left out; errors are not.
    """
    words = ["--cores", "1", *targets, *options]
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *words],
        cwd=root,
        env=owned_by(environment_with_source(), os.getpid()),
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode == 0
