"""Eight sessions of one GPU each on a host with eight: one at a time, and beside each other.

    uv run python benchmarks/eight_gpus.py [--seconds 100]

The real Snakefile, a stand-in for NVML with eight GPUs, and stand-in servers that sleep while they
start. Printed is the wall clock of each run, and which GPU each session had.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.workflow.test_gpus import with_gpus
from tests.workspace import TABLES, Workspace, make_workspace

COUNT = 8


def measure(folder: Path, name: str, cores: int, seconds: int) -> float:
    workspace = make_workspace(folder / name, folder / "cache")
    with_gpus(workspace, COUNT)
    study = workspace.study
    study["variants"] = {f"v{i}": {"model": "standin"} for i in range(COUNT)}
    study["baseline"] = "v0"
    study["server"] |= {"standin_fault": "slow-start", "standin_fault_after": seconds}
    workspace.write_study(study)
    # What both need is made before.
    workspace.check("snakemake", "--cores", "1", "--until", "make_model", "make_workload", TABLES)
    began = time.monotonic()
    workspace.check("snakemake", "--cores", str(cores), TABLES, timeout_s=7200)
    wall_s = time.monotonic() - began
    print(f"{name}: {wall_s:.0f} s; GPUs {', '.join(sorted(gpus_of(workspace)))}", flush=True)
    return wall_s


def gpus_of(workspace: Workspace) -> list[str]:
    return [
        gpu
        for session in workspace.sessions()
        for launch in session["launches"]
        for gpu in launch["slot"]["gpus"]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--seconds", type=int, default=100, help="that a server takes to start")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        beside = measure(Path(folder), "beside each other", COUNT, seconds)
        alone = measure(Path(folder), "one at a time", 1, seconds)
    print(f"{alone / beside:.1f} times less")


if __name__ == "__main__":
    main()
