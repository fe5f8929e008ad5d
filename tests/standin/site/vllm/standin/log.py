"""Log lines as vLLM writes them: to standard output, at once."""

import os
import time


def log(message: str, level: str = "INFO", process: str = "APIServer") -> None:
    at = time.strftime("%m-%d %H:%M:%S")
    for line in message.splitlines():
        print(f"({process} pid={os.getpid()}) {level} {at} [standin] {line}", flush=True)
