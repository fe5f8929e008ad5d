"""What a plan's report still lacks, and what to do about it."""

from pathlib import Path

from servetune.engines.environments import description_file, engine_id
from servetune.models.make import MANIFEST, model_folder
from servetune.plan.planned import Plan, Session
from servetune.records.paths import recorded, session_path
from servetune.tables.freshness import report_digest, wanted

REPORT = ("summary.html", "summary.md", "summary.json", "summary.sha256")


def kept(plan: Plan, root: Path) -> str:
    """Say what a plan has after it was stopped, counted as `servetune status` does."""
    there = recorded(plan.study, root)
    owed = [id in there for session in plan.sessions for id in session.owed]
    done = [session_path(plan.study, s.id, root).is_file() for s in plan.sessions]
    return (
        f"servetune: stopped; {sum(done)} of {len(done)} sessions done,"
        f" {sum(owed)} of {len(owed)} measured and kept.\n"
        "Run the same command again to go on."
    )


def missing(plan: Plan, root: Path) -> list[str]:
    """Say in lines what keeps the report of a plan from standing; none if it stands."""
    pending = [s for s in plan.sessions if not session_path(plan.study, s.id, root).is_file()]
    reports = root / "reports"
    stamp = reports / REPORT[-1]
    is_whole = all((reports / name).is_file() for name in REPORT)
    growing = plan.growing if plan.growing and not plan.growing.has_ended else None
    is_complete = not pending and not growing and is_whole
    if is_complete and wanted(str(stamp), report_digest(plan, root)).is_current:
        return []
    lines = ["servetune: the report of this plan does not stand"]
    if pending:
        names = ", ".join(session.id for session in pending)
        lines.append(f"  {len(pending)} of {len(plan.sessions)} sessions are missing: {names}")
        logs = list(dict.fromkeys(log for session in pending for log in _causes(session, root)))
    elif growing:
        lines.append("  its rounds have not ended, and the next one is not chosen")
        logs = [f"logs/{plan.study}/round/{len(growing.rounds) + 1}.log"]
    else:
        lines.append("  every session is there, but tables or report are not of their records")
        logs = [f"logs/{plan.study}/{step}.log" for step in ("tables", "report")]
    logs = [log for log in logs if (root / log).is_file()]
    lines += [f"  see {log}" for log in logs]
    there = recorded(plan.study, root)
    if any(id in there for session in plan.sessions for id in session.owed):
        lines.append("  for a report of what is there: uv run servetune report --partial")
    mend = "Mend what the logs say, then run" if logs else "Run"
    return [*lines, f"  What was measured is kept. {mend} the same command again."]


def _causes(session: Session, root: Path) -> list[str]:
    """List the logs of the steps that a session lacks; its own if it lacks none."""
    tools = [engine_id(name, root) for name in session.tools]
    engines = [id for id in (*session.engines, *tools) if not description_file(id).is_file()]
    models = [id for id in session.models if not (model_folder(id, root) / MANIFEST).is_file()]
    workloads = root / "data" / "workloads"
    datasets = [id for id in session.datasets if not (workloads / f"{id}.jsonl").is_file()]
    return [
        *(f"logs/engine/{id}.log" for id in engines),
        *(f"logs/model/{id}.log" for id in models),
        *(f"logs/workload/{id}.log" for id in datasets),
    ] or [f"logs/{session.study}/session/{session.id}.log"]
