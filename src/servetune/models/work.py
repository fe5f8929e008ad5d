"""Bytes and FLOPs of prefill and decode, and how close a load came to what the device allows.

`docs/roofline.md` holds the formulas with their sources. All counts are for the whole model;
ceilings are those of all its devices together.
"""

from dataclasses import dataclass

from servetune.models.shape import UncountedError
from servetune.records.sessions import Architecture, Ceilings

_KV_BYTES = {
    **dict.fromkeys(("auto", "float16", "bfloat16", "half"), 2.0),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8"), 1.0),
    **dict.fromkeys(("fp8_per_token_head", "int8_per_token_head"), 1.0),
}

TOLERANCE = 1.02
"""A utilization above this is not possible; below it a ceiling may have been measured low."""


@dataclass(frozen=True)
class Work:
    """Memory traffic in bytes and arithmetic in FLOPs, a multiply and an add being two."""

    bytes: float
    flops: float

    def __add__(self, other: "Work") -> "Work":
        """Do one after the other."""
        return Work(self.bytes + other.bytes, self.flops + other.flops)

    def times(self, count: float) -> "Work":
        """Do it so many times."""
        return Work(self.bytes * count, self.flops * count)


@dataclass(frozen=True)
class Utilization:
    """What was achieved of what is possible: MBU and MFU in [0, 1], and the least time.

    `bound` is `bandwidth` or `compute`, whichever alone takes longer. If more was achieved than
    `is_possible`, the time, the work or a ceiling is wrong.
    """

    mbu: float
    mfu: float | None
    least_s: float
    bound: str
    is_possible: bool


def kv_cache_bytes(dtype: str | None) -> float:
    """Return the bytes of one value in the KV cache; `auto` is the model's own 16 bits.

    Raises:
        UncountedError: what such a cache holds of a value is not known.
    """
    if (size := _KV_BYTES.get(dtype or "auto")) is None:
        raise UncountedError(f"kv_cache_dtype {dtype} is not understood")
    return size


def passes(model: Architecture, tokens: float) -> Work:
    """Send some tokens through all matrices at once, attention to the KV cache left out.

    Of the experts those are read that at least one token chose, if all are as likely.
    """
    chosen = model.experts_per_token / model.experts if model.experts else 0.0
    active = model.linear_parameters + chosen * model.expert_parameters
    read = model.linear_bytes + (1 - (1 - chosen) ** tokens) * model.expert_bytes
    return Work(read, 2 * active * tokens)


def head(model: Architecture, tokens: float) -> Work:
    """Turn some hidden states into logits."""
    return Work(model.head_bytes, 2 * model.head_parameters * tokens)


def attended(model: Architecture, context: float) -> float:
    """Return the mean tokens of a context that a layer attends to."""
    outside = max(0.0, context - model.window_tokens) * model.windowed_layers / model.layers
    return context - outside


def decode_step(
    model: Architecture, batch: float, context: float, kv_bytes: float, tokens: float = 1
) -> Work:
    """Run one step of decode of a batch of sequences.

    `context` is the tokens that each has in the KV cache, on average, and `kv_bytes` the bytes of
    one value there; `tokens` are those of each sequence in the step: several to verify a draft.
    """
    kept = model.kv_values_per_token * kv_bytes
    attention = Work(
        batch * attended(model, context + tokens) * kept,
        4
        * batch
        * tokens
        * attended(model, context + (tokens + 1) / 2)
        * model.layers
        * model.attention_width,
    )
    return passes(model, batch * tokens) + head(model, batch * tokens) + attention


def speculative_step(
    model: Architecture,
    draft: Architecture | None,
    batch: float,
    context: float,
    kv_bytes: float,
    tokens: float,
) -> Work:
    """Draft some tokens one after another, then verify them and one more in one pass.

    Without a draft model (n-gram, suffix) drafting is taken to cost nothing.
    """
    verified = decode_step(model, batch, context, kv_bytes, 1 + tokens)
    drafted = decode_step(draft, batch, context, kv_bytes) if draft else Work(0, 0)
    return verified + drafted.times(tokens)


def prefill(
    model: Architecture,
    tokens: float,
    cached: float,
    batched_tokens: float,
    kv_bytes: float,
    is_alone: bool = True,
) -> Work:
    """Read one prompt, alone or in passes that other prompts fill up.

    `tokens` are those that were not in the prefix cache, `cached` those that were; so many as
    `batched_tokens` go through the model in one pass (`max_num_batched_tokens`).
    """
    in_pass = max(1.0, min(tokens, batched_tokens) if is_alone else batched_tokens)
    prompts = max(1.0, in_pass / max(tokens, 1.0))
    weights = passes(model, in_pass).times(tokens / in_pass)
    logits = head(model, prompts).times(1 / prompts)
    kept = model.kv_values_per_token * kv_bytes
    pairs = tokens * (cached + (tokens + 1) / 2)
    if model.windowed_layers:
        pairs -= (_beyond(model, cached + tokens) - _beyond(model, cached)) / model.layers
    read = tokens + attended(model, cached)
    attention = Work(read * kept, 4 * pairs * model.layers * model.attention_width)
    return weights + logits + attention


def _beyond(model: Architecture, tokens: float) -> float:
    """Return the pairs of so many positions that are too far apart, of all layers with a window."""
    outside = max(0.0, tokens - model.window_tokens)
    return model.windowed_layers * outside * (outside + 1) / 2


def least_time_s(work: Work, ceilings: Ceilings, compute: str) -> float:
    """Return the least time that work can take: memory and arithmetic fully overlapped."""
    flop_s = ceilings.flop_s(compute)
    return max(work.bytes / ceilings.bandwidth_byte_s, work.flops / flop_s if flop_s else 0.0)


def utilization(work: Work, seconds: float, ceilings: Ceilings, compute: str) -> Utilization:
    """Compare what was done in some seconds, more than 0, with the ceilings."""
    mbu = work.bytes / seconds / ceilings.bandwidth_byte_s
    flop_s = ceilings.flop_s(compute)
    mfu = work.flops / seconds / flop_s if flop_s else None
    return Utilization(
        mbu=mbu,
        mfu=mfu,
        least_s=least_time_s(work, ceilings, compute),
        bound="bandwidth" if mfu is None or mbu >= mfu else "compute",
        is_possible=max(mbu, mfu or 0.0) <= TOLERANCE,
    )
