"""Misbehaviour on purpose, as `--standin-fault` asks for."""

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

from .engine_model import Engine
from .log import log


class Fault:
    """One fault; `after` is how many generation requests go well, or every which one fails."""

    def __init__(self, kind: str, after: int) -> None:
        self.kind = kind
        self.after = after
        self.hung = False
        self._requests = 0

    def at_start(self) -> None:
        if self.kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "leave-child":
            child = subprocess.Popen(["sleep", "600"])
            log(f"Started child process [{child.pid}]")
        if self.kind == "meet":
            # Ready only when so many servers stand beside each other.
            folder = Path(os.environ["STANDIN_MEETING"])
            (folder / str(os.getpid())).touch()
            while len(list(folder.iterdir())) < self.after:
                time.sleep(0.05)

    def is_short(self) -> bool:
        """Say whether the answer to the latest generation request is to end early."""
        return self.kind == "short-answers" and self._requests % self.after == 0

    def refuses(self) -> bool:
        """Say whether the latest generation request is refused for what it is."""
        return self.kind == "refuse-requests" and self._requests % self.after == 0

    async def on_request(self, engine: Engine) -> bool:
        """Take note of a generation request; says whether it is to fail with status 500."""
        self._requests += 1
        if self.kind == "fail-requests":
            return self._requests % self.after == 0
        if self.kind == "compile" and self._requests % self.after == 0:
            log(
                "Triton kernel JIT compilation during inference:"
                f" kernel_{self._requests}. This causes a latency spike; consider extending"
                " warmup to cover this shape/config.",
                level="WARNING",
            )
        if self._requests <= self.after:
            return False
        if self.kind in ("die-under-load", "die-slowly"):
            if self.kind == "die-slowly":
                subprocess.Popen(["sleep", "600"], start_new_session=True)
            log("EngineCore encountered a fatal error.", level="ERROR")
            log("vllm.v1.engine.exceptions.EngineDeadError: EngineCore died.", level="ERROR")
            os._exit(1)
        if self.kind == "stall-under-load":
            while not Path(os.environ["STANDIN_GATE"]).exists():
                await asyncio.sleep(0.05)
        if self.kind == "hang-under-load":
            self.hung = True
            engine.hang()
        return False
