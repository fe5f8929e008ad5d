# The plan: parameters and study, checked and expanded while the workflow is read.
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

# The code beside these rules is the one that runs, also in a DVC workspace elsewhere. In a wheel
# these rules are inside the code.
RULES = Path(workflow.current_basedir.get_path_or_uri(secret_free=False))
SOURCES = RULES.parents[1] / "src"
sys.path.insert(0, str(SOURCES if SOURCES.is_dir() else RULES.parents[3]))

from servetune.lifetime.at_once import stop_at_once
from servetune.lifetime.owners import STOPS, begin_pipeline, end_left_behind

# Before all else: the rest takes a second to import, and who started this may be gone.
begin_pipeline(is_job=workflow.remote_exec)
stop_at_once("servetune: stopped before the first step", *STOPS)

from servetune.lifetime.stopping import exit_if_stopped, stop_in_order
from servetune.plan.file import latest, one_line, plan_for_workflow
from servetune.status.quiet import keep_to_log
from servetune.engines.source import environment_with_source

os.environ.update(environment_with_source())
# Each step takes its shell's place; a Ctrl-C that it is not ready for yet is left to Snakemake.
shell.prefix("set -euo pipefail; trap '' INT; exec ")
PLAN, PLAN_FILE = plan_for_workflow(
    config, workflow.overwrite_configfiles, is_job=workflow.remote_exec
)
if not (
    workflow.output_settings.verbose
    or workflow.output_settings.dryrun
    or workflow.remote_exec
):
    keep_to_log(lambda: workflow.local_exec)
RESULTS = f"results/{PLAN.study}"
MOST_SESSIONS = len(PLAN.sessions) + (
    PLAN.tuning.tune.budget.launches if PLAN.tuning else 0
)
BEFORE_SESSIONS = MOST_SESSIONS + 1


SESSIONS = {}


def plan():
    """The plan as it is now: a tuning adds sessions to it, a round at a time."""
    return latest(PLAN, PLAN_FILE)


def session_of(wildcards):
    if wildcards.session not in SESSIONS:
        SESSIONS.update({session.id: session for session in plan().sessions})
    return SESSIONS[wildcards.session]


def all_cores(wildcards):
    """For preparation, so that none runs beside a session."""
    return workflow.resource_settings.cores or 1
