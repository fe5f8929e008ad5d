"""What a load point needs before its server is ready: rows of known length, and a schedule."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servetune.errors import UserError
from servetune.load.lengths import needs_tokenizer, open_tokenizer, resolve
from servetune.load.schedule import ScheduledRequest, make_schedule
from servetune.workloads.datasets import read_requests


@dataclass(frozen=True)
class Prepared:
    """A load point, ready to be sent.

    `warmup` holds the rows to send first; `rejected` and `truncated` count rows of the dataset
    that the workload's maxima left out or cut.
    """

    schedule: list[ScheduledRequest]
    warmup: list[dict[str, Any]]
    rejected: int
    truncated: int


def prepare(load: dict[str, Any], dataset: Path, checkpoint: Path) -> Prepared:
    """Prepare a load point.

    Args:
        load: the declared load of a measurement.
        dataset: the JSONL file of its requests.
        checkpoint: the model, whose tokenizer counts what the dataset does not say.

    Raises:
        UserError: no request is left, or a tokenizer is needed and missing.
    """
    load = with_numbers(load)
    rows = read_requests(dataset)
    encode = open_tokenizer(checkpoint) if needs_tokenizer(rows, load) else None
    resolved = resolve(rows, load, encode)
    if not resolved.rows:
        raise UserError(
            f"{dataset}: no request is within max_input_tokens {load['max_input_tokens']} and"
            f" max_output_tokens {load['max_output_tokens']}; raise them, or set"
            " over_length: truncate"
        )
    count = load["warmup_requests"]
    return Prepared(
        schedule=make_schedule(resolved.rows, load),
        warmup=resolved.rows[-count:] if count else [],
        rejected=resolved.rejected,
        truncated=resolved.truncated,
    )


def with_numbers(load: dict[str, Any]) -> dict[str, Any]:
    """Return a measurement's load with its rate as a number: JSON has no infinity."""
    rate_rps = load["rate_rps"]
    return {**load, "rate_rps": None if rate_rps is None else float(rate_rps)}
