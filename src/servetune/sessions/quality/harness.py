"""Tasks of lm-evaluation-harness, sent to the running server by its `local-completions` model.

Gao et al., The Language Model Evaluation Harness, github.com/EleutherAI/lm-evaluation-harness. It
runs in an environment of its own and fetches its datasets from the Hugging Face hub, unless they
are in the hub's cache or beside a task of one's own.
"""

import json
import math
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from servetune.engines.environments import engine_id, read_engine
from servetune.engines.source import environment_with_source
from servetune.errors import UserError
from servetune.lifetime.guard import Guarded
from servetune.plan.planned import LM_EVAL, Session
from servetune.records.quality import TaskMetric
from servetune.serving.target import Target
from servetune.study.quality import LmEval
from servetune.study.secrets import redacted

GRACE_S = 5.0
"""Until lm-eval is killed: what it wrote is not used then."""

CHECK_EVERY_S = 2.0
"""How often it is asked whether lm-eval and the server live: a task takes minutes."""


class HarnessError(Exception):
    """lm-evaluation-harness gave no result; the message says why."""


def run_tasks(
    session: Session, asked: LmEval, raw: Path, target: Target, model: Path, root: Path
) -> list[TaskMetric]:
    """Run the declared tasks; their output goes to the folder `raw`.

    Raises:
        HarnessError: it ended with an error, took too long, or wrote no result.
        ServerError: the server died or hangs.
    """
    shutil.rmtree(raw, ignore_errors=True)
    raw.mkdir(parents=True)
    output = raw / "lm-eval.log"
    try:
        python = read_engine(engine_id(LM_EVAL, root)).python
    except UserError as error:
        raise HarnessError(str(error)) from None
    words = [str(python), "-m", "lm_eval", *arguments(asked, target, model, raw)]
    environment = {**environment_with_source(), "OPENAI_API_KEY": target.api_key}
    with (
        output.open("w") as log,
        Guarded(
            words,
            environment,
            grace_s=GRACE_S,
            folder=root,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        _wait(process, target, session.load_timeout_s)
    if process.returncode:
        lines = output.read_text(errors="replace").strip().splitlines()
        raise HarnessError(redacted((lines or ["no output"])[-1], target.secrets))
    written = sorted(raw.rglob("results*.json"))
    if not written:
        raise HarnessError("it wrote no result")
    return read_results(json.loads(written[-1].read_bytes()))


def _wait(process: Guarded, target: Target, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise HarnessError(f"it took longer than {timeout_s:.0f} s")
        target.check()
        time.sleep(CHECK_EVERY_S)


def arguments(asked: LmEval, target: Target, model: Path, out: Path) -> list[str]:
    """Return the words of lm-eval's command line."""
    endpoint = {
        "model": target.name,
        "base_url": f"{target.url}/v1/completions",
        "tokenizer": str(model),
        "tokenizer_backend": "huggingface",
        "num_concurrent": 1,
    }
    words = ["--model", "local-completions", "--tasks", ",".join(asked.tasks)]
    words += ["--model_args", ",".join(f"{name}={value}" for name, value in endpoint.items())]
    words += ["--output_path", str(out)]
    if asked.folder:
        words += ["--include_path", str(asked.folder)]
    if asked.limit:
        words += ["--limit", str(asked.limit)]
    return words


def read_results(written: dict[str, Any]) -> list[TaskMetric]:
    """Read the metrics of each task from what lm-eval wrote: `acc,none` and `acc_stderr,none`.

    A filter other than `none` is part of the metric's name.
    """
    metrics = []
    for task, values in written["results"].items():
        for key, value in values.items():
            metric, _, filtered = key.partition(",")
            if metric.endswith("_stderr") or not _is_number(value) or not filtered:
                continue
            error = values.get(f"{metric}_stderr,{filtered}")
            name = metric if filtered == "none" else f"{metric} ({filtered})"
            error = error if _is_number(error) else None
            metrics.append(TaskMetric(task=task, metric=name, value=value, standard_error=error))
    return metrics


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
