"""What an endpoint is asked, and who gets its key."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from servetune.serving.endpoint import Endpoint
from servetune.serving.target import ServerError, Target

KEY = "planted-key-0123456789"
MODELS = json.dumps({"data": [{"id": "granite"}]})
VLLM = 'vllm:num_requests_running{{engine="0"}} {}\nvllm:kv_cache_usage_perc{{engine="0"}} {}\n'


class Answering:
    """A server of pages, which keeps what it was asked, and the key that came along."""

    def __init__(self, pages: dict[str, tuple[int, str]]) -> None:
        self.asked: list[tuple[str, str | None]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, self.headers.get("Authorization")))
                status, body = pages.get(self.path, (404, ""))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"


@contextmanager
def answering(**pages: str | tuple[int, str]) -> Iterator[Answering]:
    told = {"models": MODELS, **pages}
    of = {
        ("/v1/models" if name == "models" else f"/{name}"): (
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


def test_an_endpoint_is_asked_for_its_models_and_for_no_health() -> None:
    with answering() as server:
        one = endpoint(server)
        ready(one)
        one.check()
        assert one.is_healthy()
    assert server.asked == [("/v1/models", f"Bearer {KEY}")] * 2


def test_its_key_is_sent_to_no_other_address() -> None:
    page = VLLM.format(1, 0.5)
    with answering(metrics=page) as server, answering(metrics=page) as other:
        one = endpoint(server, f"{server.url}/metrics", f"{other.url}/metrics")
        ready(one)
    assert server.asked[-1] == ("/metrics", f"Bearer {KEY}")
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
        ((401, json.dumps({"error": {"message": f"no such key: {KEY}"}})), "refuses .*HTTP 401"),
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
    assert server.asked == [("/v1/models", None)]
