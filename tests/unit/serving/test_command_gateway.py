"""Any program may stand before the replicas: a small proxy of this file's own, as a process."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import psutil
import pytest

from servetune.serving.command_gateway import CommandGateway, read_page
from servetune.serving.gateway import Start
from servetune.serving.target import ServerError

PROGRAM = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

host, port, registered, *workers = sys.argv[1:]
if registered == "none":
    sys.exit("cannot read its rules")

class Proxy(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers["Authorization"] != f"Bearer {os.environ['UPSTREAM_KEY']}":
            return self.send_error(401)
        pages = {"/workers": json.dumps(workers[: int(registered)]), "/metrics": "hits_total 3\\n"}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(pages[self.path].encode())

    def log_message(self, *_):
        pass

ThreadingHTTPServer((host, int(port)), Proxy).serve_forever()
"""

WORKERS = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
START = Start(workers=WORKERS, model="m", api_key="sk-of-the-launch")


def gateway(folder: Path, host: str, registered: str, **keys: Any) -> CommandGateway:
    program = folder / "proxy.py"
    program.write_text(PROGRAM)
    return CommandGateway(
        words=[sys.executable, str(program), host, "{port}", registered, "{workers}"],
        settings={"UPSTREAM_KEY": "{key}"},
        bin=None,
        ready="/workers",
        names_replicas=True,
        metrics="/metrics",
        log=folder / "gateway.log",
        folder=folder,
        **keys,
    )


@pytest.fixture
def started(tmp_path: Path) -> Iterator[CommandGateway]:
    made = gateway(tmp_path, "127.0.0.1", "2")
    made.start(START)
    yield made
    made.close()


def test_it_is_ready_once_its_page_names_each_replica(started: CommandGateway) -> None:
    assert started.is_running() and started.is_healthy()
    assert started.command[-2:] == WORKERS and str(started.port) in started.command
    assert started.counted() == {"hits_total": 3.0}


def test_the_key_of_the_launch_is_on_no_command_line(started: CommandGateway) -> None:
    assert httpx.get(f"{started.url}/workers").status_code == 401
    family = psutil.Process().children(recursive=True)
    assert any(str(started.port) in process.cmdline() for process in family)
    for process in family:
        assert not any(START.api_key in word for word in process.cmdline())


def test_it_is_started_again_on_the_same_port(started: CommandGateway) -> None:
    url = started.url
    started.stop()
    assert not started.is_healthy()
    started.start(START)
    assert started.url == url and started.is_healthy()


def test_one_that_lacks_a_replica_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = gateway(tmp_path, "127.0.0.1", "1")
    ask, seen = made._registered, 0

    def registered() -> list[str]:
        nonlocal seen
        there = ask()
        seen = len(there)
        return there

    # The time is up once its page was read.
    clock = SimpleNamespace(monotonic=lambda: 1e6 if seen else 0.0, sleep=time.sleep)
    monkeypatch.setattr(made, "_registered", registered)
    monkeypatch.setattr("servetune.serving.gateway.time", clock)
    with pytest.raises(ServerError, match="has 1 of 2 replicas after 120 s"):
        made.start(START)
    made.close()


def test_one_that_ends_says_its_last_words(tmp_path: Path) -> None:
    made = gateway(tmp_path, "127.0.0.1", "none")
    with pytest.raises(ServerError, match="ended while it started: cannot read its rules"):
        made.start(START)
    made.close()


def test_one_that_is_open_to_the_network_is_refused(tmp_path: Path) -> None:
    made = gateway(tmp_path, "0.0.0.0", "2")
    with pytest.raises(ServerError, match=r"0\.0\.0\.0 port \d+.*have its command listen on"):
        made.start(START)
    made.close()


def test_its_page_tells_replicas_by_number_and_no_buckets() -> None:
    page = 'a_total{worker="http://127.0.0.1:2"} 4\nb_bucket{le="1"} 2\nb_sum 7.5\n# HELP b\n'
    assert read_page(page, WORKERS) == {"a_total{worker=2}": 4.0, "b_sum": 7.5}
