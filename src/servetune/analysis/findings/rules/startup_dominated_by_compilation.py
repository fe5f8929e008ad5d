"""Compiling and capturing graphs takes much of the start."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.wording import percent, seconds

MUCH = 0.4
LEAST_S = 10.0


def find(case: Case) -> Finding | None:
    """Look at the phases of the start."""
    start_s = case.value("startup_s")
    parts = {
        name: case.value(f"startup_{name}_s")
        for name in ("imports", "weights", "compilation", "capture", "profiling")
    }
    compiling_s = (parts["compilation"] or 0) + (parts["capture"] or 0)
    if not start_s or compiling_s < max(LEAST_S, MUCH * start_s):
        return None
    return Finding(
        title="Compilation dominates the start.",
        evidence=(
            ("start", seconds(start_s)),
            ("compilation and graph capture", f"{seconds(compiling_s)}"),
            ("share", percent(compiling_s / start_s)),
        ),
        attempts=(
            "keep the compile cache (VLLM_CACHE_ROOT) between starts, on a disk that outlives them",
            "capture fewer batch sizes (cudagraph_capture_sizes)",
            "or skip both where a start matters more than speed (enforce_eager)",
        ),
        # It makes no request faster, so it comes last.
        gain=1.0,
        chart="startup",
    )
