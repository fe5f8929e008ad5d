"""Run inside an environment: do the imports of `vllm serve`, wait for the word, then be it.

Its arguments are those of `vllm serve`, and its standard input is a socket that keeps messages
apart. It is told what not to import, `{"without": []}`, and sends `{"opened": null}` once it waits,
or the module that opened a GPU: it is of no use then. The word is any message, which it sends back;
without one it ends. Its cores and variables are those of a plain start from the first, as libraries
choose their threads by them when they are imported. Of one that vLLM alone reads it sets the value:
the engine core is forked from this process, and so need not import all again.

Needs vLLM and the standard library; it imports nothing of servetune.
"""

import gc
import json
import os
import runpy
import socket
import sys
from contextlib import suppress
from importlib import import_module

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


METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
"""How vLLM starts its engine core: `vllm serve` spawns where nothing is set, and whatever is set
where the process that would be forked has opened a GPU."""


def main() -> None:
    """Import, tell, wait, serve."""
    owner = socket.socket(fileno=os.dup(0))
    os.environ.setdefault(METHOD, "fork")
    without = json.loads(owner.recv(1 << 16))["without"]
    opened = opener([name for name in IMPORTED if name not in without])
    # Python's advice for what will be forked: no collection then writes into shared memory.
    gc.collect()
    gc.freeze()
    owner.send(json.dumps({"opened": opened}).encode())
    word = owner.recv(1 << 16)
    if not word:
        return
    # What a plain start has.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    owner.send(word)
    owner.close()
    runpy.run_module(PROGRAM, run_name="__main__", alter_sys=True)


def opener(names: list[str]) -> str | None:
    """Import modules; return the first that opens a GPU, and leave out those after it."""
    for name in names:
        with suppress(ModuleNotFoundError):
            import_module(name)
        # Only a look: it opens none.
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            return name
    return None


if __name__ == "__main__":
    main()
