"""Run inside an environment: do the imports of `vllm serve`, wait for the word, then be it.

Its arguments are those of `vllm serve`, and its standard input is a socket that keeps messages
apart. It sends `{"refusal": null}` once it waits, or why it is of no use. The word is the cores to
run on, `{"cores": [0, 1]}`, which it sends back; without one it ends.

Needs vLLM and the standard library; it imports nothing of servetune.
"""

import json
import os
import runpy
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

PROGRAM = "vllm.entrypoints.cli.main"
"""What is run at the word, as `python -m` runs it: not imported before, as that warns."""

IMPORTED = (
    "vllm.entrypoints.cli.serve",
    # All commands are imported by each.
    "vllm.entrypoints.cli.benchmark.main",
    "vllm.entrypoints.cli.collect_env",
    "vllm.entrypoints.cli.download_kernels",
    "vllm.entrypoints.cli.launch",
    "vllm.entrypoints.cli.openai",
    "vllm.entrypoints.cli.preload",
    "vllm.entrypoints.cli.run_batch",
    "vllm.entrypoints.cli.snapshot",
    "vllm.entrypoints.openai.api_server",
    # Later, but before the engine core is started.
    "vllm.v1.engine.async_llm",
)
"""What `vllm serve` imports, as far as a version has it: the rest it imports itself."""


def main() -> None:
    """Import, tell, wait, serve."""
    owner = socket.socket(fileno=os.dup(0))
    for name in IMPORTED:
        with suppress(ModuleNotFoundError):
            import_module(name)
    owner.send(json.dumps({"refusal": refusal()}).encode())
    word = owner.recv(1 << 16)
    if not word:
        return
    move(json.loads(word)["cores"])
    # What a plain start has.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    owner.send(word)
    owner.close()
    runpy.run_module(PROGRAM, run_name="__main__", alter_sys=True)


def refusal() -> str | None:
    """Tell why this process must not serve; None where it may."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "its imports have opened a GPU"
    return None


def move(cores: list[int]) -> None:
    """Run on these cores with all threads: those that the imports started keep their own."""
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)


if __name__ == "__main__":
    main()
