"""Rules about what is not the engine's steps: the load client, and the start of the server."""

from servetune.analysis.findings.bounds import Bound, load_bound
from servetune.analysis.findings.gather import Case, Finding, facts, rule
from servetune.analysis.wording import ms, proportion, seconds

MUCH_OF_START = 0.4
"""Share of a start that is worth an attempt: a judgement."""

LEAST_COMPILING_S = 10.0
"""Whoever waits for a server does not mind less: a judgement."""


@rule
def client_bound(case: Case) -> Finding | None:
    """The load client had no time to spare: the numbers are its own as much as the server's."""
    if load_bound(case) is not Bound.CLIENT:
        return None
    return Finding(
        title="The client is the bottleneck.",
        evidence=facts(
            ("client, of one core", case.card("client_cpu_ratio"), proportion),
            ("waiting for a core, of the time", case.card("client_wait_ratio"), proportion),
            ("send delay, p99", case.card("send_delay_p99_ms"), ms),
        ),
        attempts=(
            "give the client its own cores, or run it on another machine",
            "send less: measure load points below this one",
        ),
        # It decides whether the other findings hold at all.
        gain=2.0,
        chart="validity",
    )


@rule
def startup_dominated_by_compilation(case: Case) -> Finding | None:
    """Compiling and capturing graphs takes much of the start."""
    start_s = case.value("startup_s")
    parts = (case.value(f"startup_{part}_s") for part in ("compilation", "capture"))
    compiling_s = sum(part or 0 for part in parts)
    if not start_s or compiling_s < max(LEAST_COMPILING_S, MUCH_OF_START * start_s):
        return None
    return Finding(
        title="Compilation dominates the start.",
        evidence=(
            ("start", seconds(start_s)),
            ("compilation and graph capture", seconds(compiling_s)),
            ("share", proportion(compiling_s / start_s)),
        ),
        attempts=(
            "keep the compile cache (VLLM_CACHE_ROOT) between starts, on a disk that outlives them",
            "capture fewer batch sizes (cudagraph_capture_sizes)",
            "or skip both (enforce_eager) where a quick start matters more than speed",
        ),
        # It makes no request faster, so it comes last.
        gain=1.0,
        chart="startup",
    )
