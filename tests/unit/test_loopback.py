"""What reaches a server on this host, whatever proxy its environment names."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from servetune import loopback
from servetune.errors import UserError
from servetune.loopback import check_loopback, local_client, without_proxy


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_server_on_this_host_is_asked_through_no_proxy(
    name: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:9")
    with local_client(url) as client:
        assert client.get("/health").is_success


@pytest.mark.parametrize(
    ("environment", "hosts"),
    [
        ({}, "127.0.0.1"),
        ({"NO_PROXY": "intern.example, .example.org"}, "intern.example,.example.org,127.0.0.1"),
        ({"no_proxy": "localhost,127.0.0.1", "NO_PROXY": "other"}, "localhost,127.0.0.1"),
        ({"NO_PROXY": "*"}, "*"),
    ],
)
def test_a_process_keeps_its_exceptions_from_the_proxy_and_has_this_host_beside_them(
    environment: dict[str, str], hosts: str
) -> None:
    assert without_proxy(environment) == {"no_proxy": hosts, "NO_PROXY": hosts}


def test_a_host_that_reaches_itself_may_measure() -> None:
    check_loopback()


def test_a_host_without_loopback_is_one_line_that_says_what_to_do() -> None:
    check = "from servetune.loopback import check_loopback; check_loopback()"
    alone = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may make no network")
    done = subprocess.run(
        [*alone, sys.executable, "-c", check], capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert "UserError: 127.0.0.1: this host does not reach itself" in last
    assert "Network is unreachable" in last and last.endswith("ip link set lo up")


def test_an_address_that_is_not_this_hosts_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set aside for documentation: no host has it.
    monkeypatch.setattr(loopback, "HOST", "192.0.2.1")
    with pytest.raises(UserError, match=r"^192\.0\.2\.1: this host does not reach itself"):
        check_loopback()
