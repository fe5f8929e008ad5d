# The plan: parameters and study, checked and expanded while the workflow is read.
import os
import sys
from pathlib import Path

# The code beside this Snakefile is the one that runs, also in a DVC workspace elsewhere.
SOURCE = str(Path(workflow.basedir, "src"))
sys.path.insert(0, SOURCE)
os.environ["PYTHONPATH"] = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

from servetune.cli import plan_for_snakemake
from servetune.lifetime import PIPELINE_PID

os.environ[PIPELINE_PID] = str(os.getpid())
PLAN, PLAN_FILE = plan_for_snakemake(config)
RESULTS = f"results/{PLAN.study}"
SESSIONS = {session.id: session for session in PLAN.sessions}
