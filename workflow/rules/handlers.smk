# What happens beside the steps: before the first, and after the last.

# What a terminal shows of the run until its end.
SHOWN = ExitStack()


def unless_missing():
    """End with what the report lacks, if it was asked for: jobs that went well are no proof."""
    from servetune.tables.missing import missing

    with one_line():
        if is_asked_for("reports/summary.") and (lines := missing(plan(), Path())):
            sys.exit("\n".join(lines))


def unless_whole():
    """End with its code if a part of the report could not be made: the page stands, marked."""
    from servetune.errors import UNDONE_PARTS
    from servetune.tables.freshness import notes_of

    if is_asked_for("reports/summary.") and notes_of(Path("reports/summary.sha256")):
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

    with one_line():
        check_passed(session_of(wildcards) for wildcards in due("session"))


def choose_alone():
    """End before anything is launched if another run chooses rounds of this study."""
    from servetune.plan.rounds_lock import hold_rounds

    with one_line():
        if due("round"):
            hold_rounds(PLAN, Path())


def at_start(log):
    prepare_folder()
    choose_alone()
    check_caller()
    # Jobs of a cluster are not Snakemake's children: it has its own way to end them.
    if runs_here():
        stop_in_order(what_is_kept)
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    end_left_behind()
    watch()


def at_success(log):
    SHOWN.close()
    unless_missing()
    shell("servetune show --plan {PLAN_FILE}")
    unless_whole()


def at_error(log):
    SHOWN.close()
    exit_if_stopped()
    unless_missing()


handle("onstart", at_start, is_first=True)
handle("onsuccess", at_success, is_first=False)
handle("onerror", at_error, is_first=False)
