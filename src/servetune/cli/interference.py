"""Whether sessions may run beside each other on a host: measured, judged, told, and kept."""

from pathlib import Path

from servetune.analysis.launches import launch_values
from servetune.analysis.together import find_pair, host_of, judge_together
from servetune.errors import UserError
from servetune.metrics import METRIC
from servetune.plan.planned import Plan
from servetune.plan.workflow import run_workflow
from servetune.report.reading import read_measured
from servetune.report.verdicts import interval
from servetune.sessions.provenance import now
from servetune.sessions.together import KeptTogether, keep_together
from servetune.tables.design import design_of
from servetune.tables.frames import records_of

ALLOWED = {
    "alike": "sessions run beside each other on this host",
    "disturbed": "sessions run one at a time on this host",
    "undecided": "sessions run one at a time on this host; more repeats may decide",
}


def find_out(plan: Plan, root: Path) -> str:
    """Measure what is missing of such a study, and keep its verdict for the host that measured it.

    Raises:
        UserError: it is not a study of one variant alone and beside others, or was not measured.
    """
    alone, beside = find_pair(design_of(plan))
    target = f"results/{plan.study}/metrics.json"
    if not run_workflow([target], ["--config", f"study={plan.study}"], root):
        raise UserError(f"{plan.study}: could not be measured; see above")
    measured = read_measured(plan, root)
    values = launch_values(measured.table, measured.quantiles)
    verdict, verdicts = judge_together(values, alone)
    host = host_of(plan.study, list(measured.sessions.values()))
    launches = len(plan.sessions)
    kept = keep_together(
        KeptTogether(
            host=host, together=verdict, study=plan.study, launches=launches, judged_at=now()
        )
    )
    lines = [
        f"{row['workload']} {row['load_point']}, {METRIC[row['metric']].title}:"
        f" {beside} is {interval(row)} {alone}: {row['verdict']}"
        for row in records_of(verdicts)
    ]
    return "\n".join([*lines, f"host {host}: {verdict}: {ALLOWED[verdict]} (kept in {kept})"])
