"""What is kept in Git of a launch's telemetry: `results/<study>/timelines/<session>-<launch>.json`.

The samples themselves are bulky and lie in DVC's cache, so that a clone may not have them.
"""

from typing import Any, Literal, Self

from pydantic import model_validator

from servetune.records.base import Record
from servetune.records.values import Number
from servetune.study.base import Id

Values = list[float | None]


class OverTime(Record):
    """One load by bins of its samples, a value a bin; None where it is not known.

    `time_s` counts from the first sample under load of the launch. Gauges are means over the bin,
    of the KV cache the maximum; throughput and acceptance are those since the bin before. A list in
    `acceptance_by_position` holds the share of draft tokens accepted at each position.
    """

    time_s: list[float] = []
    requests_running: Values = []
    requests_waiting: Values = []
    kv_cache_usage_ratio: Values = []
    output_throughput_tok_s: Values = []
    acceptance_length: Values = []
    acceptance_by_position: list[list[float] | None] = []

    @model_validator(mode="after")
    def _has_a_value_a_bin(self) -> Self:
        for name, values in self.columns.items():
            if len(values) != len(self.time_s):
                raise ValueError(f"{name} has {len(values)} values for {len(self.time_s)} bins")
        return self

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The values by name, of what was told at all."""
        return {name: values for name, values in self if values}


class TimelineRecord(Record):
    """The loads of one launch over time, by measurement; a load without samples has no bins."""

    schema_version: Literal[1] = 1
    session: Id
    launch: Number
    loads: dict[Id, OverTime] = {}
