"""What one device can do: a copy in memory and matrix multiplications, timed.

Usage, in an environment that has torch: `python -m servetune.sessions.inside_device
THREADS`. Prints one line of JSON with the fields of `servetune.records.sessions.Ceilings`. THREADS
are those of a CPU.

The matrices are random, as weights and activations are: a GPU takes less power to multiply ones,
and keeps higher clocks than it would under load.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

# Judgements: a copy larger than caches, matrices that fill a device, and as many times as take
# seconds.
COPY_BYTES = {"cuda": 2**31, "cpu": 2**28}
MATRIX = {"cuda": 8192, "cpu": 1536}
REPEATS = {"cuda": 20, "cpu": 5}


def main(threads: int) -> dict[str, Any]:
    """Measure the first GPU, or the CPU where there is none."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(threads)

    def best_s(work: Callable[[], Any]) -> float:
        """The least of several times: whatever disturbs one only adds to it."""
        times = []
        for _ in range(REPEATS[device] + 1):
            _wait(torch, device)
            began = time.perf_counter()
            work()
            _wait(torch, device)
            times.append(time.perf_counter() - began)
        return min(times[1:])

    source = torch.ones(COPY_BYTES[device], dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copied_s = best_s(lambda: target.copy_(source))
    size = MATRIX[device]
    ceilings = {"memory_bandwidth_gb_s": 2 * source.numel() / copied_s / 1e9, "source": "measured"}
    for name, multiply in _multiplications(torch, device, size).items():
        try:
            ceilings[f"{name}_tflop_s"] = 2 * size**3 / best_s(multiply) / 1e12
        except (RuntimeError, NotImplementedError):
            continue  # this device or build has no such kernel
    return ceilings


def _multiplications(torch: Any, device: str, size: int) -> dict[str, Callable[[], Any]]:
    torch.manual_seed(0)
    bf16 = torch.randn((size, size), dtype=torch.bfloat16, device=device)
    int8 = torch.randint(-128, 128, (size, size), dtype=torch.int8, device=device)
    products = {"bf16": lambda: bf16 @ bf16, "int8": lambda: torch._int_mm(int8, int8.t())}
    if device == "cuda":
        fp8 = bf16.to(torch.float8_e4m3fn)
        one = torch.ones((), device=device)
        products["fp8"] = lambda: torch._scaled_mm(
            fp8, fp8.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16
        )
    return products


def _wait(torch: Any, device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
