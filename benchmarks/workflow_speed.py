"""How long the workflow itself takes, apart from serving: seconds, best of three.

    uv run python benchmarks/workflow_speed.py [--quick]

A stand-in engine serves, so nothing of vLLM is in these figures. The large study has 10,000
measurements in 1,000 sessions, of which half have records, copied from one session that was
measured. What Snakemake takes for a session is the difference between runs of 1,000 and of 100
sessions whose command is `touch`, so that start and plan are not in it. `--quick`: a tenth of all.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from servetune.plan.make import make_plan, read_params  # noqa: E402
from servetune.plan.planned import Plan, Session  # noqa: E402
from servetune.records.paths import record_path, session_path  # noqa: E402
from tests.workspace import Workspace, make_workspace  # noqa: E402

DRY_RUN = ("snakemake", "-n", "--cores", "1", "reports/summary.html")
RUN = ("snakemake", "--cores", "1", "reports/summary.html")
REPEATS = 10
POINTS = 10


def took_s(workspace: Workspace, *command: str, tries: int = 3) -> float:
    """Return the seconds of the quickest try."""
    times = []
    for _ in range(tries):
        began = time.monotonic()
        workspace.check(*command, timeout_s=3600)
        times.append(time.monotonic() - began)
    return min(times)


def tell(what: str, seconds: float) -> None:
    print(f"{what:42}{seconds:8.2f} s", flush=True)


def quickstart(workspace: Workspace) -> None:
    """Point a workspace at the quickstart study instead of the stand-in's."""
    study = (ROOT / "studies/quickstart.yaml").read_text()
    (workspace.root / "studies/quickstart.yaml").write_text(study)
    workspace.set_params(study="quickstart")


def declare(workspace: Workspace, variants: int) -> Plan:
    """Declare so many variants with POINTS load points, each REPEATS times."""
    study = workspace.study
    study["variants"] = {
        f"seqs-{n}": {"model": "standin", "server": {"max_num_seqs": n}}
        for n in range(1, variants + 1)
    }
    study["baseline"] = "seqs-1"
    points = [{"concurrency": n, "requests": n} for n in range(1, POINTS + 1)]
    study["workloads"]["random"]["load_points"] = points
    workspace.write_study(study)
    workspace.set_params(repeats=REPEATS)
    return make_plan(read_params(workspace.root), workspace.root)


def record_half(workspace: Workspace, plan: Plan) -> None:
    """Measure the first session, and copy its records to those of the first half."""
    first, *others = sorted(plan.sessions, key=lambda session: session.order)
    path = session_path(plan.study, first.id, workspace.root)
    workspace.check("snakemake", "--cores", "1", str(path.relative_to(workspace.root)))
    of_points = [
        json.loads(record_path(plan.study, m.id, workspace.root).read_text())
        for m in first.measurements
    ]
    of_session = json.loads(path.read_text())
    for session in others[: len(plan.sessions) // 2 - 1]:
        whose = {"session": session.id, "variant": session.variant, "repeat": session.repeat}
        for measurement, record in zip(session.measurements, of_points, strict=True):
            _write(
                record_path(plan.study, measurement.id, workspace.root),
                {**record, **whose, "measurement": measurement.id},
            )
        owed = {"order": session.order, "measurements": session.owed}
        _write(
            session_path(plan.study, session.id, workspace.root), {**of_session, **whose, **owed}
        )


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1))


def touch_sessions(workspace: Workspace, sessions: list[Session]) -> float:
    """Run sessions that only touch their record; returns the seconds."""
    rules = workspace.root / "workflow/rules/sessions.smk"
    head, _, _ = rules.read_text().partition("    shell:\n")
    rules.write_text(f'{head}    shell:\n        "touch {{output}}"\n')
    files = [
        session_path(session.study, session.id, workspace.root).relative_to(workspace.root)
        for session in sessions
    ]
    return took_s(workspace, "snakemake", "--cores", "1", "--", *map(str, files), tries=1)


def large(folder: Path, cache: Path, variants: int) -> None:
    workspace = make_workspace(folder / "large", cache)
    plan = declare(workspace, variants)
    count = f"{len(plan.measurements):,} measurements"
    began = time.monotonic()
    declare(workspace, variants)
    tell(f"plan of {count}, as a function", time.monotonic() - began)
    tell(f"snakemake -n, {count}", took_s(workspace, *DRY_RUN))
    record_half(workspace, plan)
    tell("servetune plan, half of it recorded", took_s(workspace, "servetune", "plan"))
    tell("snakemake -n, half of it recorded", took_s(workspace, *DRY_RUN))
    tell("servetune status, half of it recorded", took_s(workspace, "servetune", "status"))
    partial = took_s(workspace, "servetune", "report", "--partial", tries=1)
    tell("servetune report --partial", partial)
    shutil.rmtree(workspace.root / "results")
    sessions = {session.order: session for session in plan.sessions}
    few = touch_sessions(workspace, [sessions[i] for i in range(len(sessions) // 10)])
    shutil.rmtree(workspace.root / "results")
    many = touch_sessions(workspace, list(sessions.values()))
    each_ms = 1000 * (many - few) / (len(sessions) * 0.9)
    print(f"{'scheduling a session':42}{each_ms:8.1f} ms")


def small(folder: Path, cache: Path) -> None:
    fresh = make_workspace(folder / "fresh", cache)
    quickstart(fresh)
    tell("plan of the quickstart", took_s(fresh, "servetune", "plan"))
    tell("snakemake -n of the quickstart", took_s(fresh, *DRY_RUN))
    measured = make_workspace(folder / "measured", cache)
    measured.check(*RUN)
    tell("second run, nothing to do", took_s(measured, *RUN))
    with (measured.root / "src/servetune/report/answer/charts.py").open("a") as charts:
        charts.write("\n# edited\n")
    launches = measured.launches()
    tell("an edited chart, report rebuilt", took_s(measured, *RUN, tries=1))
    assert measured.launches() == launches


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the large study")
    variants = 10 if parser.parse_args().quick else 100
    with tempfile.TemporaryDirectory() as folder:
        small(Path(folder), Path(folder, "cache"))
        large(Path(folder), Path(folder, "cache"), variants)


if __name__ == "__main__":
    main()
