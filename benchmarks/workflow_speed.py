"""How long the workflow itself takes, apart from serving: seconds, best of three.

Run: uv run python benchmarks/workflow_speed.py

A stand-in engine serves, so nothing of vLLM is in these figures.
"""

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.workspace import Workspace, make_workspace  # noqa: E402

DRY_RUN = ("snakemake", "-n", "--cores", "1", "reports/summary.html")
RUN = ("snakemake", "--cores", "1", "reports/summary.html")


def best_of_three(workspace: Workspace, *command: str) -> float:
    times = []
    for _ in range(3):
        began = time.monotonic()
        workspace.check(*command, timeout_s=600)
        times.append(time.monotonic() - began)
    return min(times)


def quickstart(workspace: Workspace) -> None:
    """Point a workspace at the quickstart study instead of the stand-in's."""
    study = (ROOT / "studies/quickstart.yaml").read_text()
    (workspace.root / "studies/quickstart.yaml").write_text(study)
    params = workspace.root / "params.yaml"
    params.write_text(params.read_text().replace("study: standin", "study: quickstart"))


def thousand_measurements(workspace: Workspace) -> None:
    """Declare 10 variants with 50 load points, each twice."""
    study = workspace.study
    study["variants"] = {
        f"seqs-{n}": {"model": "standin", "server": {"max_num_seqs": n}} for n in range(1, 11)
    }
    study["baseline"] = "seqs-1"
    points = [{"concurrency": n, "requests": n} for n in range(1, 51)]
    study["workloads"]["random"]["load_points"] = points
    workspace.write_study(study)
    workspace.check("sed", "-i", "s/^repeats:.*/repeats: 2/", "params.yaml")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")

        fresh = make_workspace(Path(folder, "fresh"), cache)
        quickstart(fresh)
        print(
            f"plan of the quickstart            {best_of_three(fresh, 'servetune', 'plan'):6.2f} s"
        )
        print(f"snakemake -n of the quickstart    {best_of_three(fresh, *DRY_RUN):6.2f} s")

        large = make_workspace(Path(folder, "large"), cache)
        thousand_measurements(large)
        print(f"snakemake -n, 1,000 measurements  {best_of_three(large, *DRY_RUN):6.2f} s")

        measured = make_workspace(Path(folder, "measured"), cache)
        measured.check(*RUN)
        print(f"second run, nothing to do         {best_of_three(measured, *RUN):6.2f} s")
        with (measured.root / "src/servetune/report/answer/charts.py").open("a") as charts:
            charts.write("\n# edited\n")
        began, launches = time.monotonic(), measured.launches()
        measured.check(*RUN)
        assert measured.launches() == launches
        print(f"an edited chart, report rebuilt   {time.monotonic() - began:6.2f} s")


if __name__ == "__main__":
    main()
