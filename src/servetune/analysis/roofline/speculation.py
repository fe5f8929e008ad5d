"""What speculation can buy: the cost of a step, the speed-up that it allows, where it ends.

A step with a draft of `k` tokens costs `r` plain steps and emits `1 + a` tokens on average, so it
is `(1 + a) / r` times as fast (Leviathan, Kalman and Matias 2023, theorem 3.8, with the costs of
`docs/roofline.md`). Where only some steps find a draft, as with n-grams, `k` and `a` are means over
all steps. Drafting and verifying costs more of a step as the batch grows, until compute
is the limit and rejected tokens are paid in full.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace

from servetune.analysis.roofline.attained import (
    Engine,
    Row,
    batch_of,
    context_of,
    emitted_of,
    least_step_s,
)
from servetune.numbers import known

LARGEST_BATCH = 4096
"""Requests: more than one server runs at once."""


@dataclass(frozen=True)
class Speculation:
    """Speculation at one load point, by the roofline.

    `step_cost` is the least time of a draft-and-verify step over that of a plain one. The
    speed-up is a ratio of TPOT. `pays_until` is the batch from which there is none, with this
    acceptance; None if there is none up to LARGEST_BATCH.
    """

    acceptance_length: float
    step_cost: float
    predicted_speedup: float
    pays_until: int | None


def speculate(row: Row, engine: Engine) -> Speculation | None:
    """Compare speculation with plain decode at a row of the table; None where there is none."""
    length, context = known(row.get("acceptance_length")), context_of(row)
    batch = batch_of(row, engine.copies)
    if not engine.draft_tokens or length is None or batch is None or context is None:
        return None
    cost, emitted = step_cost(row, engine, batch, context), emitted_of(row)
    return Speculation(
        acceptance_length=length,
        step_cost=cost,
        predicted_speedup=emitted / cost,
        pays_until=_pays_until(row, engine, context, emitted),
    )


def step_cost(row: Row, engine: Engine, batch: float, context: float) -> float:
    """Return the least time of a speculative step over that of a plain one."""
    plain = replace(engine, draft_tokens=0)
    return least_step_s(row, engine, batch, context) / least_step_s(row, plain, batch, context)


def _pays_until(row: Row, engine: Engine, context: float, emitted: float) -> int | None:
    """Return the first batch, by powers of two and then between them, that is not faster."""

    def is_slower(batch: int) -> bool:
        return step_cost(row, engine, batch, context) >= emitted

    doubled = (2**power for power in range(LARGEST_BATCH.bit_length()))
    high = next(filter(is_slower, doubled), None)
    return high and bisect_left(range(high), True, high // 2 + 1, key=is_slower)
