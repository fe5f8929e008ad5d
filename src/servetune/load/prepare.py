"""What a load point needs before its server is ready: rows of known length, and a schedule."""

from dataclasses import dataclass
from pathlib import Path

from servetune.errors import UserError
from servetune.load.maxima import needs_tokenizer, open_tokenizer, resolve
from servetune.load.rows import Row
from servetune.load.schedule import ScheduledRequest, make_schedule
from servetune.records.loads import Load


@dataclass(frozen=True)
class Prepared:
    """A load point, ready to be sent.

    `warmup` holds the rows to send first; `rejected` and `truncated` count rows of the dataset
    that the workload's maxima left out or cut.
    """

    schedule: list[ScheduledRequest]
    warmup: list[Row]
    rejected: int
    truncated: int


def prepare(load: Load, rows: list[Row], checkpoint: Path) -> Prepared:
    """Prepare a load point.

    Args:
        load: the declared load of a measurement.
        rows: of its dataset; the schedule refers to their prompts and copies none.
        checkpoint: the model, whose tokenizer counts what the dataset does not say.

    Raises:
        UserError: no request is left, or a tokenizer is needed and missing.
    """
    encode = open_tokenizer(checkpoint) if needs_tokenizer(rows, load) else None
    resolved = resolve(rows, load, encode)
    if not resolved.rows:
        raise UserError(
            f"{load.dataset}: every request is above max_input_tokens"
            f" {load.max_input_tokens} or max_output_tokens {load.max_output_tokens};"
            " raise them, or set over_length: truncate"
        )
    if load.arrivals == "trace" and any("arrival_s" not in row for row in rows):
        raise UserError(
            f"{load.dataset}: a row has no arrival_s; a trace needs it on every line, in seconds"
        )
    schedule = make_schedule(resolved.rows, load)
    asked = (load.requests or 0) + load.settle_requests + load.cooldown_requests
    if load.arrivals == "trace" and load.duration_s is None and len(schedule) < asked:
        raise UserError(
            f"{load.dataset}: the trace has {len(schedule)} requests, but the load point asks"
            f" for {asked}; lower requests, or give a duration_s"
        )
    count = load.warmup_requests
    return Prepared(
        schedule=schedule,
        warmup=resolved.rows[-count:] if count else [],
        rejected=resolved.rejected,
        truncated=resolved.truncated,
    )
