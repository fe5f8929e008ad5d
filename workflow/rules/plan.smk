# The plan: parameters and study, checked and expanded while the workflow is read.
import os
import signal
from contextlib import ExitStack

# The code beside these rules is the one that runs, also in a DVC workspace elsewhere. In a wheel
# these rules are inside the code.
SOURCES = RULES.parents[1] / "src"
sys.path.insert(0, str(SOURCES if SOURCES.is_dir() else RULES.parents[3]))

from servetune.lifetime.at_once import stop_at_once
from servetune.lifetime.owners import STOPS, begin_pipeline, end_left_behind

# Before all else: the rest takes a second to import, and who started this may be gone.
begin_pipeline(is_job=IS_JOB)
stop_at_once("servetune: stopped before the first step", *STOPS)

from servetune.lifetime.stopping import exit_if_stopped, stop_in_order
from servetune.plan.file import latest, one_line, plan_for_workflow
from servetune.plan.order import before_first_page
from servetune.plan.rounds_lock import sessions_of_round
from servetune.plan.sharing import leader_of, sharing
from servetune.status.quiet import keep_to_log
from servetune.engines.environments import cache_root, description_file, engine_id
from servetune.engines.source import environment_with_source
from servetune.sessions.needs import most_gpus, needs
from servetune.study.engines import word_of

# Whether tables, report and rounds are current is decided by content, not by times of change.
from servetune.tables.freshness import (
    report_digest,
    tables_digest,
    wanted,
    wanted_round,
)

os.environ.update(environment_with_source())
# Each step takes its shell's place; a Ctrl-C that it is not ready for yet is left to Snakemake.
shell.prefix("set -euo pipefail; trap '' INT; exec ")
PLAN, PLAN_FILE = plan_for_workflow(config, CONFIG_FILES, is_job=IS_JOB)
if IS_QUIET:
    keep_to_log(TERMINAL, runs_here)
RESULTS = f"results/{PLAN.study}"
ENGINES = str(cache_root() / "engines")
MOST_SESSIONS = PLAN.most_sessions
BEFORE_SESSIONS = MOST_SESSIONS + 1
if MOST_GPUS := most_gpus(PLAN.hardware):
    offer("gpu", MOST_GPUS)
with one_line():
    TABLES_WANTED = wanted(f"{RESULTS}/tables.sha256", tables_digest(PLAN, Path()))
    REPORT_WANTED = wanted("reports/summary.sha256", report_digest(PLAN, Path()))
    NEXT_ROUND, ROUND_WANTED = wanted_round(PLAN, Path())
RECORDED = {file.stem for file in Path(RESULTS, "sessions").glob("*.json")}
# The rounds of a tuning say themselves what was measured.
FIRST = before_first_page([] if PLAN.tuning else PLAN.sessions, RECORDED)
