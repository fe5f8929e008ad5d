"""A workspace with the real Snakefile and dvc.yaml, and a study that a stand-in engine serves."""

import atexit
import compileall
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psutil
import yaml

from tests.paths import ROOT
from tests.project import PARAMS
from tests.warm import commands

COPIED = (
    *("Snakefile", "dvc.yaml", ".dvcignore", ".gitattributes", ".gitignore"),
    *("profiles", "src", "workflow"),
    *("data/prompts", "data/published", "data/questions", "uv.lock"),
)

TABLES = "results/standin/metrics.json"

PATIENCE_S = 3600.0
"""For a command, also on a machine that has much else to do."""

QUIET = dict.fromkeys(
    (
        *("other_cpu_ratio", "send_delay_p99_ms", "rate_error_ratio"),
        *("client_cpu_ratio", "client_wait_ratio"),
        *("instant_chunks_ratio", "tpot_below_server_ratio"),
        *("missing_in_flight_ratio", "unserved_in_flight_ratio"),
    )
)
"""Without the rules that a busy machine breaks, or a stand-in that costs less than its client."""

STUDY: dict[str, Any] = {
    "question": "Does the workflow do what it says?",
    "hardware": "cpu",
    "engine": {"python": str(ROOT / "tests/standin/python")},
    "baseline": "plain",
    "models": {"standin": {"source": "path", "path": "model"}},
    "server": {"max_num_seqs": 8, "max_model_len": 1024},
    "variants": {
        "plain": {"model": "standin"},
        "fp8-kv": {"model": "standin", "server": {"kv_cache_dtype": "fp8"}},
    },
    "datasets": {
        "random": {"kind": "random", "requests": 16, "input_tokens": 32, "output_tokens": 8}
    },
    "workloads": {
        "random": {
            "dataset": "random",
            "warmup_requests": 1,
            "load_points": [
                {"concurrency": 1, "requests": 4},
                {"concurrency": 8, "requests": 16},
            ],
        }
    },
    "validity": QUIET,
}


class Workspace:
    """A Git repository with one study, `standin`, and no Snakemake metadata."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.first_output = ""
        # For commands that are sent signals, as a user's shell would start them.
        self.cold = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "SERVETUNE_CACHE": str(cache),
            # The host's locks are for real sessions: tests do not wait for those.
            "SERVETUNE_LOCKS": str(cache / "locks"),
            "STANDIN_PYTHON": sys.executable,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "GIT_AUTHOR_NAME": "A Tester",
            "GIT_AUTHOR_EMAIL": "tester@example.org",
            "GIT_COMMITTER_NAME": "A Tester",
            "GIT_COMMITTER_EMAIL": "tester@example.org",
        }
        path = os.pathsep.join([str(commands()), self.cold["PATH"]])
        self.environment = {**self.cold, "PATH": path}

    def run(self, *command: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def check(self, *command: str, timeout_s: float = PATIENCE_S) -> str:
        """Run a command that must succeed; returns what it printed."""
        done = self.run(*command, timeout_s=timeout_s)
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"{' '.join(command)}\n{output}"
        return output

    def measure(self, *more: str) -> str:
        return self.check("snakemake", "--cores", "1", "reports/summary.html", *more)

    def collect(self, *more: str) -> str:
        """Measure up to the tables: most promises are seen there, and cost no report."""
        return self.check("snakemake", "--cores", "1", TABLES, *more)

    def dry_run(self, *more: str) -> str:
        return self.check("snakemake", "-n", "--cores", "1", "reports/summary.html", *more)

    def commit(self, message: str) -> None:
        self.check("git", "add", "-A")
        self.check("git", "commit", "-qm", message, "--allow-empty")

    @property
    def study(self) -> dict[str, Any]:
        path = self.root / "studies/standin.yaml"
        study: dict[str, Any] = yaml.safe_load(path.read_text())
        return study

    def write_study(self, study: dict[str, Any]) -> None:
        (self.root / "studies").mkdir(exist_ok=True)
        text = yaml.safe_dump(study, sort_keys=False)
        (self.root / "studies/standin.yaml").write_text(text)

    def set_params(self, **values: Any) -> None:
        path = self.root / "params.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **values}))

    def records(self) -> dict[str, dict[str, Any]]:
        """Read all records, by measurement."""
        files = sorted((self.root / "results/standin/records").glob("*.json"))
        return {file.stem: json.loads(file.read_text()) for file in files}

    def sessions(self) -> list[dict[str, Any]]:
        files = sorted((self.root / "results/standin/sessions").glob("*.json"))
        return [json.loads(file.read_text()) for file in files]

    def launches(self) -> int:
        """Count the servers that were ever started here."""
        return len(list((self.root / "results/raw/standin").glob("*/launch-*.json")))

    def metrics(self) -> dict[str, Any]:
        path = self.root / "results/standin/metrics.json"
        metrics: dict[str, Any] = json.loads(path.read_text())
        return metrics

    def servers(self) -> list[psutil.Process]:
        """Find the processes that serve or load for this workspace."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd"]):
            words = " ".join(process.info["cmdline"] or [])
            is_ours = process.info["cwd"] == str(self.root)
            if is_ours and ("vllm.entrypoints" in words or "servetune.load" in words):
                found.append(process)
        return found


def make_workspace(root: Path, engine_cache: Path) -> Workspace:
    """Make a fresh clone, in which nothing was measured yet."""
    copy_tree(_fresh(), root)
    return Workspace(root, engine_cache)


@cache
def _fresh() -> Path:
    root = Path(mkdtemp(prefix="fresh-"))
    atexit.register(shutil.rmtree, root)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in (*COPIED, ".dvc/config", ".dvc/.gitignore", ".dvc/plots"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, root / name)
    # Else each process of each copy would compile it.
    compileall.compile_dir(root / "src", quiet=1)
    (root / "model").mkdir()
    (root / "model/config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    (root / "params.yaml").write_text(PARAMS.format(study="standin"))
    made = Workspace(root, root / "cache")
    made.write_study(STUDY)
    made.check("git", "init", "-q", "-b", "main")
    made.commit("A study")
    return root


def copy_tree(original: Path, root: Path) -> None:
    """Copy a folder as it is, times included; a third of what it costs Python."""
    subprocess.run(["cp", "-a", original, root], check=True)
