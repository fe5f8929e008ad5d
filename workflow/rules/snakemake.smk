# All that is taken of Snakemake beside its language, each with its reason. A new version promises
# none of it: tests/workflow/test_snakemake.py tries each, and no other file names `workflow`.
import logging
import sys
from pathlib import Path

# Where these rules are, to run the code beside them: `workflow.basedir` is where the main Snakefile
# is, which may be a user's.
RULES = Path(workflow.current_basedir.get_path_or_uri(secret_free=False))

# A job of a cluster reads all of this again: it makes no plan, and shows nothing.
IS_JOB = workflow.remote_exec

# `__use_yte__` in a file of --configfile makes Snakemake run its code: such a one is refused.
CONFIG_FILES = workflow.overwrite_configfiles

# Whoever asks for Snakemake's own lines gets them, and they are all that a dry run prints.
IS_QUIET = not (
    IS_JOB or workflow.output_settings.verbose or workflow.output_settings.dryrun
)

# Its handler for the terminal, which a filter keeps quiet. Not a logger plugin: that is a package
# of its own, chosen by a profile, which a user's own replaces, and loaded before there is a plan to
# show; --logger still takes any.
TERMINAL = [
    handler
    for handler in logging.getLogger("snakemake.logging").handlers
    if handler.name == "DefaultStreamHandler"
]

if workflow.modifier.path_modifier.replace_prefix("results", None) != "results":
    # The steps write where the plan says, so that another place would stay empty.
    sys.exit(
        "servetune: prefix: results stay in the folder of params.yaml; leave it out"
    )


def runs_here():
    """Jobs of a cluster are no children of this process, and take no GPU of this host."""
    return workflow.local_exec


def given_cores():
    """What --cores said, also of jobs; `workflow.cores` ends --report and --rulegraph without."""
    return workflow.resource_settings.cores


def offer(resource, count):
    """Say how much of a resource this host has: no profile can count its GPUs."""
    if runs_here() and resource not in workflow.global_resources:
        workflow.register_resource(resource, count)


def is_asked_for(prefix):
    """Whether what a target makes or takes begins so; rules may be renamed."""
    files = (
        file for job in workflow.dag.targetjobs for file in (*job.input, *job.output)
    )
    return any(str(file).startswith(prefix) for file in files)


def due(wildcard):
    """The wildcards of this run's jobs that have one of this name, known before the first starts."""
    jobs = workflow.dag.needrun_jobs()
    return [job.wildcards for job in jobs if hasattr(job.wildcards, wildcard)]


def handle(event, ours, is_first):
    """Have a handler run beside a user's own.

    Snakemake has one of each event: a later one replaces it, and those of a module are dropped.
    """

    def beside(theirs):
        if workflow.modifier.is_main_snakefile():
            setattr(workflow, f"_{event}", in_turn(theirs))

    def in_turn(theirs):
        order = (ours, theirs) if is_first else (theirs, ours)
        return lambda log: [each(log) for each in order]

    setattr(workflow, f"_{event}", in_turn(getattr(workflow, f"_{event}")))
    setattr(workflow, event, beside)
