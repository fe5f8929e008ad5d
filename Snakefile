# servetune: from params.yaml and studies/ to reports/summary.html. The steps are in workflow/rules.
include: "workflow/rules/plan.smk"
include: "workflow/rules/engines.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/workloads.smk"
include: "workflow/rules/sessions.smk"
include: "workflow/rules/tuning.smk"
include: "workflow/rules/report.smk"


# What a cluster gets are sessions: the rest is short, or needs a network.
localrules:
    all,
    build_engine,
    make_model,
    make_workload,
    choose_round,
    collect_tables,
    render_first_page,
    render_report,


rule all:
    default_target: True
    input:
        "reports/summary.html",


# What a terminal shows of the run until its end.
SHOWN = ExitStack()


def asks_for_report():
    targets = {job.rule.name for job in workflow.dag.targetjobs}
    return bool(targets & {"all", "render_report"})


def unless_missing():
    """End with what the report lacks, if it was asked for: jobs that went well are no proof."""
    from servetune.tables.missing import missing

    with one_line():
        if asks_for_report() and (lines := missing(plan(), Path())):
            sys.exit("\n".join(lines))


def unless_whole():
    """End with its code if a part of the report could not be made: the page stands, marked."""
    from servetune.errors import UNDONE_PARTS
    from servetune.tables.freshness import notes_of

    if asks_for_report() and notes_of(Path("reports/summary.sha256")):
        sys.exit(UNDONE_PARTS)


def what_is_kept():
    from servetune.tables.missing import kept

    SHOWN.close()
    return kept(plan(), Path())


def watch():
    from servetune.status.live import watch_run

    SHOWN.push(watch_run(plan, PLAN_FILE, Path()))


def prepare_folder():
    """Refuse another servetune than the folder names, and define its merges for Git."""
    from servetune.git import define_ours
    from servetune.initial.version import check_version
    from servetune.progress import say

    with one_line():
        check_version(Path())
    if define_ours(Path()):
        say("git config merge.ours.driver true, which .gitattributes names")


def check_caller():
    """End before anything is made if a session to come lacks a variable of whoever runs this."""
    from servetune.sessions.passed import check_passed

    jobs = workflow.dag.needrun_jobs()
    with one_line():
        check_passed(
            session_of(job.wildcards)
            for job in jobs
            if job.rule.name == "measure_session"
        )


onstart:
    prepare_folder()
    check_caller()
    # Jobs of a cluster are not Snakemake's children: it has its own way to end them.
    if workflow.local_exec:
        stop_in_order(what_is_kept)
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    end_left_behind()
    watch()


onsuccess:
    SHOWN.close()
    unless_missing()
    shell("servetune show --plan {PLAN_FILE}")
    unless_whole()


onerror:
    SHOWN.close()
    exit_if_stopped()
    unless_missing()
