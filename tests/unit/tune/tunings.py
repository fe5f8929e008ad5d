"""A small study with a tuning, and launches whose answers are known."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from servetune.records.trials import Failure, Round, Trial, TrialResult
from servetune.study.space import candidates
from servetune.study.study import Study
from servetune.tune.race import next_round

STUDY: dict[str, Any] = {
    "question": "Which is best?",
    "hardware": "cpu",
    "engine": "vllm-cpu",
    "baseline": "plain",
    "models": {"tiny": {"source": "tiny"}, "small": {"source": "tiny", "seed": 1}},
    "server": {"max_num_seqs": 4},
    "variants": {"plain": {"model": "tiny"}},
    "datasets": {"text": {"kind": "text", "requests": 8, "input_words": 8, "output_tokens": 8}},
    "workloads": {
        "chat": {
            "generator": "guidellm",
            "dataset": "text",
            "capacity": {"slo": {"chat": {"ttft_p99_ms": 100}}, "lowest": 1, "highest": 9},
        }
    },
    "tune": {
        "base": "plain",
        "space": {
            "max_num_seqs": [2, 4, 8, 16],
            "max_num_batched_tokens": {"low": 512, "high": 4096, "step": "power of two"},
            "model": ["tiny", "small"],
        },
        "maximize": "capacity",
        "budget": {"server_minutes": 120, "launches": 40},
    },
}


def study_with(**tune: Any) -> Study:
    """Return the study with other keys of its tuning."""
    return Study.model_validate({**STUDY, "tune": {**STUDY["tune"], **tune}})


def capacity_of(values: Mapping[str, Any]) -> float | None:
    """A server that is best, 1.5 times as the base, with 8 sequences and the small model."""
    seqs = {2: 0.6, 4: 1.0, 8: 1.2, 16: 0.9}[values["max_num_seqs"]]
    return 20 * seqs * (1.25 if values["model"] == "small" else 1.0)


def run(
    study: Study,
    capacity: Any = capacity_of,
    seed: int = 0,
    failing: Callable[[Trial], Failure | None] = lambda trial: None,
    takes_s: tuple[float, ...] = (100.0,),
    start_s: float = 0.0,
    loads_over_screen: float = 1.0,
    predicted: Mapping[str, float] | None = None,
) -> tuple[list[Round], list[TrialResult]]:
    """Tune to the end, with launches that deviate by 2 % and intervals of 5 %.

    A capacity of None does not fit; `failing` names the failure of a launch by itself. A launch
    takes one of some times; the loads of a search take so many times as long as a screen's. What is
    `predicted` is known once the base was launched.
    """
    assert study.tune is not None
    of = candidates(study.tune, study)
    values = {each.name: each.values for each in of}
    rng = np.random.default_rng(seed)

    def launch(trial: Trial) -> TrialResult:
        at = capacity(values[trial.candidate])
        if at is None:
            return TrialResult(trial, 30.0, failure="does not fit")
        if failure := failing(trial):
            return TrialResult(trial, 100.0, failure=failure)
        at *= math.exp(rng.normal(0, 0.02))
        loads_s = takes_s[rng.integers(len(takes_s))] - start_s
        took_s = start_s + loads_s * (1.0 if trial.level == "screen" else loads_over_screen)
        return TrialResult(trial, took_s, at, at / 1.05, at * 1.05, start_s=start_s)

    rounds, seen = [next_round(study.tune, of, [], seed, 1)], []
    while rounds[-1].trials:
        seen += [launch(trial) for trial in rounds[-1].trials]
        number = len(rounds) + 1
        rounds.append(next_round(study.tune, of, seen, seed, number, predicted=predicted))
    return rounds, seen
