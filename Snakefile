# servetune: from params.yaml and studies/ to reports/summary.html. The steps are in workflow/rules.
include: "workflow/rules/plan.smk"
include: "workflow/rules/engines.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/workloads.smk"
include: "workflow/rules/sessions.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        "reports/summary.html",


# What a terminal shows of the run until its end.
SHOWN = ExitStack()


def unless_missing():
    """End with what the report lacks, if it was asked for: jobs that went well are no proof."""
    from servetune.tables.missing import missing

    asked = {job.rule.name for job in workflow.dag.targetjobs} & {
        "all",
        "render_report",
    }
    with one_line():
        if asked and (lines := missing(PLAN, Path())):
            sys.exit("\n".join(lines))


onstart:
    # Snakemake would wait for the step that runs; so it ends at once, and its steps in order.
    # Jobs of a cluster are not its children, and would go on.
    if workflow.local_exec:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_left_behind()
    SHOWN.push(watch_run(PLAN, PLAN_FILE, Path()))


onsuccess:
    SHOWN.close()
    unless_missing()
    shell("servetune show --plan {PLAN_FILE}")


onerror:
    SHOWN.close()
    unless_missing()
