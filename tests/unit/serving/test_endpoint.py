"""What an endpoint is asked, and who gets its key."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from servetune.serving.endpoint import Endpoint
from servetune.serving.target import EndedError, ServerError, Target
from tests.certificates import write_certificate

KEY = "planted-key-0123456789"
MODELS = json.dumps({"data": [{"id": "granite"}]})
TOKEN = json.dumps({"choices": [{"text": "a"}], "usage": {"completion_tokens": 1}})
OPENING = ["/v1/models", "/v1/completions"]
VLLM = 'vllm:num_requests_running{{engine="0"}} {}\nvllm:kv_cache_usage_perc{{engine="0"}} {}\n'


class Answering:
    """A server of pages, which keeps what it was asked, and the key that came along."""

    def __init__(self, pages: dict[str, tuple[int, str]]) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.pages = pages
        self.told: list[dict[str, Any]] = []
        asked, told = self.asked, self.told

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, self.headers.get("Authorization")))
                status, body = pages.get(self.path, (404, ""))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                told.append(json.loads(self.rfile.read(length)))
                self.do_GET()

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"


@contextmanager
def answering(**pages: str | tuple[int, str]) -> Iterator[Answering]:
    told = {"models": MODELS, "completions": TOKEN, **pages}
    of = {
        (f"/v1/{name}" if name in ("models", "completions") else f"/{name}"): (
            page if isinstance(page, tuple) else (200, page)
        )
        for name, page in told.items()
    }
    server = Answering(of)
    thread = threading.Thread(target=server.http.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
        server.http.server_close()


def endpoint(server: Answering, *metrics: str, model: str = "granite") -> Endpoint:
    return Endpoint(f"{server.url}/v1", model, KEY, list(metrics))


def ready(target: Target) -> None:
    target.wait_ready(60.0, lambda seconds: None)


def test_an_endpoint_is_asked_for_its_models_and_one_token_and_for_no_health() -> None:
    with answering() as server:
        one = endpoint(server)
        ready(one)
        one.check()
        assert one.is_healthy()
    assert server.asked == [(path, f"Bearer {KEY}") for path in (*OPENING, "/v1/models")]


def test_its_key_is_sent_to_no_other_address() -> None:
    page = VLLM.format(1, 0.5)
    with answering(metrics=page) as server, answering(metrics=page) as other:
        one = endpoint(server, f"{server.url}/metrics", f"{other.url}/metrics")
        ready(one)
    assert ("/metrics", f"Bearer {KEY}") in server.asked
    assert other.asked == [("/metrics", None)]


def test_the_metrics_of_several_servers_add_up_and_the_fullest_cache_counts() -> None:
    with answering(a=VLLM.format(1, 0.5), b=VLLM.format(2, 0.25)) as server:
        one = endpoint(server, f"{server.url}/a", f"{server.url}/b")
        ready(one)
        assert one.has_counters
        assert one.counters() == {"requests_running": 3, "kv_cache_usage_ratio": 0.5}


@pytest.mark.parametrize("page", [None, "another_engine_requests 3\n"])
def test_without_metrics_of_a_known_engine_its_counters_are_not_known(page: str | None) -> None:
    with answering(**({"metrics": page} if page else {})) as server:
        one = endpoint(server, *([f"{server.url}/metrics"] if page else []))
        ready(one)
        assert not one.has_counters and one.counters() == {}


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        (
            (401, json.dumps({"error": {"message": f"no such key: {KEY}"}})),
            "does not take the key: HTTP 401",
        ),
        ((403, ""), "forbids it: HTTP 403"),
        ((429, ""), "is at its limit already: HTTP 429"),
        ((503, ""), "fails: HTTP 503"),
        ((200, "<html>"), "lists no models at .*/v1/models; expected the OpenAI API"),
        ((200, json.dumps({"data": [{"id": "that"}]})), "no model granite; expected one of that"),
    ],
)
def test_why_an_endpoint_cannot_be_loaded_is_one_line_without_its_key(
    models: tuple[int, str], expected: str
) -> None:
    with answering(models=models) as server, pytest.raises(ServerError, match=expected) as caught:
        ready(endpoint(server))
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)


def test_metrics_that_do_not_answer_are_told_before_a_load() -> None:
    with answering() as server, pytest.raises(ServerError, match=r"has no metrics: .*404"):
        ready(endpoint(server, f"{server.url}/metrics"))


def test_an_endpoint_without_a_key_is_sent_none() -> None:
    with answering() as server:
        ready(Endpoint(f"{server.url}/v1", "granite"))
    assert server.asked == [(path, None) for path in OPENING]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            (404, json.dumps({"error": {"message": "The model granite is gone"}})),
            "no model granite",
        ),
        ((404, "<html>"), "has nothing at /v1/completions: HTTP 404"),
        ((401, ""), "does not take the key: HTTP 401"),
        ((200, "<html>"), "with something else; expected the OpenAI API"),
    ],
)
def test_what_its_first_small_request_meets_is_told(answer: tuple[int, str], expected: str) -> None:
    # Some list no models, and some list them to everyone.
    pages = {"models": (404, ""), "completions": answer}
    with answering(**pages) as server, pytest.raises(ServerError, match=expected) as caught:
        ready(endpoint(server))
    assert "\n" not in str(caught.value)


def test_a_small_request_asks_for_one_token() -> None:
    with answering() as server:
        ready(endpoint(server))
    (body,) = server.told
    assert body == {"model": "granite", "prompt": "Hello", "max_tokens": 1}


@pytest.mark.parametrize(
    ("api", "asked", "answered"),
    [
        ("embeddings", {"input": "Hello"}, {"data": [{"embedding": [1.0]}]}),
        ("rerank", {"query": "Hello", "documents": ["Hello"]}, {"results": [{"index": 0}]}),
    ],
)
def test_what_has_no_tokens_is_asked_as_little(
    api: str, asked: dict[str, Any], answered: dict[str, Any]
) -> None:
    with answering() as server:
        server.pages[f"/v1/{api}"] = (200, json.dumps(answered))
        ready(Endpoint(f"{server.url}/v1", "granite", apis=(api,)))
    assert server.told == [{"model": "granite", **asked}]


def test_a_name_that_no_dns_knows_is_told() -> None:
    with pytest.raises(ServerError, match=r"does not answer at .*: DNS knows no address of no\."):
        ready(Endpoint("http://no.such.host.invalid/v1", "granite"))


def test_a_port_where_nothing_listens_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ServerError, match=rf"nothing listens at port {port}"):
        ready(Endpoint(f"http://127.0.0.1:{port}/v1", "granite"))


def test_https_where_there_is_none_is_told() -> None:
    with answering() as server, pytest.raises(ServerError, match=r"TLS: .*is it http://"):
        ready(Endpoint(f"https://127.0.0.1:{server.http.server_port}/v1", "granite"))


def behind_tls(server: Answering, folder: Path) -> tuple[str, Path]:
    """Put TLS before a server; returns the address of its API, and its certificate."""
    certificate, key = write_certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
    return f"https://127.0.0.1:{server.http.server_port}/v1", certificate


def test_a_certificate_of_ones_own_is_trusted_by_its_file_alone(tmp_path: Path) -> None:
    with answering() as server:
        address, ca = behind_tls(server, tmp_path)
        ready(Endpoint(address, "granite", KEY, ca=str(ca)))
        with pytest.raises(ServerError, match=r"TLS: its certificate is not trusted \(.*in ca,"):
            ready(Endpoint(address, "granite", KEY))
    assert [path for path, _ in server.asked] == OPENING


def test_a_file_of_certificates_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with answering() as server, pytest.raises(ServerError, match=r"cannot be asked: ca: .*ca\.pem"):
        ready(Endpoint(f"{server.url}/v1", "granite", ca=str(tmp_path / "ca.pem")))


def test_headers_go_with_the_key_to_its_address_alone() -> None:
    asked = []
    one = Endpoint("http://127.0.0.1:1/v1", "granite", KEY, headers={"X-Api-Key": "other-secret"})
    with one.client(1.0) as client:
        for url in ("/v1/models", "http://127.0.0.1:2/metrics"):
            request = client.build_request("GET", url)
            assert client.auth is not None
            asked.append(next(client.auth.sync_auth_flow(request)).headers.get("X-Api-Key"))
    assert asked == ["other-secret", None]
    assert one.secrets[:2] == sorted([KEY, "other-secret"], key=len, reverse=True)


def labels(blocks: int) -> str:
    return f'vllm:cache_config_info{{block_size="16",num_gpu_blocks="{blocks}"}} 1.0\n'


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"models": json.dumps({"data": [{"id": "granite", "root": "b"}]})}, "its root was a"),
        ({"metrics": VLLM.format(1, 0.5) + labels(9)}, "its cache was"),
        (
            {"metrics": VLLM.format(1, 0.5) + "process_start_time_seconds 2.0\n" + labels(8)},
            "its started was 1.0, and is 2.0",
        ),
        ({"version": '{"version": "0.33.0"}'}, "its version was 0.32.0, and is 0.33.0"),
    ],
    ids=["another checkpoint", "another cache", "a restart", "another version"],
)
def test_another_server_behind_the_same_address_is_noticed(
    change: dict[str, str], told: str
) -> None:
    pages = {
        "models": json.dumps({"data": [{"id": "granite", "root": "a", "created": 1}]}),
        "metrics": VLLM.format(1, 0.5) + "process_start_time_seconds 1.0\n" + labels(8),
        "version": '{"version": "0.32.0"}',
    }
    with answering(**pages) as server:
        one = endpoint(server, f"{server.url}/metrics")
        ready(one)
        one.confirm()
        for name, page in change.items():
            server.pages[f"/v1/{name}" if name == "models" else f"/{name}"] = (200, page)
        assert not one.is_healthy()
        with pytest.raises(EndedError, match=f"is another one now: .*{told}"):
            one.confirm()


def test_what_changes_with_the_time_of_day_is_no_change() -> None:
    with answering(models=json.dumps({"data": [{"id": "granite", "created": 1}]})) as server:
        one = endpoint(server)
        ready(one)
        later = json.dumps({"data": [{"id": "granite", "created": 2}]})
        server.pages["/v1/models"] = (200, later)
        one.confirm()
