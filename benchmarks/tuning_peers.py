"""How other tools would tune the servers of benchmarks/tuned_servers.py.

`grid` launches every candidate and goes down from its throughput by 1 request a second until one
rate passes, as vLLM's auto_tune.sh does. `optuna_runs` launches what Optuna's TPE proposes, and
sends each one run, as auto-tuning-vllm does: one that saturates the server tells its throughput.
Neither repeats anything: the answer is the highest number that was seen.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import optuna
from capacity_peers import PEERS
from capacity_simulation import CASES, Spent, peer_once, throughput, true_capacity
from optuna.distributions import CategoricalDistribution

from servetune.records.trials import TrialResult
from servetune.study.space import Candidate
from servetune.tune.outlook import Outlook

ON_A_GPU = CASES[-2:]
"""The servers whose capacities are near those of the candidates."""

REPEATS = 6


@dataclass(frozen=True)
class Run:
    """What a run told over the truth, and its time in requests at the capacity."""

    value: float
    requests: float
    probes: int


@cache
def descents(size: int) -> list[Run]:
    """Return descents with so many requests a probe."""
    found = []
    for case in ON_A_GPU:
        truth = _truth(case.name)
        for seed in range(REPEATS):
            rate, spent = peer_once(case, PEERS["auto_tune descent"], size, seed)
            probes = round(spent.requests / size)
            found.append(Run(rate / truth, spent.seconds * truth, probes))
    return found


@cache
def throughputs(size: int) -> list[Run]:
    """Return runs of so many requests at once, over their mean."""
    found = []
    for case in ON_A_GPU:
        spent = Spent()
        rates = [throughput(case.server, size, seed, spent) for seed in range(10 * REPEATS)]
        truth = _truth(case.name)
        found += [Run(rate / float(np.mean(rates)), size / rate * truth, 1) for rate in rates]
    return found


@cache
def _truth(name: str) -> float:
    return true_capacity(next(case for case in ON_A_GPU if case.name == name))


class Tpe:
    """Optuna's TPE over the settings of candidates, told what was seen."""

    def __init__(self, candidates: Sequence[Candidate], seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.values = {each.name: each.values for each in candidates}
        # The base may have a value of its own.
        self.space = {
            name: CategoricalDistribution([*dict.fromkeys(v[name] for v in self.values.values())])
            for name in candidates[0].values
        }
        self.names = {tuple(v.items()): name for name, v in self.values.items()}
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
        self.study = optuna.create_study(direction="maximize", sampler=sampler)

    def ask(self) -> tuple[optuna.Trial, str | None]:
        """Return a trial with its candidate; None where no candidate is of these settings."""
        trial = self.study.ask(dict(self.space))
        return trial, self.names.get(tuple(trial.params.items()))

    def proposer(
        self, seen: Sequence[TrialResult]
    ) -> Callable[[Outlook | None, Sequence[str], int, Sequence[int]], list[str]]:
        """Return a proposer of the race: what it asks for is told once it was seen."""
        told: set[str] = set()

        def propose(
            outlook: Outlook | None, names: Sequence[str], width: int, seed: Sequence[int]
        ) -> list[str]:
            worst = min((each.value for each in seen if each.value), default=1.0)
            for each in seen:
                if each.trial.candidate not in told:
                    told.add(each.trial.candidate)
                    ended = optuna.trial.create_trial(
                        params=dict(self.values[each.trial.candidate]),
                        distributions=dict(self.space),
                        value=math.log(each.value or worst),
                    )
                    self.study.add_trial(ended)
            chosen: dict[str, None] = {}
            for _ in range(20 * width):
                trial, name = self.ask()
                self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
                if name in names and len(chosen) < width:
                    chosen[str(name)] = None
            rest = [name for name in names if name not in chosen]
            return [*chosen, *rest][:width]

        return propose


def optuna_runs(
    candidates: Sequence[Candidate],
    told: Mapping[str, float | None],
    size: int,
    seed: int,
) -> list[tuple[str, float, Run]]:
    """Return what TPE asks for and is told, a run each, as often as there are candidates."""
    tpe, rng, runs = Tpe(candidates, seed), np.random.default_rng([seed, 31]), throughputs(size)
    found = []
    for _ in candidates:
        trial, name = tpe.ask()
        if name is None or (value := told[name]) is None:
            tpe.study.tell(trial, state=optuna.trial.TrialState.FAIL)
            continue
        run = runs[rng.integers(len(runs))]
        value *= run.value * math.exp(rng.normal(0, 0.02))
        tpe.study.tell(trial, value)
        found.append((name, value, run))
    return found
