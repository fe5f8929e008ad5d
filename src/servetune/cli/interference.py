"""Whether a way to measure changes what is measured on a host: judged, told, and kept."""

from pathlib import Path

from servetune.analysis.host_pairs import couples_of, host_of, judge_pair, of_pair, on_all, pairs_of
from servetune.analysis.launches import launch_values
from servetune.errors import UserError
from servetune.metrics import METRIC
from servetune.plan.pending import pending_of
from servetune.plan.planned import Plan
from servetune.plan.workflow import run_workflow
from servetune.report.reading import read_measured
from servetune.report.verdicts import interval, worded
from servetune.sessions.host_verdicts import KeptVerdict, keep_verdict
from servetune.sessions.provenance import now
from servetune.tables.design import design_of
from servetune.tables.frames import records_of

ALLOWED = {
    ("together", "alike"): "sessions run beside each other on this host",
    ("together", "disturbed"): "sessions run one at a time on this host",
    ("together", "undecided"): "sessions run one at a time on this host; more repeats may decide",
    ("prepared", "alike"): "bundles prepare starts on this host",
    ("prepared", "disturbed"): "bundles start plainly on this host",
    ("prepared", "undecided"): "bundles start plainly on this host; more repeats may decide",
}


def find_out(plan: Plan, root: Path) -> str:
    """Measure what is missing of such a study, and keep its verdict for the host that measured it.

    Raises:
        UserError: it is not a study of pairs of equal variants, was not measured, or is one of
            prepared starts of which something is missing: only a bundle prepares them.
    """
    design = design_of(plan)
    way, couples = couples_of(design)
    if way == "prepared" and any(pending_of(s, root).count for s in plan.sessions):
        to_prepare = " ".join(second for _, second in couples)
        raise UserError(
            f"{plan.study}: launches are missing, and only a bundle prepares starts: servetune"
            f" bundle export, on the host with --prepare {to_prepare}, then import"
        )
    target = f"results/{plan.study}/metrics.json"
    if not run_workflow([target], ["--config", f"study={plan.study}"], root):
        raise UserError(f"{plan.study}: could not be measured; see above")
    measured = read_measured(plan, root)
    sessions = list(measured.sessions.values())
    launches = launch_values(measured.table, measured.quantiles)
    host = host_of(plan.study, sessions)
    judged, lines, counted = [], [], 0
    for pair in pairs_of(design, sessions):
        values = of_pair(launches, pair, sessions, plan.study)
        verdict, verdicts = judge_pair(values, pair.plain)
        judged.append(verdict)
        counted += values["session"].nunique()
        lines += [
            f"{row['workload']} {row['load_point']}, {METRIC[row['metric']].title}:"
            f" {pair.other} is {interval(row)} {pair.plain}:"
            f" {worded(row['verdict'], METRIC[row['metric']])}"
            for row in records_of(verdicts)
        ]
    verdict = on_all(judged)
    kept = keep_verdict(
        KeptVerdict(
            way=way,
            host=host,
            verdict=verdict,
            study=plan.study,
            launches=counted,
            judged_at=now(),
        )
    )
    told = f"host {host}: {verdict}: {ALLOWED[way, verdict]} (kept in {kept})"
    return "\n".join([*lines, told])
