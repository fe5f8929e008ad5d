"""The load generators that a workload can name, and what each can send: a row each."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, WithJsonSchema

from servetune.errors import nearest

OWN = "servetune"
"""The generator of ours: the default, and the only one that can send all that a study may ask."""

PATHS = {
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
    "embeddings": "/v1/embeddings",
    "rerank": "/v1/rerank",
}
"""Where a server takes the requests of each endpoint."""

Ask: TypeAlias = Literal[
    "search",
    "pooling",
    "itl",
    "classes",
    "delays",
    "recorded answers",
    "graphs",
    "turns",
    "token ids",
    "trace",
    "duration",
    "ramp-up",
    "ramp-up of clients",
    "burst",
    "rate with concurrency",
]
"""What a load may ask of its generator, beside a closed loop of single prompts."""

OURS_ALONE: tuple[Ask, ...] = (
    *("search", "pooling", "classes", "delays", "recorded answers", "graphs"),
)


@dataclass(frozen=True)
class Generator:
    """One load generator; `module` holds its driver (`servetune.load.generator`).

    `command` holds the words that a user would type for it before those of a load. `protocol`
    names what its numbers mean, in the identity of what it measures; `had_no_protocol` is one that
    measured otherwise before it had one. What `lacks` names is refused. `environment` is the tool
    environment that it runs in; None: the pipeline's, or the engine's own. It takes some
    `startup_s` beside the load.

    `draws_arrivals` tells whether the random arrivals of an open loop are its own and not the
    schedule's, `counts_role` whether the first chunk of a chat, which names the role, is a token
    to it.
    """

    name: str
    module: str
    command: tuple[str, ...]
    protocol: str
    lacks: tuple[Ask, ...] = ()
    had_no_protocol: bool = False
    environment: str | None = None
    startup_s: float = 0.0
    draws_arrivals: bool = False
    counts_role: bool = False

    @property
    def has_itl(self) -> bool:
        """Whether each chunk has its time."""
        return "itl" not in self.lacks


GENERATORS = {
    row.name: row
    for row in (
        Generator(
            name=OWN,
            module="servetune.load.client.driver",
            command=("python", "-m", "servetune.load.client.http"),
            # Raised when another version of the client would measure other numbers.
            protocol="servetune-1",
        ),
        Generator(
            name="vllm-bench",
            module="servetune.load.others.vllm_bench",
            command=("vllm", "bench", "serve"),
            protocol="vllm-bench-2",
            lacks=(*OURS_ALONE, "turns", "token ids", "trace", "duration", "ramp-up", "burst"),
            had_no_protocol=True,
            startup_s=15.0,
            draws_arrivals=True,
            counts_role=True,
        ),
        Generator(
            name="guidellm",
            module="servetune.load.others.guidellm",
            command=("guidellm", "run"),
            protocol="guidellm-2",
            lacks=(*OURS_ALONE, "itl", "token ids", "rate with concurrency", "ramp-up of clients"),
            had_no_protocol=True,
            environment="guidellm",
            startup_s=15.0,
        ),
    )
}


def _known(name: str) -> str:
    if name not in GENERATORS:
        raise ValueError(f"expected one of {', '.join(GENERATORS)}{nearest(name, GENERATORS)}")
    return name


GeneratorName: TypeAlias = Annotated[
    str, AfterValidator(_known), WithJsonSchema({"enum": list(GENERATORS), "type": "string"})
]
