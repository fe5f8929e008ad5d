"""What a trial found: the objective, or by a kind why there is none."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.files import write_json
from servetune.plan.planned import Tuning
from servetune.records.paths import record_path, session_path
from servetune.records.sessions import ServerFacts
from servetune.records.trials import Failure, Trial
from servetune.study.space import Candidate
from servetune.study.study import Variant
from servetune.study.tune import Tune
from servetune.tables.trial_results import failure_by, served_s, started_s, trial_results
from tests.paths import GALLERY
from tests.project import Project
from tests.recorded import plan_of
from tests.report_data import make_data, make_quickstart_plan
from tests.sessions_data import session
from tests.unit.tune.tunings import STUDY

STARTED = "the server did not start"


@pytest.mark.parametrize(
    ("reason", "tail", "kind"),
    [
        (
            f"{STARTED}: ValueError: To serve at least one request with the model's max seq len"
            " (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache"
            " memory (4.0 GiB)",
            [],
            "does not fit",
        ),
        (f"{STARTED}: ended while it started", ["CUDA out of memory. Tried"], "does not fit"),
        (
            f"{STARTED}: ValueError: Free memory on device (3.1/79.1 GiB) on startup is less than"
            " desired GPU memory utilization",
            [],
            "does not fit",
        ),
        ("the server died under load: torch.OutOfMemoryError: HIP", [], "does not fit"),
        (
            f"{STARTED}: ValueError: max_num_batched_tokens (64) must be greater than or equal to"
            " max_num_seqs (128).",
            [],
            "refused",
        ),
        (f"{STARTED}: ValueError: kv_cache_dtype fp8_e5m2 is not supported", [], "refused"),
        (f"{STARTED}: not ready after 900 s", [], "invalid"),
        ("the server died under load: CUDA error", [], "died under load"),
        ("the server hangs: /health has not answered for 30 s", [], "died under load"),
    ],
)
def test_what_a_server_said_tells_the_kind(reason: str, tail: list[str], kind: Failure) -> None:
    assert failure_by(reason, session("a", {"log_tail": tail})) == kind


def found_at(root: Path, limits_ms: dict[str, float], gpus: int, **objective: str) -> float:
    """Tune for a metric of a load that is answered with 500 tokens a second; returns its value."""
    plan = make_quickstart_plan(variants=["bf16"])
    measurement = plan.sessions[0].measurements[0].model_copy(update={"limits_ms": limits_ms})
    changes: dict[str, Any] = {
        **{"hardware": "h", "server": {"tensor_parallel_size": gpus}, "quality": None},
        **{"measurements": [measurement], "trial": Trial("bf16", "screen")},
    }
    asked = plan.sessions[0].model_copy(update=changes)
    tune = Tune.model_validate({**STUDY["tune"], "maximize": None, "at": "c1", **objective})
    of = [Candidate("bf16", {}, Variant(model="tiny"))]
    tuning = Tuning(declared="", tune=tune, place=("text", "c1"), candidates=of, rounds=[])
    changed = {"sessions": [asked], "tuning": tuning, "price_usd_per_hour": 3.6}
    plan = plan.model_copy(update=changed)
    record = make_data(plan).records[measurement.id]
    assert record.metrics is not None
    metrics = record.metrics.model_copy(update={"output_throughput_tok_s": 500.0})
    record = record.model_copy(update={"metrics": metrics})
    write_json(record_path(plan.study, record.measurement, root), record)
    write_json(session_path(plan.study, asked.id, root), session("bf16", {}))
    trial = trial_results(plan, [asked], root)[0]
    assert trial.failure is None and trial.value is not None
    assert trial.lower == trial.value == trial.upper
    return trial.value


@pytest.mark.parametrize(("gpus", "cost_usd", "per_gpu"), [(1, 2.0, 500.0), (2, 4.0, 250.0)])
def test_an_objective_counts_every_gpu_that_a_server_takes(
    tmp_path: Path, gpus: int, cost_usd: float, per_gpu: float
) -> None:
    cost = found_at(tmp_path, {}, gpus, minimize="cost_usd_per_million_output_tokens")
    assert cost == pytest.approx(cost_usd)
    assert found_at(tmp_path, {}, gpus, maximize="output_throughput_tok_s_per_gpu") == per_gpu


def test_an_objective_is_the_share_of_requests_within_the_slo_of_the_load_point(
    tmp_path: Path,
) -> None:
    strict, loose = (
        found_at(tmp_path, {"ttft": limit_ms}, 1, maximize="slo_attainment_percent")
        for limit_ms in (38.0, 1000.0)
    )
    assert 0 < strict < loose == 100


def test_a_trial_of_which_the_record_is_lost_is_said_to_be(project: Project) -> None:
    """Another session would not find what this one paid for; `doctor` says what to do."""
    plan = plan_of("h100-tune")
    results = project.root / "results" / plan.study
    shutil.copytree(GALLERY / "results" / plan.study, results)
    lost = plan.sessions[-1].searches[0].id
    (results / "searches" / f"{lost}.json").unlink()
    with pytest.raises(UserError, match=f"{lost}.*doctor --fix"):
        trial_results(plan, plan.sessions, project.root)


def test_what_a_launch_took_is_told_apart_from_its_start() -> None:
    first, second = (
        {"stopped_at": "2026-11-01T00:04:00+00:00", "server": ServerFacts(startup_s=start_s)}
        for start_s in (150.0, None)
    )
    record = session("bf16", first, second)
    assert (served_s(record), started_s(record)) == (480.0, 150.0)
