"""The roofline of each load point: what was achieved of what its device allows.

A step's time is what a request sees of it, so prefill that runs in between is in it: the
utilizations are lower bounds of what the device did.
"""

from dataclasses import dataclass
from typing import Any

from servetune.models.work import (
    Utilization,
    Work,
    kv_cache_bytes,
    least_time_s,
    prefill,
    speculative_step,
    utilization,
)
from servetune.numbers import known
from servetune.records.measurements import draft_share
from servetune.records.sessions import Architecture, Ceilings
from servetune.tables.frames import PENDING

Row = dict[str, Any]


@dataclass(frozen=True)
class Engine:
    """What decides the roofline of a server: its checkpoints, and the ceilings of all devices.

    `copies` of the models are served in parallel on `devices`; a copy has all but the experts,
    which are spread over all devices.
    """

    model: Architecture
    ceilings: Ceilings
    draft: Architecture | None = None
    draft_tokens: int = 0
    copies: int = 1
    devices: int = 1

    @property
    def of_one_prompt(self) -> Ceilings:
        """The ceilings of the devices that read a prompt."""
        own = self.devices if self.model.experts else max(1, self.devices // self.copies)
        return self.ceilings.of(own / self.devices)


@dataclass(frozen=True)
class Attained:
    """One load point on its roofline.

    `batch` is the mean number of running requests, `context` their mean length in tokens during
    decode. `least_tpot_ms` is what the device allows at that batch and context, with the
    acceptance that was seen. `prefill` is of a prompt over the time that the engine gave it, which
    prompts share; None without the server's prefill times. `prefill_share` and `decode_share` are
    of the load's time: what the device needs at least for all prompts, and for all steps.
    """

    batch: float
    context: float
    step_ms: float
    work: Work
    decode: Utilization
    least_tpot_ms: float
    prefill: Utilization | None
    prefill_share: float
    decode_share: float

    @property
    def device_share(self) -> float:
        """The share of the load's time that the device was busy, at least."""
        return self.prefill_share + self.decode_share

    @property
    def prefill_utilization(self) -> float:
        """How busy reading prompts kept the device while it did, at least: MBU or MFU."""
        of_prompt = self.prefill
        alone = max(of_prompt.mbu, of_prompt.mfu or 0.0) if of_prompt else 0.0
        return max(alone, self.prefill_share)

    @property
    def intensity(self) -> float:
        """FLOPs per byte of a decode step."""
        return self.work.flops / self.work.bytes

    @property
    def is_possible(self) -> bool:
        """False if more was achieved than the device can do, so something was measured wrong."""
        return self.decode.is_possible and (self.prefill is None or self.prefill.is_possible)


def attain(row: Row, engine: Engine) -> Attained | None:
    """Place a row of the tidy table on its roofline; None if it has no TPOT or no lengths."""
    tpot_ms, context = known(row.get("tpot_p50_ms")), context_of(row)
    batch = batch_of(row, engine.copies)
    if row["status"] in ("failed", PENDING) or not tpot_ms or batch is None or context is None:
        return None
    emitted = emitted_of(row)
    work = step_work(row, engine, batch, context)
    step_s = tpot_ms * emitted / 1e3
    decode = utilization(work, step_s, engine.ceilings, engine.model.compute)
    duration_s, tokens = known(row.get("duration_s")), known(row.get("output_tokens"))
    steps_s = (tokens or 0.0) / (emitted * batch) * decode.least_s
    return Attained(
        batch=batch,
        context=context,
        step_ms=1e3 * step_s,
        work=work,
        decode=decode,
        least_tpot_ms=1e3 * decode.least_s / emitted,
        prefill=_prefill(row, engine),
        prefill_share=_prompts_s(row, engine) / duration_s if duration_s else 0.0,
        decode_share=steps_s / duration_s if duration_s else 0.0,
    )


def step_work(row: Row, engine: Engine, batch: float, context: float) -> Work:
    """Return the work of one step of decode of all copies, drafting and verifying included."""
    kv_bytes = kv_cache_bytes(row.get("kv_cache_dtype"))
    found = draft_share(known(row.get("acceptance_length")), known(row.get("tokens_per_step")))
    drafted = engine.draft_tokens * found
    model, draft = (each and _copied(each, engine.copies) for each in (engine.model, engine.draft))
    assert model is not None
    return speculative_step(model, draft, batch, context, kv_bytes, drafted)


def _copied(model: Architecture, copies: int) -> Architecture:
    """Return a model as a step of several copies reads it; their tokens add up by themselves."""
    sizes = {name: copies * getattr(model, name) for name in ("linear_bytes", "head_bytes")}
    return model if copies == 1 else model.model_copy(update=sizes)


def emitted_of(row: Row) -> float:
    """Return the tokens that a request got a step: one without speculation."""
    # An older record knows the acceptance length alone, as if each step had verified a draft.
    return known(row.get("tokens_per_step")) or known(row.get("acceptance_length")) or 1.0


def least_step_s(row: Row, engine: Engine, batch: float, context: float) -> float:
    """Return the least time of that step."""
    work = step_work(row, engine, batch, context)
    return least_time_s(work, engine.ceilings, engine.model.compute)


def batch_of(row: Row, copies: int = 1) -> float | None:
    """Return the mean batch: from telemetry, else the concurrency that so many copies admit."""
    if running := known(row.get("running_mean")):
        return running
    admitted = known(row.get("max_num_seqs"))
    limits = (known(row.get("concurrency")), admitted and copies * admitted)
    return min((limit for limit in limits if limit), default=None)


def context_of(row: Row) -> float | None:
    """Return the mean tokens in the KV cache during decode: as sampled, else from the means."""
    if context := known(row.get("context_mean_tokens")):
        return context
    names = ("input_tokens", "output_tokens", "completed_requests")
    read, written, requests = (known(row.get(name)) for name in names)
    if not requests or read is None or written is None:
        return None
    return (read + written / 2) / requests


def _prefill(row: Row, engine: Engine) -> Utilization | None:
    time_ms, work = known(row.get("prefill_time_mean_ms")), _prompt_work(row, engine, is_alone=True)
    if not time_ms or work is None:
        return None
    return utilization(work, time_ms / 1e3, engine.of_one_prompt, engine.model.compute)


def _prompts_s(row: Row, engine: Engine) -> float:
    """Return the least time of all prompts, in passes that are full of them."""
    work = _prompt_work(row, engine, is_alone=False)
    if work is None:
        return 0.0
    least_s = least_time_s(work, engine.ceilings, engine.model.compute)
    return (known(row.get("completed_requests")) or 0.0) * least_s


def _prompt_work(row: Row, engine: Engine, is_alone: bool) -> Work | None:
    """Return the work of a prompt of mean length; None where it is not known."""
    prompt = mean_prompt(row)
    if prompt is None:
        return None
    computed, cached = prompt
    batched = known(row.get("max_num_batched_tokens")) or computed + cached
    kv_bytes = kv_cache_bytes(row.get("kv_cache_dtype"))
    return prefill(engine.model, computed, cached, batched, kv_bytes, is_alone)


def mean_prompt(row: Row) -> tuple[float, float] | None:
    """Return the mean tokens of a prompt that are computed, and those in the prefix cache."""
    requests, read = (known(row.get(name)) for name in ("completed_requests", "input_tokens"))
    if not requests or not read:
        return None
    length = read / requests
    cached = length * (known(row.get("prefix_cache_hit_ratio")) or 0.0)
    return length - cached, cached
