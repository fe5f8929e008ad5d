"""What a session needs of a host, as a scheduler is told it: GPUs, cores, memory."""

from typing import TypedDict

from servetune.plan.planned import Session
from servetune.sessions.hardware import places
from servetune.telemetry.gpus import EVERY

# Judgements: what nodes with GPUs have for each of them, or more.
CORES_PER_GPU = 8
MEM_MB_PER_GPU = 65_536
MEM_MB_OF_CPU = 16_384
MEM_MB_TO_WRITE = 2_048
"""Defaults, for a cluster. On one host a session gets its share of the cores."""


class Needs(TypedDict):
    """The resources of a job; `gpu` is Snakemake's name for a number of GPUs."""

    gpu: int
    threads: int
    mem_mb: int


def needs(session: Session, cores: int | None, most: int, *, is_led: bool = False) -> Needs:
    """Return what a session needs; `cores` are those of the run, None on a cluster.

    A session on a CPU takes all cores, so that it is alone. `most` is what `most_gpus` returned.
    One that `is_led` is measured by the launch of another, and writes its record alone.
    """
    if is_led:
        return Needs(gpu=0, threads=1, mem_mb=MEM_MB_TO_WRITE)
    count = session.gpus
    if not count:
        return Needs(gpu=0, threads=cores or CORES_PER_GPU, mem_mb=MEM_MB_OF_CPU)
    if cores is None:
        threads = CORES_PER_GPU * count
    else:
        threads = max(1, cores // most) * count if most else cores
    return Needs(gpu=count, threads=threads, mem_mb=MEM_MB_PER_GPU * count)


def most_gpus(hardware: str) -> int:
    """Return the GPUs that sessions on such hardware may ask for at once; 0 on a host without.

    More than there are, so that the next one in the plan's order always waits in the host's own
    queue (`servetune.sessions.pool`) when GPUs get free, whatever its size: Snakemake alone would
    give each to a session that fits. Another number of them waits for a GPU that is dealt to it.
    """
    count = 0 if hardware == "cpu" else len(places(EVERY))
    return max(0, 2 * count - 1)
