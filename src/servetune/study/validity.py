"""The limits beyond which a measurement is invalid, as a study declares them."""

from pydantic import Field

from servetune.study.base import Declared


class Limits(Declared):
    """The limits of the rules, by the name of what they limit; null switches a rule off."""

    failed_ratio: float | None = Field(0.0, ge=0, le=1)
    prefix_cache_excess_ratio: float | None = Field(0.05, ge=0, le=1)
    rate_error_ratio: float | None = Field(0.05, ge=0)
    send_delay_p99_ms: float | None = Field(50.0, gt=0)
    client_cpu_ratio: float | None = Field(0.9, gt=0)
    client_wait_ratio: float | None = Field(0.25, gt=0)
    wrong_length_ratio: float | None = Field(0.0, ge=0, le=1)
    preemptions_per_request: float | None = Field(1.0, ge=0)
    other_cpu_ratio: float | None = Field(0.25, ge=0, le=1)
    other_gpu_processes: float | None = Field(0, ge=0)
    throttled_ratio: float | None = Field(0.05, ge=0, le=1)
