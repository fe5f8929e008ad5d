"""The ceilings of this machine's device, measured once in the engine's own environment and kept."""

import subprocess
from pathlib import Path
from typing import Any

from servetune.engines.environments import BuiltEngine, cache_root
from servetune.engines.source import environment_with_source
from servetune.files import read_model, write_json
from servetune.lifetime.guard import run_guarded
from servetune.plan.identity import digest
from servetune.progress import say
from servetune.records.sessions import Ceilings

TIMEOUT_S = 300
"""A longer wait than for torch's import and seconds of work on any host that is not stuck."""

VERSION = 2
"""Raised by hand when `inside_device` measures something differently: it is measured again then."""
_RESERVED_CORES = "VLLM_CPU_NUM_OF_RESERVED_CPU"


def measured_ceilings(
    engine: BuiltEngine, host: dict[str, Any], environment: dict[str, str]
) -> Ceilings | None:
    """Return the ceilings of one device here; None where the engine cannot measure them.

    They are kept beside the engines, by engine and host (`servetune.sessions.hardware`). A CPU is
    measured with the threads that vLLM computes with. `environment` holds the variables that the
    study sets for the server.
    """
    reserved = environment.get(_RESERVED_CORES, "1")
    threads = max(1, host["cores"] - (int(reserved) if reserved.isdigit() else 1))
    # The memory of a virtual machine may grow as it is used, and a host boots again; the device
    # is the same.
    device = {k: value for k, value in host.items() if k not in ("memory_bytes", "boot_id")}
    identity = digest(
        {"version": VERSION, "python": str(engine.python), "host": device, "threads": threads}
    )
    kept = cache_root() / "ceilings" / f"{identity}.json"
    if kept.is_file():
        return read_model(kept, Ceilings)
    ceilings = _measure(engine.python, threads, environment)
    if ceilings is not None:
        write_json(kept, ceilings)
        say(f"this device copies {ceilings.memory_bandwidth_gb_s:,.0f} GB/s (kept in {kept})")
    return ceilings


def _measure(python: Path, threads: int, environment: dict[str, str]) -> Ceilings | None:
    try:
        answer = run_guarded(
            [str(python), "-m", "servetune.sessions.inside_device", str(threads)],
            {**environment_with_source(), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout_s=TIMEOUT_S,
        )
        answer.check_returncode()
        return Ceilings.model_validate_json(answer.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
