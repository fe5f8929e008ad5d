"""What a session writes of itself: its launches, their host and device, the model they served."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from servetune.files import read_model
from servetune.records.base import SCHEMA_VERSION, Record, Version
from servetune.records.spending import Spending
from servetune.records.values import Argv, Commit, Line, Log, Moment, Number
from servetune.study.base import Id
from servetune.study.engines import Environment

Way = Literal["together", "prepared"]
"""A way to measure on a host: sessions beside each other, or starts that were prepared."""

Alike = Literal["alike", "disturbed", "undecided"]
"""Whether what is measured so is what is measured of one session alone, started plainly."""


T = TypeVar("T", bound=int | str)


class Architecture(Record):
    """What one forward pass of a checkpoint reads and computes.

    `linear` is all that every token goes through but the head (and the norms, in bytes), `expert`
    all experts together, `head` the matrix of logits. `compute` is the type of the matrix
    multiplications: bf16, fp8, int8 or fp4. `kv_values_per_token` is keys and values of all layers,
    of which `windowed_layers` attend to the last `window_tokens` alone.
    """

    layers: Number
    attention_width: int
    kv_values_per_token: int
    windowed_layers: Number = 0
    window_tokens: int = 0
    linear_parameters: int
    linear_bytes: int
    head_parameters: int
    head_bytes: int
    expert_parameters: int = 0
    expert_bytes: int = 0
    experts: int = 0
    experts_per_token: int = 0
    stored_bytes: int
    compute: Literal["bf16", "fp8", "int8", "fp4"] = "bf16"


class Ceilings(Record):
    """What one device can do: memory traffic, and arithmetic by type.

    Units multiply fp8 and int8 as fast as each other, and what was measured of either may be low:
    the better one counts for both. A device without fp8 converts such weights and multiplies in
    bf16; what fp4 can do is not known.
    """

    memory_bandwidth_gb_s: Annotated[float, Field(gt=0)]
    bf16_tflop_s: float | None = None
    fp8_tflop_s: float | None = None
    int8_tflop_s: float | None = None
    source: Line = "declared"

    @property
    def bandwidth_byte_s(self) -> float:
        """Bytes a second, read and written."""
        return self.memory_bandwidth_gb_s * 1e9

    def flop_s(self, compute: str) -> float | None:
        """FLOPs a second of matrix multiplications in a type; None: not known."""
        eight_bits = max(self.fp8_tflop_s or 0.0, self.int8_tflop_s or 0.0)
        tflop_s = {
            "bf16": self.bf16_tflop_s,
            "int8": eight_bits or self.bf16_tflop_s,
            "fp8": eight_bits if self.fp8_tflop_s else self.bf16_tflop_s,
        }.get(compute)
        return tflop_s * 1e12 if tflop_s else None

    def of(self, devices: float) -> "Ceilings":
        """Return the ceilings of several such devices together, or of a part of them."""
        rates = {name: value for name, value in self if isinstance(value, float)}
        return self.model_copy(update={name: value * devices for name, value in rates.items()})


class ServerFacts(Record):
    """What the server of a measurement told about itself. None: it did not tell.

    `startup_s` is from the launch until it was ready. Its parts: weights, compilation, graph
    capture, the engine's other work (profiling, KV cache, warm-up), and in `startup_imports_s` the
    rest: imports, configuration, opening the port. `weights_gib` is memory on one device.
    """

    vllm_version: Line | None = None
    kv_cache_tokens: int | None = None
    kv_cache_max_concurrency: float | None = None
    kv_cache_gib: float | None = None
    kv_cache_dtype: Line | None = None
    kv_cache_block_tokens: int | None = None
    weights_gib: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    tensor_parallel_size: Number | None = None
    stream_interval: Number | None = None
    startup_s: float | None = None
    startup_imports_s: float | None = None
    startup_weights_s: float | None = None
    startup_compilation_s: float | None = None
    startup_capture_s: float | None = None
    startup_profiling_s: float | None = None


SEVERAL = "+"
"""Between the names of the devices of one launch."""


ENDPOINTS = "endpoints"
"""The key of `server_info` that holds what the server answers, by path."""

_SOME = Field(max_length=10_000)
"""More than any host or launch has of what such a list holds."""


class ReplicaLaunch(Record):
    """One of several servers of a launch: its command, its part of the host, its log's name.

    `role` is its pool's, where prompts and answers have a pool each.
    """

    role: Literal["prefill", "decode"] | None = None
    command: Argv
    devices: Line | None = None
    cores: Annotated[list[Number], _SOME] = []
    log: Line
    server: ServerFacts = ServerFacts()


class Slot(Record):
    """The part of a host that a launch had for itself. None: not known.

    `host` identifies the machine by its processor and GPUs, whatever its name (`node`). `gpus` are
    UUIDs, `indices` their places on the PCI bus; both are empty without a GPU. `cores` is a list
    as `taskset -c` takes it. `together` is what was known of sessions beside each other there,
    and `prepared` of prepared starts. `job` and `partition` are Slurm's, of a session that it
    scheduled.
    """

    node: Line
    host: Line
    gpus: Annotated[list[Line], _SOME] = []
    indices: Annotated[list[Number], _SOME] = []
    cores: Line | None = None
    numa_nodes: Annotated[list[Number], _SOME] | None = None
    together: Alike | None = None
    prepared: Alike | None = None
    job: Line | None = None
    partition: Line | None = None

    @property
    def device(self) -> str | None:
        """Its GPUs in one word, the same for the same ones."""
        return SEVERAL.join(sorted(self.gpus)) or None


@with_config(ConfigDict(extra="forbid"))
class GitState(TypedDict, total=False):
    """The commit of the project, and whether its tracked files differed; empty: not known."""

    commit: Commit
    is_dirty: bool


@with_config(ConfigDict(extra="forbid"))
class HostGpu(TypedDict, total=False):
    """A GPU that a server may see; what its driver does not tell is empty, or not there."""

    name: Line
    uuid: Line
    driver: Line
    memory: Line


@with_config(ConfigDict(extra="forbid"))
class Host(TypedDict, total=False):
    """What decides speed on a host: see `servetune.sessions.hardware`."""

    boot_id: Line | None
    cpu: Line
    cores: Number
    memory_bytes: int
    kernel: Line
    gpus: Annotated[list[HostGpu], _SOME]


class Launch(Record):
    """One start of a server in a session: what was run, where, and how the server resolved it.

    `environment` holds only the variables that servetune or the study set, never a token;
    `environment_from` names those that it had from the caller.
    `engine_lock` is the lock by which a version was installed, with its digest; None of other
    engines, and of a version that the host had.
    `server_info` is the configuration as the server reports it. `ceilings` are those measured on
    one device of the host; None where the engine cannot measure them. `model` and `draft` are the
    checkpoints as their files have them; None where `uncounted` says why. `choices` are what the
    server decided only as it started, such as its attention backend, by name; `ignored` are the
    settings that it ignored or changed, in its own words; None where they are not known. Of several
    `replicas` behind a gateway, `command`, `server_info` and `choices` are those of the first, and
    `server` is of all together. Of an endpoint, `fingerprint` is what it told of itself, and
    `spent` what this launch took from it. `servers` names those that launches of several sessions
    share: the session and launch that started them, where their logs are. Servers that were
    `prepared` had done their imports and waited before they were started.
    """

    free: ClassVar[frozenset[str]] = frozenset({"server_info"})
    launch: Number
    servers: Line | None = None
    status: Literal["ok", "failed"]
    reason: str | None = None
    log_tail: Log = []
    command: Argv
    environment: Environment
    environment_from: Annotated[list[Line], _SOME] = []
    started_at: Moment
    stopped_at: Moment | None = None
    prepared: bool = False
    server: ServerFacts = ServerFacts()
    server_info: dict[str, Any] = {}
    choices: dict[Line, str] | None = None
    ignored: Log | None = None
    versions: dict[Line, Line] = {}
    engine_lock: Id | None = None
    git: GitState = {}
    host: Host = {}
    slot: Slot | None = None
    model: Architecture | None = None
    draft: Architecture | None = None
    uncounted: str | None = None
    ceilings: Ceilings | None = None
    replicas: Annotated[list[ReplicaLaunch], _SOME] | None = None
    gateway_command: Argv | None = None
    fingerprint: Annotated[dict[Line, Line], _SOME] | None = None
    spent: Spending | None = None
    measured: list[Id] = []

    def config(self, section: str) -> dict[str, Any]:
        """Return a section of vLLM's configuration as it resolved it; empty if it told none."""
        config = self.server_info.get("vllm_config")
        found = config.get(section) if isinstance(config, dict) else None
        return found if isinstance(found, dict) else {}

    def setting(self, section: str, name: str, kind: type[T]) -> T | None:
        """Return a setting of a section; None where it is not told, or not of that kind.

        A whole number is one from 1 to 10^9.
        """
        value = self.config(section).get(name)
        is_possible = type(value) is not int or 0 < value <= 10**9
        return value if type(value) is kind and is_possible else None

    @property
    def endpoints(self) -> dict[str, str]:
        """How each endpoint of the server is asked, or what it refuses with; empty: not known."""
        told = self.server_info.get(ENDPOINTS)
        pairs = told.items() if isinstance(told, dict) else ()
        return {str(path)[:200]: str(how)[:60] for path, how in pairs}

    @property
    def graph_tokens(self) -> list[int]:
        """The sizes of the CUDA graphs to capture, in tokens; empty where they are not told."""
        sizes = self.config("compilation_config").get("cudagraph_capture_sizes")
        return [s for s in sizes if type(s) is int and s > 0] if isinstance(sizes, list) else []


class SessionRecord(Record):
    """One variant and repeat: `results/<study>/sessions/<session>.json`.

    An endpoint has no engine. `measurements` are all that it owed, probes and searches for the
    capacity included.
    `launches` has several entries when the session was interrupted and went on. `order` is the
    place that the plan gave it, from 0; `started_at` of a launch tells the real one.
    """

    schema_version: Version = SCHEMA_VERSION
    session: Id
    study: Id
    variant: Id
    repeat: Number
    hardware: Line
    engine: Id | None
    order: Number | None = None
    measurements: list[Id]
    model: dict[Literal["model", "draft"], Id | None] = {}
    launches: Annotated[list[Launch], _SOME] = []


def read_session(path: Path) -> SessionRecord:
    """Read one session record, as `read_measurement` does."""
    return read_model(path, SessionRecord)
