"""The limits beyond which a measurement is invalid, as a study declares them."""

from pydantic import Field

from servetune.study.base import Declared


class Limits(Declared):
    """Limits of the validity rules; null switches a rule off."""

    failed_ratio: float | None = Field(0.0, ge=0, le=1, description="failed requests / requests")
    prefix_cache_excess_ratio: float | None = Field(
        0.05, ge=0, le=1, description="prefix-cache hit ratio above what the workload implies"
    )
    rate_error_ratio: float | None = Field(
        0.05, ge=0, description="relative error of the rate sent against the rate offered"
    )
    send_delay_p99_ms: float | None = Field(50.0, gt=0, description="p99 send delay, ms")
    client_cpu_ratio: float | None = Field(
        0.9, gt=0, description="CPU use of the client's busiest process, in cores"
    )
    client_wait_ratio: float | None = Field(
        0.25, gt=0, description="share of the time the client waited for a core"
    )
    wrong_length_ratio: float | None = Field(
        0.0, ge=0, le=1, description="share of answers that are not of the requested length"
    )
    preemptions_per_request: float | None = Field(1.0, ge=0, description="preemptions / requests")
    other_cpu_ratio: float | None = Field(
        0.25, ge=0, le=1, description="share of the session's cores that others used, p95"
    )
    other_gpu_processes: float | None = Field(
        0, ge=0, description="other processes on the server's GPUs"
    )
    other_gpu_memory_gib: float | None = Field(
        0.25, ge=0, description="GPU memory taken and given back during a load, GiB"
    )
    idle_gpu_utilization_ratio: float | None = Field(
        0.05, ge=0, le=1, description="GPU utilization while the server has no request"
    )
    throttled_ratio: float | None = Field(
        0.05, ge=0, le=1, description="share of the time the GPU clocks were throttled"
    )
    counter_error_ratio: float | None = Field(
        0.05, ge=0, description="requests or tokens by the server's counters, off the answers'"
    )
    text_error_ratio: float | None = Field(
        0.1, ge=0, description="tokens of a sample's text, off those that the answers state"
    )
    same_answers_ratio: float | None = Field(
        0.5, ge=0, le=1, description="share of long answers that are those of another prompt"
    )
    surplus_chunks_ratio: float | None = Field(
        0.1, ge=0, description="chunks above those that the answers' tokens make"
    )
    chunk_share_ratio: float | None = Field(
        0.1, ge=0, le=1, description="share of an answer that one chunk holds beyond a step"
    )
    instant_chunks_ratio: float | None = Field(
        0.5, ge=0, le=1, description="share of chunks that came together with the one before"
    )
    tpot_below_server_ratio: float | None = Field(
        0.1, ge=0, le=1, description="TPOT at the client below that of the server"
    )
    latency_below_server_ratio: float | None = Field(
        0.02, ge=0, le=1, description="mean TTFT or E2E latency below what the server took of it"
    )
    draft_error_ratio: float | None = Field(
        0.1, ge=0, description="counters of drafts, off each other and the server's outputs"
    )
    missing_in_flight_ratio: float | None = Field(
        0.25, ge=0, le=1, description="share of a closed loop's concurrency that was not in flight"
    )
    unserved_in_flight_ratio: float | None = Field(
        0.25, ge=0, le=1, description="share in flight that the server did not know of"
    )
    fallback_routing_ratio: float | None = Field(
        0.1, ge=0, le=1, description="share of a prefix policy's decisions that no prefix decided"
    )
    compiled_kernels: float | None = Field(
        0, ge=0, description="kernels that the server compiled during a load"
    )
