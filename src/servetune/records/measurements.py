"""What a session writes of each measurement."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from servetune.capacity.pace import Slice
from servetune.capacity.sequential import Judgement
from servetune.files import read_model
from servetune.metrics import LATENCIES, QUANTILE_PROBABILITIES
from servetune.records.base import SCHEMA_VERSION, Record, Version
from servetune.records.cached import CachedAnswers
from servetune.records.fleets import FleetMetrics
from servetune.records.leavers import LeaverMetrics
from servetune.records.loads import Load
from servetune.records.sessions import ServerFacts
from servetune.records.spending import Spending
from servetune.records.values import Argv, Count, Line, Log, Moment, Number, binding
from servetune.study.base import Id

Status = Literal["ok", "failed", "invalid"]

ThroughputWindow = Literal["whole load", "while full"]
"""Over which part of a load its throughputs are: see `servetune.load.throughput`."""

Definitions = Literal[1]
"""The versions of what metrics mean that are known: see `servetune.load.request_table`."""

DEFINITIONS: Definitions = 1

_Counts = Annotated[dict[Line, Count], Field(max_length=100)]
_Latency = Annotated[str, Field(pattern=f"^({'|'.join(LATENCIES)})$")]
_LatencyMs = Annotated[str, Field(pattern=f"^({'|'.join(LATENCIES)})_ms$")]
_Quantiles = Annotated[
    list[float],
    Field(min_length=len(QUANTILE_PROBABILITIES), max_length=len(QUANTILE_PROBABILITIES)),
]


class Metrics(Record):
    """Aggregates of one measurement, over its counted (not warm-up) requests.

    Latencies are in milliseconds, throughputs per second of `throughput_window`; None, of an older
    record, is the whole load, and whether it is uncertain is then not known.
    `acceptance_length` is tokens emitted per verification step (1 + accepted / drafts),
    `acceptance_ratio` accepted over drafted tokens, `tokens_per_step` what a request got a step of
    the engine, with a draft or without: n-grams often find none. All are None without speculation.
    `queue_time_mean_ms`, `prefill_time_mean_ms`, `decode_time_mean_ms` and `server_tpot_mean_ms`
    are the engine's own, `server_e2e_mean_ms` is the API server's, over all requests that the
    server finished meanwhile, those that are not counted included. `answered_ttft_mean_ms` and
    `answered_e2e_mean_ms` are the client's over the same requests; None where some had no answer.
    """

    requests: Count
    completed_requests: Count
    failed_requests: Count
    duration_s: float
    input_tokens: int
    output_tokens: int
    request_throughput_rps: float
    output_throughput_tok_s: float
    total_throughput_tok_s: float
    throughput_window: ThroughputWindow | None = None
    throughput_is_uncertain: bool | None = None
    ttft_mean_ms: float | None = None
    ttft_p50_ms: float | None = None
    ttft_p90_ms: float | None = None
    ttft_p95_ms: float | None = None
    ttft_p99_ms: float | None = None
    tpot_mean_ms: float | None = None
    tpot_p50_ms: float | None = None
    tpot_p90_ms: float | None = None
    tpot_p95_ms: float | None = None
    tpot_p99_ms: float | None = None
    itl_mean_ms: float | None = None
    itl_p50_ms: float | None = None
    itl_p90_ms: float | None = None
    itl_p95_ms: float | None = None
    itl_p99_ms: float | None = None
    e2e_mean_ms: float | None = None
    e2e_p50_ms: float | None = None
    e2e_p90_ms: float | None = None
    e2e_p95_ms: float | None = None
    e2e_p99_ms: float | None = None
    acceptance_length: float | None = None
    acceptance_ratio: float | None = None
    tokens_per_step: float | None = None
    acceptance_by_position: Annotated[list[float], Field(max_length=1000)] | None = None
    prefix_cache_hit_ratio: float | None = None
    preemptions: int | None = None
    queue_time_mean_ms: float | None = None
    prefill_time_mean_ms: float | None = None
    decode_time_mean_ms: float | None = None
    server_tpot_mean_ms: float | None = None
    server_e2e_mean_ms: float | None = None
    answered_ttft_mean_ms: float | None = None
    answered_e2e_mean_ms: float | None = None


def draft_share(acceptance_length: float | None, tokens_per_step: float | None) -> float:
    """Return the share of a request's steps that verified a draft, in [0, 1]; 1 if not known."""
    if acceptance_length is None or tokens_per_step is None or acceptance_length <= 1:
        return 1.0
    return min(1.0, (tokens_per_step - 1) / (acceptance_length - 1))


class Attained(Record):
    """The share of the counted requests that kept to all of some limits, failed ones included."""

    limits_ms: dict[_Latency, float]
    ratio: Annotated[float, Field(le=1)]


class TurnMetrics(Record):
    """Aggregates over the requests of one turn of a conversation, counted from 1."""

    turn: Count
    requests: Count
    input_tokens_mean: float
    prefix_cache_hit_ratio: float | None = None
    ttft_p50_ms: float
    tpot_p50_ms: float | None = None


class ConversationMetrics(Record):
    """Aggregates over the conversations whose turns were all counted and answered.

    `e2e` is from sending the first turn to the end of the last, `busy` that without the time in
    which no turn was in flight: without delays. `turns_at_once_max` is the most turns of one
    conversation in flight, over all of the load.
    """

    conversations: Count
    turns_at_once_max: Count
    e2e_p50_s: float | None = None
    e2e_p99_s: float | None = None
    busy_p50_s: float | None = None
    busy_p99_s: float | None = None


class ClassMetrics(Record):
    """Aggregates over the requests of one class, or over all where it has no name.

    `output_share_ratio` is of the tokens of the load, `reasoning_ratio` of its own. `ttfat` is the
    time to first answer token, after the reasoning. `first_ttft_ms` is the TTFT of the first
    request of the load whose answer is held to a grammar, which the server may have to compile for
    it: that request is in no other latency of its class. What is None does not apply.
    """

    name: Line | None
    requests: Count
    completed_requests: Count
    output_share_ratio: Annotated[float, Field(le=1)]
    ttft_p50_ms: float | None = None
    ttft_p99_ms: float | None = None
    ttfat_p50_ms: float | None = None
    ttfat_p99_ms: float | None = None
    tpot_p50_ms: float | None = None
    tpot_p99_ms: float | None = None
    e2e_p50_ms: float | None = None
    e2e_p99_ms: float | None = None
    first_ttft_ms: float | None = None
    reasoning_ratio: Annotated[float, Field(le=1)] | None = None
    tool_calls: int | None = None
    valid_answers_ratio: Annotated[float, Field(le=1)] | None = None


class Card(Record):
    """The validity card: what was seen of a load beside its numbers. None: not known.

    Ratios are in [0, 1] but for `client_cpu_ratio` and `front_end_cpu_ratio`, which are of one
    core: of the client's busiest process, and of the server's busiest one outside the engine.
    `client_wait_ratio` is the share of the load's time that the client's process was ready to run
    and got no core. Rates are of conversations, and of what the client sent, not of what was
    answered. `send_crowding` tells a closed loop in lockstep (`servetune.sessions.lockstep`).
    `other_cpu_ratio` is the share of all the machine's cores that processes outside the session
    used, time stolen by the hypervisor included, over the load; `other_cpu_p95_ratio` is the 95th
    percentile of that share over any three seconds of it. `other_gpu_processes` is the most of
    them that any sample found; `other_gpu_memory_gib` is memory of one GPU that was taken and
    given back during the load, and `idle_gpu_utilization_ratio` the mean utilization of the GPUs
    during the load while the server rested (`telemetry.reduce`).

    `first_error` tells the first different errors of counted requests that failed; `given_up` a
    load that ended early, as so many were refused that it could not become valid.

    What client, answers and server count of the same is held against each other
    (`sessions/agreement.py`): a `server_` ratio is the server's count over the client's, a `text_`
    error the share by which a sample's tokens, through the tokenizer, are not those stated.
    `other_gpus_in_use` counts the host's GPUs that other sessions held as the load began or ended.
    `tokens_per_step` is what a chunk should hold. `slots_used_ratio` is of a closed loop's
    concurrency; `in_flight_mean` is the client's. `draft_error_ratio` and `drafted_nothing` are of
    a server that speculates (`sessions/drafts.py`); `compiled_kernels`, `engine_restarts`,
    `log_preemptions` and `log_warnings` are of what it logged during the load
    (`sessions/server/load_log.py`). `kept_tiers` are the tiers of the KV cache that cannot be
    emptied before a load, `tier_hit_ratio` the share of the prompts' tokens that came from tiers.
    `routing_outcomes` are the decisions of a gateway that goes by prefixes, by their outcome, and
    `routing_lookups` its lookups of cached blocks, by their result.
    """

    first_error: str | None = None
    given_up: bool | None = None
    prefix_cache_was_reset: bool | None = None
    kept_tiers: Annotated[list[Line], Field(max_length=100)] = []
    tier_hit_ratio: float | None = None
    counters_were_read: bool | None = None
    ended_early: bool | None = None
    implied_prefix_cache_hit_ratio: float | None = None
    offered_rate_rps: float | None = None
    sent_rate_rps: float | None = None
    send_delay_p50_ms: float | None = None
    send_delay_p99_ms: float | None = None
    send_crowding: float | None = None
    client_cpu_ratio: float | None = None
    client_wait_ratio: float | None = None
    client_memory_bytes: int | None = None
    client_process_cpu_ratios: list[float] | None = None
    front_end_cpu_ratio: float | None = None
    wrong_length_requests: Count | None = None
    rejected_requests: Count | None = None
    truncated_requests: Count | None = None
    other_cpu_ratio: float | None = None
    other_cpu_p95_ratio: float | None = None
    other_gpu_processes: Number | None = None
    other_gpu_memory_gib: float | None = None
    idle_gpu_utilization_ratio: float | None = None
    other_gpus_in_use: Number | None = None
    throttled_ratio: float | None = None
    throttle_reasons: Annotated[list[Line], Field(max_length=100)] = []
    answers_without_usage: Count | None = None
    other_model_answers: Count | None = None
    rate_limited_answers: Count | None = None
    rate_was_limited: bool | None = None
    counters_went_back: bool | None = None
    server_requests_ratio: float | None = None
    server_input_ratio: float | None = None
    server_output_ratio: float | None = None
    server_tpot_ratio: float | None = None
    answers_hit_ratio: float | None = None
    text_input_error_ratio: float | None = None
    text_output_error_ratio: float | None = None
    same_answers_ratio: float | None = None
    tokens_per_chunk: float | None = None
    tokens_per_step: float | None = None
    instant_chunks_ratio: float | None = None
    in_flight_mean: float | None = None
    server_in_flight_mean: float | None = None
    slots_used_ratio: float | None = None
    drafted_nothing: bool | None = None
    draft_error_ratio: float | None = None
    compiled_kernels: Log | None = None
    engine_restarts: Number | None = None
    log_preemptions: int | None = None
    log_warnings: Log | None = None
    routing_outcomes: _Counts | None = None
    routing_lookups: _Counts | None = None


class Signals(Record):
    """What telemetry told of one load. None: not known.

    `samples` of the server were taken while requests were running or waiting, in `busy_s`; the
    gauges are over those. `waiting_share_ratio` is the share of them in which a request waited.
    The counters are what the server's grew by over the load, requests that are not counted
    included; `engine_steps` are forward passes. `context` is the tokens that a sequence has in the
    KV cache: its mean over the tokens that were generated, and the longest at its end. Power is
    that of all GPUs together; idle power was seen between the loads of the same launch.
    """

    samples: int = 0
    busy_s: float | None = None
    running_mean: float | None = None
    running_max: float | None = None
    waiting_mean: float | None = None
    waiting_max: float | None = None
    waiting_share_ratio: float | None = None
    kv_cache_usage_mean_ratio: float | None = None
    kv_cache_usage_max_ratio: float | None = None
    context_mean_tokens: float | None = None
    context_max_tokens: int | None = None
    queue_time_s: float | None = None
    engine_steps: int | None = None
    drafts: int | None = None
    gpu_power_mean_w: float | None = None
    gpu_power_idle_w: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_energy(cls, values: Any) -> Any:
        """Leave out the energy that old records hold, of which the ends of the load are missing."""
        if isinstance(values, dict):
            return {name: value for name, value in values.items() if name != "gpu_energy_j"}
        return values


class Check(Record):
    """One rule applied to one card: `limits` names the limit of a study's `validity`.

    `observed` says what was observed, where that is more than the value.
    """

    rule: str
    limits: str | None = None
    value: float | None = None
    limit: float | None = None
    is_broken: bool
    reason: str | None = None
    observed: str | None = None


Stopped = Literal["decided", "requests", "seconds", "failed"]


class Probe(Record):
    """What a probe of a search for the capacity found, by tier.

    `index` counts the probes of the search from 1; 0 is the closed loop before them, from which
    the first is predicted. `tier` is the one that it was sent for, and that decided it if
    anything did. `slices` tell the server's pace over time; None: not known.
    """

    signed: ClassVar[frozenset[str]] = frozenset({"log_below", "log_above"})
    search: Id
    index: Number
    tier: Line
    stopped: Stopped
    judgements: dict[Line, Judgement] = {}
    slices: tuple[Slice, ...] | None = None

    @model_validator(mode="after")
    def _objectives_are_names(self) -> Self:
        for found in self.judgements.values():
            for name in (found.binding, *(each.objective for each in found.evidence)):
                binding(name)
        return self


class MeasurementRecord(Record):
    """One load point, measured once: `results/<study>/records/<measurement>.json`.

    `status` is `ok`, `failed` (no numbers) or `invalid` (numbers that break a validity rule,
    named in `rule`), by the limits of the study when it was measured. `log_tail` is the end of the
    server's log. `device` names the GPUs of its launch (`Slot.device`); None: not known, or none.
    `servers` names the servers where variants share a launch of them; None: they are its own.
    `quantiles` maps `ttft_ms`, `tpot_ms`, `itl_ms` and `e2e_ms` to their values at
    QUANTILE_PROBABILITIES, over the completed requests (itl: over all gaps). `attained` is by the
    SLO of the study when it was measured; None: it had none, or the record is older.
    `definitions` is the version of what metrics mean; None: of an older record, whose throughput is
    over the window that it names. `classes` are of a load with several, or whose answers hold
    reasoning, tool calls or structured output; the first row is of all requests. `protocol` is that
    of its generator; None: it had none then. `fleet` is of replicas behind a gateway,
    `cached` of a cache of answers there,
    `leavers` of clients that left. Of an endpoint, `spent` is what its launch took so far,
    `fingerprint` identifies what it told of itself.
    """

    schema_version: Version = SCHEMA_VERSION
    definitions: Definitions | None = None
    measurement: Id
    study: Id
    variant: Id
    workload: Id
    load_point: Id
    repeat: Number
    status: Status
    rule: Line | None = None
    reason: str | None = None
    log_tail: Log = []
    session: Id
    launch: Number
    device: Line | None = None
    servers: Line | None = None
    load: Load
    server_command: Argv
    load_command: Argv
    protocol: Line | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    server: ServerFacts = ServerFacts()
    metrics: Metrics | None = None
    quantiles: dict[_LatencyMs, _Quantiles] = {}
    attained: Attained | None = None
    card: Card = Card()
    signals: Signals = Signals()
    turns: list[TurnMetrics] = []
    conversations: ConversationMetrics | None = None
    classes: list[ClassMetrics] = []
    probe: Probe | None = None
    fleet: FleetMetrics | None = None
    leavers: LeaverMetrics | None = None
    spent: Spending | None = None
    fingerprint: Line | None = None
    cached: CachedAnswers | None = None


def read_measurement(path: Path) -> MeasurementRecord:
    """Read one measurement record; raises a UserError if it is damaged."""
    return read_model(path, MeasurementRecord)
