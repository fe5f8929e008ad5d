"""Plant a neighbour in the middle of each load of `gallery/studies/h200-neighbours.yaml`.

On the GPU's host, with vLLM and torch in this Python, beside the bundle of that study:

    python3 planted_neighbours.py FOLDER python3 h200-neighbours.pyz --folder FOLDER \
        --results results.tar.gz

runs that command, waits for each load to begin, and starts and ends what the load's workload is
named for: matrix products or copies on the GPU, busy loops on all cores, or a second server.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

PRODUCTS = """
import torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while True:
    for _ in range(50):
        b = a @ a
    torch.cuda.synchronize()
"""
COPIES = """
import torch
a = torch.empty(2**31, device="cuda", dtype=torch.uint8)
b = torch.empty_like(a)
while True:
    for _ in range(50):
        b.copy_(a)
    torch.cuda.synchronize()
"""
LOOP = "while True: pass"

PLANTED_S = {"matmul": (6, 22), "copy": (6, 22), "cores": (12, 22), "server": (6, 62)}
"""When a neighbour starts and ends, from when its load is made ready. torch imports for 5 s, vLLM
for 25 s."""


def neighbours(workload: str) -> list[list[str]]:
    """Return the commands of a workload's neighbours."""
    python = sys.executable
    if workload == "cores":
        return [[python, "-c", LOOP]] * len(os.sched_getaffinity(0))
    if workload == "server":
        serve = [python, "-m", "vllm.entrypoints.cli.main", "serve", served_model()]
        few = ["--load-format", "dummy", "--max-model-len", "2048", "--enforce-eager"]
        return [[*serve, *few, "--gpu-memory-utilization", "0.25", "--port", "18999"]]
    return [[python, "-c", {"matmul": PRODUCTS, "copy": COPIES}[workload]]]


def served_model() -> str:
    """Return the checkpoint that the server on this host serves, by its command line."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if "serve" in words and "--load-format" in words:
                return str(Path(process.cwd(), words[words.index("serve") + 1]))
    raise LookupError("no vllm server with --load-format runs on this host")


def plant(workload: str) -> None:
    """Start the neighbours of a workload that has just begun, and end them in time."""
    start_s, end_s = PLANTED_S[workload]
    time.sleep(start_s)
    started = [
        subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL)
        for words in neighbours(workload)
    ]
    print(f"{workload}: neighbour started", flush=True)
    time.sleep(end_s - start_s)
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    print(f"{workload}: neighbour ended", flush=True)


def main() -> int:
    """Run the command, and plant neighbours until it ends; returns its exit code."""
    folder, command = Path(sys.argv[1]), sys.argv[2:]
    done: set[str] = set()
    measuring = subprocess.Popen(command)
    while measuring.poll() is None:
        # A load that is being measured has a folder whose name begins with a dot.
        for begun in folder.glob("project/results/raw/*/.*-c32-*"):
            workload = next((name for name in PLANTED_S if f"-{name}-" in begun.name), None)
            if workload and workload not in done:
                done.add(workload)
                plant(workload)
        time.sleep(0.2)
    return measuring.returncode


if __name__ == "__main__":
    sys.exit(main())
