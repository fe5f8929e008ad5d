"""Simulated servers of 240 candidates, whose capacities follow from a formula.

Six kinds of space are among them: a server's own physics (`batching`), smooth, interaction only, a
corner, most of it fails, and nothing matters.

A server that batches continuously at `rate` requests a second, each of `prompt` and `answer`
tokens, takes `step_s = fixed_s / (1 - rate * (prompt * prefill_s + answer * each_s))` a step, of
which the requests that run and the prompts that are read have their parts; by Little's law
`rate * answer * step_s` requests run. The capacity is the highest rate at which as many may run
(`max_num_seqs`, KV cache), the prompts fit the token budget, a step with a full budget keeps to
TPOT's limit, and the front end keeps up.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from servetune.study.space import Candidate, candidates
from servetune.study.study import Study

SPACE: dict[str, Any] = {
    "max_num_seqs": {"low": 32, "high": 1024, "step": "power of two"},
    "max_num_batched_tokens": {"low": 1024, "high": 16384, "step": "power of two"},
    "kv_cache_dtype": ["auto", "fp8"],
    "model": ["bf16", "fp8"],
    "api_server_count": [1, 2],
}

BASE = {"max_num_seqs": 256, "max_num_batched_tokens": 2048, "kv_cache_dtype": "auto"}


@dataclass(frozen=True)
class Made:
    """A server as it came out: what decides how fast it is."""

    prompt: float
    answer: float
    fixed_s: float
    each_s: float
    prefill_s: float
    cache_tokens: float
    front_end_rps: float
    tpot_s: float

    @classmethod
    def of(cls, seed: int) -> "Made":
        """Draw an eight-billion-parameter model's on an H200, each within a quarter."""
        rng = np.random.default_rng([seed, 11])

        def about(value: float) -> float:
            return float(value * rng.uniform(0.8, 1.25))

        return cls(
            prompt=about(512),
            answer=about(200),
            fixed_s=about(0.0055),
            each_s=about(3e-5),
            prefill_s=about(1.3e-5),
            cache_tokens=about(140_000),
            front_end_rps=about(60),
            tpot_s=about(0.05),
        )

    def capacity(self, values: Mapping[str, Any]) -> float:
        """Return the highest rate, in requests a second, at which all limits are kept."""
        low, high = 1e-3, 1e3
        for _ in range(40):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self._keeps(values, middle) else (low, middle)
        return low

    def throughput(self, values: Mapping[str, Any]) -> float:
        """Return the rate, in requests a second, of a server that has more than it can run."""
        fixed, each, prefill = self._costs(values)
        running = min(float(values["max_num_seqs"]), self.fitting(values))
        busy_s = self.prompt * prefill + self.answer * each
        return min(
            running / (self.answer * fixed + running * busy_s),
            self.front_end_rps * float(values["api_server_count"] ** 0.6),
        )

    def running(self, values: Mapping[str, Any], rate: float) -> float:
        """Return how many requests run at a rate; infinite where it is too high."""
        fixed, each, prefill = self._costs(values)
        spare = 1 - rate * (self.prompt * prefill + self.answer * each)
        return rate * self.answer * fixed / spare if spare > 0 else math.inf

    def fitting(self, values: Mapping[str, Any]) -> float:
        """Return how many requests the KV cache holds."""
        bytes_of = 1.9 if values["kv_cache_dtype"] == "fp8" else 1.0
        return bytes_of * self.cache_tokens / (self.prompt + self.answer / 2)

    def _costs(self, values: Mapping[str, Any]) -> tuple[float, float, float]:
        is_fp8 = values["model"] == "fp8"
        kv = 0.75 if values["kv_cache_dtype"] == "fp8" else 1.0
        fixed, prefill = (0.62, 0.72) if is_fp8 else (1.0, 1.0)
        return fixed * self.fixed_s, kv * self.each_s, prefill * self.prefill_s

    def _keeps(self, values: Mapping[str, Any], rate: float) -> bool:
        fixed, each, prefill = self._costs(values)
        running, budget = self.running(values, rate), values["max_num_batched_tokens"]
        if running > 0.85 * min(values["max_num_seqs"], self.fitting(values)):
            return False
        step_s = running / (rate * self.answer)
        full_s = fixed + each * running + prefill * min(budget, 4 * self.prompt)
        return bool(
            rate * self.prompt * step_s <= 0.7 * budget
            and full_s <= self.tpot_s
            and rate <= self.front_end_rps * values["api_server_count"] ** 0.6
        )


Server = Callable[[Made, Mapping[str, Any]], float | None]
"""From a server and a candidate's values to a factor on its capacity; None: it cannot start."""


def batching(made: Made, values: Mapping[str, Any]) -> float | None:
    """A server that batches, whose KV cache limits how many requests run."""
    return 1.0


def cliff(made: Made, values: Mapping[str, Any]) -> float | None:
    """One that preempts once more may run than the KV cache holds, and whose memory ends."""
    if values["max_num_seqs"] * values["max_num_batched_tokens"] > 2**22:
        return None
    return 0.4 if values["max_num_seqs"] > 2 * made.fitting(values) else 1.0


def flat(made: Made, values: Mapping[str, Any]) -> float | None:
    """One on which nothing matters."""
    return FLAT_RPS / made.capacity(values)


FLAT_RPS = 25.0


def corner(made: Made, values: Mapping[str, Any]) -> float | None:
    """One on which nothing matters but a corner, where two settings have their ends."""
    is_corner = (values["max_num_seqs"], values["max_num_batched_tokens"]) == CORNER
    gain = CORNER_GAIN if is_corner else 1.0
    return gain * FLAT_RPS / made.capacity(values)


CORNER, CORNER_GAIN = (32, 16384), 1.18


def smooth(made: Made, values: Mapping[str, Any]) -> float | None:
    """One with a single hill: each setting has its own best, and the further off the slower."""
    rng = _drawn(made)
    off = 0.0
    for at in _places(values):
        off += rng.uniform(0.1, 0.6) * (at - rng.uniform(-1, 1)) ** 2
    return FLAT_RPS * math.exp(-off / 2) / made.capacity(values)


def interaction(made: Made, values: Mapping[str, Any]) -> float | None:
    """One on which no setting has an effect by itself: settings matter in pairs alone."""
    rng = _drawn(made)
    seqs, tokens, cache, model, _ = _places(values)
    signs = rng.choice((-1, 1), 2)
    gain = 0.2 * signs[0] * seqs * tokens + 0.1 * signs[1] * cache * model
    return FLAT_RPS * math.exp(gain) / made.capacity(values)


def failing(made: Made, values: Mapping[str, Any]) -> float | None:
    """One that batches, on which four candidates of five cannot start."""
    is_fp8 = values["model"] == "fp8"
    if values["kv_cache_dtype"] == "fp8" or (is_fp8 and values["api_server_count"] > 1):
        return None
    return None if values["max_num_seqs"] * values["max_num_batched_tokens"] > 2**19 else 1.0


def _drawn(made: Made) -> np.random.Generator:
    """Return what is drawn of one server beside its own numbers."""
    return np.random.default_rng([int(1e6 * made.prompt), 12])


def _places(values: Mapping[str, Any]) -> tuple[float, ...]:
    """Return where a candidate is in each setting, from -1 to 1, by ratios of numbers."""
    ends = ((32, 1024), (1024, 16384))
    numbers = (values["max_num_seqs"], values["max_num_batched_tokens"])
    of_numbers = [
        2 * math.log(value / low) / math.log(high / low) - 1
        for value, (low, high) in zip(numbers, ends, strict=True)
    ]
    of_words = (
        values["kv_cache_dtype"] == "fp8",
        values["model"] == "fp8",
        values["api_server_count"] == 2,
    )
    return (*of_numbers, *(1.0 if each else -1.0 for each in of_words))


SERVERS: dict[str, Server] = {
    "batching": batching,
    "smooth": smooth,
    "interaction only": interaction,
    "most of it fails": failing,
    "cliff": cliff,
    "nothing matters": flat,
    "corner": corner,
}


def study(launches: int, server_minutes: float) -> Study:
    """Declare the tuning of any of the servers."""
    declared = {
        "question": "Which is best?",
        "hardware": "nvidia-h200",
        "engine": "vllm-cuda",
        "baseline": "base",
        "models": {name: {"source": "shape", "config": "config.json"} for name in SPACE["model"]},
        "variants": {"base": {"model": "bf16", "server": {**BASE, "api_server_count": 1}}},
        "datasets": {
            "text": {"kind": "text", "requests": 1000, "input_words": 256, "output_tokens": 200}
        },
        "workloads": {
            "chat": {
                "generator": "guidellm",
                "dataset": "text",
                "capacity": {"slo": {"chat": {"tpot_p99_ms": 45}}, "lowest": 1, "highest": 200},
            }
        },
        "tune": {
            "base": "base",
            "space": SPACE,
            "maximize": "capacity",
            "budget": {"launches": launches, "server_minutes": server_minutes},
        },
    }
    return Study.model_validate(declared)


def capacities(server: str, of: list[Candidate], seed: int) -> dict[str, float | None]:
    """Return the capacity of each candidate, by name, on the server of a seed."""
    return _rates(server, of, Made.of(seed), Made.capacity)


OFF = 0.2


def predicted(of: list[Candidate], seed: int, by: float = OFF) -> dict[str, float]:
    """Return capacities, by name, as a simulation has them whose numbers are off.

    Each is so by a factor whose logarithm has the standard deviation `by`. The simulation knows
    neither what a cliff costs nor that some candidates cannot start.
    """
    made, rng = Made.of(seed), np.random.default_rng([seed, 13])
    off = {
        each.name: math.exp(rng.normal(0, by)) * getattr(made, each.name) for each in fields(made)
    }
    return {each.name: replace(made, **off).capacity(each.values) for each in of}


def throughputs_of(server: str, of: list[Candidate], seed: int) -> dict[str, float | None]:
    """Return the throughput of each candidate that has more than it can run, by name."""
    return _rates(server, of, Made.of(seed), Made.throughput)


def _rates(
    server: str, of: list[Candidate], made: Made, rate: Callable[[Made, Mapping[str, Any]], float]
) -> dict[str, float | None]:
    factors = {each.name: SERVERS[server](made, each.values) for each in of}
    return {
        each.name: None if (by := factors[each.name]) is None else by * rate(made, each.values)
        for each in of
    }


def all_candidates(declared: Study) -> list[Candidate]:
    """Return the candidates of the declared tuning."""
    assert declared.tune is not None
    return candidates(declared.tune, declared)
